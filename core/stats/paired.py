"""Arms on the same questions: McNemar's exact test, Newcombe's interval, Cochran's Q over many.

A question that both arms got right, or neither, says nothing about which is better; what counts
is the questions that only one of them got right.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import ArrayLike

from core.stats.intervals import Interval, wilson_of_share

WHOLE_NUMBERS = 1000
"""Discordant pairs up to which McNemar's p is worked out in whole numbers."""
SMALLEST = float(np.finfo(np.float64).tiny)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p value for paired 0/1 outcomes; never 0.

    ``only_first`` pairs where the first alone is right, ``only_second`` where the second alone
    is. Under no difference each is Binomial(sum, ½); without a discordant pair p is 1. Raises
    ValueError for a negative count. Source: McNemar, Psychometrika 12 (1947) 153–157, in the
    exact form of Fagerland, Lydersen and Laake, BMC Med Res Methodol 13:91 (2013).
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"discordant pairs are counts, not {only_first} and {only_second}")
    n, fewer = only_first + only_second, min(only_first, only_second)
    if n <= WHOLE_NUMBERS:
        tail = sum(comb(n, i) for i in range(fewer + 1))
        return min(1.0, 2 * tail / 2**n)
    from scipy.special import bdtr

    return max(SMALLEST, min(1.0, 2.0 * float(bdtr(fewer, n, 0.5))))


def newcombe_paired(
    both: int, only_first: int, only_second: int, neither: int, level: float = 0.95
) -> Interval:
    """Interval of the difference of two paired shares, first minus second.

    Square-and-add of the two Wilson intervals with the pairs' correlation (Newcombe's method 10).
    Raises ValueError for a negative count or no pair. Source: Newcombe, Improved confidence
    intervals for the difference between binomial proportions based on paired data, Statist Med
    17 (1998) 2635–2650; recommended by Fagerland, Lydersen and Laake, Statist Med 33 (2014) 2850.
    """
    n = both + only_first + only_second + neither
    if min(both, only_first, only_second, neither) < 0 or n < 1:
        raise ValueError(
            f"pairs are counts, at least one in all: {both}, {only_first}, {only_second}, {neither}"
        )
    return newcombe_of_counts(both, only_first, only_second, neither, level)


def newcombe_of_counts(
    both: float, only_first: float, only_second: float, neither: float, level: float = 0.95
) -> Interval:
    """:func:`newcombe_paired` of counts that need be no whole numbers (effective ones)."""
    n = both + only_first + only_second + neither
    first = wilson_of_share(min(1.0, (both + only_first) / n), n, level)
    second = wilson_of_share(min(1.0, (both + only_second) / n), n, level)
    difference = (only_first - only_second) / n
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    cross = both * neither - only_first * only_second
    if cross > n / 2:
        cross -= n / 2
    elif cross > 0:
        cross = 0
    phi = cross / sqrt(margins) if margins else 0.0

    def reach(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a - 2.0 * phi * a * b + b * b))

    low = difference - reach(first.estimate - first.low, second.high - second.estimate)
    high = difference + reach(first.high - first.estimate, second.estimate - second.low)
    return Interval(difference, max(-1.0, low), min(1.0, high), level)


@dataclass(frozen=True, slots=True)
class CochranQ:
    """Cochran's Q with its degrees of freedom, asymptotic p, questions, and how many tell."""

    statistic: float
    df: int
    p: float
    n: int
    telling: int


def cochran_q(outcomes: ArrayLike, times: ArrayLike | None = None) -> CochranQ:
    """Whether k arms are all equally often right on the same questions.

    ``outcomes`` 0/1 [rows, k], k ≥ 2; ``times`` [rows] says how often each row occurs (default
    once), so that a million questions arrive as their distinct patterns. A question that all
    arms or none got right tells nothing; without any that tells, Q is 0 and p is 1. The χ²
    approximation wants about 24 cells of telling questions × arms or more. Raises ValueError for
    wrong shapes. Source: Cochran, Biometrika 37 (1950) 256–266; Tate and Brown, JASA 65 (1970)
    155–160 on its small samples.
    """
    table = np.asarray(outcomes, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        raise ValueError(f"outcomes are questions × two or more arms, not {table.shape}")
    if not np.isin(table, (0.0, 1.0)).all():
        raise ValueError("outcomes are 0 or 1")
    weight = np.ones(len(table)) if times is None else np.asarray(times, dtype=np.float64)
    if weight.shape != (len(table),) or (weight < 0).any():
        raise ValueError(f"{len(table)} rows, but times of shape {weight.shape}")
    k = table.shape[1]
    columns, right = weight @ table, table.sum(axis=1)
    n = int(weight.sum())
    telling = int(weight[(right > 0) & (right < k)].sum())
    spread = k * float(weight @ right) - float(weight @ right**2)
    if spread == 0.0:
        return CochranQ(0.0, k - 1, 1.0, n, telling)
    q = (k - 1) * (k * float(columns @ columns) - float(columns.sum()) ** 2) / spread
    from scipy.special import chdtrc

    return CochranQ(q, k - 1, max(SMALLEST, float(chdtrc(k - 1, q))), n, telling)
