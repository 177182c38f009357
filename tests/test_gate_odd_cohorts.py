"""Gates of cohorts that are not as they should be: records that cannot be read, questions without a
word, files edited between two trainings, folders that cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import InputError
from core.gate.recipe import Aborted, Epoch, PlusRecipe, Recipe
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.run import report, status
from core.run.folder import make_run
from core.run.gating.exam import Exam
from core.run.gating.training import lessons, split_of, train_gate
from core.run.gating.training_plus import train_plus_gate
from core.run.planning import plan
from core.run.spec import read_spec
from core.run.worker import do_run
from tests import gate_cohort

SPLIT_OF = ("train", "validation", "test")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def folder(place: Path) -> Path:
    path = place / "data" / "cohorts" / "odd"
    gate_cohort.make(path)
    return path


def broken(folder: Path, *ids: str) -> None:
    """Cut the records of some patients off in the middle of their files."""
    for id in ids:
        file = folder / "ehrs" / f"{id}.xml"
        file.write_bytes(file.read_bytes()[:2000])


def test_records_that_cannot_be_read_are_left_out_and_counted(folder: Path, tmp_path: Path):
    split = split_of(open_cohort(str(folder)), Protocol())
    whole = lessons(open_cohort(str(folder)), Protocol())
    assert not whole.unread
    broken(folder, split.train[0], split.test[0])
    cohort = open_cohort(str(folder))
    gate = train_gate(cohort, Protocol(), tmp_path / "g", recipe=Recipe(epochs=1))
    assert gate.split == split
    assert gate.facts["unread_records"] == 2
    assert 0 < gate.facts["pairs"]["train"]["n"] < len(whole.train)
    assert sorted(skip.file for skip in cohort.skipped) == sorted(
        f"ehrs/{id}.xml" for id in (split.train[0], split.test[0])
    )
    plus = train_plus_gate(cohort, Protocol(), tmp_path / "p", recipe=PlusRecipe(epochs=1, dim=8))
    assert plus.facts["unread_records"] == 2
    exam = Exam(cohort, split, Protocol())
    assert {q.record_id for q in exam.questions} == set(split.test[1:])
    assert exam.unread == {split.test[0]}


def test_a_run_goes_on_without_them_and_says_so(folder: Path):
    split = split_of(open_cohort(str(folder)), Protocol())
    broken(folder, split.train[0], split.test[0])
    spec = {"kind": "gate", "data": "odd", "epochs": 1, "variants": ["loss"]}
    run = make_run(plan(read_spec(spec)))
    assert do_run(run) == "done"
    assert (status(run.id)["done"], status(run.id)["failed"]) == (2, 0)
    counted = {row["part"]: row["patients"] for row in report(run.id)["tables"]["split"]}
    assert counted == {
        part: len(getattr(split, part)) - (part in ("train", "test")) for part in SPLIT_OF
    }
    events = map(json.loads, run.events.read_text().splitlines())
    noted = [event["text"] for event in events if event["event"] == "note"]
    assert ["2 records could not be read" in text for text in noted] == [True]


def test_a_cohort_of_which_nothing_can_be_read_teaches_nothing(folder: Path, tmp_path: Path):
    split = split_of(open_cohort(str(folder)), Protocol())
    broken(folder, *split.train, *split.validation, *split.test)
    cohort = open_cohort(str(folder))
    for refused in (
        lambda: train_gate(cohort, Protocol(), tmp_path / "g"),
        lambda: train_plus_gate(cohort, Protocol(), tmp_path / "g"),
        lambda: Exam(cohort, split, Protocol()),
    ):
        with pytest.raises(InputError, match="records could not be read") as told:
            refused()
        assert "\n" not in str(told.value)


def reworded(folder: Path) -> None:
    """Ask every question in other words: as many pairs come of it, of other texts."""
    file = folder / "clinician-instruction-responses.tsv"
    head, *lines = file.read_text().splitlines()
    column = head.split("\t").index("question")
    for i, line in enumerate(lines):
        cells = line.split("\t")
        cells[column] += " Say so briefly."
        lines[i] = "\t".join(cells)
    file.write_text("\n".join([head, *lines]) + "\n")


def test_a_training_that_was_cut_off_begins_anew_where_the_cohort_was_edited(
    folder: Path, tmp_path: Path
):
    recipe, gate = Recipe(epochs=2), tmp_path / "g"
    with pytest.raises(Aborted):
        train_gate(open_cohort(str(folder)), Protocol(), gate, lambda *_: False, recipe=recipe)
    assert len(list(gate.glob("training-*"))) == 1
    reworded(folder)
    cohort, told = open_cohort(str(folder)), list[int]()

    def progress(epoch: Epoch, epochs: int) -> bool:
        told.append(epoch.epoch)
        return True

    again = train_gate(cohort, Protocol(), gate, progress, recipe=recipe)
    fresh = train_gate(cohort, Protocol(), tmp_path / "fresh", recipe=recipe)
    assert told == [1, 2]
    assert all((again.weights[name] == fresh.weights[name]).all() for name in fresh.weights)
    assert not list(gate.glob("training-*"))
