"""The interval that tables and pages report for rows in clusters (patients, questions).

None for fewer than :data:`FEWEST_CLUSTERS` clusters; otherwise the cluster bootstrap with expanded
percentiles, widened to hold the score interval of the same counts, as a bootstrap of equal rows has
no width. ``docs/power.md`` has the simulated coverage.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.clustered import ROUNDING, clustered_intervals, clustered_wilson, effective_size
from core.stats.intervals import Interval, checked_level
from core.stats.paired import newcombe_paired

Floats = NDArray[np.float64]
FEWEST_CLUSTERS = 5
"""Fewer clusters than this give no clustered interval."""


def expanded_level(clusters: int, level: float = 0.95) -> float:
    """The level of percentiles at which a bootstrap of few clusters has the coverage ``level``.

    1 − 2 Φ(−√(k/(k − 1)) t), with t of k − 1 degrees of freedom for k ≥ 2 clusters. Raises
    ValueError for fewer clusters or a level outside (0, 1). Source: Hesterberg, Am Stat 69 (2015)
    371–386, section 4.3 (expanded percentile interval).
    """
    if clusters < 2:
        raise ValueError(f"percentiles are expanded for two clusters or more, not {clusters}")
    from scipy.special import stdtrit

    t = float(stdtrit(clusters - 1, 0.5 + checked_level(level) / 2))
    return 1.0 - 2.0 * NormalDist().cdf(-sqrt(clusters / (clusters - 1)) * t)


def reported_interval(
    draws: ArrayLike | None,
    clusters: int,
    floor: Interval | None = None,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Low and high of the interval to report; None where the data allow none.

    ``draws`` [resamples]: the statistic on resampled clusters, nan where not defined, or None;
    ``clusters``: how many there are; ``floor``: a score interval that the reported one must hold.
    None with fewer than :data:`FEWEST_CLUSTERS` clusters, and without a floor where the draws are
    all equal. Raises ValueError where there are neither draws nor a floor.
    """
    if draws is None and floor is None:
        raise ValueError("an interval is reported from draws, a score interval, or both")
    if clusters < FEWEST_CLUSTERS:
        return None
    if draws is None:
        return widened(0.0, 0.0, floor)
    column = np.asarray(draws, dtype=np.float64)[:, None]
    low, high = clustered_intervals(column, expanded_level(clusters, level))
    return widened(float(low[0]), float(high[0]), floor)


def widened(low: float, high: float, floor: Interval | None) -> tuple[float, float] | None:
    """An interval that holds ``floor`` too; equal or nan ends do not count. None for neither."""
    ends = [(low, high)] if high - low > ROUNDING else []
    if floor is not None:
        ends.append((floor.low, floor.high))
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def share_floor(right: ArrayLike, sizes: ArrayLike, level: float = 0.95) -> Interval:
    """Clustered Wilson interval of a share from what each cluster holds.

    ``right`` and ``sizes`` float [clusters]: rows right and rows of each cluster; clusters without
    a row are left out. Raises ValueError where no cluster has a row.
    Source: :func:`core.stats.clustered.clustered_wilson`.
    """
    c, n = (np.asarray(of, dtype=np.float64) for of in (right, sizes))
    c, n = c[n > 0], n[n > 0]
    return clustered_wilson(
        float(c.sum()), float(n.sum()), len(n), float(c @ c), float(c @ n), float(n @ n), level
    )


def share_interval(
    right: ArrayLike, clusters: ArrayLike, draws: ArrayLike | None = None, level: float = 0.95
) -> tuple[float, float] | None:
    """:func:`reported_interval` of the share of rows that are right.

    ``right`` [rows] of 0 and 1 (or shares), ``clusters`` [rows] labels that sort, ``draws`` as
    there. None for no row.
    """
    values = np.asarray(right, dtype=np.float64)
    if not values.size:
        return None
    _, member = np.unique(np.asarray(clusters), return_inverse=True)
    sizes = np.bincount(member).astype(np.float64)
    floor = share_floor(np.bincount(member, weights=values), sizes, level)
    return reported_interval(draws, len(sizes), floor, level)


def paired_floor(cells: ArrayLike, level: float = 0.95) -> Interval:
    """Newcombe's paired interval of a difference whose pairs come in clusters.

    ``cells`` float [clusters, 4]: both right, only the first, only the second, neither; clusters
    without a pair are left out. The counts of pairs are scaled to their effective number
    (:func:`core.stats.clustered.effective_size`). A lone cluster gives [−1, 1]. Raises ValueError
    where no cluster has a pair or clusters have less than one.
    Source: Newcombe, Statist Med 17 (1998) 2635–2650; effective size as in
    :func:`core.stats.clustered.clustered_wilson`.
    """
    table = np.asarray(cells, dtype=np.float64)
    table = table[table.sum(axis=1) > 0]
    gains, pairs, totals = table[:, 1] - table[:, 2], table.sum(axis=1), table.sum(axis=0)
    n, clusters = float(totals.sum()), len(table)
    sums = float(gains @ gains), float(gains @ pairs), float(pairs @ pairs)
    if not 1 <= clusters <= n + ROUNDING or sums[2] < n - ROUNDING:
        raise ValueError(f"{clusters} clusters cannot have {n} pairs")
    difference = float(totals[1] - totals[2]) / n
    if clusters == 1:
        return Interval(difference, -1.0, 1.0, level)
    independent = float(totals[1] + totals[2]) / n - difference**2
    size = effective_size(difference, independent, n, clusters, *sums, level)
    both, first, second, neither = (size / n * np.maximum(totals, 0.0)).tolist()
    return newcombe_paired(both, first, second, neither, level)


def agreement_floors(cells: ArrayLike, level: float = 0.95) -> dict[str, Interval]:
    """Score intervals of raw agreement, kappa, AC1 and positive agreement of two judges.

    ``cells`` float [clusters, 4]: both yes, only the first, only the second, neither, of each
    cluster. Raw agreement has the clustered Wilson interval. Kappa and AC1 are increasing functions
    of it at the observed chance agreement, (p − e)/(1 − e), and positive agreement is one of the
    share of both among the items with a yes of either, 2s/(1 + s): their bounds are those of the
    shares, transformed. Keys "raw", "kappa", "ac1", "positive_agreement"; a measure that is not
    defined is left out.
    """
    table = np.asarray(cells, dtype=np.float64)
    total = table.sum(axis=0)
    n = total.sum()
    floors: dict[str, Interval] = {}
    if not n:
        return floors
    raw = share_floor(table[:, 0] + table[:, 3], table.sum(axis=1), level)
    floors["raw"] = raw
    first, second = (total[0] + total[1]) / n, (total[0] + total[2]) / n
    mean = (first + second) / 2
    chances = {
        "kappa": first * second + (1 - first) * (1 - second),
        "ac1": 2 * mean * (1 - mean),
    }
    for measure, chance in chances.items():
        if chance < 1.0 - 1e-12:
            ends = [(p - chance) / (1 - chance) for p in (raw.estimate, raw.low, raw.high)]
            floors[measure] = Interval(ends[0], max(-1.0, ends[1]), ends[2], level)
    any_yes = table[:, :3].sum(axis=1)
    if any_yes.any():
        share = share_floor(table[:, 0], any_yes, level)
        ends = [2 * s / (1 + s) for s in (share.estimate, share.low, share.high)]
        floors["positive_agreement"] = Interval(ends[0], ends[1], ends[2], level)
    return floors
