"""Gemma: Google's Gemma 3 270M, a small pretrained model from Python packages, without a hub.

A base model of 268 million weights (a 4-bit GGUF file, read as of the reader ``gguf``), which was
trained on no task and by nobody of this project. Its prompt is a completion: record, question,
"Answer:"; the answer ends with its line. The weights are under Gemma's terms
(ai.google.dev/gemma/terms), and a third party packaged them: nothing of it is part of this program
or a default.

The packages carry the file in pieces. A run's worker joins them once, before its first answer: it
says how far it is, ends on a cancel, checks the file's SHA-256, and holds a lock, so that other
workers wait for the one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core import weights
from midchart.core.errors import MissingModel
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.gguf import Gguf, GgufOptions
from midchart.core.readers.qwen import Choose
from midchart.core.storage.lock import exclusive
from midchart.core.text.prompt import COMPLETION, Frame

Watch = Callable[[str], None]
"""Takes the state of a long wait in words; raises to end it."""


def ignore(text: str) -> None:
    """A watch that does nothing."""


def prepare(model: str, watch: Watch = ignore) -> Path:
    """The GGUF file of a model, joined from its installed packages the first time.

    One process joins, others wait for it. ``watch`` is called with the progress before each piece;
    what it raises ends the work, of which nothing is left. Raises MissingModel.
    """
    file = weights.locate(model).folder
    if file.is_file():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.with_name(f"{file.name}.lock")):
        if not file.is_file():
            join(weights.gguf_parts(model), weights.MODELS[model].sha256, file, watch)
    return file


def join(parts: Sequence[Path], sha256: str, file: Path, watch: Watch = ignore) -> None:
    """Write a file that is given in ``parts``.

    ``watch`` as in :func:`prepare`. Raises MissingModel where its SHA-256 is another.
    """
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=file.parent) as place:
        joined = Path(place) / file.name
        with joined.open("wb") as out:
            for at, part in enumerate(parts):
                watch(f"preparing the weights: {at} of {len(parts)} pieces")
                content = part.read_bytes()
                digest.update(content)
                out.write(content)
            os.fsync(out.fileno())
        if digest.hexdigest() != sha256:
            raise MissingModel(
                f"the GGUF file of the installed packages is not the known one: its SHA-256 begins "
                f"{digest.hexdigest()[:12]}, that of the known one {sha256[:12]}"
            )
        joined.rename(file)


FRAME = Frame("<bos>Patient record:\n", "\n\nQuestion: ", "\nAnswer:", COMPLETION)


class GemmaOptions(GgufOptions):
    """Options of the reader ``gemma``."""

    model: Annotated[str, Field(pattern=f"^{weights.GEMMA}$")] = weights.GEMMA
    """The one model it reads."""
    window: Annotated[int, Field(ge=1, le=32_768)] = 32_768
    """Longest prompt and answer in the model's tokens."""
    choose: Choose = "likelihood"
    """As of the reader ``qwen``; a base model does not follow a format."""


@READERS.register("gemma")
class Gemma(Gguf):
    """Greedy completions of Gemma 3 270M; raises as :class:`midchart.core.readers.gguf.Gguf`."""

    name: ClassVar[str] = "gemma"
    title: ClassVar[str] = "Gemma 3 270M, base model (on this machine)"
    needs: ClassVar[str] = weights.GEMMA
    options_model = GemmaOptions
    lead: ClassVar[str] = " "
    ends: ClassVar[tuple[str, ...]] = ("\n",)

    def __init__(self, protocol: Protocol, watch: Watch = ignore, **options: Any) -> None:
        super().__init__(protocol, **options)
        prepare(self.options.model, watch)

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options and packages that are not installed, without preparing weights.

        Raises MissingModel, SpecError.
        """
        cls.model_file(cls.read_options(options).model)

    @property
    def frame(self) -> Frame:
        """The frame of a completion."""
        return FRAME

    @classmethod
    def mark(cls, model: str = "", **others: Any) -> str:
        """The SHA-256 of the weights, which is known before they are prepared."""
        return weights.locate(model or cls.needs).model.sha256

    @classmethod
    def model_file(cls, model: str) -> Path:
        """The file of the weights; raises MissingModel."""
        return weights.locate(model).folder
