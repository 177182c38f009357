"""Intervals of one mean, one share or two: percentile bootstrap, Wilson, Newcombe.

Bootstrap and Wilson stand side by side in every table because they disagree where it matters: of
0 in 30 the bootstrap says [0, 0], Wilson says 0 to 11.4 % (PROTOCOL, Stage 2: judging).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS_AT_ONCE = 4_000_000
"""Numbers drawn in one piece: bounds memory (32 MB), changes no result."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its two-sided interval at ``level``."""

    estimate: float
    low: float
    high: float
    level: float


def checked_level(level: float) -> float:
    """``level`` if it lies in (0, 1); raises ValueError."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"a confidence level lies between 0 and 1, not {level}")
    return level


def checked_resamples(resamples: int) -> int:
    """``resamples`` if it is at least 1; raises ValueError."""
    if resamples < 1:
        raise ValueError(f"a bootstrap needs at least one resample, not {resamples}")
    return resamples


def percentiles(draws: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Lower and upper percentile of resampled statistics, float64 [resamples]."""
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return float(low), float(high)


def bootstrap_interval(
    values: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Interval:
    """Percentile bootstrap of a mean.

    ``values`` [n], finite; ``resamples`` draws of n values with replacement from ``rng``.
    Raises ValueError for no values, a value that is not finite, or a level outside (0, 1).
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
    """
    data = np.asarray(values, dtype=np.float64)
    checked_level(level)
    checked_resamples(resamples)
    if data.ndim != 1 or data.size == 0:
        raise ValueError(f"a bootstrap takes a non-empty row of values, not shape {data.shape}")
    if not np.isfinite(data).all():
        raise ValueError("a bootstrap takes finite values only")
    n = data.size
    means = np.empty(resamples)
    step = max(1, DRAWS_AT_ONCE // n)
    for first in range(0, resamples, step):
        last = min(first + step, resamples)
        means[first:last] = data[rng.integers(0, n, size=(last - first, n))].mean(axis=1)
    low, high = percentiles(means, level)
    return Interval(float(data.mean()), low, high, level)


def bootstrap_proportion(
    hits: int,
    n: int,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Interval:
    """Percentile bootstrap of a share: :func:`bootstrap_interval` of ``hits`` ones in ``n``.

    A resample of n values, each 1 with chance hits/n, holds Binomial(n, hits/n) ones: the
    distribution of the resampled mean is exactly this, so it is drawn directly, one number a
    resample instead of n. Raises ValueError unless 0 ≤ hits ≤ n and n ≥ 1.
    """
    checked_level(level)
    checked_resamples(resamples)
    _checked_share(hits, n)
    draws = rng.binomial(n, hits / n, size=resamples) / n
    low, high = percentiles(draws, level)
    return Interval(hits / n, low, high, level)


def wilson_interval(hits: int, n: int, level: float = 0.95) -> Interval:
    """Wilson score interval of a share, without continuity correction.

    Raises ValueError unless 0 ≤ hits ≤ n and n ≥ 1. Source: Wilson, Probable inference, the law
    of succession, and statistical inference, JASA 22 (1927) 209–212.
    """
    _checked_share(hits, n)
    return wilson_of_share(hits / n, n, level)


def wilson_of_share(share: float, n: float, level: float = 0.95) -> Interval:
    """:func:`wilson_interval` of a share in [0, 1] of ``n`` rows, which need be no whole number."""
    z = NormalDist().inv_cdf(0.5 + checked_level(level) / 2.0)
    shrink = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the bound is exactly the end; rounding must not push it past.
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return Interval(share, low, high, level)


def newcombe_independent(
    hits: int, n: int, other_hits: int, other_n: int, level: float = 0.95
) -> Interval:
    """Interval of the difference of two independent shares, first minus second.

    Square-and-add of their Wilson intervals (Newcombe's method 10, without correction). Raises
    ValueError as :func:`wilson_interval` does. Source: Newcombe, Interval estimation for the
    difference between independent proportions, Statist Med 17 (1998) 873–890.
    """
    first, second = wilson_interval(hits, n, level), wilson_interval(other_hits, other_n, level)
    difference = first.estimate - second.estimate
    below = hypot(first.estimate - first.low, second.high - second.estimate)
    above = hypot(first.high - first.estimate, second.estimate - second.low)
    return Interval(difference, max(-1.0, difference - below), min(1.0, difference + above), level)


def _checked_share(hits: int, n: int) -> None:
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"a share takes 0 ≤ hits ≤ n and n ≥ 1, not {hits} of {n}")
