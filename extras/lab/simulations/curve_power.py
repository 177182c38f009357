"""Simulated power and false-positive rate of a curve's tests: the tables of ``docs/power.md``.

``python -m midchart.extras.lab.simulations.curve_power`` prints them in some minutes, the same on
every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.experiments.curve.tables import ALPHA, Curve, study
from midchart.core.stats.intervals import wilson_interval
from midchart.core.stats.positions import Responses, assemble, is_middle_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PUBLISHED_N = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""Answers by decile of the published data, six models each (docs/methods.md, Experiment 1)."""
PUBLISHED_QUESTIONS, PUBLISHED_MODELS = 270, 6


@dataclass(frozen=True, eq=False, slots=True)
class Design:
    """``clusters`` int64 [p], ascending, and ``position`` float64 [p] of each piece of evidence,
    each answered by ``models`` models."""

    clusters: Ints
    position: Floats
    models: int


def even_design(questions: int, models: int = 6) -> Design:
    """Questions with one position each, spread evenly over the record, as in the demo cohort."""
    return Design(np.arange(questions), (np.arange(questions) + 0.5) / questions, models)


def published_design(rng: np.random.Generator) -> Design:
    """366 positions in the published deciles, 270 questions.

    Which questions have two positions is not published: 96 are drawn at random, with independent
    positions; inside a decile positions are spread evenly.
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
) -> Responses:
    """Simulated answers of a design.

    ``accuracy`` [p] or one number: the chance of a right answer at each position. ``likeness`` in
    [0, 1] is the correlation of any two answers to one question of equal accuracy: each answer is
    the question's outcome with chance √likeness, else its own draw. Raises ValueError outside
    [0, 1]. Source: Lunn and Davies, Biometrika 85 (1998) 487–490.
    """
    chance = np.broadcast_to(np.asarray(accuracy, dtype=np.float64), design.position.shape)
    if not 0.0 <= likeness <= 1.0 or (chance < 0).any() or (chance > 1).any():
        raise ValueError("accuracy and likeness lie in [0, 1]")
    shape = (len(chance), design.models)
    shared = (rng.random(int(design.clusters[-1]) + 1)[design.clusters] < chance)[:, None]
    independent = rng.random(shape) < chance[:, None]
    right = np.where(rng.random(shape) < np.sqrt(likeness), shared, independent).sum(axis=1)
    n = np.full(len(chance), design.models)
    return assemble(design.clusters, right, n, design.position, np.ones(len(chance), np.uint64))


def stepped(design: Design, accuracy: float, difference: float) -> Floats:
    """Accuracy at each position of a design, float64 [p]: ``difference`` between middle and edge,
    ``accuracy`` over all answers. Raises ValueError where a share would leave [0, 1]."""
    middle = is_middle_of(design.position)
    shares = accuracy + difference * (middle - middle.mean())
    if (shares < 0).any() or (shares > 1).any():
        raise ValueError(f"{difference} cannot be put around an accuracy of {accuracy}")
    return shares


TESTS: tuple[str, ...] = ("difference", "quadratic", "either", "gap", "homogeneity")
"""The two pre-specified tests, either of them after Holm, and the two over all bins."""


@dataclass(frozen=True, slots=True)
class Power:
    """Of ``datasets`` simulated with one ``difference`` between middle and edge: how many each test
    rejected (by name of :data:`TESTS`), the mean ``gap``, and the mean ``null_gap`` that the
    permutations expected."""

    difference: float
    datasets: int
    rejected: dict[str, int]
    gap: float
    null_gap: float


def simulated(
    design: Callable[[np.random.Generator], Design],
    accuracy: float,
    difference: float,
    likeness: float,
    datasets: int,
    rng: np.random.Generator,
    resamples: int,
) -> Iterator[Curve]:
    """The curves in ten bins of simulated ``datasets`` of a design, of :func:`answers` to
    :func:`stepped` positions."""
    for _ in range(datasets):
        drawn = design(rng)
        responses = answers(drawn, stepped(drawn, accuracy, difference), likeness, rng)
        yield study(responses, 10, resamples, int(rng.integers(2**31)))


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
) -> Power:
    """Simulate ``datasets`` of a design and test each; a difference of 0 gives the false-positive
    rate.

    ``difference`` of accuracy, middle minus edge, around ``accuracy`` over all; ``likeness`` as in
    :func:`answers`.
    """
    curves = list(simulated(design, accuracy, difference, likeness, datasets, rng, resamples))
    rejected = [rejections(curve) for curve in curves]
    counts = {test: sum(one[test] for one in rejected) for test in TESTS}
    gap, null_gap = (fmean(getattr(curve, of) for curve in curves) for of in ("gap", "null_gap"))
    return Power(difference, datasets, counts, gap, null_gap)


DIFFERENCES = (0.0, -0.025, -0.05, -0.075, -0.10, -0.125, -0.15, -0.20)
"""Middle minus edge."""
LIKENESS = 0.42
"""Makes the null of published-like data as wide as the intervals of the paper's curve."""
LIKENESSES = (0.0, 0.2, 0.3, LIKENESS, 0.5, 0.6)
ACCURACY, GAP = 0.446, 0.219
"""Of the published data: accuracy over all answers, and best less worst decile."""


def demo(_: np.random.Generator) -> Design:
    """120 questions, evenly spread, as in the demo cohort."""
    return even_design(120)


DESIGNS: Sequence[tuple[str, Callable[[np.random.Generator], Design], float, float]] = (
    ("The demo: 120 questions, 6 models, answers independent", demo, 0.543, 0.0),
    (f"The demo's size, answers to a question correlated ({LIKENESS})", demo, 0.543, LIKENESS),
    (f"Published: 270 questions, 366 positions, 6 models, correlated ({LIKENESS})",
     published_design, ACCURACY, LIKENESS),
)  # fmt: skip


def markdown(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown under its title."""
    lines = [f"## {title}", "", "| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def power_cells(row: Power) -> list[str]:
    """A row of a design's table."""
    cells = [f"{100 * row.difference:+.1f}" if row.difference else "0 (false positives)"]
    for test in TESTS:
        share = wilson_interval(row.rejected[test], row.datasets)
        estimate, low, high = (100 * of for of in (share.estimate, share.low, share.high))
        cells.append(f"{estimate:.0f} % [{low:.0f}–{high:.0f}]")
    return [*cells, f"{100 * row.gap:.1f}", f"{100 * row.null_gap:.1f}"]


def chance_cells(likeness: float, datasets: int, rng: np.random.Generator) -> list[str]:
    """A row of the table of published counts without an effect of position."""
    from scipy.special import stdtrit

    curves = list(simulated(published_design, ACCURACY, 0.0, likeness, datasets, rng, 400))
    gaps = np.array([curve.gap for curve in curves])
    errors = [
        (curve.quadratic_high - curve.quadratic_low)
        / (2.0 * float(stdtrit(curve.cluster_count - 1, 0.975)))
        for curve in curves
    ]
    widths = [np.nanmean(curve.ci_high - curve.ci_low) for curve in curves]
    return [
        f"{likeness:.2f}",
        f"{100 * gaps.mean():.1f}",
        f"{100 * (gaps >= GAP - 1e-9).mean():.0f} %",
        f"{np.nanmean(errors):.2f}",
        f"{100 * np.nanmean(widths):.1f}",
    ]


def main() -> None:
    """Print the tables; progress goes to standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m midchart.extras.lab.simulations.curve_power", description=__doc__
    )
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=42)
    call = parser.parse_args()
    rows = [
        chance_cells(likeness, call.datasets, np.random.default_rng([call.seed, 100 + number]))
        for number, likeness in enumerate(LIKENESSES)
    ]
    header = (
        "correlation of answers", "mean gap", f"gap of {100 * GAP:.1f} or more",
        "quadratic term, standard error", "mean width of an interval",
    )  # fmt: skip
    print(markdown("Published counts without any effect of position", header, rows), flush=True)
    header = ("middle − edge, points", *TESTS, "observed gap", "gap expected by chance")
    for title, design, accuracy, likeness in DESIGNS:
        rows = []
        for number, difference in enumerate(DIFFERENCES):
            print(f"{title}: {difference:+.3f}", file=sys.stderr)
            rng = np.random.default_rng([call.seed, number])
            rates = power(design, accuracy, difference, likeness, call.datasets, rng)
            rows.append(power_cells(rates))
        print(markdown(title, header, rows), flush=True)


if __name__ == "__main__":
    main()
