"""What is measured of a trained decoder, and what a measurement is; without torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
