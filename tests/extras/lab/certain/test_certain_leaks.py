"""Leaks planted in the arm ``certain``: whose questions calibrate it, and what they see.

A calibration names a patient by the hash of the record. The hashes of the cohort's records say
whose questions a threshold was computed from; nothing here depends on how sentences are scored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from midchart.core.arms.semantic import SemanticArm
from midchart.core.protocol import Protocol
from midchart.core.types import Cohort
from midchart.extras.lab import certain
from tests.support import marked_cohort
from tests.support.marked_cohort import CUTOFF_DAY, evidence_day, patient_in
from tests.support.run_helpers import set_workspace

PATIENTS = 24
PROTOCOL = Protocol()


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, tmp_path_factory.mktemp("workspace"))
        yield marked_cohort.make(tmp_path_factory.mktemp("marked"), PATIENTS)


def patient_of(cohort: Cohort) -> dict[str, int]:
    """The hash of each record → its patient."""
    return {cohort.records[f"p{n:02d}"].digest: n for n in range(PATIENTS)}


def calibration_leaks(cohort: Cohort, file: Path) -> set[str]:
    """Calibrate on the cohort; what is wrong with the file and with what was scored for it."""
    problems: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        score = SemanticArm.cosines

        def scored(self, pool, question):
            asked = patient_in(question)
            for one in pool.sentences:
                if one.time.day > CUTOFF_DAY:
                    problems.add("an event after the cutoff")
                if patient_in(one.text) != asked:
                    problems.add("a record of another patient than the question's")
            return score(self, pool, question)

        patch.setattr(SemanticArm, "cosines", scored)
        certain.calibrate(cohort, PROTOCOL, file)
    questions = json.loads(file.read_text("utf-8"))["questions"]
    named = patient_of(cohort)
    if Counter(named.get(one["patient"]) for one in questions) != Counter(range(PATIENTS)):
        problems.add("not one question of each patient")
    early = {named.get(one["patient"]): one["position"] < 0.5 for one in questions}
    if any(early[n] != (evidence_day(n) == 1) for n in range(PATIENTS) if n in early):
        problems.add("the evidence of another patient")
    return problems


@dataclass
class Seen:
    """Patients of the questions behind each set of thresholds, and of those asked of it."""

    calibrating: set[str]
    asked: list[str] = field(default_factory=list)


def watched(patch: pytest.MonkeyPatch) -> list[Seen]:
    """All thresholds made from now on."""
    all_thresholds: list[Seen] = []
    thresholds = certain.Threshold
    keeps = thresholds.keeps

    def build(questions, *rest):
        one = thresholds(questions, *rest)
        all_thresholds.append(Seen({question["patient"] for question in questions}))
        seen[id(one)] = all_thresholds[-1]
        alive.append(one)
        return one

    def asked_of(self, question):
        if id(self) in seen:
            seen[id(self)].asked.append(question["patient"])
        return keeps(self, question)

    seen: dict[int, Seen] = {}
    alive: list[object] = []
    patch.setattr(certain, "Threshold", build)
    patch.setattr(thresholds, "keeps", asked_of)
    return all_thresholds


def selection_leaks(cohort: Cohort, file: Path) -> set[str]:
    """Select for three patients of the calibration; whether their own questions set thresholds."""
    certain.calibrate(cohort, PROTOCOL, file)
    arm = certain.Certain(PROTOCOL, calibration=str(file))
    problems: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        all_thresholds = watched(patch)
        for asked in cohort.instructions[:3]:
            record = cohort.records[asked.record_id]
            before = len(all_thresholds)
            arm.select(record, asked, PROTOCOL.budget())
            if len(all_thresholds) == before:
                problems.add("no thresholds were made")
            for one in all_thresholds[before:]:
                if record.digest in one.calibrating:
                    problems.add("calibrated on the patient who is asked")
                if one.calibrating - patient_of(cohort).keys():
                    problems.add("calibrated on others than the cohort's")
    return problems


def coverage_leaks(cohort: Cohort, file: Path) -> set[str]:
    """Measure coverage; whether a patient both calibrates and is asked."""
    calibration = certain.calibrate(cohort, PROTOCOL, file)
    problems: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        all_thresholds = watched(patch)
        certain.split_coverage(calibration, splits=5)
    for one in all_thresholds:
        if one.calibrating & set(one.asked):
            problems.add("calibrated on patients who are asked")
        if not one.asked:
            problems.add("nobody is asked")
    assert len(all_thresholds) == 5
    return problems


def everybody_calibrates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        certain.Certain,
        "threshold",
        lambda self, pool: certain.Threshold(self.calibration["questions"], self.alpha),
    )


def halves_overlap(patch: pytest.MonkeyPatch) -> None:
    class Repeating:
        """Draws every patient of the first half twice."""

        def __init__(self, seed: int) -> None:
            self._rng = np.random.Generator(np.random.PCG64(seed))

        def permutation(self, n: int):
            return np.tile(self._rng.permutation(n // 2), 2)

        def integers(self, n: int):
            return self._rng.integers(n)

    patch.setattr(np.random, "default_rng", Repeating)


def evidence_of_another(patch: pytest.MonkeyPatch) -> None:
    """The evidence is looked for from the other end of the record."""
    located = certain._located

    def mirrored(*arguments):
        for instruction, places, pool in located(*arguments):
            yield instruction, [len(pool.sentences) - 1 - place for place in places], pool

    patch.setattr(certain, "_located", mirrored)


def future_events(patch: pytest.MonkeyPatch) -> None:
    make = certain.candidates
    patch.setattr(
        certain, "candidates", lambda record, cutoff, protocol: make(record, None, protocol)
    )


def a_patient_twice(patch: pytest.MonkeyPatch) -> None:
    located = certain._located

    def repeated(*arguments):
        every = list(located(*arguments))
        yield from [*every, every[0]]

    patch.setattr(certain, "_located", repeated)


def test_a_calibration_holds_one_question_of_each_patient_up_to_its_cutoff(
    cohort: Cohort, tmp_path: Path
) -> None:
    assert calibration_leaks(cohort, tmp_path / "calibration.json") == set()


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (evidence_of_another, "the evidence of another patient"),
        (future_events, "an event after the cutoff"),
        (a_patient_twice, "not one question of each patient"),
    ],
    ids=["label swap", "future event", "reused patient"],
)
def test_a_leak_planted_in_a_calibration_is_seen(
    cohort: Cohort,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    problem: str,
) -> None:
    plant(monkeypatch)
    assert problem in calibration_leaks(cohort, tmp_path / "calibration.json")


def test_no_patient_sets_thresholds_for_a_question_of_the_same_patient(
    cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "calibration.json"
    assert selection_leaks(cohort, file) == set()
    everybody_calibrates(monkeypatch)
    assert "calibrated on the patient who is asked" in selection_leaks(cohort, file)


def test_no_patient_is_in_both_halves_of_the_coverage(
    cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "calibration.json"
    assert coverage_leaks(cohort, file) == set()
    halves_overlap(monkeypatch)
    assert "calibrated on patients who are asked" in coverage_leaks(cohort, file)
