"""Simulated coverage and width of prediction-powered intervals for 20 patients.

``python -m midchart.extras.lab.simulations.prediction_powered [TRIALS]`` prints the table of
``docs/power.md``.
Patients' shares and a machine's accuracy on them are beta-distributed; the machine errs on twice as
many of the items whose truth is 1, so its own mean is biased. Items that look uncertain are three
times as likely to be drawn.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from midchart.core.stats.prediction_powered import drawn_with, prediction_powered, priority_order

LIKENESS, LIKENESS_OF_ACCURACY, RESAMPLES = 0.3, 0.1, 500


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


def _rates(share: float, likeness: float, n: int, rng: np.random.Generator) -> np.ndarray:
    spread = (1 - likeness) / likeness
    return rng.beta(spread * share, spread * (1 - share), n)


def simulate(setting: Setting, trials: int, seed: int) -> Simulated:
    """Coverage of the population's share by the reported interval."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(trials):
        sizes = rng.integers(setting.questions - 2, setting.questions + 3, setting.patients)
        patient = np.repeat(np.arange(setting.patients), sizes)
        n = len(patient)
        truth = rng.random(n) < _rates(setting.share, LIKENESS, setting.patients, rng)[patient]
        right = _rates(setting.accuracy, LIKENESS_OF_ACCURACY, setting.patients, rng)[patient]
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


def main(trials: int) -> None:
    """Print the table; ``trials`` simulated data sets a row."""
    print("| share | accuracy | not documented | cards | coverage | width | with ten more "
          "| machine alone |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for number, setting in enumerate(SETTINGS):
        now = simulate(setting, trials, number)
        print(
            f"| {setting.share} | {setting.accuracy} | {setting.undocumented} | {setting.cards} "
            f"| {100 * now.coverage:.0f} % | {now.width:.2f} | {now.width_after_ten:.2f} "
            f"| {now.predicted:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
