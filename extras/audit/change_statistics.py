"""A share measured twice, on patients of whom some are in both samples: its change.

The interval resamples patients, the test exchanges the two measurements of each patient. Both take
patients of both samples as pairs and the others as independent.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import cluster_totals, ratio, square_and_add
from midchart.core.stats.paired import reported_interval, share_floor

Floats = NDArray[np.float64]
ENOUGH = 200
"""Exchanges with as large a change that end the drawing."""
_BLOCK = 500
"""Exchanges drawn at once; changing it changes the RNG stream and so the results."""


def share_change(first: ArrayLike, second: ArrayLike) -> float:
    """The second share minus the first; ``first`` and ``second`` float [patients, 2]: rows right
    and rows of each patient, 0 where a patient is not in a sample. Raises ValueError for an empty
    sample or counts that cannot be."""
    before, after = _checked(first, second)
    totals = np.hstack([before, after]).sum(axis=0)
    return float(totals[2] / totals[3] - totals[0] / totals[1])


def change_interval(
    first: ArrayLike,
    second: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """The interval of :func:`share_change`, whose arguments it takes; None where one sample has
    fewer than five patients.

    The bootstrap of patients with expanded percentiles, widened to hold Newcombe's interval of two
    clustered Wilson intervals with their correlation over patients. Source: Newcombe, Statist Med
    17 (1998) 873–890 and 2635–2650.
    """  # fmt: skip
    before, after = _checked(first, second)
    totals = cluster_totals(np.hstack([before, after]), resamples, rng)
    draws = ratio(totals[:, 2], totals[:, 3]) - ratio(totals[:, 0], totals[:, 1])
    floors = [share_floor(of[:, 0], of[:, 1], level) for of in (before, after)]
    residuals = [of[:, 0] - floor.estimate * of[:, 1]
                 for of, floor in zip((before, after), floors, strict=True)]  # fmt: skip
    spread = sqrt(float(residuals[0] @ residuals[0]) * float(residuals[1] @ residuals[1]))
    correlation = float(residuals[0] @ residuals[1]) / spread if spread else 0.0
    floor = square_and_add(floors[1], floors[0], correlation)
    patients = int(min((of[:, 1] > 0).sum() for of in (before, after)))
    return reported_interval(draws, patients, floor, level)


def change_p(first: ArrayLike, second: ArrayLike, draws: int, rng: np.random.Generator) -> float:
    """Two-sided p value of :func:`share_change`, whose arguments it takes, by exchanging samples.

    Of a patient in both samples the two measurements are exchanged or not, of the others the
    samples are permuted; at most ``draws`` such exchanges, fewer once :data:`ENOUGH` of them gave a
    change as large. Exact where nothing has changed, however few patients there are; at least
    1/(draws + 1). Source: Besag and Clifford, Biometrika 78 (1991) 301–304 (sequential Monte Carlo
    p values).
    """
    before, after = _checked(first, second)
    observed = abs(share_change(before, after))
    there = [of[:, 1] > 0 for of in (before, after)]
    both, alone = there[0] & there[1], there[0] ^ there[1]
    all_rows, fixed = before + after, before[both].sum(axis=0)
    step, singles = (after - before)[both], all_rows[alone]
    in_first, total = int((there[0] & alone).sum()), all_rows.sum(axis=0)
    as_large = 0
    for start in range(0, draws, _BLOCK):
        size = min(_BLOCK, draws - start)
        swapped = rng.integers(0, 2, size=(size, len(step))).astype(np.float64)
        drawn = fixed + swapped @ step + _chosen(len(singles), in_first, size, rng) @ singles
        rest = total - drawn
        change = ratio(rest[:, 0], rest[:, 1]) - ratio(drawn[:, 0], drawn[:, 1])
        counted = as_large + np.cumsum(np.abs(change) >= observed - 1e-12)
        if counted[-1] >= ENOUGH:
            return ENOUGH / (start + 1 + int(np.searchsorted(counted, ENOUGH)))
        as_large = int(counted[-1])
    return (1 + as_large) / (1 + draws)


def _chosen(n: int, count: int, times: int, rng: np.random.Generator) -> Floats:
    """1 for ``count`` of ``n`` drawn without replacement, 0 for the others, [times, n]."""
    if not 0 < count < n:
        return np.full((times, n), float(count > 0))
    keys = rng.random((times, n))
    last = np.partition(keys, count - 1, axis=1)[:, count - 1 : count]
    return (keys <= last).astype(np.float64)


def _checked(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    before, after = (np.asarray(of, dtype=np.float64) for of in (first, second))
    if before.shape != after.shape or before.ndim != 2 or before.shape[1] != 2:
        raise ValueError("both samples are patients × (right, rows)")
    for of in (before, after):
        if not ((of[:, 0] >= 0) & (of[:, 0] <= of[:, 1])).all() or not of[:, 1].any():
            raise ValueError("a sample has rows, of which none to all are right")
    return before, after
