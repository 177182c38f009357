"""Configuration of a gate and its training, and the entries of its training curve (no torch)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from core.gate.ngrams import Hashing

Head = Literal["linear", "standard", "deep"]
LAYERS: dict[str, tuple[int, ...]] = {"linear": (), "standard": (128, 32), "deep": (256, 128, 64)}
"""Hidden widths of each head (PROTOCOL, The QCCS gate)."""


@dataclass(frozen=True, slots=True)
class GateConfig:
    """The shape of a gate.

    ``query``: whether it sees the question at all. A "linear" head adds the same question term
    to every sentence, so its ranking does not depend on the question either.
    """

    hashing: Hashing = field(default_factory=Hashing)
    dim: int = 64
    head: Head = "standard"
    query: bool = True
    dropout: float = 0.2


def widths(config: GateConfig) -> tuple[int, ...]:
    """Widths of the layers: pooled input, hidden ones, 1."""
    return ((2 if config.query else 1) * config.dim, *LAYERS[config.head], 1)


def expected_shapes(config: GateConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a gate, by name."""
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (config.hashing.buckets, config.dim)}
    steps = widths(config)
    for i, (before, after) in enumerate(pairwise(steps)):
        shapes[f"layers.{i}.weight"] = (after, before)
        shapes[f"layers.{i}.bias"] = (after,)
    return shapes


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

    epochs: int = 5
    batch: int = 4
    rate: float = 1e-2
    decay: float = 1e-3
    warm: int = 30
    dim: int = 16
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
