"""Area under the ROC curve with an interval that knows that rows of one patient belong together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from core.stats.clustered import cluster_totals, clustered_intervals
from core.stats.intervals import Interval, checked_level, checked_resamples


def clustered_auroc(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Interval:
    """AUROC of pooled rows, ties counted half, with a percentile interval over clusters.

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
    low, high = clustered_intervals(drawn[:, None], level)
    return Interval(estimate, float(low[0]), float(high[0]), level)
