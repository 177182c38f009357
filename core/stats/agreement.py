"""Agreement of two judges (raw, kappa, AC1, positive agreement), and of one judge with itself.

Functions take tables of counts, so that thousands of resampled tables are one call. All four
measures are reported together: with 1 % positives kappa is near 0 however well two judges agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import ratio

Floats = NDArray[np.float64]


def _shares(tables: ArrayLike) -> Floats:
    counts = np.asarray(tables, dtype=np.float64)
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2]:
        raise ValueError(f"a table of two judges is square, not {counts.shape[-2:]}")
    total = counts.sum(axis=(-2, -1), keepdims=True)
    return ratio(counts, np.broadcast_to(total, counts.shape))


def _corrected(agreed: Floats, chance: Floats) -> Floats:
    rest = 1.0 - chance
    return np.divide(agreed - chance, rest, out=np.full(agreed.shape, np.nan), where=rest > 1e-12)


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
    """Gwet's AC1 [...] of tables of counts [..., q, q]; raises ValueError unless q ≥ 2.

    Source: Gwet, Br J Math Stat Psychol 61 (2008) 29–48, equations 1 to 4.
    """
    shares = _shares(tables)
    if shares.shape[-1] < 2:
        raise ValueError("AC1 takes two categories or more")
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
    any_yes = 2 * yes + shares[..., 0, 1] + shares[..., 1, 0]
    return ratio(2 * yes, any_yes)


def repeat_agreement(counts: ArrayLike) -> Floats:
    """Share of pairs of a judge's repeats on an item that are equal, float64 [items].

    ``counts`` [items, q]: how often the item was put into each category; nan where an item was
    judged fewer than twice. The mean over items is the self-agreement.
    Source: Fleiss, Psychol Bull 76 (1971) 378–382.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or (table < 0).any():
        raise ValueError(f"repeats are counts [items, categories], not {table.shape}")
    m = table.sum(axis=1)
    pairs = m * (m - 1)
    equal = (table * (table - 1)).sum(axis=1)
    return ratio(equal, pairs)
