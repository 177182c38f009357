"""How often the tests of a curve find an effect of a given size, and how often they cry wolf.

Datasets are made up by :mod:`core.curve.simulate` and put through the very tests of
:mod:`core.curve.study`. ``python -m core.curve`` prints the tables of ``docs/power.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.curve.simulate import Design, answers, stepped
from core.curve.study import ALPHA, Curve, study
from core.stats import wilson_interval

TESTS: tuple[str, ...] = ("difference", "quadratic", "either", "gap", "homogeneity")
"""What is counted: the two pre-specified tests each on its own, either of them after Holm, and the
two that look at all bins."""


@dataclass(frozen=True, slots=True)
class Found:
    """Of ``datasets`` made with one ``difference`` between middle and edge, how many each test
    rejected (``rejected``, by name of :data:`TESTS`), the mean ``gap`` seen, and the mean
    ``null_gap`` that the permutations expected without an effect."""

    difference: float
    datasets: int
    rejected: dict[str, int]
    gap: float
    null_gap: float

    def share(self, test: str) -> tuple[float, float, float]:
        """Share of datasets in which a test rejected, with its Wilson interval."""
        found = wilson_interval(self.rejected[test], self.datasets)
        return found.estimate, found.low, found.high


@dataclass(frozen=True, slots=True)
class Chance:
    """What data of a design look like without any effect, for one ``likeness`` of answers: the
    mean ``gap``, the share ``as_large`` of datasets whose gap is at least the one asked about, the
    mean standard error of the bend, and the mean width of a bin's interval."""

    likeness: float
    gap: float
    as_large: float
    bend_error: float
    width: float


def chance(
    design: Callable[[np.random.Generator], Design],
    accuracy: float,
    gap: float,
    likeness: float,
    datasets: int,
    rng: np.random.Generator,
    resamples: int = 400,
) -> Chance:
    """Make ``datasets`` without an effect; how often the gap of ten bins reaches ``gap``."""
    from scipy.special import stdtrit

    gaps, errors, widths = np.empty((3, datasets))
    for i in range(datasets):
        placed = answers(design(rng), accuracy, likeness, rng)
        curve = study(placed, 10, resamples, int(rng.integers(2**31)))
        reach = float(stdtrit(curve.cluster_count - 1, 0.975))
        gaps[i] = curve.gap
        errors[i] = (curve.quadratic_high - curve.quadratic_low) / (2.0 * reach)
        widths[i] = np.nanmean(curve.ci_high - curve.ci_low)
    means = (float(np.nanmean(column)) for column in (errors, widths))
    return Chance(likeness, float(gaps.mean()), float((gaps >= gap - 1e-9).mean()), *means)


def rejections(curve: Curve, alpha: float = ALPHA) -> dict[str, bool]:
    """Which tests of a curve reject; one that could not be made does not."""
    p = {
        "difference": curve.difference_p,
        "quadratic": curve.quadratic_p,
        "either": float(np.nanmin([curve.difference_holm, curve.quadratic_holm, 1.0])),
        "gap": curve.gap_p,
        "homogeneity": curve.homogeneity_p,
    }
    return {test: bool(p[test] <= alpha) for test in TESTS}


def power(
    design: Callable[[np.random.Generator], Design],
    accuracy: float,
    difference: float,
    likeness: float,
    datasets: int,
    rng: np.random.Generator,
    resamples: int = 999,
    bins: int = 10,
) -> Found:
    """Make ``datasets`` of a design and test each.

    ``difference`` of accuracy, middle minus edge, around ``accuracy`` over all; ``likeness`` of the
    answers to one question (:func:`core.curve.simulate.answers`). A difference of 0 gives the rate
    of false alarms.
    """
    rejected = dict.fromkeys(TESTS, 0)
    gaps: list[float] = []
    nulls: list[float] = []
    for _ in range(datasets):
        drawn = design(rng)
        placed = answers(drawn, stepped(drawn, accuracy, difference), likeness, rng)
        curve = study(placed, bins, resamples, int(rng.integers(2**31)))
        for test, rejects in rejections(curve).items():
            rejected[test] += rejects
        gaps.append(curve.gap)
        nulls.append(curve.null_gap)
    return Found(difference, datasets, rejected, float(np.mean(gaps)), float(np.mean(nulls)))
