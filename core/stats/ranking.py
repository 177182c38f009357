"""How well scores rank labels: AUROC and AUPRC with resampled patients, ROC and PR points.

One sort serves every resample: a resample only says how often each patient counts, so both areas
are sums over the same sorted rows with other weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.clustered import BLOCK, draw_clusters
from core.stats.intervals import checked_resamples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AT_ONCE = 4
"""Resamples weighted at once: few enough that their rows stay near the processor."""


@dataclass(frozen=True, eq=False, slots=True)
class Ranking:
    """AUROC and AUPRC (average precision) of one scoring, and of its resamples.

    ``auroc_draws``, ``auprc_draws`` float64 [resamples]: nan where a resample drew one class
    only. The same clusters and generator give the same resamples for every scoring, so draws can
    be subtracted and averaged.
    """

    auroc: float
    auprc: float
    auroc_draws: Floats
    auprc_draws: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Thresholds:
    """What each threshold gives, from the highest score down; all [thresholds].

    ``score``: the threshold (positive where score ≥ it). ``hits``, ``alarms``: true and false
    positives, int64.
    """

    score: Floats
    hits: Ints
    alarms: Ints


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    data = np.asarray(scores, dtype=np.float64)
    positive = np.asarray(labels, dtype=np.float64) > 0.5
    if data.ndim != 1 or data.size == 0 or data.shape != positive.shape:
        raise ValueError("scores and labels are rows of one length, at least one long")
    if not np.isfinite(data).all():
        raise ValueError("a ranking takes finite scores only")
    return data, positive


def _areas(hits: Floats, alarms: Floats) -> tuple[float, float]:
    """AUROC and AUPRC from running totals at each threshold [thresholds]."""
    positives, negatives = hits[-1], alarms[-1]
    if not positives or not negatives:
        return float("nan"), float("nan")
    gained = np.diff(hits, prepend=0.0)
    higher = np.diff(alarms, prepend=0.0)
    # A negative is beaten by the positives above it and half of those it is tied with.
    won = (higher * (hits - gained / 2)).sum() / (positives * negatives)
    return float(won), float((gained * hits / (hits + alarms)).sum() / positives)


def thresholds(scores: ArrayLike, labels: ArrayLike) -> Thresholds:
    """True and false positives at every distinct score, highest first; raises ValueError."""
    data, positive = _checked(scores, labels)
    order = np.argsort(-data, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(data[order]) != 0, True))
    hits = np.cumsum(positive[order])[ends]
    return Thresholds(data[order][ends], hits.astype(np.int64), (ends + 1 - hits).astype(np.int64))


def ranking_areas(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """AUROC (ties half) and average precision; nan where one class is missing."""
    found = thresholds(scores, labels)
    return _areas(found.hits.astype(np.float64), found.alarms.astype(np.float64))


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
    checked_resamples(resamples)
    names, member = np.unique(np.asarray(clusters), return_inverse=True)
    if member.shape != data.shape:
        raise ValueError(f"{data.size} scores but {member.size} clusters")
    auroc, auprc = ranking_areas(data, positive)
    sorted_rows = _Sorted(data, positive, member)
    count = len(names)
    draws = np.full((2, resamples), np.nan)
    offsets = np.arange(0, BLOCK * count, count)[:, None]
    for first in range(0, resamples if count > 1 else 0, BLOCK):
        drawn = draw_clusters(count, rng)[: resamples - first] + offsets[: resamples - first]
        times = np.bincount(drawn.ravel(), minlength=len(drawn) * count).reshape(-1, count)
        for i in range(0, len(times), AT_ONCE):
            some = sorted_rows.areas(times[i : i + AT_ONCE].astype(np.float64))
            draws[:, first + i : first + i + some.shape[1]] = some
    return Ranking(auroc, auprc, draws[0], draws[1])


class _Sorted:
    """Rows from the highest score down, ready to be weighted.

    Only thresholds that win a positive add to either area, so running totals are looked up there.
    """

    def __init__(
        self, data: Floats, positive: NDArray[np.bool_], member: NDArray[np.int64]
    ) -> None:
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
