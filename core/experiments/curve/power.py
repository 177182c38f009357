"""How often the tests of a curve find an effect of a given size, and how often they cry wolf.

Datasets are made up by :mod:`core.experiments.curve.power` and put through the very tests of
:mod:`core.experiments.curve.study`. ``python -m core.experiments.curve`` prints the tables of
``docs/power.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.experiments.curve.study import ALPHA, Curve, Placed, assemble, is_middle_of, study
from core.stats.intervals import wilson_interval

# Made-up answers with a known effect of position, to see what the tests of a curve can do.


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PUBLISHED_N = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""Answers by decile of the published data, six models each (PROTOCOL, Experiment 1)."""
PUBLISHED_QUESTIONS, PUBLISHED_MODELS = 270, 6


@dataclass(frozen=True, eq=False, slots=True)
class Design:
    """Where evidence lies: ``clusters`` int64 [p], ascending, and ``position`` float64 [p] of each
    place, each answered by ``models`` models."""

    clusters: Ints
    position: Floats
    models: int


def even_design(questions: int, models: int = 6) -> Design:
    """Questions with one place each, spread evenly over the record, as the demo's are."""
    return Design(np.arange(questions), (np.arange(questions) + 0.5) / questions, models)


def published_design(rng: np.random.Generator) -> Design:
    """Places like the published ones: 366 in the published deciles, 270 questions.

    Which questions have two places is not published: 96 of them here, drawn at random and placed
    independently; inside a decile places are spread evenly.
    """
    decile = np.repeat(np.arange(10), [n // PUBLISHED_MODELS for n in PUBLISHED_N])
    rank = np.concatenate([(np.arange(n) + 0.5) / n for n in np.bincount(decile)])
    place = rng.permutation((decile + rank) / 10)
    first = np.arange(PUBLISHED_QUESTIONS)
    second = rng.choice(PUBLISHED_QUESTIONS, len(place) - PUBLISHED_QUESTIONS, replace=False)
    clusters = np.concatenate([first, np.sort(second)])
    order = np.argsort(clusters, kind="stable")
    return Design(clusters[order], place[order], PUBLISHED_MODELS)


def answers(
    design: Design, accuracy: ArrayLike, likeness: float, rng: np.random.Generator
) -> Placed:
    """Right and wrong answers of a design.

    ``accuracy`` [p] or one number: the chance of a right answer at each place. ``likeness`` in
    [0, 1] is the correlation of any two answers to one question of equal accuracy: each answer is
    the question's own outcome with chance √likeness, else its own draw, so that accuracies are
    kept exactly. Raises ValueError outside [0, 1]. Source: Lunn and Davies, A note on generating
    correlated binary variables, Biometrika 85 (1998) 487–490.
    """
    chance = np.broadcast_to(np.asarray(accuracy, dtype=np.float64), design.position.shape)
    if not 0.0 <= likeness <= 1.0 or (chance < 0).any() or (chance > 1).any():
        raise ValueError("accuracy and likeness lie in [0, 1]")
    shape = (len(chance), design.models)
    shared = (rng.random(int(design.clusters[-1]) + 1)[design.clusters] < chance)[:, None]
    own = rng.random(shape) < chance[:, None]
    right = np.where(rng.random(shape) < np.sqrt(likeness), shared, own).sum(axis=1)
    n = np.full(len(chance), design.models)
    return assemble(design.clusters, right, n, design.position, np.ones(len(chance), np.uint64))


def stepped(design: Design, accuracy: float, difference: float) -> Floats:
    """Accuracy at each place of a design, float64 [p]: ``difference`` between middle and edge,
    ``accuracy`` over all answers. Raises ValueError where a share would leave [0, 1]."""
    middle = is_middle_of(design.position)
    at = accuracy + difference * (middle - middle.mean())
    if (at < 0).any() or (at > 1).any():
        raise ValueError(f"{difference} cannot be put around an accuracy of {accuracy}")
    return at


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
    answers to one question (:func:`core.experiments.curve.power.answers`). A difference of 0 gives
    the rate
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
