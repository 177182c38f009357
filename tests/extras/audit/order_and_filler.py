"""Intervals and tests of order and filler, for systems whose sensitivity and noise are known.

``python -m tests.extras.audit.order_and_filler [RUNS]`` prints the table of ``docs/power.md``. A
system gives a question's usual answer but for two chances of another one, which vary from patient
to patient (beta-distributed, intraclass correlation .3): one at every prompt (noise), one where the
context is changed (sensitivity). The base answer may be another one too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from midchart.extras.audit.order_and_filler.tables import changed
from tests.extras.audit.watched_systems import LIKENESS, rates_of

QUESTIONS, RESAMPLES = 4, 500


@dataclass(frozen=True)
class System:
    """``patients`` with four questions each; mean chances of another answer; ``conditions`` of a
    factor, each asked once."""

    patients: int
    noise: float
    sensitivity: float
    conditions: int = 1

    @property
    def difference(self) -> float:
        """The expected share of changed answers less that of the same prompt asked again.

        Unchanged are two usual answers: (1 − e)² of them again, (1 − e)²(1 − s) with the change, of
        independent e and s.
        """
        e = self.noise
        usual = (1 - e) ** 2 + LIKENESS * e * (1 - e)
        return usual * self.sensitivity


def simulated(system: System, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of a factor's row, of one simulated run."""
    noise, sensitivity = (
        rates_of(mean, system.patients, rng) for mean in (system.noise, system.sensitivity)
    )
    factor: list[dict[str, Any]] = []
    again: list[dict[str, Any]] = []
    for patient in range(system.patients):
        for question in range(QUESTIONS):
            asked = 2 + system.conditions
            usual = rng.random(asked) >= noise[patient]
            usual[2:] &= rng.random(system.conditions) >= sensitivity[patient]
            names = {"own_question": f"{patient}/{question}", "record": patient}
            names |= {"same_prompt": False, "prompt_tokens": 1, "added_tokens": 0}
            rows = [
                {**names, "question_words": 0, "changed": float(not (usual[0] and one))}
                for one in usual[1:].tolist()
            ]
            again.append({**rows[0], "factor": "again"})
            factor += [{**row, "factor": "order"} for row in rows[1:]]
    return changed(factor, again, RESAMPLES, rng)


SYSTEMS = tuple(
    System(patients, noise, sensitivity, conditions)
    for patients in (8, 20, 60)
    for noise, sensitivity, conditions in (
        (0.0, 0.0, 1), (0.1, 0.0, 1), (0.1, 0.0, 5), (0.0, 0.2, 1), (0.1, 0.2, 1), (0.1, 0.2, 5),
    )
)  # fmt: skip


def coverage(system: System, runs: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Shares of runs whose interval holds the true difference, and that claim more than noise (p at
    most .05 and an interval above 0); and the mean width of the interval."""
    holding = claiming = width = 0.0
    for _ in range(runs):
        row = simulated(system, rng)
        low, high = row["patient_low"], row["patient_high"]
        holding += low <= system.difference <= high
        claiming += row["p"] <= 0.05 and low > 0
        width += high - low
    return holding / runs, claiming / runs, width / runs


def main(runs: int) -> None:
    """Print the table."""
    print("| patients | noise | sensitivity | conditions | coverage | claimed | width |")
    print("|---|---|---|---|---|---|---|")
    for number, system in enumerate(SYSTEMS):
        holding, claiming, width = coverage(system, runs, np.random.default_rng(number))
        print(
            f"| {system.patients} | {system.noise} | {system.sensitivity} | {system.conditions} | "
            f"{100 * holding:.1f} % | {100 * claiming:.1f} % | {100 * width:.0f} points |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
