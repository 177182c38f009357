"""How a gate is trained and what its training reports, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FOCAL_GAMMA = 2.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a gate is trained (PROTOCOL, The QCCS gate)."""

    epochs: int = 15
    batch: int = 32
    rate: float = 1e-3
    loss: Literal["bce", "focal"] = "bce"
    seed: int = 42


@dataclass(frozen=True, slots=True)
class PlusRecipe:
    """How QCCS plus is trained: AdamW, warm-up, cosine; ``batch`` questions a step."""

    epochs: int = 3
    batch: int = 4
    rate: float = 1e-2
    decay: float = 1e-3
    warm: int = 30
    dim: int = 32
    seed: int = 42


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean losses of an epoch, and AUROC on the validation pairs."""

    epoch: int
    loss: float
    validation_loss: float
    validation_auroc: float


@dataclass(frozen=True, slots=True)
class PlusStep:
    """A step of QCCS plus: ``loss`` is the mean of its epoch so far."""

    step: int
    loss: float
