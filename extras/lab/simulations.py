"""Simulations that docs/power.md reports: power of a curve's tests, and coverage of intervals.

``python -m midchart.extras.lab.simulations power|coverage|cards [DATASETS]`` prints the tables, the
same on every machine; ``power`` takes some minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.experiments.curve.tables import ALPHA, Curve, study
from midchart.core.stats.agreement import ac1_of, kappa_of
from midchart.core.stats.intervals import (
    cluster_totals,
    clustered_intervals,
    pooled_correlation,
    wilson_interval,
)
from midchart.core.stats.paired import (
    agreement_floors,
    reported_interval,
    share_floor,
    share_sums,
    simultaneous,
)
from midchart.core.stats.positions import Responses, assemble, is_middle_of
from midchart.core.stats.prediction_powered import drawn_with, prediction_powered, priority_order

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table in Markdown, row by row, under its title."""
    print(f"## {title}\n\n" * bool(title) + f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def _rates(share: float, likeness: float, n: int, rng: Rng) -> Floats:
    """Shares of ``n`` patients, beta-distributed with an intraclass correlation ``likeness``."""
    spread = (1 - likeness) / likeness
    return rng.beta(spread * share, spread * (1 - share), n)


# Power and false positives of a curve's tests.

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


def published_design(rng: Rng) -> Design:
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


def answers(design: Design, accuracy: ArrayLike, likeness: float, rng: Rng) -> Responses:
    """Simulated answers of a design.

    ``accuracy`` [p] or one number: the chance of a right answer at each position. ``likeness`` in
    [0, 1] is the correlation of any two answers to one question of equal accuracy: each answer is
    the question's outcome with chance √likeness, else its own draw. Source: Lunn and Davies,
    Biometrika 85 (1998) 487–490.
    """
    chance = np.broadcast_to(np.asarray(accuracy, dtype=np.float64), design.position.shape)
    shape = (len(chance), design.models)
    shared = (rng.random(int(design.clusters[-1]) + 1)[design.clusters] < chance)[:, None]
    independent = rng.random(shape) < chance[:, None]
    right = np.where(rng.random(shape) < np.sqrt(likeness), shared, independent).sum(axis=1)
    n = np.full(len(chance), design.models)
    return assemble(design.clusters, right, n, design.position, np.ones(len(chance), np.uint64))


def stepped(design: Design, accuracy: float, difference: float) -> Floats:
    """Accuracy at each position of a design, float64 [p]: ``difference`` between middle and edge,
    ``accuracy`` over all answers."""
    middle = is_middle_of(design.position)
    return accuracy + difference * (middle - middle.mean())


TESTS: tuple[str, ...] = ("difference", "quadratic", "either", "gap", "homogeneity")
"""The two pre-specified tests, either of them after Holm, and the two over all bins."""
Drawn = Callable[[Rng], Design]


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


def _curves(
    design: Drawn, accuracy: float, difference: float, likeness: float, datasets: int, rng: Rng,
    resamples: int,
) -> Iterator[Curve]:  # fmt: skip
    """The curves in ten bins of simulated ``datasets``."""
    for _ in range(datasets):
        drawn = design(rng)
        responses = answers(drawn, stepped(drawn, accuracy, difference), likeness, rng)
        yield study(responses, 10, resamples, int(rng.integers(2**31)))


def _rejections(curve: Curve) -> dict[str, bool]:
    """Which tests of a curve reject; one that could not be made does not."""
    either = float(np.nanmin([curve.difference_holm, curve.quadratic_holm, 1.0]))
    p = (curve.difference_p, curve.quadratic_p, either, curve.gap_p, curve.homogeneity_p)
    return {test: bool(value <= ALPHA) for test, value in zip(TESTS, p, strict=True)}


def power(
    design: Drawn, accuracy: float, difference: float, likeness: float, datasets: int, rng: Rng,
    resamples: int = 999,
) -> Power:  # fmt: skip
    """Simulate ``datasets`` of a design and test each; a difference of 0 gives the false-positive
    rate.

    ``difference`` of accuracy, middle minus edge, around ``accuracy`` over all; ``likeness`` as in
    :func:`answers`.
    """
    curves = list(_curves(design, accuracy, difference, likeness, datasets, rng, resamples))
    rejected = [_rejections(curve) for curve in curves]
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
DESIGNS: Sequence[tuple[str, Drawn, float, float]] = (
    ("The demo: 120 questions, 6 models, answers independent", lambda _: even_design(120), 0.543,
     0.0),
    (f"The demo's size, answers to a question correlated ({LIKENESS})", lambda _: even_design(120),
     0.543, LIKENESS),
    (f"Published: 270 questions, 366 positions, 6 models, correlated ({LIKENESS})",
     published_design, ACCURACY, LIKENESS),
)  # fmt: skip


def _power_cells(row: Power) -> list[str]:
    cells = [f"{100 * row.difference:+.1f}" if row.difference else "0 (false positives)"]
    for test in TESTS:
        share = wilson_interval(row.rejected[test], row.datasets)
        estimate, low, high = (100 * of for of in (share.estimate, share.low, share.high))
        cells.append(f"{estimate:.0f} % [{low:.0f}–{high:.0f}]")
    return [*cells, f"{100 * row.gap:.1f}", f"{100 * row.null_gap:.1f}"]


def _chance_cells(likeness: float, datasets: int, rng: Rng) -> list[str]:
    """A row of the table of published counts without an effect of position."""
    from scipy.special import stdtrit

    curves = list(_curves(published_design, ACCURACY, 0.0, likeness, datasets, rng, 400))
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


def print_power(datasets: int, seed: int = 42) -> None:
    """The tables of chance alone, and of the power of each design."""
    header = (
        "correlation of answers", "mean gap", f"gap of {100 * GAP:.1f} or more",
        "quadratic term, standard error", "mean width of an interval",
    )  # fmt: skip
    rows = (
        _chance_cells(likeness, datasets, np.random.default_rng([seed, 100 + number]))
        for number, likeness in enumerate(LIKENESSES)
    )
    print_table(header, rows, "Published counts without any effect of position")
    header = ("middle − edge, points", *TESTS, "observed gap", "gap expected by chance")
    for title, design, accuracy, likeness in DESIGNS:
        simulated = (
            power(design, accuracy, one, likeness, datasets, np.random.default_rng([seed, number]))
            for number, one in enumerate(DIFFERENCES)
        )
        print_table(header, map(_power_cells, simulated), title)


# Coverage of reported intervals for 2 to 40 patients, four questions each; agreement is of one card
# a patient.

PATIENTS = (2, 4, 5, 10, 22, 40)
QUESTIONS, PATIENT_LIKENESS, RESAMPLES = 4, 0.3, 500
SHARES = (0.5, 0.8, 0.95)
AGREEING = (0.75, 0.05, 0.05, 0.15)


class _Coverage:
    """Coverage of a reported and of a plain percentile interval."""

    def __init__(self) -> None:
        self.trials = self.intervals = self.reported = self.plain = 0

    def add(self, truth: float, ends: tuple[float, float] | None, draws: Floats) -> None:
        self.trials += 1
        low, high = clustered_intervals(draws[:, None])
        self.plain += bool(low[0] - 1e-9 <= truth <= high[0] + 1e-9)
        if ends is not None:
            self.intervals += 1
            self.reported += ends[0] - 1e-9 <= truth <= ends[1] + 1e-9

    def cells(self) -> tuple[str, str]:
        shown = f"{100 * self.reported / self.intervals:.0f} %" if self.intervals else "none"
        return shown, f"{100 * self.plain / self.trials:.0f} %"


def _shares(patients: int, trials: int, rng: Rng) -> list[_Coverage]:
    """Of the shares of a run's arms on the same patients, at their pooled correlation."""
    coverages, n = [_Coverage() for _ in SHARES], np.full(patients, float(QUESTIONS))
    for _ in range(trials):
        rates = (_rates(share, PATIENT_LIKENESS, patients, rng) for share in SHARES)
        arms = [rng.binomial(QUESTIONS, one).astype(np.float64) for one in rates]
        alike = pooled_correlation(share_sums(right, n) for right in arms)
        for share, right, coverage in zip(SHARES, arms, coverages, strict=True):
            totals = cluster_totals(np.stack([right, n], 1), RESAMPLES, rng)
            ends = reported_interval(None, patients, share_floor(right, n, correlation=alike))
            coverage.add(share, ends, totals[:, 0] / totals[:, 1])
    return coverages


def _difference(first: float, second: float, patients: int, trials: int) -> _Coverage:
    coverage, rng = _Coverage(), np.random.default_rng(patients)
    for _ in range(trials):
        a, b = (
            rng.random((patients, QUESTIONS))
            < _rates(p, PATIENT_LIKENESS, patients, rng)[:, None]
            for p in (first, second)
        )  # fmt: skip
        counts = [(x & y).sum(axis=1) for x, y in ((a, b), (a, ~b), (~a, b), (~a, ~b))]
        cells = np.stack(counts, axis=1).astype(np.float64)
        totals = cluster_totals(cells, RESAMPLES, rng)
        draws = (totals[:, 1] - totals[:, 2]) / totals.sum(axis=1)
        coverage.add(first - second, simultaneous([cells])[0], draws)
    return coverage


def _agreement(measure: str, patients: int, trials: int, rng: Rng) -> _Coverage:
    of = kappa_of if measure == "kappa" else ac1_of
    truth, coverage = float(of(np.array(AGREEING).reshape(2, 2))), _Coverage()
    for _ in range(trials):
        cells = rng.multinomial(1, AGREEING, size=patients).astype(np.float64)
        floor = agreement_floors(cells).get(measure)
        if floor is not None:
            draws = of(cluster_totals(cells, RESAMPLES, rng).reshape(-1, 2, 2))
            coverage.add(truth, reported_interval(draws, patients, floor), draws)
    return coverage


def print_coverage(trials: int) -> None:
    """The table of coverage; ``trials`` simulated data sets a cell."""

    def row(patients: int) -> list[str]:
        rng = np.random.default_rng(patients)
        cells = _shares(patients, trials, rng)
        cells.append(_difference(0.8, 0.5, patients, trials))
        cells += [_agreement(of, patients, trials, rng) for of in ("kappa", "ac1")]
        return [str(patients), *(cell for one in cells for cell in one.cells())]

    named = ("share .5", "share .8", "share .95", "difference .8 − .5", "kappa .69", "AC1 .85")
    header = ("patients", *(cell for name in named for cell in (name, "percentile")))
    print_table(header, map(row, PATIENTS))


# Coverage and width of prediction-powered intervals for 20 patients. Patients' shares and a
# machine's accuracy on them are beta-distributed; the machine errs on twice as many of the items
# whose truth is 1, so its own mean is biased. Items that look uncertain are three times as likely
# to be drawn.

LIKENESS_OF_ACCURACY = 0.1


@dataclass(frozen=True)
class Setting:
    """``share``: true in the population; ``accuracy`` of the machine on items whose truth is 1;
    ``cards`` judged of about ``patients`` × ``questions`` items; ``undocumented``: share of items
    that do not count."""

    share: float
    accuracy: float
    cards: int
    patients: int = 20
    questions: int = 5
    undocumented: float = 0.0


SETTINGS = (
    *(Setting(0.7, 0.9, cards) for cards in (10, 20, 40, 60)),
    *(Setting(0.7, 0.7, 20), Setting(0.5, 0.5, 20), Setting(0.95, 0.97, 20)),
    *(Setting(0.3, 0.9, 20), Setting(0.7, 0.9, 20, undocumented=0.2)),
)


@dataclass(frozen=True)
class Simulated:
    """Over the trials: coverage, mean width, mean width expected with ten more cards, and means of
    the estimate and of the machine's own."""

    coverage: float
    width: float
    width_after_ten: float
    estimate: float
    predicted: float


def simulate(setting: Setting, trials: int, seed: int) -> Simulated:
    """Coverage of the population's share by the reported interval."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(trials):
        sizes = rng.integers(setting.questions - 2, setting.questions + 3, setting.patients)
        patient = np.repeat(np.arange(setting.patients), sizes)
        n = len(patient)
        rates = partial(_rates, n=setting.patients, rng=rng)
        truth = rng.random(n) < rates(setting.share, PATIENT_LIKENESS)[patient]
        right = rates(setting.accuracy, LIKENESS_OF_ACCURACY)[patient]
        wrong = rng.random(n) > np.where(truth, right, (1 + right) / 2)
        machine = np.where(wrong, ~truth, truth).astype(np.float64)
        counts = (rng.random(n) >= setting.undocumented).astype(np.float64)
        uncertain = (wrong & (rng.random(n) < 0.6)) | (rng.random(n) < 0.2)
        weights, uniform = np.where(uncertain, 3.0, 1.0), 1.0 - rng.random(n)
        cards = min(setting.cards, n)
        drawn = priority_order(weights, uniform)[:cards]
        judged = np.full(n, np.nan)
        judged[drawn] = truth[drawn]
        result = prediction_powered(
            machine, judged, drawn_with(weights, uniform, cards), patient, RESAMPLES, rng,
            judged_counts=counts,
        )  # fmt: skip
        low, high = result.interval or (np.nan, np.nan)
        covered = low - 1e-9 <= setting.share <= high + 1e-9
        after = result.width_after(10)
        rows.append((covered, high - low, after, result.estimate, result.predicted))
    return Simulated(*np.mean(np.array(rows, dtype=np.float64), axis=0).tolist())


def print_cards(trials: int) -> None:
    """The table of prediction-powered intervals; ``trials`` simulated data sets a row."""

    def row(number: int, one: Setting) -> list[str]:
        now = simulate(one, trials, number)
        facts = map(str, (one.share, one.accuracy, one.undocumented, one.cards))
        means = (now.width, now.width_after_ten, now.predicted)
        return [*facts, f"{100 * now.coverage:.0f} %", *(f"{mean:.2f}" for mean in means)]

    header = (
        "share", "accuracy", "not documented", "cards", "coverage", "width", "with ten more",
        "machine alone",
    )  # fmt: skip
    print_table(header, (row(number, one) for number, one in enumerate(SETTINGS)))


if __name__ == "__main__":
    tables = {"power": print_power, "coverage": print_coverage, "cards": print_cards}
    name, datasets = (*sys.argv[1:], "400")[:2]
    tables[name](int(datasets))
