"""Cohorts: MedAlign's tables, lazy records and gold, data-use tags, what is skipped and where.

No row of a table joins another patient's record, question or answer.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from midchart.core.cohorts.manifest import write_manifest
from midchart.core.cohorts.records import split_evidence, task_type_of, truth
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Manifest
from tests.support.run_helpers import allow

QUESTIONS = "clinician-instruction-responses.tsv"
HEAD = "filename\tquestion\tevidence\tclinician_response\tinstruction_id\tannotator_num"


def xml(person: str, *events: tuple[str, str]) -> str:
    body = "".join(
        f'<entry timestamp="{time}"><event type="note" name="Note">{text}</event></entry>'
        for time, text in events
    )
    attribute = f' person_id="{person}"' if person else ""
    return f"<eventstream{attribute}><encounter><events>{body}</events></encounter></eventstream>"


ONE = xml(
    "p1",
    ("2020-01-01 00:00", "He takes metformin 500 mg. He sleeps."),
    ("2020-01-02 00:00", "Nothing new."),
    ("2020-01-11 00:00", "Potassium was 5.9."),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cohort"
    (path / "ehrs").mkdir(parents=True)
    (path / "ehrs" / "file1.xml").write_text(ONE)
    (path / "ehrs" / "file2.xml").write_text(xml("", ("2021-01-01 00:00", "A second patient.")))
    return path


def table(folder: Path, *rows: str, head: str = HEAD, name: str = QUESTIONS, end: str = "\n"):
    (folder / name).write_bytes(("\ufeff" + end.join([head, *rows]) + end).encode())


def test_a_cell_longer_than_the_csv_modules_limit(folder: Path):
    table(folder, f"file1.xml\tLong?\t{'word ' * 60_000}\tyes\t\t")
    assert len(open_cohort(folder).gold) == 1


def test_tags_default_to_no_and_loading_writes_nothing(folder: Path, workspace: Path):
    before = sorted(folder.rglob("*"))
    manifest = open_cohort(folder).manifest
    assert (manifest.training_allowed, manifest.external_services_allowed) == (False, False)
    assert "no training" in manifest.licence and manifest.name == "cohort"
    assert sorted(folder.rglob("*")) == before
    written = Manifest('A "name"', "me", "none", True, False, "yes", True)
    write_manifest(folder, written)
    allow(folder, "training_allowed")
    assert open_cohort(folder).manifest == written
    for place in (folder, folder / "ehrs", folder / "ehrs" / "file1.xml"):
        write_manifest(folder, written)
        assert open_cohort(place).manifest == written
        changed = dataclasses.replace(written, training_allowed=False)
        write_manifest(folder, changed)
        assert open_cohort(place).manifest == changed


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Does he smoke?", "R"),
        ("What is the most recent hemoglobin A1c?", "R"),
        ("Summarize the most recent visit", "S"),
        ("Please list current medications", "S"),
        ("Has his weight changed over the past year?", "R"),
        ("How did the creatinine change over the past year?", "S"),
        ("Which drugs were tried and why were they stopped?", "Rn"),
        ("Wasting: which signs?", "Rn"),
        ("When was he listed for transplant?", "Rn"),
    ],
)
def test_task_types(question: str, kind: str):
    assert task_type_of(question) == kind


def test_small_readings():
    assert split_evidence(" a |||  ||| nan|||b|c") == ("a", "b|c")
    assert [truth(t) for t in ("True", "YES", "1", "0", "no", "", "2")] == [
        True, True, True, False, False, None, None,
    ]  # fmt: skip
