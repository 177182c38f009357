"""How a gate is trained and what is told of it on the way, without torch."""

from __future__ import annotations

from collections.abc import Callable
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
    """What an epoch came to: mean losses, and AUROC on the pairs that only validate."""

    epoch: int
    loss: float
    validation_loss: float
    validation_auroc: float


Progress = Callable[[Epoch, int], bool]
"""Told after each epoch, with how many there are to be; answers whether to go on."""


class Aborted(Exception):
    """Training was stopped; what was done is in the checkpoint, if there is one."""
