"""Statistics of one curve: binned means with intervals and null band, gap, contrasts and tests.

Two contrasts are pre-specified and adjusted by Holm: middle against edge, and the quadratic term.
The gap between the best and the worst bin and the homogeneity of all bins have separate p values; a
maximum minus a minimum is large by chance alone, so the gap's expectation without an effect of
position is given with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.stats.intervals import clustered_intervals, ratio, square_and_add
from core.stats.paired import holm_adjust, reported_interval, share_floor
from core.stats.positions import (
    Cells,
    LogisticFit,
    Responses,
    bin_edges,
    bootstrap_totals,
    cells,
    clustered_logistic,
    clusters_in,
    is_within,
    permutation_totals,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAN = float("nan")
ALPHA, POWER = 0.05, 0.8
FEWEST_CLUSTERS = 30
"""Clusters below which the quadratic term is not tested: the sandwich needs more to keep its
level."""
UNIFORM_SHARE = 0.8
"""Share between the 10th and 90th percentile of positions spread evenly."""
QUADRATIC = 2
"""Index of the quadratic term among the coefficients of 1, u, u² with u = 2x − 1."""


@dataclass(frozen=True, eq=False, slots=True)
class Curve:
    """A curve and its tests; undefined values are nan.

    By bin, float64 or int64 [bins]: ``low`` and ``high`` edges, ``n`` responses, ``clusters`` with
    a response there, ``accuracy``, its interval ``ci_low``, ``ci_high`` (nan with one cluster), the
    pointwise 95 % band ``null_low``, ``null_high`` of no effect of position. ``gap`` is the best
    bin (``peak``, ``peak_bin``) minus the worst, ``null_gap`` its mean without an effect.
    ``difference`` is middle minus edge, its interval the bootstrap's, its p the permutation's.
    ``quadratic`` is the coefficient of u², u = 2x − 1: the log odds at the ends of the record
    minus those at its middle, apart from the linear term; above 0 the curve sags in the middle.
    ``difference_holm``, ``quadratic_holm``: the two pre-specified p values after Holm.
    ``smallest``: the difference that these data show with 80 % power at the first step of Holm.
    ``held``: share of responses whose position the permutation could not move.
    """

    low: Floats
    high: Floats
    n: Ints
    clusters: Ints
    accuracy: Floats
    ci_low: Floats
    ci_high: Floats
    null_low: Floats
    null_high: Floats
    rows: int
    cluster_count: int
    peak: float
    peak_bin: int
    trough: float
    trough_bin: int
    gap: float
    null_gap: float
    gap_p: float
    homogeneity_p: float
    middle: float
    edge: float
    difference: float
    difference_low: float
    difference_high: float
    difference_p: float
    difference_holm: float
    quadratic: float
    quadratic_low: float
    quadratic_high: float
    quadratic_p: float
    quadratic_holm: float
    smallest: float
    share_10_90: float
    held: float


@dataclass(frozen=True, eq=False, slots=True)
class Statistics:
    """Statistics of totals by cell, each [draws], ``means`` [draws, bins]."""

    means: Floats
    gap: Floats
    homogeneity: Floats
    difference: Floats
    middle: Floats
    edge: Floats


def statistics(right: Floats, n: Floats, cut: Cells) -> Statistics:
    """Means by bin, gap, weighted between-bin sum of squares, and middle minus edge.

    ``right`` and ``n`` float64 [draws, cells]. The homogeneity statistic is Σ n_b (a_b − a)².
    """
    counts = n @ cut.bins
    means = ratio(right @ cut.bins, counts)
    overall = ratio(right.sum(axis=1), n.sum(axis=1))
    zones = ratio(right @ cut.zones, n @ cut.zones)
    squares = np.where(counts > 0, counts * (means - overall[:, None]) ** 2, 0.0).sum(axis=1)
    high = np.where(counts > 0, means, -np.inf).max(axis=1)
    low = np.where(counts > 0, means, np.inf).min(axis=1)
    return Statistics(
        means, high - low, squares, zones[:, 0] - zones[:, 1], zones[:, 0], zones[:, 1]
    )


def study(
    responses: Responses, bins: int, resamples: int, seed: int, widened: bool = False
) -> Curve:
    """The curve of responses, with ``resamples`` draws each for intervals and null.

    The intervals' draws are those of ``default_rng(seed)``, the null's of a separate stream.
    ``widened``: intervals by :mod:`core.stats.paired`, none for fewer than 5 clusters; else plain
    percentiles (the paper's), none for one cluster.
    Raises ValueError for no responses.
    """
    if not responses.rows:
        raise ValueError("a curve takes at least one answer")
    cut = cells(responses.position, bins)
    right, n = (
        np.bincount(cut.index, weights=sums, minlength=cut.count).astype(np.float64)[None, :]
        for sums in (responses.right, responses.n)
    )
    seen = statistics(right, n, cut)
    rng = np.random.default_rng(seed)
    drawn = statistics(*bootstrap_totals(responses, cut, resamples, rng), cut)
    groups = cut.bins.argmax(axis=1)[cut.index]
    clusters = clusters_in(responses.clusters, groups, responses.count, bins)
    # Of the means of the bins, and of middle minus edge.
    intervals = _widened if widened else _percentiles
    ci_low, ci_high, (difference_low, difference_high) = intervals(responses, cut, drawn, clusters)

    totals = permutation_totals(responses, cut, resamples, np.random.default_rng([seed, 1]))
    null = None if totals is None else statistics(totals, n, cut)
    null_low, null_high = np.full((2, bins), np.nan)
    if null:
        null_low, null_high = clustered_intervals(null.means)
    quadratic = _quadratic(responses)
    limits = quadratic.interval(QUADRATIC) if quadratic else None
    tested = (
        _p("difference", seen, null, two_sided=True),
        quadratic.p(QUADRATIC) if quadratic else NAN,
    )
    # A test that could not be made counts as one of the two all the same.
    holm = np.where(np.isnan(tested), np.nan, holm_adjust(np.nan_to_num(tested, nan=1.0)))
    means = seen.means[0]
    edges = bin_edges(bins)
    alone = np.bincount(responses.layouts)[responses.layouts] == 1
    return Curve(
        low=edges[:-1],
        high=edges[1:],
        n=(n[0] @ cut.bins).astype(np.int64),
        clusters=clusters,
        accuracy=means,
        ci_low=ci_low,
        ci_high=ci_high,
        null_low=null_low,
        null_high=null_high,
        rows=responses.rows,
        cluster_count=responses.count,
        peak=float(np.nanmax(means)),
        peak_bin=int(np.nanargmax(means)),
        trough=float(np.nanmin(means)),
        trough_bin=int(np.nanargmin(means)),
        gap=float(seen.gap[0]),
        null_gap=float(null.gap.mean()) if null else NAN,
        gap_p=_p("gap", seen, null),
        homogeneity_p=_p("homogeneity", seen, null),
        middle=float(seen.middle[0]),
        edge=float(seen.edge[0]),
        difference=float(seen.difference[0]),
        difference_low=difference_low,
        difference_high=difference_high,
        difference_p=tested[0],
        difference_holm=float(holm[0]),
        quadratic=limits.estimate if limits else NAN,
        quadratic_low=limits.low if limits else NAN,
        quadratic_high=limits.high if limits else NAN,
        quadratic_p=tested[1],
        quadratic_holm=float(holm[1]),
        smallest=_smallest(null),
        share_10_90=float(responses.n[is_within(responses.position)].sum() / responses.n.sum()),
        held=float(responses.n[alone[responses.clusters]].sum() / responses.n.sum()),
    )


def _smallest(null: Statistics | None) -> float:
    """The difference shown with 80 % power at the first step of Holm, from its spread under no
    effect; nan where it has none."""
    spread = float(null.difference.std()) if null else 0.0
    normal = NormalDist()
    distance = normal.inv_cdf(1.0 - ALPHA / 4.0) + normal.inv_cdf(POWER)
    return distance * spread if spread > 1e-12 else NAN


def _p(name: str, seen: Statistics, null: Statistics | None, two_sided: bool = False) -> float:
    """(b + 1)/(m + 1) with b of m permutations at least as extreme: never 0 (Phipson and Smyth
    2010). nan where nothing can be permuted or the statistic is not defined."""
    observed = float(getattr(seen, name)[0])
    if null is None or np.isnan(observed):
        return NAN
    draws: Floats = getattr(null, name)
    # Equal in exact arithmetic is equal: rounding must not turn a tie into "less extreme".
    slack = 1e-9 * max(1.0, abs(observed))
    above = (int((draws >= observed - slack).sum()) + 1) / (len(draws) + 1)
    if not two_sided:
        return above
    below = (int((draws <= observed + slack).sum()) + 1) / (len(draws) + 1)
    return min(1.0, 2.0 * min(above, below))


def _percentiles(
    responses: Responses, _: Cells, drawn: Statistics, clusters: Ints
) -> tuple[Floats, Floats, tuple[float, float]]:
    low, high = (np.where(clusters > 1, end, np.nan) for end in clustered_intervals(drawn.means))
    if responses.count < 2:
        return low, high, (NAN, NAN)
    ends = clustered_intervals(drawn.difference[:, None])
    return low, high, (float(ends[0][0]), float(ends[1][0]))


def _widened(
    responses: Responses, cut: Cells, drawn: Statistics, _: Ints
) -> tuple[Floats, Floats, tuple[float, float]]:
    def by_cluster(groups: Floats) -> tuple[Floats, Floats]:
        """Scores and responses of each cluster in each group of cells, [clusters, groups]."""
        width = groups.shape[1]
        index = responses.clusters * width + groups.argmax(axis=1)[cut.index]
        right, n = (
            np.bincount(index, sums, responses.count * width).reshape(-1, width).astype(np.float64)
            for sums in (responses.right, responses.n)
        )
        return right, n

    right, n = by_cluster(cut.bins)
    ends = np.full((2, n.shape[1]), np.nan)
    for b in np.flatnonzero(n.sum(axis=0)):
        floor = share_floor(right[:, b], n[:, b])
        interval = reported_interval(drawn.means[:, b], int((n[:, b] > 0).sum()), floor)
        ends[:, b] = interval or (NAN, NAN)
    difference = None
    right, n = by_cluster(cut.zones)
    if (n.sum(axis=0) > 0).all():
        middle, edge = (share_floor(right[:, zone], n[:, zone]) for zone in (0, 1))
        fewest = int((n > 0).sum(axis=0).min())
        difference = reported_interval(drawn.difference, fewest, square_and_add(middle, edge))
    return ends[0], ends[1], difference or (NAN, NAN)


def _quadratic(responses: Responses) -> LogisticFit | None:
    """The logistic model of 1, u and u², u = 2x − 1; None where it cannot be fitted."""
    if responses.count < FEWEST_CLUSTERS:
        return None
    u = 2.0 * responses.position - 1.0
    design = np.column_stack([np.ones_like(u), u, u * u])
    return clustered_logistic(design, responses.right, responses.n, responses.clusters)
