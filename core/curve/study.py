"""Everything that is said of one curve: bins with intervals and null band, gap, contrasts, tests.

Two contrasts are specified beforehand and share their error by Holm: middle against edge, and the
bend (quadratic term). The gap between the best and the worst bin and the homogeneity of all bins
are told with their p values, but a maximum minus a minimum of noisy bins is large by chance alone,
so its expectation under no effect of position stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.curve.bins import Cells, bin_edges, cells, is_within
from core.curve.placed import Placed
from core.curve.resample import bootstrap_totals, clusters_in, permuted_totals
from core.stats import (
    clustered_intervals,
    difference_floor,
    holm_adjust,
    reported_interval,
    share_floor,
)
from core.stats.logistic import LogisticFit, clustered_logistic

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHA, POWER = 0.05, 0.8
FEWEST_CLUSTERS = 30
"""Clusters below which the bend is not tested: the sandwich needs more to keep its level."""
UNIFORM_SHARE = 0.8
"""Share between the 10th and 90th percentile of positions spread evenly."""
QUADRATIC = 2
"""The bend's place among the coefficients 1, u, u² with u = 2x − 1."""


@dataclass(frozen=True, eq=False, slots=True)
class Curve:
    """A curve and its tests; shares are shares, nan stands for what is not defined.

    By bin, float64 or int64 [bins]: ``low`` and ``high`` edges, ``n`` answers, ``clusters`` with an
    answer there, ``accuracy``, its interval ``ci_low``, ``ci_high`` (nan with one cluster), the
    pointwise 95 % band ``null_low``, ``null_high`` of no effect of position. ``gap`` is the best
    bin (``peak``, ``peak_bin``) minus the worst, ``null_gap`` its mean under no effect.
    ``difference`` is middle minus edge, its interval the bootstrap's, its p the permutation's.
    ``quadratic`` is the coefficient of u², u = 2x − 1: the log odds at the ends of the record
    minus those at its middle, position's slope apart; above 0 the curve sags in the middle.
    ``difference_holm``, ``quadratic_holm``: the two pre-specified p values after Holm.
    ``smallest``: the difference that these data show with 80 % power at the first step of Holm.
    ``held``: share of answers whose position the permutation could not move.
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
    """What is read off totals, each [draws] or [draws, bins]."""

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
    means = _ratio(right @ cut.bins, counts)
    overall = _ratio(right.sum(axis=1), n.sum(axis=1))
    zones = _ratio(right @ cut.zones, n @ cut.zones)
    spread = np.where(counts > 0, counts * (means - overall[:, None]) ** 2, 0.0).sum(axis=1)
    high = np.where(counts > 0, means, -np.inf).max(axis=1)
    low = np.where(counts > 0, means, np.inf).min(axis=1)
    return Statistics(
        means, high - low, spread, zones[:, 0] - zones[:, 1], zones[:, 0], zones[:, 1]
    )


def study(placed: Placed, bins: int, resamples: int, seed: int, widened: bool = False) -> Curve:
    """The curve of answers, with ``resamples`` draws each for intervals and null.

    The intervals' draws are those of ``default_rng(seed)``, the null's are of a stream of its own.
    ``widened``: intervals by :func:`core.stats.reported_interval`, none for fewer than 5 clusters;
    else plain percentiles (the paper's), none for one cluster.
    Raises ValueError for no answers.
    """
    if not placed.rows:
        raise ValueError("a curve takes at least one answer")
    cut = cells(placed.position, bins)
    right, n = (
        np.bincount(cut.index, weights=held, minlength=cut.count).astype(np.float64)[None, :]
        for held in (placed.right, placed.n)
    )
    seen = statistics(right, n, cut)
    drawn = statistics(*bootstrap_totals(placed, cut, resamples, np.random.default_rng(seed)), cut)
    in_bin = clusters_in(placed.clusters, cut.bins.argmax(axis=1)[cut.index], placed.count, bins)
    ci_low, ci_high = (
        np.where(in_bin > 1, bound, np.nan) for bound in clustered_intervals(drawn.means)
    )
    enough = placed.count > 1
    apart = clustered_intervals(drawn.difference[:, None]) if enough else (np.full(1, np.nan),) * 2
    if widened:
        ci_low, ci_high, apart = _widened(placed, cut, drawn)
    null = _Null(placed, cut, n, resamples, seed)
    bend = _bend(placed)
    limits = bend.interval(QUADRATIC) if bend else None
    tested = (null.p("difference", seen, both_ways=True), bend.p(QUADRATIC) if bend else np.nan)
    adjusted = _holm(tested)
    means = seen.means[0]
    edges = bin_edges(bins)
    return Curve(
        low=edges[:-1],
        high=edges[1:],
        n=(n[0] @ cut.bins).astype(np.int64),
        clusters=in_bin,
        accuracy=means,
        ci_low=ci_low,
        ci_high=ci_high,
        null_low=null.band[0],
        null_high=null.band[1],
        rows=placed.rows,
        cluster_count=placed.count,
        peak=float(np.nanmax(means)),
        peak_bin=int(np.nanargmax(means)),
        trough=float(np.nanmin(means)),
        trough_bin=int(np.nanargmin(means)),
        gap=float(seen.gap[0]),
        null_gap=null.gap,
        gap_p=null.p("gap", seen),
        homogeneity_p=null.p("homogeneity", seen),
        middle=float(seen.middle[0]),
        edge=float(seen.edge[0]),
        difference=float(seen.difference[0]),
        difference_low=float(apart[0][0]),
        difference_high=float(apart[1][0]),
        difference_p=tested[0],
        difference_holm=adjusted[0],
        quadratic=limits.estimate if limits else np.nan,
        quadratic_low=limits.low if limits else np.nan,
        quadratic_high=limits.high if limits else np.nan,
        quadratic_p=tested[1],
        quadratic_holm=adjusted[1],
        smallest=null.smallest,
        share_10_90=float(placed.n[is_within(placed.position)].sum() / placed.n.sum()),
        held=_held(placed),
    )


class _Null:
    """The permutation null of a curve."""

    def __init__(self, placed: Placed, cut: Cells, n: Floats, resamples: int, seed: int) -> None:
        bins = cut.bins.shape[1]
        self.band = np.full((2, bins), np.nan)
        self.gap = self.smallest = float("nan")
        self._drawn: Statistics | None = None
        totals = permuted_totals(placed, cut, resamples, np.random.default_rng([seed, 1]))
        if totals is None:
            return
        self._drawn = statistics(totals, n, cut)
        self.band = np.array(clustered_intervals(self._drawn.means))
        self.gap = float(self._drawn.gap.mean())
        spread = float(self._drawn.difference.std())
        if spread > 1e-12:
            normal = NormalDist()
            reach = normal.inv_cdf(1.0 - ALPHA / 4.0) + normal.inv_cdf(POWER)
            self.smallest = reach * spread

    def p(self, name: str, seen: Statistics, both_ways: bool = False) -> float:
        """(b + 1)/(m + 1) with b of m permutations at least as extreme: never 0 (Phipson and
        Smyth 2010). nan where nothing can be permuted or the statistic is not defined."""
        observed = float(getattr(seen, name)[0])
        if self._drawn is None or np.isnan(observed):
            return float("nan")
        null: Floats = getattr(self._drawn, name)
        # Equal in exact arithmetic is equal: rounding must not turn a tie into "less extreme".
        slack = 1e-9 * max(1.0, abs(observed))
        above = (int((null >= observed - slack).sum()) + 1) / (len(null) + 1)
        if not both_ways:
            return above
        below = (int((null <= observed + slack).sum()) + 1) / (len(null) + 1)
        return min(1.0, 2.0 * min(above, below))


def _widened(
    placed: Placed, cut: Cells, drawn: Statistics
) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Reported intervals of the bins' means, and of middle minus edge."""

    def held(groups: Floats) -> tuple[Floats, Floats]:
        """Scores and answers of each cluster in each group of cells, [clusters, groups]."""
        width = groups.shape[1]
        place = placed.clusters * width + groups.argmax(axis=1)[cut.index]
        right, n = (
            np.bincount(place, of, placed.count * width).reshape(-1, width).astype(np.float64)
            for of in (placed.right, placed.n)
        )
        return right, n

    right, n = held(cut.bins)
    ends = np.full((2, n.shape[1]), np.nan)
    for b in np.flatnonzero(n.sum(axis=0)):
        floor = share_floor(right[:, b], n[:, b])
        found = reported_interval(drawn.means[:, b], int((n[:, b] > 0).sum()), floor)
        if found is not None:
            ends[:, b] = found
    apart = np.full((2, 1), np.nan)
    right, n = held(cut.zones)
    if (n.sum(axis=0) > 0).all():
        middle, edge = (share_floor(right[:, zone], n[:, zone]) for zone in (0, 1))
        fewest = int((n > 0).sum(axis=0).min())
        found = reported_interval(drawn.difference, fewest, difference_floor(middle, edge))
        if found is not None:
            apart[:, 0] = found
    return ends[0], ends[1], (apart[0], apart[1])


def _bend(placed: Placed) -> LogisticFit | None:
    """The logistic model with 1, u and u², u = 2x − 1; None where it cannot be fitted."""
    if placed.count < FEWEST_CLUSTERS:
        return None
    u = 2.0 * placed.position - 1.0
    design = np.column_stack([np.ones_like(u), u, u * u])
    return clustered_logistic(design, placed.right, placed.n, placed.clusters)


def _holm(tested: tuple[float, float]) -> tuple[float, float]:
    """Holm over the two; a test that could not be made leaves the other as one of two still."""
    filled = holm_adjust([1.0 if np.isnan(p) else p for p in tested])
    first, second = (
        float("nan") if np.isnan(p) else float(a) for p, a in zip(tested, filled, strict=True)
    )
    return first, second


def _held(placed: Placed) -> float:
    """Share of answers in clusters without a partner of the same layout."""
    alone = np.bincount(placed.layouts)[placed.layouts] == 1
    return float(placed.n[alone[placed.clusters]].sum() / placed.n.sum())


def _ratio(sums: Floats, counts: Floats) -> Floats:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
