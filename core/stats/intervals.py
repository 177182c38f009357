"""Intervals of shares, of differences, and of statistics of rows in clusters.

Tables give bootstrap and Wilson intervals: of 0 in 30 the bootstrap is [0, 0], Wilson's 0 to 11.4 %
(docs/methods.md, Stage 2: judging). Clustered: the bootstrap of any statistic of totals, and
Wilson's interval at the effective sample size; ``tests/reference/bootstrap.py`` is the plain
version and draws the same clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its two-sided interval."""

    estimate: float
    low: float
    high: float


def percentiles(draws: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """Lower and upper percentile of resampled statistics, float64 [resamples]."""
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return float(low), float(high)


def ratio(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """``sums / counts``, nan where a count is 0."""
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def bootstrap_proportion(
    hits: int,
    n: int,
    resamples: int,
    rng: np.random.Generator,
) -> Interval:
    """Percentile bootstrap of a share of ``hits`` in ``n`` independent rows.

    A resample holds Binomial(n, hits/n) hits, which is drawn directly. NaN bounds for one row; no
    width where none or all rows are hits, as in the paper: Wilson's interval is for these. Raises
    ValueError unless 0 ≤ hits ≤ n and n ≥ 1.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
    """
    _checked_share(hits, n)
    draws = rng.binomial(n, hits / n, size=resamples) / n
    low, high = percentiles(draws) if n > 1 else (float("nan"), float("nan"))
    return Interval(hits / n, low, high)


def wilson_interval(hits: int, n: int) -> Interval:
    """Wilson score interval of a share, without continuity correction.

    Raises ValueError unless 0 ≤ hits ≤ n and n ≥ 1. Source: Wilson, Probable inference, the law
    of succession, and statistical inference, JASA 22 (1927) 209–212.
    """
    _checked_share(hits, n)
    return wilson_of_share(hits / n, n)


def wilson_of_share(share: float, n: float, level: float = 0.95) -> Interval:
    """:func:`wilson_interval` of a share in [0, 1] of an effective number ``n`` > 0 of rows.

    Raises ValueError otherwise.
    """
    if not 0.0 <= share <= 1.0 or not n > 0:
        raise ValueError(f"Wilson's interval takes a share in [0, 1] of n > 0, not {share} of {n}")
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    shrink = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the bound is exactly the end; rounding must not push it past.
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return Interval(share, low, high)


def square_and_add(
    first: Interval, second: Interval, correlation: float = 0.0, difference: float | None = None
) -> Interval:
    """Interval of the difference of two shares, first minus second, from the interval of each.

    ``correlation``: of the two estimates; ``difference``: its estimate where it is not that of the
    two. NaN bounds where an interval has NaN, and where both have no width. Source: Newcombe,
    Statist Med 17 (1998) 873–890 (method 10) and 2635–2650 (correlated);
    Zou and Donner, Statist Med 27 (2008) 1693–1702 (any intervals).
    """
    if difference is None:
        difference = first.estimate - second.estimate

    def half_width(near: float, far: float) -> float:
        square = near * near - 2.0 * correlation * near * far + far * far
        return sqrt(square) if not square < 0.0 else 0.0

    below = half_width(first.estimate - first.low, second.high - second.estimate)
    above = half_width(first.high - first.estimate, second.estimate - second.low)
    if not below + above > 0:
        return Interval(difference, float("nan"), float("nan"))
    return Interval(difference, max(-1.0, difference - below), min(1.0, difference + above))


def _checked_share(hits: int, n: int) -> None:
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"a share takes 0 ≤ hits ≤ n and n ≥ 1, not {hits} of {n}")


Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ROUNDING = 1e-9
"""Tolerance of sums of fractional counts."""
BLOCK = 64
"""Resamples drawn in one call. Changing it changes the RNG stream and so the results."""


def cluster_members(clusters: ArrayLike) -> tuple[int, NDArray[np.intp]]:
    """Number of clusters, and the number of each row's cluster, intp [rows], by sorted label.

    ``clusters`` [rows]: labels that sort. As ``np.unique`` numbers them; an array of texts would
    take the width of its longest label in every row.
    """
    numeric = isinstance(clusters, np.ndarray) and clusters.dtype != np.object_
    rows: list[Any] = [] if numeric else list(cast("Any", clusters))
    if rows and all(isinstance(label, str) for label in rows):
        number = {label: at for at, label in enumerate(sorted(set(rows)))}
        return len(number), np.fromiter(map(number.__getitem__, rows), np.intp, len(rows))
    labels, members = np.unique(np.asarray(clusters), return_inverse=True)
    return len(labels), members


def cluster_totals(both: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Totals of resampled clusters: float64 [resamples, m] of what clusters hold, [clusters, m].

    Each resample draws as many clusters as there are, with replacement, and adds up their rows.
    Any statistic of the totals (a share, a difference of shares, a kappa) is then resampled. Raises
    ValueError for no cluster.
    """
    count = len(both)
    if not count:
        raise ValueError("a bootstrap needs at least one cluster")
    totals = np.empty((resamples, both.shape[1]))
    offsets = np.arange(0, BLOCK * count, count)[:, None]
    index = np.empty((BLOCK, count), dtype=np.intp)
    for first in range(0, resamples, BLOCK):
        drawn = draw_clusters(count, rng)[: resamples - first]
        size = len(drawn)
        np.add(drawn, offsets[:size], out=index[:size])
        times = np.bincount(index[:size].ravel(), minlength=size * count)
        totals[first : first + size] = times.reshape(size, count).astype(np.float64) @ both
    return totals


def clustered_intervals(draws: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Lower and upper percentile of each column of resampled statistics [resamples, m].

    nan (a resample in which the statistic is not defined) is left out; nan for a column of nan.
    """
    ends = np.full((2, draws.shape[1]), np.nan)
    for i, column in enumerate(draws.T):
        known = column[~np.isnan(column)]
        if known.size:
            ends[:, i] = percentiles(known, level)
    return ends[0], ends[1]


def clustered_wilson(
    correct: float,
    n: float,
    clusters: int,
    squares: float,
    cross: float,
    sizes: float,
    level: float = 0.95,
    correlation: float | None = None,
) -> Interval:
    """Wilson interval of a share whose rows come in clusters, through the effective sample size.

    Of each cluster's number right c and rows n (their sums are ``correct`` and ``n``), the sums
    over clusters of c² (``squares``), c·n (``cross``) and n² (``sizes``) give the effective size
    (:func:`effective_size`); with a pooled ``correlation`` (:func:`pooled_correlation`) the sizes
    alone do (:func:`size_at`), and of the same clusters more rows right give a higher interval. One
    cluster gives [0, 1]. Raises ValueError unless the sums can be those of clusters.
    Source: Korn and Graubard, Surv Methodol 24 (1998) 193–201 (effective size); Dean and Pagano,
    J Surv Stat Methodol 3 (2015) 484–503 (with Wilson).
    """
    slack = ROUNDING * max(1.0, sizes)
    possible = 0 <= correct <= n + slack and squares <= cross + slack and cross <= sizes + slack
    if not possible or not 1 <= clusters <= n + slack or sizes < n - slack:
        raise ValueError(f"{clusters} clusters of {n} rows cannot have these sums")
    share = min(1.0, correct / n)
    if clusters == 1:
        return Interval(share, 0.0, 1.0)
    if correlation is None:
        independent = share * (1 - share)
        size = effective_size(share, independent, n, clusters, squares, cross, sizes, level)
    else:
        size = size_at(correlation, n, clusters, sizes, level)
    return wilson_of_share(share, size, level)


class ClusterSums(NamedTuple):
    """Sums over clusters of their totals c and rows n: of c, n and 1, of c², c·n and n², and the
    variance of a single row."""

    total: float
    n: float
    clusters: int
    squares: float
    cross: float
    sizes: float
    variance: float


def pooled_correlation(samples: Iterable[ClusterSums]) -> float:
    """Intraclass correlation of rows in clusters, in [0, 1], pooled over samples of the same
    clusters, such as the arms of a run.

    A cluster's total has the variance v (n + ρ (n² − n)) around n times the mean of its sample; the
    squares are added up over clusters and samples, and solved for ρ. Where no row differs from its
    sample, nothing says that rows of a cluster are not alike: ρ is 1. Source: Rao and Scott,
    Biometrics 48 (1992) 577–585 (pooled design effects); Kish, Survey Sampling (1965), section 5.4.
    """
    above = pairs = varied = 0.0
    for one in samples:
        if one.clusters < 2 or not one.n > 0:
            continue
        mean = one.total / one.n
        square = one.squares - 2 * mean * one.cross + mean * mean * one.sizes
        above += max(0.0, square) * one.clusters / (one.clusters - 1) - one.n * one.variance
        pairs += one.variance * (one.sizes - one.n)
        varied += one.variance
    if pairs > 1e-12:
        return min(1.0, max(0.0, above / pairs))
    return 0.0 if varied > 1e-12 else 1.0


def size_at(correlation: float, n: float, clusters: int, sizes: float, level: float) -> float:
    """Effective number of ``n`` rows in two clusters or more at an intraclass correlation: n
    divided by Kish's design effect, and by the excess of Student's t over the normal.
    """
    return n / (1.0 + correlation * (sizes / n - 1.0)) * t_shrinkage(clusters, level)


def effective_size(
    mean: float,
    independent: float,
    n: float,
    clusters: int,
    squares: float,
    cross: float,
    sizes: float,
    level: float = 0.95,
) -> float:
    """Effective number of rows in two clusters or more, for a mean of ``n`` rows.

    n is divided by the ratio of the variance of the mean, linearised over clusters, to that of
    independent rows (``independent`` / n), never below 1, and by the excess of Student's t over the
    normal. Where rows do not vary the ratio is unknown and each cluster counts as one row.
    ``squares``, ``cross``, ``sizes``: sums over clusters of c², c·n and n², c a cluster's total.
    """
    size = float(clusters)
    if independent > 1e-12:
        excess = squares - 2 * mean * cross + mean * mean * sizes
        variance = max(0.0, excess) * clusters / (clusters - 1) / n**2
        size = n / max(1.0, variance * n / independent)
    return size * t_shrinkage(clusters, level)


@lru_cache(maxsize=4096)
def t_shrinkage(clusters: int, level: float = 0.95) -> float:
    """Squared ratio of the normal quantile to that of Student's t (clusters − 1 degrees), of two
    clusters or more."""
    from scipy.special import stdtrit

    quantile = 0.5 + level / 2
    return (NormalDist().inv_cdf(quantile) / float(stdtrit(clusters - 1, quantile))) ** 2


def draw_clusters(count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Clusters of the next :data:`BLOCK` resamples, [64, count]; in 16 bits where they suffice, as
    drawing takes most of the bootstrap's time."""
    return rng.integers(
        0, count, size=(BLOCK, count), dtype=np.uint16 if count <= 1 << 16 else np.int64
    )
