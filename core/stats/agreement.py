"""How far two judges agree (raw, kappa, AC1, positive agreement), and one judge with itself.

All four are shown together: with 1 % positives kappa is near 0 however well two judges agree
(the paper's −.012), AC1 is not, and positive agreement says what there is on the rare class.
Each has one formula, on tables of counts, so that thousands of resampled tables cost one call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def _counts(first: ArrayLike, second: ArrayLike) -> Floats:
    """Number of items by category of the first and the second judge, [q, q]."""
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"two judges rate the same items: shapes {a.shape} and {b.shape}")
    categories, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    q = len(categories)
    pairs = codes[: a.size] * q + codes[a.size :]
    return np.bincount(pairs, minlength=q * q).reshape(q, q).astype(np.float64)


def _shares(tables: ArrayLike) -> Floats:
    counts = np.asarray(tables, dtype=np.float64)
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2]:
        raise ValueError(f"a table of two judges is square, not {counts.shape[-2:]}")
    total = counts.sum(axis=(-2, -1), keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def _corrected(agreed: Floats, chance: Floats) -> Floats:
    room = 1.0 - chance
    return np.divide(agreed - chance, room, out=np.full(agreed.shape, np.nan), where=room > 1e-12)


def _trace(shares: Floats) -> Floats:
    return np.trace(shares, axis1=-2, axis2=-1)


def raw_of(tables: ArrayLike) -> Floats:
    """Share of items on which two judges agree, [...], of tables of counts [..., q, q]."""
    return _trace(_shares(tables))


def kappa_of(tables: ArrayLike) -> Floats:
    """Cohen's kappa [...] of tables of counts [..., q, q]; nan where chance alone explains all.

    Source: Cohen, Educ Psychol Meas 20 (1960) 37–46.
    """
    shares = _shares(tables)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    return _corrected(_trace(shares), chance)


def ac1_of(tables: ArrayLike) -> Floats:
    """Gwet's AC1 [...] of tables of counts [..., q, q], q ≥ 2.

    Source: Gwet, Br J Math Stat Psychol 61 (2008) 29–48, equations 1 to 4.
    """
    shares = _shares(tables)
    mean = (shares.sum(axis=-1) + shares.sum(axis=-2)) / 2
    chance = (mean * (1 - mean)).sum(axis=-1) / (shares.shape[-1] - 1)
    return _corrected(_trace(shares), chance)


def positive_of(tables: ArrayLike) -> Floats:
    """Positive agreement [...] of tables of counts [..., 2, 2], the positive class first.

    2a / (2a + b + c); nan where neither judge says yes. Source: Cicchetti and Feinstein, J Clin
    Epidemiol 43 (1990) 551–558.
    """
    shares = _shares(tables)
    yes = shares[..., 0, 0]
    said = 2 * yes + shares[..., 0, 1] + shares[..., 1, 0]
    return np.divide(2 * yes, said, out=np.full(yes.shape, np.nan), where=said > 0)


def raw_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Share of items [n] on which two judges say the same; raises ValueError for no items."""
    return float(raw_of(_counts(first, second)))


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Cohen's kappa of two judges' categories [n]; nan where both know one category only.

    Source: as :func:`kappa_of`.
    """
    return float(kappa_of(_counts(first, second)))


def gwet_ac1(first: ArrayLike, second: ArrayLike, categories: int | None = None) -> float:
    """Gwet's AC1 of two judges' categories [n].

    ``categories``: how many there could have been (default: as many as occur, at least 2).
    Source: as :func:`ac1_of`.
    """
    counts = _counts(first, second)
    q = max(len(counts), 2) if categories is None else categories
    if q < max(len(counts), 2):
        raise ValueError(f"{len(counts)} categories occur, but categories={q}")
    missing = q - len(counts)
    return float(ac1_of(np.pad(counts, ((0, missing), (0, missing)))))


def positive_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Agreement on the positive class of two judges' yes/no [n]; nan where neither says yes.

    Source: as :func:`positive_of`.
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"two judges rate the same items: shapes {a.shape} and {b.shape}")
    both, one, other = int((a & b).sum()), int((a & ~b).sum()), int((b & ~a).sum())
    return float(positive_of([[both, one], [other, a.size - both - one - other]]))


def repeat_agreement(counts: ArrayLike) -> Floats:
    """How far a judge agrees with itself on each item: share of pairs of repeats that are equal.

    ``counts`` [items, q]: how often the item was put into each category. Gives float64 [items],
    nan where an item was judged fewer than twice. The mean over items is the self-agreement.
    Source: Fleiss, Psychol Bull 76 (1971) 378–382.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or (table < 0).any():
        raise ValueError(f"repeats are counts [items, categories], not {table.shape}")
    m = table.sum(axis=1)
    pairs = m * (m - 1)
    equal = (table * (table - 1)).sum(axis=1)
    return np.divide(equal, pairs, out=np.full(len(table), np.nan), where=pairs > 0)


def fleiss_kappa(counts: ArrayLike) -> float:
    """Fleiss' kappa of items judged equally often, counts [items, q]; nan for one category only.

    Raises ValueError where items were judged a different number of times, or once. Source: as
    :func:`repeat_agreement`.
    """
    table = np.asarray(counts, dtype=np.float64)
    agreed = repeat_agreement(table)
    m = table.sum(axis=1)
    if len(table) == 0 or (m != m[0]).any() or m[0] < 2:
        raise ValueError("Fleiss' kappa takes items judged equally often, at least twice")
    share = table.sum(axis=0) / table.sum()
    return float(_corrected(np.asarray(agreed.mean()), np.asarray(share @ share)))
