"""Whose question it is: no row of a table joins another patient's record, question or answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.loaders.open import open_cohort

QUESTIONS = "clinician-instruction-responses.tsv"
RESPONSES = "clinician-reviewed-model-responses.tsv"
HEAD = "filename\tquestion\tevidence\tclinician_response\tinstruction_id\tannotator_num"
RESPONSE_HEAD = "filename\tquestion\tinstruction_id\tmodel_name\tmodel_response\tbinary_correct"
ONE = "He takes metformin 500 mg. He sleeps. Potassium was 5.9."


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))


def write(folder: Path, name: str, person: str, text: str) -> None:
    attribute = f' person_id="{person}"' if person else ""
    (folder / "ehrs" / name).write_text(
        f'<eventstream{attribute}><encounter><events><entry timestamp="2020-01-01 00:00">'
        f'<event type="note" name="Note">{text}</event></entry></events></encounter></eventstream>'
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cohort"
    (made / "ehrs").mkdir(parents=True)
    write(made, "file1.xml", "p1", ONE)
    write(made, "file2.xml", "", "A second patient.")
    return made


def table(folder: Path, *rows: str, head: str = HEAD, name: str = QUESTIONS) -> None:
    (folder / name).write_text("\n".join([head, *rows]) + "\n")


def test_a_response_never_joins_another_patients_question(folder: Path):
    table(folder, "file1.xml\tWhich drug?\tHe takes metformin\tMetformin\t7\tAnnotator_1")
    table(
        folder,
        "file2.xml\tWhich drug?\t7\tm1\tNone\tTrue",
        "file2.xml\tWhich  drug?\t7\tm2\tNone\tTrue",
        "file2.xml\tAny plan?\t7\tm1\tNo\tTrue",
        "file1.xml\twhich drug?\t7\tm1\tMetformin\tTrue",
        head=RESPONSE_HEAD,
        name=RESPONSES,
    )
    cohort = open_cohort(folder)
    records = {i.id: i.record_id for i in cohort.instructions}
    assert len(records) == len(cohort.instructions) == 3
    told = [records[r.instruction_id] for r in cohort.responses]
    assert told == ["file2", "file2", "file2", "p1"]
    first, again, other, last = (r.instruction_id for r in cohort.responses)
    assert first == again != other and last == "7"
    assert list(cohort.gold) == ["7"]


def test_an_id_on_two_questions_of_a_record_keeps_both(folder: Path):
    table(
        folder,
        "file1.xml\tWhich drug?\tHe takes metformin\tMetformin\t7\tAnnotator_1",
        "file1.xml\tWhat potassium?\tPotassium was 5.9.\t5.9\t7\tAnnotator_1",
    )
    table(
        folder,
        "file1.xml\tWhat potassium?\t7\tm1\t5.9\tTrue",
        "file1.xml\tDoes he sleep?\t7\tm1\tYes\tTrue",
        head=RESPONSE_HEAD,
        name=RESPONSES,
    )
    cohort = open_cohort(folder)
    questions = {i.question: i.id for i in cohort.instructions}
    assert list(questions) == ["Which drug?", "What potassium?", "Does he sleep?"]
    assert len(set(questions.values())) == 3 and questions["Which drug?"] == "7"
    assert cohort.gold[questions["What potassium?"]].answer == "5.9"
    assert cohort.gold["7"].answer == "Metformin"
    answered = [r.instruction_id for r in cohort.responses]
    assert answered == [questions["What potassium?"], questions["Does he sleep?"]]
    places = [w.split(": ")[0] for w in cohort.warnings if "instruction_id" in w]
    assert places == [f"{QUESTIONS}:3", f"{RESPONSES}:3"]
    assert not any("several annotators" in w for w in cohort.warnings)
