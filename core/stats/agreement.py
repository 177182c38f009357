"""How far two judges agree: raw, Cohen's kappa, Gwet's AC1, positive agreement.

All four are shown together: with 1 % positives kappa is near 0 however well two judges agree
(the paper's −.012), AC1 is not, and positive agreement says what there is on the rare class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _table(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Shares of pairs by category of the first and the second judge, [q, q]."""
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"two judges rate the same items: shapes {a.shape} and {b.shape}")
    categories, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    q = len(categories)
    pairs = codes[: a.size] * q + codes[a.size :]
    return np.bincount(pairs, minlength=q * q).reshape(q, q) / a.size


def raw_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Share of items [n] on which two judges say the same; raises ValueError for no items."""
    return float(np.trace(_table(first, second)))


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Cohen's kappa of two judges' categories [n]; nan where both know one category only.

    Source: Cohen, Educ Psychol Meas 20 (1960) 37–46.
    """
    table = _table(first, second)
    chance = float(table.sum(axis=1) @ table.sum(axis=0))
    if chance >= 1.0:
        return float("nan")
    return (float(np.trace(table)) - chance) / (1.0 - chance)


def gwet_ac1(first: ArrayLike, second: ArrayLike, categories: int | None = None) -> float:
    """Gwet's AC1 of two judges' categories [n].

    ``categories``: how many there could have been (default: as many as occur, at least 2).
    Source: Gwet, Br J Math Stat Psychol 61 (2008) 29–48, equations 1 to 4.
    """
    table = _table(first, second)
    q = max(len(table), 2) if categories is None else categories
    if q < max(len(table), 2):
        raise ValueError(f"{len(table)} categories occur, {q} were said to exist")
    share = (table.sum(axis=1) + table.sum(axis=0)) / 2
    chance = float(share @ (1 - share)) / (q - 1)
    return (float(np.trace(table)) - chance) / (1.0 - chance)


def positive_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Agreement on the positive class, 2a / (2a + b + c), of two judges' yes/no [n].

    nan where neither says yes. Source: Cicchetti and Feinstein, J Clin Epidemiol 43 (1990)
    551–558.
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"two judges rate the same items: shapes {a.shape} and {b.shape}")
    said = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / said if said else float("nan")
