"""Area under the ROC curve with an interval that knows that rows of one patient belong together."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.clustered import cluster_totals, clustered_intervals
from core.stats.delong import Placements, placements
from core.stats.intervals import Interval, checked_level, checked_resamples, wilson_of_share
from core.stats.reported import reported_interval

Floats = NDArray[np.float64]


def clustered_auroc(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
    widened: bool = True,
) -> Interval:
    """AUROC of pooled rows, ties counted half, with its interval over clusters.

    The interval is :func:`core.stats.reported_interval` of resampled clusters with the floor of
    :func:`auroc_floor`, NaN for fewer than 5 clusters; without ``widened`` plain percentiles.

    ``scores`` float [n], finite; ``labels`` [n], positive above one half; ``clusters`` [n], any
    labels that sort (patients). A resample draws as many clusters as there are and takes all
    their rows; one without a positive or without a negative is left out. NaN where one class is
    missing, NaN bounds where there is one cluster. Raises ValueError for wrong shapes or values.

    A resample only says how often each cluster counts, so the wins of each cluster's positives
    over each cluster's negatives are worked out once and weighted: clusters² numbers.
    Source: Davison and Hinkley, Bootstrap Methods and their Application (1997), section 3.8;
    Bamber, J Math Psychol 12 (1975) 387–415 (the area is a share of pairs won).
    """
    data = np.asarray(scores, dtype=np.float64)
    positive = np.asarray(labels, dtype=np.float64) > 0.5
    checked_level(level)
    checked_resamples(resamples)
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if data.ndim != 1 or data.size == 0 or data.shape != positive.shape:
        raise ValueError("scores, labels and clusters are rows of one length, at least one long")
    if member.shape != data.shape:
        raise ValueError(f"{data.size} scores but {member.size} clusters")
    if not np.isfinite(data).all():
        raise ValueError("AUROC takes finite scores only")
    count = len(names)
    ours, own = data[positive], member[positive]
    wins = np.zeros((count, count))
    for other in range(count):
        theirs = np.sort(data[~positive & (member == other)])
        beaten = np.searchsorted(theirs, ours, "left") + np.searchsorted(theirs, ours, "right")
        wins[:, other] = np.bincount(own, weights=beaten / 2.0, minlength=count)
    positives = np.bincount(own, minlength=count).astype(np.float64)
    negatives = np.bincount(member[~positive], minlength=count).astype(np.float64)
    if not positives.any() or not negatives.any():
        return Interval(float("nan"), float("nan"), float("nan"), level)
    estimate = float(wins.sum() / (positives.sum() * negatives.sum()))
    if count == 1:
        return Interval(estimate, float("nan"), float("nan"), level)
    times = cluster_totals(np.eye(count), resamples, rng)
    pairs = (times @ positives) * (times @ negatives)
    won = np.einsum("rc,rc->r", times @ wins, times)
    drawn = np.divide(won, pairs, out=np.full(resamples, np.nan), where=pairs > 0)
    if not widened:
        low, high = clustered_intervals(drawn[:, None], level)
        return Interval(estimate, float(low[0]), float(high[0]), level)
    floor = auroc_floor(placements(data, positive), member, level)
    ends = reported_interval(drawn, count, floor, level) or (float("nan"), float("nan"))
    return Interval(estimate, *ends, level)


def auroc_floor(placed: Placements, clusters: ArrayLike, level: float = 0.95) -> Interval:
    """Score interval of an AUROC whose rows come in clusters, through effective numbers of rows.

    The numbers of positives and negatives are divided by the ratio of the clustered variance of
    the area to that of independent rows, never below 1, and by the excess of Student's t over the
    normal. Where the placements do not vary (an area of 0 or 1) the ratio is unknown and each
    cluster counts as one positive and one negative of those it has. A lone cluster gives [0, 1].
    Source: Newcombe, Statist Med 25 (2006) 559–573, method 5 (score interval with Hanley and
    McNeil's variance); Obuchowski, Biometrics 53 (1997) 567–578 (clusters).
    """
    positives, negatives, k = _effective(placed, clusters, level)
    if k == 1:
        return Interval(placed.area, 0.0, 1.0, level)
    z = NormalDist().inv_cdf(0.5 + checked_level(level) / 2)
    half = (positives + negatives) / 2 - 1

    def beyond(area: float) -> float:
        """Squared distance of ``area`` from the estimate, less z² variances of it."""
        spread = 1 + max(0.0, half) * ((1 - area) / (2 - area) + area / (1 + area))
        variance = area * (1 - area) * spread / (positives * negatives)
        return (area - placed.area) ** 2 - z * z * variance

    low, high = (_root(beyond, end, placed.area) for end in (0.0, 1.0))
    return Interval(placed.area, low, high, level)


def auprc_floor(
    area: float, placed: Placements, clusters: ArrayLike, level: float = 0.95
) -> Interval:
    """Wilson interval of an average precision, its rows the effective number of positives.

    The number is that of :func:`auroc_floor`. Source: Boyd, Eng and Page, ECML PKDD (2013)
    451–466 (binomial interval over the positives).
    """
    positives, _, k = _effective(placed, clusters, level)
    return Interval(area, 0.0, 1.0, level) if k == 1 else wilson_of_share(area, positives, level)


def auroc_difference_floor(
    first: Placements, second: Placements, clusters: ArrayLike, level: float = 0.95
) -> Interval:
    """Interval of the difference of two AUROCs on the same rows from the interval of each.

    Square-and-add with the correlation of the two areas over clusters, none where one of them
    does not vary. Source: Zou and Donner, Statist Med 27 (2008) 1693–1702; Zou, Psychol Methods 12
    (2007) 399–413 (correlated).
    """
    one, other = (auroc_floor(placed, clusters, level) for placed in (first, second))
    _, member = np.unique(np.asarray(clusters), return_inverse=True)
    a, b = (_parts(placed, member) for placed in (first, second))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    rho = float(a @ b) / scale if scale > 1e-12 else 0.0
    difference = first.area - second.area

    def reach(near: float, far: float) -> float:
        return float(np.sqrt(max(0.0, near**2 + far**2 - 2 * rho * near * far)))

    below = reach(one.estimate - one.low, other.high - other.estimate)
    above = reach(one.high - one.estimate, other.estimate - other.low)
    return Interval(difference, max(-1.0, difference - below), min(1.0, difference + above), level)


def _parts(placed: Placements, member: NDArray[np.int64]) -> Floats:
    """What each cluster adds to the deviation of the area [clusters]."""
    m, n = int(placed.positive.sum()), int((~placed.positive).sum())
    weight = np.where(placed.positive, 1.0 / m, 1.0 / n)
    parts: Floats = np.bincount(member, weights=(placed.value - placed.area) * weight).astype(float)
    return parts


def _effective(placed: Placements, clusters: ArrayLike, level: float) -> tuple[float, float, int]:
    """Effective numbers of positives and negatives, and the number of clusters."""
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if member.shape != placed.positive.shape:
        raise ValueError(f"{placed.positive.size} labels but {member.size} clusters")
    k = len(names)
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
    from scipy.special import stdtrit

    z = NormalDist().inv_cdf(0.5 + checked_level(level) / 2)
    ratio *= (float(stdtrit(k - 1, 0.5 + level / 2)) / z) ** 2
    return sizes[0] / ratio, sizes[1] / ratio, k


def _root(value: Callable[[float], float], end: float, within: float) -> float:
    """Where ``value`` turns from positive at ``end`` to negative towards ``within``, bisected."""
    outer, inner = end, within
    for _ in range(60):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if value(middle) > 0 else (outer, middle)
    return inner
