"""Cross-fitted gates: each patient is scored by the gate that was trained on none of theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.arms import ARMS
from midchart.core.gate.checkpoint import load_gate
from midchart.core.gate.cohort_training import folds_of
from midchart.core.gate.examples import QuestionSentences, positives
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.runs.gate_checkpoints import seen_by
from midchart.core.types import Budget
from tests.support import gate_cohort

FOLDS = 3


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds") / "cohort"
    gate_cohort.make(folder)
    return folder


def patients_of_card(folder: Path) -> set[str]:
    """Whom a gate's card names as trained on or validated on, read from the file itself."""
    split = json.loads((folder / "gate.json").read_text())["split"]
    return {*split["train"], *split["validation"]}


@pytest.mark.slow
def test_each_patient_is_held_out_once_and_scored_by_that_gate(place: Path, tmp_path: Path) -> None:
    cohort, gate = open_cohort(place), tmp_path / "gate"
    assert len(api.make_gate(place, gate, folds=FOLDS)["folds"]) == FOLDS
    asked = {i.record_id for i in cohort.instructions}
    cards = [patients_of_card(folder) for folder in sorted(gate.iterdir())]
    assert all(sum(id not in card for card in cards) == 1 for id in asked)
    arm = ARMS.build("qccs", Protocol(), gate=str(gate))
    question = {i.record_id: i for i in cohort.instructions}
    for id in sorted(asked)[:6]:
        traced = dict(arm.select(cohort.records[id], question[id], Budget(k=5)).trace)
        (number,) = [i for i, card in enumerate(cards, 1) if id not in card]
        assert traced["this patient"] == "in its test part"
        assert traced["gate"] == load_gate(gate / f"fold-{number}").digest[:12]
    assert seen_by("qccs", gate, cohort, "") == []


def test_patients_who_are_asked_the_same_question_are_in_one_fold(place: Path) -> None:
    cohort = open_cohort(place)
    patients = sorted({i.record_id for i in cohort.instructions})
    pairs = {id: n // 2 for n, id in enumerate(patients)}
    asked = [
        replace(i, question=f"question {pairs[i.record_id]} {n % 2}")
        for n, i in enumerate(cohort.instructions)
    ]
    splits = folds_of(replace(cohort, instructions=tuple(asked)), Protocol(), 2, True)
    for split in splits:
        tested = {i.question for i in asked if i.record_id in split.test}
        trained = {i.question for i in asked if i.record_id in (*split.train, *split.validation)}
        assert tested and trained and not tested & trained


def test_evidence_as_positives_are_the_sentences_that_hold_it() -> None:
    texts = ("Warfarin 5 mg.", "No fever.", "Warfarin again.", "Discharged.")
    asked = QuestionSentences("p", "Which dose?", "warfarin", texts, evidence=(3,))
    assert positives(asked, "evidence") == [3]
    assert positives(asked, "all") == [0, 2]


def test_without_validation_all_of_the_training_share_is_trained_on(
    place: Path, tmp_path: Path
) -> None:
    asked = {i.record_id for i in open_cohort(place).instructions}
    api.make_gate(place, tmp_path / "gate", validation=False)
    card = json.loads((tmp_path / "gate" / "gate.json").read_text())
    split = card["split"]
    assert split["validation"] == [] and card["temperature"] == 1.0
    assert len(split["train"]) == round(0.7 * len(asked))
    assert {*split["train"], *split["test"]} == asked
