"""Many tests at once: Holm against any false alarm, Benjamini and Hochberg for their share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values are a row of numbers between 0 and 1")
    return p


def holm_adjust(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p values, float64 [m], in the order given.

    Raises ValueError for a value outside [0, 1]. Source: Holm, A simple sequentially rejective
    multiple test procedure, Scand J Statist 6 (1979) 65–70.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Benjamini and Hochberg's step-up adjusted p values, float64 [m], in the order given.

    Rejecting those at most q keeps the expected share of false rejections at q, for independent
    or positively dependent tests. Raises ValueError for a value outside [0, 1].
    Source: Benjamini and Hochberg, J R Statist Soc B 57 (1995) 289–300.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return adjusted
