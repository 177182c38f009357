"""Ranks, and split conformal prediction for questions grouped by patient.

Conformal prediction: Vovk, Gammerman and Shafer (2005); for questions grouped by patient, Lee,
Barber and Willett, "Distribution-free inference with hierarchical data" (2023): every patient has
the same weight, and one more patient, whose scores are unknown, counts as infinitely large. If
patients are exchangeable, a question of a new patient scores at most the quantile with probability
1 − alpha.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]


def ranks(scores: _Floats) -> _Floats:
    """1 + the number of better scores, float64 [n]; scipy's ``rankdata`` with method "min", whose
    import takes longer than the selection of a first question."""
    return (1 + np.searchsorted(np.sort(-scores), -scores)).astype(np.float64)


def standardised_sum(lexical: _Floats, semantic: _Floats) -> _Floats:
    """The sum of two scores of the same sentences, each less its mean in its standard deviations,
    float64 [n], rounded to six decimals; one that is the same for all adds nothing."""
    total = np.zeros(len(lexical))
    for scores in (lexical, semantic):
        if len(scores) and (spread := scores.std()) > 1e-9:
            total += (scores - scores.mean()) / spread
    return np.round(total, 6)


def patients_needed(alpha: float) -> int:
    """Fewest patients for which a quantile at 1 − ``alpha`` is finite.

    Raises ValueError for an alpha outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is in (0, 1), not {alpha}")
    return math.ceil(round(1 / alpha - 1, 9))


def hierarchical_quantile(scores: ArrayLike, patients: Sequence[Hashable], alpha: float) -> float:
    """The smallest of ``scores`` float [n] that a new patient's score exceeds with probability at
    most ``alpha``; infinite where there are too few of ``patients`` [n].

    Raises ValueError for an alpha outside (0, 1), lengths that differ, or a score that is NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is in (0, 1), not {alpha}")
    if values.shape != (len(patients),):
        raise ValueError(f"{len(patients)} patients for scores of shape {values.shape}")
    if np.isnan(values).any():
        raise ValueError("scores are numbers, not NaN")
    count = Counter(patients)
    weight = np.array([1 / count[patient] for patient in patients])
    order = np.argsort(values, kind="stable")
    # Compared with the sum over all patients, so that equal shares are equal numbers.
    reached = np.cumsum(weight[order]) >= (1 - alpha) * (len(count) + 1) - 1e-9
    return float(values[order][reached][0]) if reached.any() else math.inf
