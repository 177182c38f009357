"""Middle against edge in rows that were seen at every position: paired, and clustered.

Each row (a needle in a record) is its own control: what differs between its columns is position
alone, so rows may be as unlike as they please.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.clustered import cluster_totals
from core.stats.intervals import Interval, checked_level, checked_resamples
from core.stats.reported import paired_floor, reported_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WithinContrast:
    """Mean inside the middle columns less the mean outside, over rows.

    ``inside`` and ``outside`` are the two means, ``difference`` theirs; ``low`` and ``high`` its
    interval (nan where there are fewer than 5 clusters), ``p_value`` two-sided; ``rows`` that
    count, and ``clusters`` they come from.
    """

    inside: float
    outside: float
    difference: float
    low: float
    high: float
    p_value: float
    rows: int
    clusters: int


def within_contrast(
    values: ArrayLike,
    clusters: ArrayLike,
    inside: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> WithinContrast | None:
    """Whether columns ``inside`` differ from the others, row by row.

    ``values`` float [rows, columns], nan where missing; ``clusters`` [rows], labels that sort
    (patients); ``inside`` bool [columns]. A row counts with its mean inside less its mean
    outside, where it has a value on both sides; None where no row has. The interval is
    :func:`core.stats.reported_interval` of resampled clusters; where all values lie in [0, 1] it
    holds Newcombe's paired one at the effective number of rows. For p the columns of a cluster are
    permuted, all its rows alike, so that what its rows share (the same neighbours at the same
    place) does not count as evidence; p is (b + 1)/(m + 1) with b of m permutations at least as far
    from 0, never 0.
    Raises ValueError for wrong shapes. Source: Good, Permutation, Parametric and Bootstrap Tests
    of Hypotheses (2005), section 7 (blocks); Phipson and Smyth, Stat Appl Genet Mol Biol 9 (2010)
    article 39.
    """
    data = np.asarray(values, dtype=np.float64)
    mark = np.asarray(inside, dtype=bool)
    _, member = np.unique(np.asarray(clusters), return_inverse=True)
    checked_level(level)
    checked_resamples(resamples)
    if data.ndim != 2 or mark.shape != (data.shape[1],) or member.shape != (len(data),):
        raise ValueError(f"values {data.shape}, inside {mark.shape}, clusters {member.shape}")
    known = ~np.isnan(data)
    held = np.where(known, data, 0.0)

    def sides(marks: Floats, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Mean inside and outside of each chosen row under each of marks [m, columns]."""
        own, there = held[rows], known[rows].astype(np.float64)
        sums, counts = marks @ own.T, marks @ there.T
        rest, others = own.sum(axis=1) - sums, there.sum(axis=1) - counts
        return _mean(sums, counts), _mean(rest, others)

    within, without = (side[0] for side in sides(mark[None].astype(np.float64), member >= 0))
    counts = ~np.isnan(within - without)
    if not counts.any():
        return None
    differences = np.where(counts, within - without, 0.0)
    estimate = float(differences.sum() / counts.sum())
    _, member = np.unique(member[counts], return_inverse=True)
    held, known = held[counts], known[counts]
    differences = differences[counts]
    size = int(member.max()) + 1
    totals: Floats = np.column_stack(
        [np.bincount(member, weights=differences), np.bincount(member)]
    ).astype(np.float64)
    low = high = float("nan")
    if size > 1:
        drawn = cluster_totals(totals, resamples, rng)
        floor = _floor(within[counts], without[counts], member, level)
        low, high = reported_interval(drawn[:, 0] / drawn[:, 1], size, floor, level) or (low, high)

    sums, rows = np.zeros(resamples), np.zeros(resamples)
    for cluster in range(size):
        marks = rng.permuted(np.tile(mark, (resamples, 1)), axis=1).astype(np.float64)
        one, other = sides(marks, member == cluster)
        sums += np.nansum(one - other, axis=1)
        rows += (~np.isnan(one - other)).sum(axis=1)
    null = np.divide(sums, rows, out=np.zeros(resamples), where=rows > 0)
    # Equal in exact arithmetic is equal: rounding must not make a tie less extreme.
    extreme = int((np.abs(null) >= abs(estimate) - 1e-12).sum())
    return WithinContrast(
        float(np.nanmean(within[counts])),
        float(np.nanmean(without[counts])),
        estimate,
        low,
        high,
        (extreme + 1) / (resamples + 1),
        int(counts.sum()),
        size,
    )


def _floor(
    inside: Floats, outside: Floats, member: NDArray[np.int64], level: float
) -> Interval | None:
    """Newcombe's interval of rows as pairs, a row with means m and o counting m·o, m(1 − o),
    o(1 − m) and (1 − m)(1 − o); None for values outside [0, 1]."""
    if min(inside.min(), outside.min()) < 0 or max(inside.max(), outside.max()) > 1:
        return None
    pairs = (
        inside * outside,
        inside * (1 - outside),
        outside * (1 - inside),
        (1 - inside) * (1 - outside),
    )
    return paired_floor(np.column_stack([np.bincount(member, weights=of) for of in pairs]), level)


def _mean(sums: Floats, counts: Floats) -> Floats:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
