"""Paired comparison of AUROCs on the same labels: DeLong's test, and the one for patients.

An AUROC is a mean over pairs of a positive and a negative; what each label adds to it (its
placement) carries all that the variance needs. Placements of several seeds average to those of
the mean AUROC, and those of one patient add up, which makes the test hold for clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.intervals import checked_level

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Placements:
    """Of one scoring of labels: the share of the other class that each label is ranked right of.

    ``value`` float64 [n]: for a positive the share of negatives below it, for a negative the
    share of positives above it, ties half. ``positive`` bool [n]. ``area``: the AUROC.
    """

    value: Floats
    positive: NDArray[np.bool_]
    area: float


@dataclass(frozen=True, slots=True)
class AreaTest:
    """First AUROC minus second: ``difference`` with its standard error, interval and p value.

    ``p`` is two-sided, 1 where the difference has no variance and is 0.
    """

    difference: float
    se: float
    low: float
    high: float
    z: float
    p: float
    level: float


def placements(scores: ArrayLike, labels: ArrayLike) -> Placements:
    """Placements of ``scores`` float [n], finite, or [m, n] for the mean of m scorings.

    ``labels`` [n], positive above one half. Raises ValueError for wrong shapes, a score that is
    not finite, or labels of one class. O(n log n).
    Source: DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988) 837–845, section 3; ranks as
    in Sun and Xu, IEEE Signal Process Lett 21 (2014) 1389–1393.
    """
    data = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    positive = np.asarray(labels, dtype=np.float64) > 0.5
    if data.ndim != 2 or positive.ndim != 1 or data.shape[1] != positive.size:
        raise ValueError("scores and labels are rows of one length")
    if not np.isfinite(data).all():
        raise ValueError("AUROC takes finite scores only")
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        raise ValueError("AUROC takes labels of both classes")
    value = np.empty_like(data)
    for row, mine in zip(value, data, strict=True):
        overall = _ranks(mine)
        row[positive] = (overall[positive] - _ranks(mine[positive])) / n
        row[~positive] = 1.0 - (overall[~positive] - _ranks(mine[~positive])) / m
    mean = value.mean(axis=0)
    return Placements(mean, positive, float(mean[positive].mean()))


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, ties sharing their mean."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[which]


def delong_test(first: Placements, second: Placements, level: float = 0.95) -> AreaTest:
    """DeLong's test of two AUROCs on the same labels, which it takes for independent.

    Raises ValueError where the labels differ. Source: as :func:`placements`.
    """
    _same_labels(first, second)
    apart = first.value - second.value
    variance = 0.0
    for mine in (first.positive, ~first.positive):
        if mine.sum() > 1:
            variance += float(apart[mine].var(ddof=1)) / int(mine.sum())
    return _test(first.area - second.area, variance, level)


def clustered_test(
    first: Placements, second: Placements, clusters: ArrayLike, level: float = 0.95
) -> AreaTest:
    """The same test where labels of one cluster (patient) belong together.

    ``clusters`` [n], any labels that sort. Raises ValueError where labels or lengths differ or
    there are fewer than two clusters. Source: Obuchowski, Biometrics 53 (1997) 567–578, equations
    of section 3, with I/(I − 1) for the number I of clusters throughout.
    """
    _same_labels(first, second)
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if member.shape != first.positive.shape or len(names) < 2:
        raise ValueError("each label has its cluster, and there are at least two clusters")
    difference = first.area - second.area
    apart = first.value - second.value - difference
    positives, negatives = first.positive.sum(), (~first.positive).sum()
    weight = np.where(first.positive, 1.0 / positives, 1.0 / negatives)
    totals = np.bincount(member, weights=apart * weight)
    variance = float((totals**2).sum()) * len(names) / (len(names) - 1)
    return _test(difference, variance, level)


def _same_labels(first: Placements, second: Placements) -> None:
    if not np.array_equal(first.positive, second.positive):
        raise ValueError("a paired test takes two scorings of the same labels")


def _test(difference: float, variance: float, level: float) -> AreaTest:
    half = NormalDist().inv_cdf(0.5 + checked_level(level) / 2.0)
    se = sqrt(max(0.0, variance))
    # Equal rankings differ by rounding alone.
    if se < 1e-12:
        none = abs(difference) < 1e-12
        z = 0.0 if none else float("inf") * (1 if difference > 0 else -1)
        return AreaTest(difference, 0.0, difference, difference, z, 1.0 if none else 0.0, level)
    z = difference / se
    return AreaTest(
        difference,
        se,
        max(-1.0, difference - half * se),
        min(1.0, difference + half * se),
        z,
        erfc(abs(z) / sqrt(2.0)),
        level,
    )
