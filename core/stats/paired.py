"""Two arms on the same questions: McNemar's exact test, and Holm's correction for many of them.

Both are exact in whole numbers, so that no table library is needed and no p value underflows.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p value for paired 0/1 outcomes.

    ``only_first`` pairs where the first alone is right, ``only_second`` where the second alone
    is. Under no difference each is Binomial(sum, ½); without a discordant pair p is 1. Raises
    ValueError for a negative count. Source: McNemar, Psychometrika 12 (1947) 153–157, in the
    exact form of Fagerland, Lydersen and Laake, BMC Med Res Methodol 13:91 (2013).
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"discordant pairs are counts, not {only_first} and {only_second}")
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(comb(n, i) for i in range(fewer + 1))
    return min(1.0, 2 * tail / 2**n)


def holm_adjust(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p values, float64 [m], in the order given.

    Raises ValueError for a value outside [0, 1]. Source: Holm, A simple sequentially rejective
    multiple test procedure, Scand J Statist 6 (1979) 65–70.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values are a row of numbers between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
