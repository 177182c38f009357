"""AUROC and AUPRC: points and areas, patient-level bootstrap, DeLong's and Hanley and McNeil's
variances, the clustered paired test, and score intervals for few patients.

Placements of several seeds average to those of the mean AUROC, and those of one patient add up,
which makes the paired test hold for clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, isfinite, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import (
    BLOCK,
    Interval,
    cluster_members,
    draw_clusters,
    square_and_add,
    t_shrinkage,
    wilson_of_share,
)

Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
Z = NormalDist().inv_cdf(0.975)
_AT_ONCE = 4
"""Resamples weighted at once: few enough that their rows stay near the processor."""


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, _Bools]:
    """Scores [n] or [m, n], finite, and which labels [n] are positive (above one half)."""
    data, values = (np.asarray(of, dtype=np.float64) for of in (scores, labels))
    if not data.size or not (np.isfinite(data).all() and np.isfinite(values).all()):
        raise ValueError("scores and labels are finite, at least one")
    return data, values > 0.5


@dataclass(frozen=True, eq=False, slots=True)
class Placements:
    """Of one scoring, ``value`` float64 [n]: for a positive the share of negatives below it, for a
    negative the share of positives above it, ties half; ``positive`` bool [n]; ``area``: the AUROC.
    """

    value: Floats
    positive: _Bools
    area: float


@dataclass(frozen=True, slots=True)
class _AreaTest:
    """First AUROC minus second: ``difference`` with its standard error and two-sided p value.

    ``se`` and ``p`` are NaN, with the ``reason``, where the variance cannot be estimated: where a
    class has one label (or is of one cluster), or where a difference other than 0 has no variance.
    Of equal rankings ``p`` is 1.
    """

    difference: float
    se: float
    p: float
    reason: str = ""


def _ranks(values: Floats) -> Floats:
    """Ranks of values [n] from 1, of equal ones their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def placements(scores: ArrayLike, labels: ArrayLike) -> Placements:
    """Placements of ``scores`` float [n], finite, or [m, n] for the mean of m scorings.

    ``labels`` [n], positive above one half. Raises ValueError for wrong shapes, a score that is
    not finite, or labels of one class. O(n log n).
    Source: DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988) 837–845, section 3; ranks as
    in Sun and Xu, IEEE Signal Process Lett 21 (2014) 1389–1393.
    """
    data, positive = _checked(scores, labels)
    data = np.atleast_2d(data)
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        raise ValueError("AUROC takes labels of both classes")
    value = np.empty_like(data)
    for row, scoring in zip(value, data, strict=True):
        overall = _ranks(scoring)
        row[positive] = (overall[positive] - _ranks(scoring[positive])) / n
        row[~positive] = 1.0 - (overall[~positive] - _ranks(scoring[~positive])) / m
    mean = value.mean(axis=0)
    return Placements(mean, positive, float(mean[positive].mean()))


def delong_test(first: Placements, second: Placements) -> _AreaTest:
    """DeLong's test of two AUROCs on the same labels, which it takes for independent.

    NaN with its reason for a class of one label. Raises ValueError where the labels differ.
    Source: as :func:`placements`.
    """
    _same_labels(first, second)
    for name, side in _classes(first):
        if side.sum() < 2:
            return _not_estimable(first, second, f"there is one {name} label")
    differences = first.value - second.value
    variance = 0.0
    for side in (first.positive, ~first.positive):
        variance += float(differences[side].var(ddof=1)) / int(side.sum())
    return _test(first.area - second.area, variance)


def clustered_test(first: Placements, second: Placements, clusters: ArrayLike) -> _AreaTest:
    """:func:`delong_test` for labels in clusters (patients).

    ``clusters`` [n], any labels that sort. NaN with its reason where the labels of a class are of
    one cluster. Raises ValueError where labels or lengths differ. Source: Obuchowski, Biometrics 53
    (1997) 567–578, equations of section 3, with I/(I − 1) for the number I of clusters throughout.
    """
    _same_labels(first, second)
    count, member = cluster_members(clusters)
    for name, side in _classes(first):
        if len(np.unique(member[side])) < 2:
            return _not_estimable(first, second, f"all {name} labels are of one patient")
    totals = _parts(first, member) - _parts(second, member)
    variance = float((totals**2).sum()) * count / (count - 1)
    return _test(first.area - second.area, variance)


def _same_labels(first: Placements, second: Placements) -> None:
    if not np.array_equal(first.positive, second.positive):
        raise ValueError("a paired test takes two scorings of the same labels")


def _classes(placed: Placements) -> tuple[tuple[str, _Bools], tuple[str, _Bools]]:
    return ("positive", placed.positive), ("negative", ~placed.positive)


def _not_estimable(first: Placements, second: Placements, reason: str) -> _AreaTest:
    return _AreaTest(first.area - second.area, nan, nan, reason)


def _test(difference: float, variance: float) -> _AreaTest:
    se = sqrt(max(0.0, variance))
    # Equal rankings differ by rounding alone.
    if se < 1e-12:
        if abs(difference) < 1e-12:
            return _AreaTest(difference, 0.0, 1.0, "the rankings are equal")
        return _AreaTest(difference, nan, nan, "the placements do not vary within a class")
    return _AreaTest(difference, se, erfc(abs(difference) / se / sqrt(2.0)))


def hanley_mcneil(area: float, positives: int, negatives: int) -> Interval:
    """An AUROC ± z standard errors, clipped to [0, 1], from the area and two counts alone.

    It takes every label as independent and is too narrow where one patient has many. NaN bounds for
    an area of 0 or 1, whose variance it puts at 0. Raises ValueError unless 0 ≤ area ≤ 1 and both
    counts are at least 1. Source: Hanley and McNeil, Radiology 143 (1982) 29–36, equation
    1 with Q1 = A/(2 − A) and Q2 = 2A²/(1 + A).
    """
    if not isfinite(area) or not 0.0 <= area <= 1.0 or positives < 1 or negatives < 1:
        raise ValueError("takes an area from 0 to 1 and at least one label of each class")
    square = area * area
    above = area / (2.0 - area) - square
    below = 2.0 * square / (1.0 + area) - square
    spread = area * (1.0 - area) + (positives - 1) * above + (negatives - 1) * below
    half = Z * sqrt(max(0.0, spread) / (positives * negatives))
    if half < 1e-12:
        return Interval(area, nan, nan)
    return Interval(area, max(0.0, area - half), min(1.0, area + half))


def auroc_floor(placed: Placements, clusters: ArrayLike) -> Interval:
    """Score interval of an AUROC whose rows come in clusters, through effective numbers of rows.

    The numbers of positives and negatives are divided by the ratio of the clustered variance of
    the area to that of independent rows, never below 1, and by the excess of Student's t over the
    normal. Where the placements do not vary (an area of 0 or 1) the ratio is unknown and each
    cluster counts as one positive and one negative of those it has. A lone cluster gives [0, 1].
    Source: Newcombe, Statist Med 25 (2006) 559–573, method 5 (score interval with Hanley and
    McNeil's variance); Obuchowski, Biometrics 53 (1997) 567–578 (clusters).
    """
    positives, negatives, k = _effective(placed, clusters)
    if k == 1:
        return Interval(placed.area, 0.0, 1.0)
    half = (positives + negatives) / 2 - 1

    def beyond(area: float) -> float:
        """Squared distance of ``area`` from the estimate, less z² variances of it."""
        spread = 1 + max(0.0, half) * ((1 - area) / (2 - area) + area / (1 + area))
        variance = area * (1 - area) * spread / (positives * negatives)
        return (area - placed.area) ** 2 - Z * Z * variance

    low, high = (_root(beyond, end, placed.area) for end in (0.0, 1.0))
    return Interval(placed.area, low, high)


def auprc_floor(area: float, placed: Placements, clusters: ArrayLike) -> Interval:
    """Wilson interval of an average precision, its rows the effective number of positives.

    The number is that of :func:`auroc_floor`. Source: Boyd, Eng and Page, ECML PKDD (2013)
    451–466 (binomial interval over the positives).
    """
    positives, _, k = _effective(placed, clusters)
    return Interval(area, 0.0, 1.0) if k == 1 else wilson_of_share(area, positives)


def auroc_difference_floor(first: Placements, second: Placements, clusters: ArrayLike) -> Interval:
    """Interval of the difference of two AUROCs on the same rows from the interval of each.

    Square-and-add with the correlation of the two areas over clusters, none where one of them
    does not vary. Source: Zou and Donner, Statist Med 27 (2008) 1693–1702; Zou, Psychol Methods 12
    (2007) 399–413 (correlated).
    """
    intervals = auroc_floor(first, clusters), auroc_floor(second, clusters)
    _, member = cluster_members(clusters)
    a, b = (_parts(placed, member) for placed in (first, second))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return square_and_add(*intervals, float(a @ b) / scale if scale > 1e-12 else 0.0)


def _parts(placed: Placements, member: NDArray[np.int64]) -> Floats:
    """Deviation of the area by cluster [clusters]."""
    m, n = int(placed.positive.sum()), int((~placed.positive).sum())
    weight = np.where(placed.positive, 1.0 / m, 1.0 / n)
    parts: Floats = np.bincount(member, weights=(placed.value - placed.area) * weight).astype(float)
    return parts


def _effective(placed: Placements, clusters: ArrayLike) -> tuple[float, float, int]:
    """Effective numbers of positives and negatives, and the number of clusters."""
    k, member = cluster_members(clusters)
    if k == 1:
        return 1.0, 1.0, 1
    sides = [placed.positive, ~placed.positive]
    sizes = [float(side.sum()) for side in sides]
    parts = _parts(placed, member)
    independent = sum(
        float(placed.value[side].var(ddof=1)) / size
        for side, size in zip(sides, sizes, strict=True)
        if size > 1
    )
    if independent <= 1e-12:
        sizes = [float(len(np.unique(member[side]))) for side in sides]
        ratio = 1.0
    else:
        ratio = max(1.0, float(parts @ parts) * k / (k - 1) / independent)
    ratio /= t_shrinkage(k)
    return sizes[0] / ratio, sizes[1] / ratio, k


def _root(value: Callable[[float], float], end: float, inner: float) -> float:
    """Where ``value`` turns from positive at ``end`` to negative towards ``inner``, bisected."""
    outer = end
    for _ in range(60):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if value(middle) > 0 else (outer, middle)
    return inner


@dataclass(frozen=True, eq=False, slots=True)
class Ranking:
    """AUROC and AUPRC (average precision) of one scoring, and of its resamples.

    ``auroc_draws``, ``auprc_draws`` float64 [resamples], nan for resamples of one class. The same
    clusters and generator give the same resamples for every scoring: draws can be subtracted.
    """

    auroc: float
    auprc: float
    auroc_draws: Floats
    auprc_draws: Floats


def ranking_areas(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """AUROC (ties half) and average precision; nan where one class is missing."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    data, positive = _checked(scores, labels)
    if positive.all() or not positive.any():
        return float("nan"), float("nan")
    return float(roc_auc_score(positive, data)), float(average_precision_score(positive, data))


def clustered_ranking(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
) -> Ranking:
    """AUROC and AUPRC, and both on resampled clusters (patients).

    ``scores`` float [n], finite; ``labels`` [n], positive above one half; ``clusters`` [n], any
    labels that sort. A resample draws as many clusters as there are and takes all their rows.
    Raises ValueError for wrong shapes or values. Source: Davison and Hinkley, Bootstrap Methods
    and their Application (1997), section 3.8; average precision as in scikit-learn.
    """
    data, positive = _checked(scores, labels)
    count, member = cluster_members(clusters)
    auroc, auprc = ranking_areas(data, positive)
    sorted_rows = _Sorted(data, positive, member)
    draws = np.full((2, resamples), np.nan)
    offsets = np.arange(0, BLOCK * count, count)[:, None]
    for first in range(0, resamples if count > 1 else 0, BLOCK):
        drawn = draw_clusters(count, rng)[: resamples - first] + offsets[: resamples - first]
        times = np.bincount(drawn.ravel(), minlength=len(drawn) * count).reshape(-1, count)
        for i in range(0, len(times), _AT_ONCE):
            some = sorted_rows.areas(times[i : i + _AT_ONCE].astype(np.float64))
            draws[:, first + i : first + i + some.shape[1]] = some
    return Ranking(auroc, auprc, draws[0], draws[1])


class _Sorted:
    """Rows from the highest score down, sorted once for all resamples.

    Only thresholds that win a positive add to either area, so running totals are looked up there.
    """

    def __init__(self, data: Floats, positive: _Bools, member: _Ints) -> None:
        order = np.argsort(-data, kind="stable")
        self.member, right = member[order], positive[order]
        ends = np.flatnonzero(np.append(np.diff(data[order]) != 0, True))
        starts = np.concatenate(([0], ends[:-1] + 1))
        hits = np.cumsum(right)
        winning = np.diff(hits[ends], prepend=0) > 0
        self.ends, self.starts = ends[winning], starts[winning]
        self.positives = self.member[right]
        self.last = hits[self.ends] - 1  # the threshold's last row among the positives alone

    def areas(self, times: Floats) -> Floats:
        """AUROC and AUPRC [2, resamples] where cluster c counts ``times`` [resamples, c] times."""
        weight = times[:, self.member]
        total = np.cumsum(weight, axis=1)
        hits = np.cumsum(times[:, self.positives], axis=1)[:, self.last]
        gained = np.diff(hits, axis=1, prepend=0.0)
        above = total[:, self.ends]
        tied = above - total[:, self.starts] + weight[:, self.starts] - gained
        alarms = above - hits
        positives = hits[:, -1] if hits.shape[1] else np.zeros(len(times))
        negatives = total[:, -1] - positives
        out = np.full((2, len(times)), np.nan)
        both = (positives > 0) & (negatives > 0)
        won = (gained * (negatives[:, None] - alarms + tied / 2)).sum(axis=1)
        precision = np.divide(hits, above, out=np.zeros_like(hits), where=above > 0)
        np.divide(won, positives * negatives, out=out[0], where=both)
        np.divide((gained * precision).sum(axis=1), positives, out=out[1], where=both)
        return out
