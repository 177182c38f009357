"""The shape of a decoder, how it is trained and what is measured of it, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Placement = Literal["uniform", "edges"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
Labels = Literal["true", "shuffled"]
LABELS: tuple[Labels, ...] = get_args(Labels)
EDGE = 0.2
"""Placement "edges": evidence asked for in training stands in the first or last fifth of lines."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """A decoder of Qwen2's form; ``attention`` is a name of ATTENTIONS, ``options`` what it takes.

    ``dim`` is the width of the stream, split among ``heads``; ``theta`` is the base of rotary
    positions. ``look_back``: the heads of the first layer start as "attend 1, 2, … tokens back";
    without it they start like every other.
    """

    vocabulary: int
    attention: str = "softmax"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dim: int = 96
    heads: int = 3
    layers: int = 2
    feedforward: int = 192
    theta: float = 1e6
    look_back: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe for every variant; nothing in it hangs on the attention but ``labels``.

    ``shortest`` to ``longest`` lines a training record has, drawn anew each step; ``batch``
    records with ``questions`` each. AdamW at ``rate``: linear ``warm_up``, constant, and a cosine
    to 0 over the second half. ``clip``: largest norm of all gradients together. ``save_every``:
    steps between checkpoints.
    ``labels``: what a gate's own loss takes for evidence: the line that holds it ("true"), or, as
    a control, that of another question of the same record ("shuffled").
    """

    steps: int = 1000
    batch: int = 16
    questions: int = 16
    shortest: int = 4
    longest: int = 24
    placement: Placement = "uniform"
    rate: float = 3e-3
    warm_up: int = 50
    decay: float = 0.01
    clip: float = 1.0
    seed: int = 1
    save_every: int = 100
    labels: Labels = "true"


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a training is after ``step`` steps.

    ``loss``, ``accuracy``: means over the training questions since the stage before;
    ``gate_loss`` likewise (nan without a gate); ``seconds`` spent on them.
    """

    step: int
    loss: float
    accuracy: float
    gate_loss: float
    seconds: float


PARTS = ("evidence", "distractors", "first", "rest")
"""Where attention is looked for: the needle's line, the distractors' lines together, the token
that begins the record, and the rest (the other lines and the question)."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What is measured.

    ``records`` a length; ``depths`` places each; ``lengths`` in lines, at ``usual`` distractors;
    and at the length ``base`` every number of ``distractors``. ``seed`` draws the records.
    """

    records: int = 100
    depths: int = 7
    lengths: tuple[int, ...] = (12, 24, 36, 48)
    base: int = 24
    usual: int = 2
    distractors: tuple[int, ...] = (0, 1, 2, 4)
    seed: int = 42

    @property
    def conditions(self) -> tuple[tuple[int, int], ...]:
        """(length, distractors) of every set of records, each once."""
        both = [(length, self.usual) for length in self.lengths]
        both += [(self.base, count) for count in self.distractors]
        return tuple(dict.fromkeys(both))


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """A condition at a depth: ``right`` bool [records], and the mass of attention of the token
    that answers, [layers, parts, records], mean over heads, by :data:`PARTS`. Of variants that
    subtract, mass may be negative and does not add up to 1."""

    length: int
    distractors: int
    depth: float
    right: NDArray[np.bool_]
    mass: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GateQuality:
    """Of a gate's scores of lines: AUROC of the evidence, their mean and standard deviation."""

    auroc: float
    mean: float
    sd: float
