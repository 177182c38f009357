"""Discrimination and calibration of a gate: score gap, temperature."""

from __future__ import annotations

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
