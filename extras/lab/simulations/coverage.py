"""Simulated coverage of reported intervals for 2 to 40 patients, four questions each.

``python -m midchart.extras.lab.simulations.coverage [TRIALS]`` prints the table of
``docs/power.md``. Patients'
shares are beta-distributed with an intraclass correlation of .3; agreement is of one card a
patient.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from midchart.core.stats.agreement import ac1_of, kappa_of
from midchart.core.stats.intervals import (
    cluster_totals,
    clustered_intervals,
    pooled_correlation,
)
from midchart.core.stats.paired import (
    agreement_floors,
    reported_interval,
    share_floor,
    share_sums,
    simultaneous,
)

Floats = NDArray[np.float64]
PATIENTS = (2, 4, 5, 10, 22, 40)
QUESTIONS, LIKENESS, RESAMPLES = 4, 0.3, 500
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

    def cells(self) -> str:
        shown = f"{100 * self.reported / self.intervals:.0f} %" if self.intervals else "none"
        return f"{shown} | {100 * self.plain / self.trials:.0f} %"


def _rates(share: float, patients: int, rng: np.random.Generator) -> Floats:
    spread = (1 - LIKENESS) / LIKENESS
    return rng.beta(spread * share, spread * (1 - share), patients)


def _shares(patients: int, trials: int, rng: np.random.Generator) -> list[_Coverage]:
    """Of the shares of a run's arms on the same patients, at their pooled correlation."""
    coverages, n = [_Coverage() for _ in SHARES], np.full(patients, float(QUESTIONS))
    for _ in range(trials):
        arms = [
            rng.binomial(QUESTIONS, _rates(share, patients, rng)).astype(np.float64)
            for share in SHARES
        ]
        alike = pooled_correlation(share_sums(right, n) for right in arms)
        for share, right, coverage in zip(SHARES, arms, coverages, strict=True):
            totals = cluster_totals(np.stack([right, n], 1), RESAMPLES, rng)
            ends = reported_interval(None, patients, share_floor(right, n, correlation=alike))
            coverage.add(share, ends, totals[:, 0] / totals[:, 1])
    return coverages


def _difference(first: float, second: float, patients: int, trials: int, seed: int) -> _Coverage:
    coverage, rng = _Coverage(), np.random.default_rng(seed)
    for _ in range(trials):
        a, b = (
            rng.random((patients, QUESTIONS)) < _rates(p, patients, rng)[:, None]
            for p in (first, second)
        )
        counts = [(x & y).sum(axis=1) for x, y in ((a, b), (a, ~b), (~a, b), (~a, ~b))]
        cells = np.stack(counts, axis=1).astype(np.float64)
        totals = cluster_totals(cells, RESAMPLES, rng)
        draws = (totals[:, 1] - totals[:, 2]) / totals.sum(axis=1)
        coverage.add(first - second, simultaneous([cells])[0], draws)
    return coverage


def _agreement(measure: str, patients: int, trials: int, rng: np.random.Generator) -> _Coverage:
    of = kappa_of if measure == "kappa" else ac1_of
    truth, coverage = float(of(np.array(AGREEING).reshape(2, 2))), _Coverage()
    for _ in range(trials):
        cells = rng.multinomial(1, AGREEING, size=patients).astype(np.float64)
        floor = agreement_floors(cells).get(measure)
        if floor is not None:
            draws = of(cluster_totals(cells, RESAMPLES, rng).reshape(-1, 2, 2))
            coverage.add(truth, reported_interval(draws, patients, floor), draws)
    return coverage


def main(trials: int) -> None:
    """Print the table; ``trials`` simulated data sets a cell."""
    named = ("share .5", "share .8", "share .95", "difference .8 − .5", "kappa .69", "AC1 .85")
    print("| patients | " + " | ".join(f"{name} | percentile" for name in named) + " |")
    print("|" + "---|" * (1 + 2 * len(named)))
    for patients in PATIENTS:
        rng = np.random.default_rng(patients)
        rows = _shares(patients, trials, rng)
        rows.append(_difference(0.8, 0.5, patients, trials, patients))
        rows += [_agreement(of, patients, trials, rng) for of in ("kappa", "ac1")]
        print(f"| {patients} | " + " | ".join(one.cells() for one in rows) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
