"""Hanley and McNeil's interval of an AUROC, from the area and two counts alone.

The paper gives it, so it stands beside the clustered one for comparison. It takes every label for
a patient of its own; where one patient brings many it is too narrow.
"""

from __future__ import annotations

from math import isfinite, sqrt
from statistics import NormalDist

from core.stats.intervals import Interval, checked_level


def hanley_mcneil_se(area: float, positives: int, negatives: int) -> float:
    """Standard error of an AUROC ``area`` from so many positives and negatives.

    Raises ValueError unless 0 ≤ area ≤ 1 and both counts are at least 1. Source: Hanley and
    McNeil, Radiology 143 (1982) 29–36, equation 1 with Q1 = A/(2 − A) and Q2 = 2A²/(1 + A).
    """
    if not isfinite(area) or not 0.0 <= area <= 1.0 or positives < 1 or negatives < 1:
        raise ValueError("takes an area from 0 to 1 and at least one label of each class")
    square = area * area
    above = area / (2.0 - area) - square
    below = 2.0 * square / (1.0 + area) - square
    spread = area * (1.0 - area) + (positives - 1) * above + (negatives - 1) * below
    return sqrt(max(0.0, spread) / (positives * negatives))


def hanley_mcneil(area: float, positives: int, negatives: int, level: float = 0.95) -> Interval:
    """The area ± z standard errors, kept within [0, 1]; raises as :func:`hanley_mcneil_se`."""
    z = NormalDist().inv_cdf(0.5 + checked_level(level) / 2.0)
    half = z * hanley_mcneil_se(area, positives, negatives)
    return Interval(area, max(0.0, area - half), min(1.0, area + half), level)
