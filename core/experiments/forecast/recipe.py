"""How a variant is trained and what its training reports, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.sequences.store import SPLITS

GateTraining = Literal["joint", "frozen"]
GateLoss = Literal["bce", "focal"]
Choose = Literal["best", "last"]
Split = Literal["official", "random"]
REFERENCE = "softmax"
"""The variant that the others are compared with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An attention to train: ``options`` are its own; ``gate``, ``loss`` how a gate is trained.

    The others are what the published run did not do alike for all, each off by default:
    ``clip`` (0: none), ``choose`` ("last": no tuning), ``split`` ("random": patients split anew)
    and ``encoder``, which goes before the run's own.
    """

    label: str
    name: str
    gate: GateTraining = "joint"
    loss: GateLoss = "bce"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    clip: float = 1.0
    choose: Choose = "best"
    split: Split = "official"
    encoder: Mapping[str, Any] = field(default_factory=dict[str, Any])


def variants_of(options: Mapping[str, Any]) -> list[Variant]:
    """The variants of a plan's options."""
    return [Variant(**one) for one in options["variants"]]


def most_of(options: Mapping[str, Any]) -> dict[str, int]:
    """At most so many labels of each split are used; 0 is all."""
    value = options["subsample"]
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(SPLITS, value)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe for every variant (PROTOCOL, Experiment 2); nothing here hangs on the attention.

    ``clip``: largest norm of all gradients together; 0 clips none. ``choose``: the epoch that
    tuning likes best, or the last one. ``gate_training``: a gate learns with the
    encoder ("joint"), or alone for ``gate_epochs`` and is then "frozen".
    """

    epochs: int = 40
    batch: int = 64
    rate: float = 1e-3
    decay: float = 1e-4
    clip: float = 1.0
    seed: int = 42
    gate_training: GateTraining = "joint"
    gate_loss: GateLoss = "bce"
    gate_epochs: int = 5
    choose: Choose = "best"


@dataclass(frozen=True, slots=True)
class Epoch:
    """Measurements of an epoch.

    ``loss``, ``gate_loss``: means over the training examples (the gate's is nan without a gate).
    ``tuning_*``: on the tuning part after it. ``gate_gradient``, ``head_gradient``: mean norm of
    the gradient of the gate's and of the head's parameters over the steps, before clipping.
    ``gate_mean``, ``gate_sd``: of the gate at the tuning part's events.
    """

    epoch: int
    loss: float
    gate_loss: float
    tuning_loss: float
    tuning_auroc: float
    tuning_auprc: float
    gate_gradient: float
    head_gradient: float
    gate_mean: float
    gate_sd: float
    seconds: float


COLLAPSE_LOW, COLLAPSE_HIGH, COLLAPSE_SD = 0.45, 0.55, 0.05


def collapsed(mean: float, sd: float) -> bool:
    """Whether a gate no longer tells events apart: mean in [.45, .55] or SD ≤ .05 (PROTOCOL)."""
    return COLLAPSE_LOW <= mean <= COLLAPSE_HIGH or sd <= COLLAPSE_SD
