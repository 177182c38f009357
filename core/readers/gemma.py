"""Gemma: Google's Gemma 3 270M, a small pretrained model from Python packages, without a hub.

A base model of 268 million weights (a 4-bit GGUF file, read as of the reader ``gguf``), which was
trained on no task and by nobody of this project. Its prompt is a completion: record, question,
"Answer:"; the answer ends with its line. The weights are under Gemma's terms
(ai.google.dev/gemma/terms), and a third party packaged them: nothing of it is part of this program
or a default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core import weights
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.gguf import Gguf, GgufOptions
from midchart.core.readers.packaged import Watch, ignore, prepare
from midchart.core.readers.qwen import Choose
from midchart.core.text.prompt import COMPLETION, Frame

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
