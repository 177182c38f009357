"""How often the rule of an audit against an earlier one raises an alarm, without and with a change.

``python -m tests.extras.audit.watched_systems [SERIES]`` prints the table of ``docs/power.md``. A
series is a first audit and 50 later ones of a system whose patients' shares are beta-distributed
(intraclass correlation .3), five questions a patient, three steps of which the later ones lose part
of what is left. In a series with a change, the retrieval loses more from some audit on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midchart.extras.audit.change_statistics import change_p
from midchart.extras.audit.changes import AUDITS, DRAWS, alarms

LIKENESS, QUESTIONS = 0.3, 5
LATER_STEPS = (0.95, 0.9)
"""Shares that each step after retrieval keeps of what there is."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """``patients`` of each audit, of whom ``same`` are in every one; ``share`` retrieved at first
    and ``changed`` after the change."""

    patients: int
    same: int
    share: float = 0.8
    changed: float = 0.8


def audit(rates: Floats, rng: np.random.Generator) -> Floats:
    """Rows right after each step and rows, [steps, patients, 2]."""
    there = rng.binomial(QUESTIONS, rates)
    steps = [there, *(there := rng.binomial(there, share) for share in LATER_STEPS)]
    return np.stack([np.stack([s, np.full(len(rates), QUESTIONS)], 1) for s in steps]).astype(float)


def rates_of(share: float, n: int, rng: np.random.Generator) -> Floats:
    """Shares of so many patients."""
    if share in (0, 1):
        return np.full(n, share)
    spread = (1 - LIKENESS) / LIKENESS
    return rng.beta(spread * share, spread * (1 - share), n)


def raised(series: Series, audits: int, rng: np.random.Generator, draws: int = DRAWS) -> int | None:
    """The first of ``audits`` later audits that raises an alarm at any step; None: none does."""
    known = rates_of(series.share, series.same, rng)
    others = series.patients - series.same

    def audited(share: float) -> tuple[Floats, Floats]:
        rates = [known * share / series.share, rates_of(share, others, rng)]
        steps = audit(np.concatenate(rates), rng)
        return steps[:, : series.same], steps[:, series.same :]

    first = audited(series.share)
    for number in range(audits):
        second = audited(series.changed)
        nobody = np.zeros_like(first[1])
        p_values = [
            change_p(
                np.concatenate([first[0][step], first[1][step], nobody[step]]),
                np.concatenate([second[0][step], nobody[step], second[1][step]]),
                draws, rng,
            )
            for step in range(len(LATER_STEPS) + 1)
        ]  # fmt: skip
        if any(alarms(p_values, AUDITS)):
            return number + 1
    return None


SETTINGS = tuple(
    Series(patients, same, 0.8, changed)
    for changed in (0.8, 0.6)
    for patients, same in ((20, 0), (20, 20), (60, 30), (200, 0))
)


def main(count: int) -> None:
    """Print the table; ``count`` series without a change a row, and single audits with one."""
    print("| patients | in both audits | retrieved | later | alarms |")
    print("|---|---|---|---|---|")
    for number, series in enumerate(SETTINGS):
        rng = np.random.default_rng(number)
        unchanged = series.changed == series.share
        times = count if unchanged else 5 * count
        first_alarms = [raised(series, AUDITS if unchanged else 1, rng) for _ in range(times)]
        share = 100 * sum(one is not None for one in first_alarms) / times
        of = f"series of {AUDITS} audits" if unchanged else "single audits"
        print(
            f"| {series.patients} | {series.same} | {series.share} | {series.changed} "
            f"| {share:.1f} % of {times} {of} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
