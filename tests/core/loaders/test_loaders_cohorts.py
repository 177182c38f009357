"""Cohorts: MedAlign's tables, lazy records and gold, data-use tags, what is skipped and where.

No row of a table joins another patient's record, question or answer.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.manifest import write_manifest
from midchart.core.cohorts.records import opaque_id, split_evidence, task_type_of, truth
from midchart.core.cohorts.tables import read_table
from midchart.core.errors import DataError, UnknownName
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import close_cohorts, open_cohort
from midchart.core.text import event_text, evidence
from midchart.core.types import Manifest
from tests.support.run_helpers import allow

QUESTIONS = "clinician-instruction-responses.tsv"
RESPONSES = "clinician-reviewed-model-responses.tsv"
HEAD = "filename\tquestion\tevidence\tclinician_response\tinstruction_id\tannotator_num"
RESPONSE_HEAD = "filename\tquestion\tinstruction_id\tmodel_name\tmodel_response\tbinary_correct"


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


def test_records_by_stem_and_by_person_id(folder: Path):
    cohort = open_cohort(folder)
    assert list(cohort.records) == ["p1", "file2"]
    assert cohort.records["file1"] is cohort.records["p1"]
    assert "file1" in cohort.records and "nobody" not in cohort.records
    assert cohort.records.get("nobody") is None
    with pytest.raises(UnknownName, match="Valid: file2, p1"):
        _ = cohort.records["nobody"]


def test_opening_parses_no_record(folder: Path, monkeypatch: pytest.MonkeyPatch):
    table(folder, "file1.xml\tIs he well?\tHe sleeps.\tYes\ti1\tAnnotator_1")
    read: list[str] = []
    real = evidence._search
    monkeypatch.setattr(evidence, "_LEAST_STORED", 0)
    monkeypatch.setattr(evidence, "_search", lambda r, *more: read.append(r.id) or real(r, *more))
    cohort = open_cohort(folder)
    assert len(cohort.gold) == 1 and "i1" in cohort.gold
    assert read == []
    assert cohort.gold["i1"].order == 0.0
    assert cohort.gold["i1"] is cohort.gold["i1"]
    assert read == ["p1"]
    close_cohorts()
    assert open_cohort(folder).gold["i1"] == cohort.gold["i1"]
    assert read == ["p1"], "the second opening reads the cache on disk"


def test_two_annotators_are_one_instruction(folder: Path):
    table(
        folder,
        "file1.xml\tWhich drug?\tNothing new.\tSecond answer\ta\tAnnotator_2",
        "file1.xml\tWhich drug?\tHe takes metformin|||nan|||Nothing new.\tMetformin\ta\tNo. 1",
        "p1\tWhich drug?\t\tThird\tb\tAnnotator_3",
        "file2.xml\tWhich drug?\tA second patient.\tNone\ta\tAnnotator_1",
        "file2\tAny plan?\t\t\t\t",
    )
    cohort = open_cohort(folder)
    first, second, third = cohort.instructions
    assert (first.id, first.record_id, second.record_id) == ("a", "p1", "file2")
    assert second.id.startswith("a-")
    assert third.id == opaque_id("file2", "Any plan?")
    assert list(cohort.gold) == [first.id, second.id]
    gold = cohort.gold["a"]
    assert gold.answer == "Metformin"
    assert gold.snippets == ("He takes metformin", "Nothing new.")
    assert [s.event for s in gold.spans] == [0, 1]
    assert not gold.exact
    assert any("several annotators" in w for w in cohort.warnings)


def test_exact_spans_are_used_and_wrong_ones_are_located_by_text(folder: Path):
    head = HEAD + "\tevidence_spans\tdomain\ttask_type\tsubmitter_specialty"
    rest = "\tmedication\tRn\tCardiology"
    evidence = "file1.xml\tQ{}?\tHe sleeps.|||Potassium was 5.9.\tyes\ti{}\tAnnotator_1\t{}" + rest
    wrong = ["0:5-999", "9:0-1", "0:5-5", "0:a-b", "0:0-1|||x"]
    rows = [evidence.format(i, i, spans) for i, spans in enumerate(["2:0-9|||0:27-37", *wrong])]
    table(folder, *rows, head=head)
    cohort = open_cohort(folder)
    assert cohort.instructions[0].specialty == "Cardiology"
    assert (cohort.instructions[0].domain, cohort.instructions[0].task_type) == ("medication", "Rn")
    good = cohort.gold["i0"]
    text = event_text(cohort.records["p1"].events[0])
    assert good.exact and [text[s.start : s.end] for s in good.spans if not s.event] == [
        "He sleeps."
    ]
    assert (good.order, good.time) == (1.0, 1.0), "the first listed span is the decisive one"
    for i in range(1, len(wrong) + 1):
        assert not cohort.gold[f"i{i}"].exact
        assert len(cohort.gold[f"i{i}"].spans) == 2
    assert len([w for w in cohort.warnings if "evidence_spans" in w]) == len(wrong)
    assert f"{QUESTIONS}:3:" in cohort.warnings[0]


def test_bad_rows_are_skipped_with_their_own_line(folder: Path):
    table(
        folder,
        'file1.xml\tOne?\t"a quoted',
        'cell over lines"\tyes\t\t',
        "nobody.xml\tWho?\t\tx\t\t",
        "file1.xml\t\t\tx\t\t",
        "file1.xml\tToo short",
        "file1.xml\ta\tb\tc\td\te\tf",
        "file1.xml\tTwo?\t\tyes",
        end="\r\n",
    )
    cohort = open_cohort(folder)
    assert [i.question for i in cohort.instructions] == ["One?", "Two?"]
    assert cohort.gold[cohort.instructions[0].id].snippets == ("a quoted\r\ncell over lines",)
    assert sorted((s.line, s.reason.split(" — ")[0]) for s in cohort.skipped) == [
        (4, "asks about a record that is not in the cohort"),
        (5, "has no question"),
        (6, "has 2 columns where the header names 6"),
        (7, "has 7 columns where the header names 6"),
    ]


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"filename\tquestion\nx\ty\n", 1, "lacks the columns evidence, clinician_response"),
        (b"", 1, "lacks the columns filename"),
        (HEAD.encode() + b"\tquestion\n", 1, "names the columns question twice"),
        (HEAD.encode() + b"\tseen by Zyxomma" * 2 + b"\n", 1, "names 1 other column twice"),
        (
            HEAD.encode() + b"\nfile1.xml\tcaf\x81\t\t\t\t\n",
            2,
            "is no UTF-8, UTF-16 or",
        ),
    ],
)
def test_a_damaged_table_does_not_affect_the_records(
    folder: Path, content: bytes, line: int, says: str
):
    (folder / QUESTIONS).write_bytes(content)
    cohort = open_cohort(folder)
    assert len(cohort.records) == 2 and cohort.instructions == ()
    (skip,) = cohort.skipped
    assert (skip.file, skip.line) == (QUESTIONS, line)
    assert says in skip.reason and "Zyxomma" not in skip.reason


def test_a_cell_longer_than_the_csv_modules_limit(folder: Path):
    table(folder, f"file1.xml\tLong?\t{'word ' * 60_000}\tyes\t\t")
    assert len(open_cohort(folder).gold) == 1


CELL = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0\r\ufeff"), max_size=12
)


@hypothesis_settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(CELL, CELL), max_size=6))
def test_any_table_reads_back_with_its_lines(tmp_path_factory, rows):
    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    path = tmp_path_factory.mktemp("t") / "t.tsv"
    lines = ["a\tb", *(f"{quoted(a)}\t{quoted(b)}" for a, b in rows)]
    path.write_bytes("\n".join(lines).encode())
    log = LoadLog()
    read = read_table(path, "t", ["a"], log)
    nonempty = [(a, b) for a, b in rows if a.strip() or b.strip()]
    assert [(r.cells["a"], r.cells["b"]) for r in read] == nonempty
    assert log.skipped == []
    text = "\n".join(lines).split("\n")
    assert all(text[r.line - 1].startswith(quoted(r.cells["a"]).split("\n")[0]) for r in read)


def test_responses_join_by_record_and_question(folder: Path):
    table(folder, "file1.xml\tWhich drug?\tHe takes metformin\tMetformin\ta\tAnnotator_1")
    head = "filename\tquestion\tmodel_name\tmodel_response\tbinary_correct\tis_used_eval\trank"
    table(
        folder,
        "file1.xml\tWhich drug?\tm1\tMetformin.\tTrue\tyes\t1",
        "file1.xml\tWhich drug?\tm2\tNo idea\t0\tFalse\t2",
        "file2.xml\tOther?\tm1\tx\t\t1\t",
        "gone.xml\tOther?\tm1\tx\t\t1\t",
        head=head,
        name=RESPONSES,
    )
    cohort = open_cohort(folder)
    joined = [(r.instruction_id, r.model, r.correct, r.used) for r in cohort.responses]
    other = opaque_id("file2.xml", "Other?")
    assert joined == [("a", "m1", True, True), ("a", "m2", False, False), (other, "m1", None, True)]
    assert ("rank", "2") in cohort.responses[1].extra
    assert [i.id for i in cohort.instructions] == ["a", other]
    assert [(s.file, s.line) for s in cohort.skipped] == [(RESPONSES, 5)]


def test_readable_records_load_although_others_are_damaged(folder: Path):
    ehrs = folder / "ehrs"
    (ehrs / "again.xml").write_text(ONE)
    (ehrs / "bomb.xml").write_text('<!DOCTYPE e [<!ENTITY a "b">]><eventstream>&a;</eventstream>')
    (ehrs / "cut.xml").write_text(ONE[:-40].replace('"p1"', '"p9"'))
    (ehrs / "dir.xml").mkdir()
    (ehrs / "empty.xml").write_text(xml("p5"))
    (ehrs / "loop.xml").symlink_to(ehrs / "loop.xml")
    (ehrs / "other.xml").write_text("<html/>")
    (ehrs / "readme.txt").write_text("not a record")
    (ehrs / "sample.xml").write_text("<record><visit><day/></visit></record>")
    table(folder, "cut.xml\tIs it cut?\tx\tyes\tq\tAnnotator_1")
    cohort = open_cohort(folder)
    assert cohort.gold["q"].order is None
    checked = check_cohort(cohort)
    assert (checked["records"], checked["events"], checked["unlocated"]) == (4, 4, 1)
    assert {s["file"]: s["reason"].split(" — ")[0].split(":")[0] for s in checked["skipped"]} == {
        "ehrs/bomb.xml": "holds a DOCTYPE; entities and external definitions are refused",
        "ehrs/cut.xml": "is not well-formed XML (unclosed token)",
        "ehrs/dir.xml": "is a folder where a file should be",
        "ehrs/file1.xml": "has the person_id of ehrs/again.xml",
        "ehrs/loop.xml": "is a symbolic link that leads in a circle",
        "ehrs/other.xml": "is not a MedAlign record",
    }
    assert len(checked["skipped"]) == 6, "each is told once, however often it is asked for"
    assert sum("holds no event" in w for w in checked["warnings"]) == 2
    json.dumps(checked)
    assert check_cohort(cohort) == checked


def test_a_single_file_is_a_cohort_and_a_damaged_one_an_error(folder: Path):
    cohort = open_cohort(folder / "ehrs" / "file1.xml")
    assert list(cohort.records) == ["p1"] and cohort.instructions == ()
    (folder / "bad.xml").write_text(ONE[:-3])
    with pytest.raises(DataError, match=r"bad\.xml:1: is not well-formed"):
        open_cohort(folder / "bad.xml")
    for file in (folder / "ehrs").iterdir():
        file.write_text("")
    with pytest.raises(DataError, match="none of its 2 record files can be read"):
        open_cohort(folder)


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


@pytest.mark.parametrize("text", ["training_allowed = ", 'training_allowed = "yes"', "synthetic=1"])
def test_a_tag_that_cannot_be_read_allows_nothing(folder: Path, text: str):
    (folder / "midchart.toml").write_text(text)
    cohort = open_cohort(folder)
    assert dataclasses.asdict(cohort.manifest)["training_allowed"] is False
    assert [s.file for s in cohort.skipped] == ["midchart.toml"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x/metadata/codes.parquet", b"", "add data"),
        ("x/person.csv", b"person_id\n", "no format that is known"),
        ("x/Patient.000.ndjson", b'{"resourceType": "Patient"}', "has no id"),
        ("x/a.json", b'{"resourceType": "Bundle"}', "holds no Patient"),
        ("x/notes.docx", b"PK", "no format that is known"),
    ],
)
def test_a_cohort_without_a_readable_part_is_refused_with_the_reason(
    tmp_path: Path, name, content, says
):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        open_cohort(tmp_path / "x")
    with pytest.raises(DataError, match="no such file"):
        open_cohort(tmp_path / "gone")


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
    joined = [records[r.instruction_id] for r in cohort.responses]
    assert joined == ["file2", "file2", "file2", "p1"]
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


def test_a_filename_refers_to_the_file_not_to_another_patients_id(folder: Path):
    (folder / "ehrs" / "p1.xml").write_text(xml("p2", ("2020-01-01 00:00", "Another patient.")))
    (folder / "ehrs" / "file2.XML").write_text(xml("p4", ("2020-01-01 00:00", "Shares a stem.")))
    table(
        folder,
        "p1.xml\tWho?\tAnother patient.\tAnother\t\t",
        "ehrs/file1.xml\tWho?\tHe sleeps.\tHe\t\t",
        "file2.XML\tWho?\t\tShared\t\t",
        "file2\tWho?\tA second patient.\tSecond\t\t",
    )
    cohort = open_cohort(folder)
    record_by_answer = {cohort.gold[i.id].answer: i.record_id for i in cohort.instructions}
    assert record_by_answer == {"Another": "p2", "He": "p1", "Shared": "p4"}
    assert [(s.file, s.line) for s in cohort.skipped] == [(QUESTIONS, 5)], "file2 is two files"
    assert cohort.records["p1"].events[0].text.startswith("He takes"), "a record's id stays its own"
    record_by_answer = [w.split(" — ")[0] for w in cohort.warnings if "its name is" in w]
    assert record_by_answer == [
        "ehrs/file2.XML: its name is the person_id of ehrs/file2.xml",
        "ehrs/p1.xml: its name is the person_id of ehrs/file1.xml",
    ]


def test_a_person_id_has_priority_over_a_filename(folder: Path):
    (folder / "ehrs" / "p1.xml").write_text(xml("p2", ("2020-01-01 00:00", "Another patient.")))
    table(
        folder,
        "\tWho?\t\tx\tp1",
        head="filename\tquestion\tevidence\tclinician_response\tperson_id",
    )
    assert [i.record_id for i in open_cohort(folder).instructions] == ["p1"]


def test_an_unreadable_file_is_not_replaced_by_another_patient(folder: Path):
    (folder / "ehrs" / "p1.xml").write_text("<html/>")
    (folder / "ehrs" / "again.xml").write_text(ONE)
    table(folder, "p1.xml\tWho?\t\tx\t\t", "file1.xml\tWhen?\t\tx\t\t")
    cohort = open_cohort(folder)
    assert cohort.instructions == ()
    reasons = {s.line: s.reason for s in cohort.skipped if s.file == QUESTIONS}
    assert list(reasons) == [2, 3], "neither file holds a record of the cohort"
    assert any("ehrs/p1.xml: its name is" in w for w in cohort.warnings)
