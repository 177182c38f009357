"""Leaks planted in the gate of qccs: what it is trained and tested on.

Sentences and questions name their patient and day, so that the patients behind training pairs are
read from the texts themselves and compared with the split stated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from midchart.core.gate import cohort_training, training
from midchart.core.gate.checkpoint import GateConfig, GateRecipe
from midchart.core.gate.examples import Pairs, hashing_of
from midchart.core.protocol import Protocol
from midchart.core.types import Cohort
from tests.support import marked_cohort
from tests.support.marked_cohort import CUTOFF_DAY, answer, day_in, patient_in
from tests.support.run_helpers import set_workspace

PATIENTS = 12
TRAIN, VALIDATION, TEST = {2, 3, 5, 6, 7, 9, 11}, {0}, {1, 4, 8, 10}
"""The split of these twelve patients under seed 42, as a gate's card has to state it."""
PROTOCOL = Protocol()


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, tmp_path_factory.mktemp("workspace"))
        yield marked_cohort.make(tmp_path_factory.mktemp("marked"), PATIENTS)


def pair_leaks(part: str, pairs: Pairs, patients: set[int]) -> set[str]:
    """What is wrong with the pairs of a part that may hold ``patients`` only."""
    problems: set[str] = set()
    seen: set[int] = set()
    for q, s, label in zip(pairs.question, pairs.sentence, pairs.label, strict=True):
        question, sentence = pairs.questions[q], pairs.sentences[s]
        patient = patient_in(sentence)
        seen.add(patient)
        if patient_in(question) != patient:
            problems.add(f"{part}: a sentence of another patient than the question's")
        if label != (answer(patient) in sentence):
            problems.add(f"{part}: a wrong label")
        if day_in(sentence) > CUTOFF_DAY:
            problems.add(f"{part}: an event after the cutoff")
    if seen - patients:
        problems.add(f"{part}: patients of another part")
    if patients - seen:
        problems.add(f"{part}: patients are missing")
    return problems


def gate_leaks(cohort: Cohort, folder: Path) -> set[str]:
    """Train a gate; what is wrong with the pairs that it is trained, validated and tested on."""
    problems: set[str] = set()
    tested: list[Pairs] = []
    with pytest.MonkeyPatch.context() as patch:
        build, score = training.GateTrainer.__init__, training.GateTrainer.logits

        def built(self, config, pairs, validation, recipe) -> None:
            problems.update(pair_leaks("train", pairs, TRAIN))
            problems.update(pair_leaks("validation", validation, VALIDATION))
            build(self, config, pairs, validation, recipe)

        def scored(self, pairs):
            if pairs is not self.validation:
                tested.append(pairs)
            return score(self, pairs)

        patch.setattr(training.GateTrainer, "__init__", built)
        patch.setattr(training.GateTrainer, "logits", scored)
        config = GateConfig(hashing_of(PROTOCOL), dim=8)
        gate = cohort_training.train_gate(
            cohort, PROTOCOL, folder, None, config, GateRecipe(epochs=1)
        )
    for pairs in tested:
        others = {patient_in(text) for text in pairs.sentences} & (TRAIN | VALIDATION)
        problems |= {"test: patients of another part"} if others else set()
        problems |= {p for p in pair_leaks("test", pairs, TEST) if "missing" not in p}
    assert tested
    saved = [{int(id[1:]) for id in ids} for ids in
             (gate.split.train, gate.split.validation, gate.split.test)]  # fmt: skip
    if saved != [TRAIN, VALIDATION, TEST]:
        problems.add("the card states another split")
    return problems


def with_ids(name: str, extra: set[int]) -> Callable[[pytest.MonkeyPatch], None]:
    """The function ``name`` of the training gets these patients too for the first part."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        draw = getattr(cohort_training, name)
        calls: list[int] = []

        def drawn(cohort, ids, *rest):
            calls.append(1)
            more = [f"p{patient:02d}" for patient in sorted(extra)] if len(calls) == 1 else []
            return draw(cohort, [*ids, *more], *rest)

        patch.setattr(cohort_training, name, drawn)

    return plant


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """What the function ``name`` of the training gives is changed."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        usual = getattr(cohort_training, name)
        patch.setattr(cohort_training, name, lambda *arguments: change(usual(*arguments)))

    return plant


labels_swapped = changed("pairs", lambda pairs: replace(pairs, label=1 - pairs.label))
questions_swapped = changed(
    "pairs", lambda pairs: replace(pairs, question=(pairs.question + 1) % len(pairs.questions))
)
# The parts are exchanged after the split: the card still states the right one.
parts_exchanged = changed("split_pairs", lambda pairs: replace(pairs, test=pairs.train))


def future_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cohort_training, "allowed", lambda sentences, cutoff: list(sentences))


def test_a_gate_is_trained_and_tested_on_the_stated_patients(
    cohort: Cohort, tmp_path: Path
) -> None:
    assert set(range(PATIENTS)) == TRAIN | VALIDATION | TEST
    assert gate_leaks(cohort, tmp_path) == set()


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (with_ids("questions_of", TEST), "train: patients of another part"),
        (with_ids("questions_of", {4}), "train: patients of another part"),
        (labels_swapped, "train: a wrong label"),
        (questions_swapped, "train: a sentence of another patient than the question's"),
        (future_events, "train: an event after the cutoff"),
        (parts_exchanged, "test: patients of another part"),
    ],
)
def test_a_leak_planted_in_a_gate_is_seen(
    cohort: Cohort,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    problem: str,
) -> None:
    plant(monkeypatch)
    assert problem in gate_leaks(cohort, tmp_path)
