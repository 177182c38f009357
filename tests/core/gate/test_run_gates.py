"""A run keeps the gate checkpoints it started with; others are refused on resume and during
work."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.arms import ARMS
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.gate.checkpoint import save_gate
from midchart.core.loaders.open import content_digest, open_cohort
from midchart.core.runs import gate_checkpoints as pinned
from midchart.core.runs import process as control
from midchart.core.runs.directory import RunDirectory, find_run, make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.process import resume
from midchart.core.runs.spec import read_spec
from tests.support import gate_cohort
from tests.support.gates import random_gate
from tests.support.run_helpers import finished_run


@pytest.fixture
def place(workspace: Path, tmp_path: Path) -> Path:
    gate_cohort.make(tmp_path / "data" / "cohorts" / "demo")
    save_gate(tmp_path / "gate", random_gate())
    save_gate(tmp_path / "other", random_gate(seed=2))
    return tmp_path


def test_a_resume_refuses_another_gate_and_accepts_the_same_one_retrained(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    begun: list[str] = []

    def launched(folder: RunDirectory, lock: object) -> None:
        begun.append(folder.id)

    monkeypatch.setattr(control, "launch", launched)
    arms = [{"name": "qccs", "gate": str(place / "gate")}]
    arms.append({"name": "qccs", "gate": str(place / "other")})
    folder = make_run(plan(read_spec({"kind": "selection", "data": "demo", "arms": arms})))
    cohort = open_cohort(folder.plan().data)
    for entry in folder.plan().arms:
        gate = str(entry.options["gate"])
        pinned.pin(folder.path, entry, gate, cohort, folder.plan().digest)
    assert len(json.loads((folder.path / "gates.json").read_text())) == 2
    save_gate(place / "gate", random_gate())  # made again, and come out the same
    assert resume(folder.id) == begun.pop()
    for other in (
        lambda: save_gate(place / "gate", random_gate(seed=1)),
        lambda: (save_gate(place / "gate", random_gate()),
                 save_gate(place / "other", random_gate(seed=1))),
    ):  # fmt: skip
        other()
        with pytest.raises(
            InputError, match="started with another gate checkpoint for its arm 'qccs"
        ) as error:
            resume(folder.id)
        assert "\n" not in str(error.value)
    (place / "gate" / "gate.json").unlink()
    with pytest.raises(DataError, match="no trained gate is here"):
        resume(folder.id)
    assert not begun


def test_a_run_with_an_arm_that_left_opens_and_is_not_resumed(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    arms = ["bm25", "qccs_plus"]
    with monkeypatch.context() as patch:
        patch.setitem(ARMS._factories, "qccs_plus", ARMS.get("bm25"))
        run = finished_run({"kind": "selection", "data": "demo", "arms": arms})
    (find_run(run).path / "done.json").unlink()
    shown = {row["arm"] for row in api.report(run)["tables"]["recall"]}
    assert shown == {*arms}
    with pytest.raises(InputError, match="'qccs_plus' left; use hybrid"):
        resume(run)


@pytest.mark.slow
def test_every_arm_is_evaluated_on_patients_no_gate_was_trained_on(place: Path):
    cohort = open_cohort(str(place / "data" / "cohorts" / "demo"))
    gate = gate_cohort.train(cohort, place / "trained")
    arms = ["bm25", {"name": "qccs", "gate": str(place / "trained")}]
    spec = {"kind": "answers", "data": "demo", "arms": arms, "readers": ["extractive"]}
    spec |= {"judges": ["token_overlap"], "protocol": {"resamples": 200}}
    run = finished_run(spec)
    overall = api.report(run)
    asked = [i.record_id for i in cohort.instructions]
    unseen = sum(id in gate.split.test for id in asked)
    assert 0 < unseen < len(asked)
    assert overall["part"]["name"] == "test"
    assert overall["part"]["patients"] == len(set(asked) & set(gate.split.test))
    for table, share in (("recall", "hits"), ("accuracy", "correct")):
        for name, part, n in (
            (table, "test", unseen),
            (f"{table}_seen", "seen", len(asked) - unseen),
        ):
            rows = [
                row for row in overall["tables"][name]
                if row["band"] == "overall" and row.get("criterion", "lexical") == "lexical"
            ]  # fmt: skip
            assert [row["label"] for row in rows] == [e["label"] for e in _arms(run)]
            assert {(row["part"], row["n"]) for row in rows} == {(part, n)}
            every = {
                row["label"]: row[share] for row in api.report(run, "all")["tables"][table]
                if row["band"] == "overall" and row.get("criterion", "lexical") == "lexical"
            }  # fmt: skip
            assert all(row[share] <= every[row["label"]] for row in rows)
    assert {row["n"] for row in overall["tables"]["paired"]} == {unseen}
    assert {row["n"] for row in overall["tables"]["costs"]} == {len(asked)}, "work is counted whole"
    (pair,) = api.compared(run, "bm25")["paired"]
    assert pair["n"] == unseen
    with pytest.raises(UnknownName):
        api.report(run, "training")


def _arms(run: str) -> list[dict[str, object]]:
    return json.loads((Path(api.status(run)["folder"]) / "spec.json").read_text())["spec"]["arms"]


def test_training_patients_are_matched_by_record_contents_not_by_id(place: Path):
    cohort = open_cohort(str(place / "data" / "cohorts" / "demo"))
    gate = gate_cohort.train(cohort, place / "trained")
    trained = sorted({*gate.split.train, *gate.split.validation})
    digest = content_digest(cohort.path)
    assert pinned.seen_by("qccs", place / "trained", cohort, digest) == trained
    # A cohort under another name: the same records are the same patients, other ones are not.
    renamed = dataclasses.replace(
        cohort, manifest=dataclasses.replace(cohort.manifest, name="other")
    )
    assert pinned.seen_by("qccs", place / "trained", renamed, "of other files") == trained
    others = dataclasses.replace(
        renamed,
        records={
            id: dataclasses.replace(cohort.records[id], digest=f"another {id}")
            for id in cohort.records
        },
    )
    assert pinned.seen_by("qccs", place / "trained", others, "of other files") == []
