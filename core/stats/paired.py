"""Paired 0/1 outcomes, several tests at once, and the intervals that tables report.

McNemar's exact test with its power, Newcombe's interval, and Holm's adjustment.

For rows in clusters (patients, questions) tables report no interval for fewer than
:data:`FEWEST_CLUSTERS` clusters; otherwise the cluster bootstrap with expanded percentiles, widened
to hold the score interval of the same counts, as a bootstrap of equal rows has no width.
``docs/power.md`` has the simulated coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, inf, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import (
    ROUNDING,
    ClusterSums,
    Interval,
    cluster_members,
    clustered_intervals,
    clustered_wilson,
    effective_size,
    pooled_correlation,
    size_at,
    square_and_add,
    wilson_of_share,
)

Floats = NDArray[np.float64]
_EXACT_PAIRS = 1000
"""Discordant pairs up to which McNemar's p is computed in whole numbers."""
_SMALLEST = float(np.finfo(np.float64).tiny)
_SIGMAS = 9.0
"""Standard deviations of the number of discordant pairs that power sums over: the rest is 1e-18."""
_PRECISION = 1e-7
"""To which the smallest difference is searched."""


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p value for paired 0/1 outcomes; never 0.

    ``only_first`` pairs where the first alone is right, ``only_second`` where the second alone
    is. Under no difference each is Binomial(sum, ½); without a discordant pair p is 1. Raises
    ValueError for a negative count. Source: McNemar, Psychometrika 12 (1947) 153–157, in the
    exact form of Fagerland, Lydersen and Laake, BMC Med Res Methodol 13:91 (2013).
    """
    if not (only_first >= 0 and only_second >= 0):
        raise ValueError(f"discordant pairs are counts, not {only_first} and {only_second}")
    n, fewer = only_first + only_second, min(only_first, only_second)
    if n <= _EXACT_PAIRS:
        tail = sum(comb(n, i) for i in range(fewer + 1))
        return min(1.0, 2 * tail / 2**n)
    from scipy.special import bdtr

    return max(_SMALLEST, min(1.0, 2.0 * float(bdtr(fewer, n, 0.5))))


def newcombe_paired(
    both: float, only_first: float, only_second: float, neither: float, level: float = 0.95
) -> Interval:
    """Interval of the difference of two paired shares, first minus second.

    Square-and-add of the two Wilson intervals with the pairs' correlation (Newcombe's method 10).
    Counts may be effective ones, which need not be whole. Raises ValueError for a negative count or
    no pair. Source: Newcombe, Improved confidence intervals for the difference between binomial
    proportions based on paired data, Statist Med 17 (1998) 2635–2650; recommended by Fagerland,
    Lydersen and Laake, Statist Med 33 (2014) 2850.
    """
    n = both + only_first + only_second + neither
    if not all(0 <= one < inf for one in (both, only_first, only_second, neither)) or n <= 0:
        raise ValueError(
            f"pairs are counts, at least one in all: {both}, {only_first}, {only_second}, {neither}"
        )
    first = wilson_of_share(min(1.0, (both + only_first) / n), n, level)
    second = wilson_of_share(min(1.0, (both + only_second) / n), n, level)
    difference = (only_first - only_second) / n
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    cross = both * neither - only_first * only_second
    if cross > n / 2:
        cross -= n / 2
    elif cross > 0:
        cross = 0
    phi = cross / sqrt(margins) if margins else 0.0
    return square_and_add(first, second, phi, difference)


def _checked_p(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values are a row of numbers between 0 and 1")
    return p


def holm_adjust(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjusted p values, float64 [m], in the order given.

    Raises ValueError for a value outside [0, 1]. Source: Holm, A simple sequentially rejective
    multiple test procedure, Scand J Statist 6 (1979) 65–70.
    """
    p = _checked_p(p_values)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _checked_power(n: int, discordant: float, difference: float, alpha: float) -> None:
    if n < 1:
        raise ValueError(f"power needs at least one pair, not {n}")
    if not 0.0 <= difference <= discordant <= 1.0:
        raise ValueError(
            f"0 ≤ difference ≤ discordant share ≤ 1, not {difference} and {discordant}"
        )
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"a level of significance lies between 0 and 1, not {alpha}")


def mcnemar_power(n: int, discordant: float, difference: float, alpha: float = 0.05) -> float:
    """Chance that McNemar's exact two-sided test of ``n`` pairs gives p ≤ ``alpha``.

    ``discordant``: share of pairs on which the arms differ; ``difference``: of the shares that
    are right, in [0, discordant]. Raises ValueError otherwise. Exact: the number of discordant
    pairs is Binomial(n, discordant), and of those (discordant + difference) / (2 discordant)
    favour the better arm. Source: Duffy, Biometrics 40 (1984) 1005–1015 (exact power).
    """
    _checked_power(n, discordant, difference, alpha)
    if n * discordant < 1e-12:
        return 0.0
    from scipy.special import bdtr, bdtrik, gammaln, xlog1py, xlogy  # scipy.stats imports for 1 s

    reach = _SIGMAS * sqrt(n * discordant * (1 - discordant)) + _SIGMAS
    first, last = max(1, int(n * discordant - reach)), min(n, int(n * discordant + reach) + 1)
    d = np.arange(first, last + 1)

    def below(counts: Floats, share: float) -> Floats:
        return np.where(counts < 0, 0.0, bdtr(np.maximum(counts, 0.0), d, share))

    # The largest count of the rarer side with p ≤ alpha; −1: none.
    most = np.ceil(bdtrik(alpha / 2, d, 0.5))
    most -= below(most - 1, 0.5) >= alpha / 2
    most -= 2 * below(most, 0.5) > alpha * (1 + 1e-12)
    favour = min(1.0, (discordant + difference) / (2 * discordant))
    # Few that favour the better arm, or few that favour the other.
    refuted = below(most, favour) + below(most, 1 - favour)
    ways = gammaln(n + 1) - gammaln(d + 1) - gammaln(n - d + 1)
    chance = np.exp(ways + xlogy(d, discordant) + xlog1py(n - d, -discordant))
    return float(chance @ refuted)


def smallest_difference(
    n: int, discordant: float, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest difference of two paired shares that ``n`` pairs show with this power.

    ``discordant``: the expected share of pairs on which the arms differ; where the difference is
    larger, all discordant pairs are taken to favour one arm. None where not even a difference of 1
    is shown (five pairs or fewer at 5 %). For many tests pass ``alpha`` divided by their number,
    the first step of Holm. Raises ValueError for shares outside [0, 1].
    """
    if not 0.0 < power < 1.0:
        raise ValueError(f"power lies between 0 and 1, not {power}")
    _checked_power(n, discordant, 0.0, alpha)

    def reached(difference: float) -> bool:
        return mcnemar_power(n, max(discordant, difference), difference, alpha) >= power

    if not reached(1.0):
        return None
    low, high = (0.0, discordant) if discordant and reached(discordant) else (discordant, 1.0)
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


FEWEST_CLUSTERS = 5
"""Fewer clusters than this give no clustered interval."""


def expanded_level(clusters: int, level: float = 0.95) -> float:
    """The level of percentiles at which a bootstrap of few clusters has the coverage ``level``.

    1 − 2 Φ(−√(k/(k − 1)) t), with t of k − 1 degrees of freedom for k ≥ 2 clusters. Source:
    Hesterberg, Am Stat 69 (2015) 371–386, section 4.3 (expanded percentile interval).
    """
    from scipy.special import stdtrit

    t = float(stdtrit(clusters - 1, 0.5 + level / 2))
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
        ends += [(floor.low, floor.high)] if floor.high - floor.low > ROUNDING else []
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def share_floor(
    right: ArrayLike, sizes: ArrayLike, level: float = 0.95, correlation: float | None = None
) -> Interval:
    """Clustered Wilson interval of a share from what each cluster holds.

    ``right`` and ``sizes`` float [clusters]: rows right and rows of each cluster; clusters without
    a row are left out. Raises ValueError where no cluster has a row, or for NaN. ``correlation``:
    as of :func:`midchart.core.stats.intervals.clustered_wilson`, which is the source.
    """
    sums = share_sums(right, sizes)
    return clustered_wilson(*sums[:-1], level, correlation)


def share_sums(right: ArrayLike, sizes: ArrayLike) -> ClusterSums:
    """The sums of rows of 0 and 1 (or shares) in clusters, ``right`` and ``sizes`` as of
    :func:`share_floor`; raises as it does for NaN."""
    c, n = (np.asarray(of, dtype=np.float64) for of in (right, sizes))
    if np.isnan(n).any():
        raise ValueError("sizes of clusters are numbers, not NaN")
    c, n = c[n > 0], n[n > 0]
    share = float(c.sum() / n.sum()) if n.size else 0.0
    sums = float(c.sum()), float(n.sum()), len(n), float(c @ c), float(c @ n), float(n @ n)
    return ClusterSums(*sums, share * (1 - share))


def share_interval(
    right: ArrayLike,
    clusters: ArrayLike,
    level: float = 0.95,
    correlation: float | None = None,
) -> tuple[float, float] | None:
    """:func:`reported_interval` of the share of rows that are right, by its score interval.

    ``right`` [rows] of 0 and 1 (or shares), ``clusters`` [rows] labels that sort; ``correlation``
    as of :func:`share_floor`. None for no row.
    """
    values = np.asarray(right, dtype=np.float64)
    if not values.size:
        return None
    totals = cluster_counts(values, clusters)
    return reported_interval(None, len(totals[1]), share_floor(*totals, level, correlation), level)


def cluster_counts(right: ArrayLike, clusters: ArrayLike) -> tuple[Floats, Floats]:
    """Rows right and rows of each cluster, float64 [clusters] both."""
    count, member = cluster_members(clusters)
    sizes = np.bincount(member, minlength=count).astype(np.float64)
    values = np.asarray(right, dtype=np.float64)
    return np.bincount(member, weights=values, minlength=count).astype(np.float64), sizes


def paired_sums(cells: ArrayLike) -> ClusterSums:
    """The sums of the differences of pairs in clusters, ``cells`` as of :func:`paired_floor`;
    raises ValueError where no cluster has a pair or clusters have less than one."""
    table = np.asarray(cells, dtype=np.float64)
    if np.isnan(table).any():
        raise ValueError("pairs are counts, not NaN")
    table = table[table.sum(axis=1) > 0]
    gains, pairs, totals = table[:, 1] - table[:, 2], table.sum(axis=1), table.sum(axis=0)
    n, clusters, sizes = float(totals.sum()), len(table), float(pairs @ pairs)
    if not 1 <= clusters <= n + ROUNDING or sizes < n - ROUNDING:
        raise ValueError(f"{clusters} clusters cannot have {n} pairs")
    difference = float(totals[1] - totals[2]) / n
    variance = float(totals[1] + totals[2]) / n - difference**2
    sums = float(gains.sum()), n, clusters, float(gains @ gains), float(gains @ pairs), sizes
    return ClusterSums(*sums, variance)


def paired_cells(first: ArrayLike, second: ArrayLike) -> Floats:
    """The cells of :func:`paired_floor`, float [..., 4], of pairs of shares [...]: of two shares a
    and b a pair counts a·b, a(1 − b), b(1 − a) and (1 − a)(1 − b)."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return np.stack([a * b, a * (1 - b), b * (1 - a), (1 - a) * (1 - b)], axis=-1)


def paired_floor(
    cells: ArrayLike, level: float = 0.95, correlation: float | None = None
) -> Interval:
    """Newcombe's paired interval of a difference whose pairs come in clusters.

    ``cells`` float [clusters, 4]: both right, only the first, only the second, neither; clusters
    without a pair are left out. The counts of pairs are scaled to their effective number
    (:func:`midchart.core.stats.intervals.effective_size`, or at a pooled ``correlation``
    :func:`midchart.core.stats.intervals.size_at`). A lone cluster gives [−1, 1]. Raises
    ValueError as :func:`paired_sums`. Source: Newcombe, Statist
    Med 17 (1998) 2635–2650; effective size as in
    :func:`midchart.core.stats.intervals.clustered_wilson`.
    """
    sums = paired_sums(cells)
    difference = sums.total / sums.n
    if sums.clusters == 1:
        return Interval(difference, -1.0, 1.0)
    if correlation is None:
        size = effective_size(difference, sums.variance, *sums[1:-1], level)
    else:
        size = size_at(correlation, sums.n, sums.clusters, sums.sizes, level)
    totals = np.maximum(np.asarray(cells, dtype=np.float64).sum(axis=0), 0.0)
    both, first, second, neither = (size / sums.n * totals).tolist()
    return newcombe_paired(both, first, second, neither, level)


def simultaneous(tables: Sequence[Floats]) -> list[tuple[float, float] | None]:
    """Intervals of the differences of a family of paired comparisons that all hold at once.

    ``tables``: of each comparison the cells of :func:`paired_floor`; the correlation of a cluster's
    pairs is pooled over the family (:func:`midchart.core.stats.intervals.pooled_correlation`). None
    for fewer than :data:`FEWEST_CLUSTERS` clusters. Source: Dunn, JASA 56 (1961) 52–64
    (Bonferroni).
    """
    correlation = pooled_correlation(map(paired_sums, tables))
    one = 1 - 0.05 / max(len(tables), 1)
    return [
        reported_interval(None, len(cells), paired_floor(cells, one, correlation), one)
        for cells in tables
    ]


def agreement_floors(cells: ArrayLike) -> dict[str, Interval]:
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
    raw = share_floor(table[:, 0] + table[:, 3], table.sum(axis=1))
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
            floors[measure] = Interval(ends[0], max(-1.0, ends[1]), ends[2])
    any_yes = table[:, :3].sum(axis=1)
    if any_yes.any():
        share = share_floor(table[:, 0], any_yes)
        ends = [2 * s / (1 + s) for s in (share.estimate, share.low, share.high)]
        floors["positive_agreement"] = Interval(ends[0], ends[1], ends[2])
    return floors
