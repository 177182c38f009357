"""What a run of this size could have seen: power of McNemar's exact test, and its inverse.

A table that finds no difference must say which differences it could have found. Power is worked
out exactly, over how many pairs are discordant and how many of those favour the first arm.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIGMAS = 9.0
"""Standard deviations of the number of discordant pairs that are summed over: the rest is 1e-18."""
FINE = 1e-7
"""How finely the smallest difference is searched."""


def _checked(n: int, discordant: float, difference: float, alpha: float) -> None:
    if n < 1:
        raise ValueError(f"power needs at least one pair, not {n}")
    if not 0.0 <= difference <= discordant <= 1.0:
        raise ValueError(
            f"0 ≤ difference ≤ discordant share ≤ 1, not {difference} and {discordant}"
        )
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"a level of significance lies between 0 and 1, not {alpha}")


def _at_most(count: Floats, d: Floats, chance: float) -> Floats:
    """P(Binomial(d, chance) ≤ count), 0 for a negative count and 1 from d on."""
    from scipy.special import betainc

    inside = np.clip(count, 0.0, d - 1)
    found = betainc(d - inside, inside + 1, 1.0 - chance)
    return np.where(count < 0, 0.0, np.where(count >= d, 1.0, found))


@lru_cache(maxsize=16)
def _most_refuted(first: int, last: int, alpha: float) -> Floats:
    """For d = first … last pairs, the largest count of the rarer side with p ≤ alpha; −1: none."""
    d = np.arange(first, last + 1, dtype=np.float64)
    z = NormalDist().inv_cdf(1 - alpha / 2)
    most = np.floor(np.maximum(d / 2 - z * np.sqrt(d) / 2, -1.0))

    def refuted(count: Floats) -> NDArray[np.bool_]:
        return (count < 0) | (2.0 * _at_most(count, d, 0.5) <= alpha * (1 + 1e-12))

    # The normal guess is at most a step or two away: go down while it fails, up while it holds.
    while not (holds := refuted(most)).all():
        most = np.where(holds, most, most - 1)
    while (holds := refuted(most + 1) & (most + 1 < d / 2)).any():
        most = np.where(holds, most + 1, most)
    return most


def mcnemar_power(n: int, discordant: float, difference: float, alpha: float = 0.05) -> float:
    """Chance that McNemar's exact two-sided test of ``n`` pairs gives p ≤ ``alpha``.

    ``discordant``: share of pairs on which the arms differ; ``difference``: of the shares that
    are right, in [0, discordant]. Raises ValueError otherwise. Exact: the number of discordant
    pairs is Binomial(n, discordant), and of those (discordant + difference) / (2 discordant)
    favour the better arm. Source: Duffy, Biometrics 40 (1984) 1005–1015 (exact power).
    """
    _checked(n, discordant, difference, alpha)
    if discordant == 0.0:
        return 0.0
    from scipy.special import gammaln, xlog1py, xlogy

    middle, reach = n * discordant, SIGMAS * sqrt(n * discordant * (1 - discordant)) + SIGMAS
    first, last = max(1, int(middle - reach)), min(n, int(middle + reach) + 1)
    d = np.arange(first, last + 1, dtype=np.float64)
    log_weight = gammaln(n + 1) - gammaln(d + 1) - gammaln(n - d + 1)
    weight = np.exp(log_weight + xlogy(d, discordant) + xlog1py(n - d, -discordant))
    favour = min(1.0, (discordant + difference) / (2 * discordant))
    if favour == 1.0:
        return float(weight @ (2.0 * 0.5**d <= alpha * (1 + 1e-12)))
    most = _most_refuted(first, last, alpha)
    # Few that favour the better arm, or few that favour the other.
    refuted = _at_most(most, d, favour) + _at_most(most, d, 1 - favour)
    return float(weight @ refuted)


def smallest_difference(
    n: int, discordant: float, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest difference of two paired shares that ``n`` pairs show with this power.

    ``discordant``: the share of pairs on which the arms differ, as seen or expected; where the
    difference sought is larger, all discordant pairs are taken to point one way, the most
    favourable case. None where not even a difference of 1 is shown (five pairs or fewer at 5 %).
    For many tests pass ``alpha`` divided by their number, the first step of Holm.
    Raises ValueError for shares outside [0, 1].
    """
    if not 0.0 < power < 1.0:
        raise ValueError(f"power lies between 0 and 1, not {power}")
    _checked(n, discordant, 0.0, alpha)

    def reached(difference: float) -> bool:
        return mcnemar_power(n, max(discordant, difference), difference, alpha) >= power

    if not reached(1.0):
        return None
    low, high = (0.0, discordant) if discordant and reached(discordant) else (discordant, 1.0)
    while high - low > FINE:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def connor_pairs(
    discordant: float, difference: float, power: float = 0.8, alpha: float = 0.05
) -> float:
    """How many pairs McNemar's test needs, by the normal approximation; not rounded.

    Source: Connor, Biometrics 43 (1987) 207–211, after Miettinen, Biometrics 24
    (1968) 339–352.
    """
    _checked(1, discordant, difference, alpha)
    if difference == 0.0:
        return float("inf")
    normal = NormalDist()
    z_alpha, z_power = normal.inv_cdf(1 - alpha / 2), normal.inv_cdf(power)
    wide = z_alpha * sqrt(discordant) + z_power * sqrt(discordant - difference**2)
    return (wide / difference) ** 2
