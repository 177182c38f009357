"""Runs of kind ``gate``: what they train, resume without loss, correct tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midchart.core.arms import ARMS
from midchart.core.errors import SpecError, UnknownName, WorkFailed
from midchart.core.gate.checkpoint import GateRecipe
from midchart.core.gate.cohort_training import split_pairs, train_gate
from midchart.core.gate.training import GateTrainer
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.report import report
from midchart.core.runs.directory import RunDirectory, make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.process import status
from midchart.core.runs.spec import read_spec
from midchart.core.runs.worker import do_run
from midchart.core.stats.paired import share_interval
from midchart.core.text import sentences
from midchart.core.text.evidence import evidence_parts, lexical_hits
from midchart.core.training_experiments.gate.evaluation import (
    GROUPS,
    Evaluation,
    GateScores,
    Recalled,
    evaluation_row,
    reliability_rows,
    variants,
)
from midchart.core.types import Budget, Cohort
from tests.support import gate_cohort, run_helpers
from tests.support.run_helpers import workspace_at


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with workspace_at(tmp_path_factory.mktemp("gate-run")) as folder:
        gate_cohort.make(folder / "data" / "cohorts" / "demo")
        yield folder


@pytest.fixture(scope="module")
def cohort(place: Path) -> Cohort:
    return open_cohort(str(place / "data" / "cohorts" / "demo"))


def spec(**changes: Any) -> dict[str, Any]:
    """A run of everything but the 27 shapes, two epochs each."""
    usual = {"kind": "gate", "data": "demo", "epochs": 2, "variants": ["query", "loss", "faults"]}
    return {**usual, **changes}


def new_run(**changes: Any) -> RunDirectory:
    return make_run(plan(read_spec(spec(**changes))))


def contents(run: str) -> dict[str, dict[str, Any]]:
    """Rows of the variants by key, without clocks."""
    return run_helpers.contents(run, ["variants"])["variants"]


@pytest.fixture(scope="module")
def full_run(place: Path) -> RunDirectory:
    """A run done in this process, without a break."""
    folder = new_run()
    assert do_run(folder) == "done"
    return folder


@pytest.fixture(scope="module")
def run_report(full_run: RunDirectory) -> dict[str, Any]:
    return report(full_run.id)


def test_the_variants_are_those_of_the_protocol_each_once():
    every = variants(GROUPS, Protocol())
    assert len({one.name for one in every}) == len(every) == 34
    shapes = {
        (one.ngram, one.dim, one.head) for one in every if "ablation" in one.groups and one.query
    }
    assert len(shapes) == 27 == len(variants(["ablation"], Protocol()))
    assert [one.query for one in variants(["query"], Protocol())] == [True, False]
    assert [one.loss for one in variants(["loss"], Protocol())] == ["bce", "focal"]
    faults = variants(["faults"], Protocol())
    assert faults[0].fault == "none" and len(faults) == 6
    for one in faults:
        fields = one.protocol(Protocol()).differences().keys()
        assert fields == one.changes.keys()
        assert len(fields) == {"none": 0, "all four": 4}.get(one.fault, 1)
        assert one.salts(Protocol()) == ((0, 1, 2, 3) if "hash" in fields else (0,))


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"variants": []}, SpecError, "at least 1 item"),
        ({"variants": "faults"}, SpecError, "a valid list"),
        ({"variants": ["falts"]}, UnknownName, "faults"),
        ({"epochs": 0}, SpecError, "equal to 1"),
        ({"epochs": True}, SpecError, "a valid integer"),
        ({"limit": 3}, SpecError, "takes no limit"),
        ({"arms": ["bm25"]}, SpecError, "takes no arms"),
        ({"epoch": 3}, UnknownName, "epochs"),
    ],
)
def test_a_wrong_spec_is_reported_in_one_line(changes: dict[str, Any], error: type, reason: str):
    with pytest.raises(error, match=reason) as caught:
        read_spec(spec(**changes))
    assert "\n" not in str(caught.value)


def test_the_tables_equal_a_training_computed_by_hand(
    run_report: dict[str, Any], cohort: Cohort, tmp_path: Path
):
    gate = train_gate(cohort, Protocol(), tmp_path, None, None, GateRecipe(epochs=2))
    tables = run_report["tables"]
    row = tables["ablation"][0]
    assert (row["variant"], row["ngram"], row["dim"]) == ("n=3 dim=64 standard", 3, 64)
    assert row["auroc"] == pytest.approx(gate.facts["test_auroc"], abs=1e-9)
    assert row["ci_low"] is row["ci_high"] is None, "fewer than 5 patients to examine on"
    curve = [r for r in tables["training"] if r["variant"] == row["variant"]]
    assert [{k: r[k] for k in r if k != "variant"} for r in curve] == gate.facts["curve"]
    bins = [r for r in tables["calibration"] if r["variant"] == row["variant"]]
    scaled = [r for r in bins if r["stage"] == "scaled"]
    assert {r["temperature"] for r in scaled} == {gate.temperature}
    part = gate.facts["pairs"]["test"]
    assert sum(r["n"] for r in scaled) == part["n"]
    for r in bins:
        assert r["ci_low"] is r["ci_high"] is None, "fewer than 5 patients"
        assert r["bin"] / 10 <= r["mean_score"] <= (r["bin"] + 1) / 10
    counts = {"positive": 0, "negative": 0}
    for r in tables["scores"]:
        if r["variant"] == row["variant"]:
            counts[r["label"]] += r["count"]
    assert counts == {"positive": part["positives"], "negative": part["n"] - part["positives"]}
    assert tables["split"] == [
        {
            "part": name,
            "patients": len(getattr(gate.split, name)),
            "sentences": gate.facts["pairs"][name]["n"],
            "positives": gate.facts["pairs"][name]["positives"],
        }
        for name in ("train", "validation", "test")
    ]
    assert tables["failures"] == []


def test_recall_is_that_of_the_arm_without_the_recency_buffer(
    run_report: dict[str, Any], cohort: Cohort, tmp_path: Path
):
    gate = train_gate(cohort, Protocol(), tmp_path, None, None, GateRecipe(epochs=2))
    arm = ARMS.build("qccs", Protocol(), gate=str(tmp_path))
    lexical: list[bool] = []
    evidence: list[bool] = []
    every: list[bool] = []
    for instruction in cohort.instructions:
        gold, record = cohort.gold[instruction.id], cohort.records[instruction.record_id]
        if gate.split.part_of(instruction.record_id) != "test":
            continue
        selected = arm.select(record, instruction, Budget(20, 0)).kept
        assert len(selected) == 20
        if any(len(word) >= 4 and word.isalpha() for word in gold.answer.lower().split()):
            lexical.append(any(lexical_hits((k.sentence.text for k in selected), gold.answer)))
        ids = set(evidence_parts(sentences(record, Protocol()), gold.spans))
        evidence.append(not ids.isdisjoint(k.sentence.id for k in selected))
        every.append(ids.issubset(k.sentence.id for k in selected))
    row = run_report["tables"]["ablation"][0]
    assert (row["n"], row["evidence_n"]) == (len(lexical), len(evidence)) and row["n"] > 4
    assert row["recall"] == pytest.approx(np.mean(lexical))
    assert row["evidence_recall"] == pytest.approx(np.mean(evidence))
    assert row["evidence_all_recall"] == pytest.approx(np.mean(every))
    assert 0 < row["evidence_all_chance"] <= row["evidence_chance"] < row["recall_chance"] < 1
    assert row["recall_low"] is row["recall_high"] is None, "fewer than 5 patients"


def test_intervals_of_an_evaluation_are_by_patient_and_have_a_width():
    """Eight patients, three pairs and two questions each; the scores of the first gate part all
    labels and keep all evidence, which leaves intervals of resampled patients without width."""
    patients = np.repeat(np.array([f"p{i}" for i in range(8)]), 3)
    labels = np.tile(np.array([1, 0, 0], np.float32), 8)
    asked = [f"p{i}" for i in range(8) for _ in range(2)]
    all_kept, some = (
        Recalled([True] * 16, asked, [0.5] * 16),
        Recalled([True, False] * 8, asked, [0.25] * 16),
    )
    recalled = {
        "": all_kept, "evidence_": some, "evidence_all_": some, "middle_": Recalled([], [], []),
    }  # fmt: skip
    perfect = GateScores(labels - 0.5, labels, patients, recalled)
    protocol = Protocol(resamples=200, seed=1)
    row = evaluation_row(0, perfect, protocol)
    assert row["ci_low"] < row["auroc"] == row["ci_high"] == 1
    assert (row["hits"], row["n"], row["high"]) == (16, 16, 1) and row["low"] < 1
    assert (row["evidence_low"], row["evidence_high"]) == share_interval(some.hit, asked)
    assert (row["chance"], row["evidence_all_chance"]) == (0.5, 0.25)
    assert row["middle_n"] == 0 and row["middle_low"] is row["middle_chance"] is None
    paper = evaluation_row(0, perfect, replace(protocol, intervals="percentile"))
    assert (paper["ci_low"], paper["ci_high"]) == (1, 1), "percentiles"
    bins = reliability_rows(replace(perfect, logits=8 * (labels - 0.5)), 1.0)
    assert [b["low"] < b["positive_rate"] or b["positive_rate"] < b["high"] for b in bins] == [
        True
    ] * 4


FEW = ["query", "loss"]


def first(count: int, full_run: RunDirectory) -> dict[str, dict[str, Any]]:
    """The first rows of the whole run: a run of few groups has these very rows."""
    return dict(list(contents(full_run.id).items())[:count])


def test_a_run_cancelled_between_epochs_resumes_there(full_run: RunDirectory):
    folder = new_run(variants=FEW)
    ticks: list[int] = []
    usual = GateTrainer._validate

    def ticking(self: GateTrainer) -> tuple[float, float]:
        ticks.append(1)
        if len(ticks) == 3:
            folder.cancel.touch()
        return usual(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GateTrainer, "_validate", ticking)
        assert do_run(folder) == "cancelled"
        assert len(ticks) == 3  # the first variant, and one epoch of the second
        assert [p.suffix for p in (folder.path / "training").iterdir()] == [".pt"]
        assert status(folder.id)["done"] == 1
        for note in (folder.cancel, folder.cancelled):
            note.unlink()
        assert do_run(folder) == "done"
    assert len(ticks) == 3 * 2
    assert contents(folder.id) == first(3, full_run)


def test_a_failed_variant_has_a_reason_and_is_repeated_on_resume(full_run: RunDirectory):
    folder = new_run(variants=FEW)
    usual = GateTrainer.run

    def failing(self: GateTrainer, *rest: Any) -> None:
        if self.recipe.loss == "focal":
            raise WorkFailed("the loss is NaN in epoch 1")
        usual(self, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GateTrainer, "run", failing)
        do_run(folder)
    assert (status(folder.id)["done"], status(folder.id)["failed"]) == (2, 1)
    (failure,) = report(folder.id)["tables"]["failures"]
    assert failure["variant"] == "n=3 dim=64 standard focal" and "epoch 1" in failure["reason"]
    folder.done.unlink()
    do_run(folder)
    assert status(folder.id)["failed"] == 0
    assert contents(folder.id) == first(3, full_run)


def test_the_evaluation_uses_only_test_patients(cohort: Cohort):
    split = split_pairs(cohort, Protocol()).split
    evaluation = Evaluation(cohort, split, Protocol())
    assert {question.asked.record_id for question in evaluation.questions} == set(split.test)
    labels = [question.label for question in evaluation.questions]
    drawn = split_pairs(cohort, Protocol()).test
    assert np.concatenate(labels).tolist() == drawn.label.tolist()
    texts = [q.asked.sentences[row] for q in evaluation.questions for row in q.rows]
    assert texts == [drawn.sentences[i] for i in drawn.sentence]
