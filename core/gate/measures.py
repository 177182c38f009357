"""Discrimination and calibration of a gate: score gap, temperature, reliability curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def score_gap(logits: Floats, labels: Floats) -> float:
    """Mean probability of the positives minus that of the negatives; NaN where one is missing."""
    from scipy.special import expit

    positive = np.asarray(labels) > 0.5
    if not positive.any() or positive.all():
        return float("nan")
    probability = expit(np.asarray(logits, dtype=np.float64))
    return float(probability[positive].mean() - probability[~positive].mean())


def fit_temperature(logits: Floats, labels: Floats) -> float:
    """The temperature T > 0 that makes expit(logit / T) most likely (Guo et al. 2017, 4.2).

    Fitted on pairs that trained nothing; 1 where there are none of one class.
    """
    from scipy.optimize import minimize_scalar

    x, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if not len(y) or y.min() == y.max():
        return 1.0

    def loss(log_temperature: float) -> float:
        z = x / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0.0, z) - y * z))

    result = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded")
    return float(np.exp(result.x))


@dataclass(frozen=True, eq=False, slots=True)
class _Bin:
    """A bin of predicted probability: n, mean prediction, share of positives, and its rows (int64
    [n])."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float
    rows: NDArray[np.int64]


def reliability(logits: Floats, labels: Floats, temperature: float = 1.0) -> list[_Bin]:
    """The reliability curve over ten equal bins of probability; empty bins are left out."""
    from scipy.special import expit

    p = expit(np.asarray(logits, dtype=np.float64) / temperature)
    y = np.asarray(labels, dtype=np.float64)
    bins = np.minimum((p * 10).astype(int), 9)
    rows = [np.flatnonzero(bins == b) for b in range(10)]
    return [
        _Bin(b / 10, (b + 1) / 10, len(r), float(p[r].mean()), float(y[r].mean()), r)
        for b, r in enumerate(rows)
        if len(r)
    ]


def expected_calibration_error(bins: list[_Bin]) -> float:
    """Mean distance of prediction and observation over bins, weighted by n (Guo et al. 2017, 3)."""
    n = sum(b.n for b in bins)
    return sum(b.n * abs(b.predicted - b.observed) for b in bins) / n if n else float("nan")
