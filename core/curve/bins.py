"""Fixed, left-closed bins of positions in [0, 1]: deciles and quintiles, and the middle.

Edges are i/10 or i/5, never ``linspace`` (whose fourth edge lies above .3) and never cut again
inside a resample. The one-number versions are in :mod:`core.evidence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.types import MIDDLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BINS = (10, 5)
"""Deciles and quintiles."""
WITHIN = (0.1, 0.9)
"""The 10th and 90th percentile of the record; answers within are those in [.1, .9)."""


def _rounded(positions: ArrayLike) -> Floats:
    """To 12 decimals, so that .1 · 3 is the edge it means; raises ValueError outside [0, 1]."""
    at = np.round(np.asarray(positions, dtype=np.float64), 12)
    if at.size and not ((at >= 0.0) & (at <= 1.0)).all():
        raise ValueError("positions lie in [0, 1]")
    return at


def bin_edges(bins: int) -> Floats:
    """The edges 0, 1/bins, … 1, float64 [bins + 1]; raises ValueError unless 10 or 5 bins."""
    if bins not in BINS:
        raise ValueError(f"there are {' or '.join(map(str, BINS))} bins, not {bins}")
    return np.array([i / bins for i in range(bins + 1)])


def bins_of(positions: ArrayLike, bins: int) -> Ints:
    """Bin 0 … bins − 1 of each position, int64; an edge belongs to the right, 1 to the last."""
    return np.searchsorted(bin_edges(bins)[1:-1], _rounded(positions), side="right").astype(
        np.int64
    )


def is_middle_of(positions: ArrayLike) -> Bools:
    """Which positions lie in the middle, [.3, .7], both ends included."""
    at = _rounded(positions)
    return (at >= MIDDLE[0]) & (at <= MIDDLE[1])


def is_within(positions: ArrayLike) -> Bools:
    """Which positions lie between the 10th and the 90th percentile, [.1, .9)."""
    at = _rounded(positions)
    return (at >= WITHIN[0]) & (at < WITHIN[1])


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """Bins cut at the ends of the middle, so that bins and middle are both sums of cells.

    ``index`` int64 [p] is the cell of each position; ``bins`` [cells, bins] and ``zones``
    [cells, 2] (middle, edge) are 0/1: totals by cell times these are totals by bin and zone.
    """

    index: Ints
    bins: Floats
    zones: Floats

    @property
    def count(self) -> int:
        """How many cells hold a position."""
        return len(self.bins)


def cells(positions: ArrayLike, bins: int) -> Cells:
    """The cells of positions [p]."""
    codes, index = np.unique(
        bins_of(positions, bins) * 2 + is_middle_of(positions), return_inverse=True
    )
    in_bin = np.zeros((len(codes), bins))
    in_bin[np.arange(len(codes)), codes // 2] = 1.0
    middle = (codes % 2).astype(np.float64)
    return Cells(index.astype(np.int64), in_bin, np.column_stack([middle, 1.0 - middle]))
