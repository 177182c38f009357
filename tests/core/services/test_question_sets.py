"""A question set is saved with the cohort, asked of every patient, and read as a table."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.cohorts.kept_questions import MOST_QUESTIONS, SETS_FILE
from midchart.core.errors import InputError, UnknownName
from midchart.core.loaders.open import content_digest
from midchart.core.text import event_text
from tests.support.run_helpers import finished_run

QUESTIONS = ("Which drug was stopped?", "Does the patient smoke?")
NOTES = {
    "p1": "Seen in clinic.\nThe drug ramipril was stopped.\nFollow-up in May.",
    "p2": "Nothing of note.\nDoes smoke ten a day.\nLives alone.",
    "p3": "",
}


@pytest.fixture
def cohort(workspace: Path) -> Path:
    folder = workspace / "data" / "cohorts" / "ward"
    folder.mkdir(parents=True)
    for patient, note in NOTES.items():
        (folder / f"{patient}.txt").write_text(note or "-")
    return folder


@pytest.mark.parametrize(
    "content",
    [
        "Which drug was stopped?\n\n# a comment\n  Does the patient   smoke?\r\n",
        "\ufeffWhich drug was stopped?\nDoes the patient smoke?".encode(),
        "id\tquestion\n1\tWhich drug was stopped?\n\t\n2\tDoes the patient smoke?\n",
        'question,why\n"Which drug was stopped?",x\nDoes the patient smoke?,y\n',
        "question\nWhich drug was stopped?\nDoes the patient smoke?\n",
        json.dumps(QUESTIONS),
        json.dumps([{"question": one} for one in QUESTIONS]),
        json.dumps({"questions": QUESTIONS}),
    ],
)
def test_questions_are_read_from_lines_tables_and_json(content: str | bytes) -> None:
    assert api.read_questions(content) == QUESTIONS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has 0"),
        (b"\xff\xfe", "not UTF-8"),
        ("[1, 2]", "question 1 of the JSON is no text"),
        ('{"a": 1}', "no list of questions"),
        ("[" * 100_000, "not valid JSON"),
        ("a?\na?", "question 2 is the same as question 1"),
        ("x" * 2001, "2,001 characters"),
        ("question\tn\n\t1\nb?\t2", "question 1 has 0 characters"),
        ("\n".join(f"q{i}?" for i in range(MOST_QUESTIONS + 1)), "has 501"),
        ("x" * 200_000, "question 1 has 200,000 characters"),
        (b"x" * ((1 << 20) + 1), "at most 1 MiB"),
    ],
)
def test_a_bad_file_of_questions_is_refused_in_one_line(content: str | bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        api.read_questions(content)
    assert len(str(refused.value)) < 200


def test_a_set_is_saved_privately_and_leaves_the_cohort_as_it_is(cohort: Path) -> None:
    before = content_digest(cohort)
    id = api.save_question_set(cohort, " Ward  round ", QUESTIONS, by="ann")
    (saved,) = api.question_sets(cohort)
    assert (saved.id, saved.name, saved.questions, saved.by) == (id, "Ward round", QUESTIONS, "ann")
    assert stat.S_IMODE((cohort / SETS_FILE).stat().st_mode) == 0o600
    assert content_digest(cohort) == before
    assert not api.open_data(cohort).instructions
    with pytest.raises(InputError, match="another name"):
        api.save_question_set(cohort, "Ward round", QUESTIONS)
    with pytest.raises(InputError, match="printable"):
        api.save_question_set(cohort, "Ward\x1b[31m", QUESTIONS)
    with (cohort / SETS_FILE).open("a") as file:
        file.write('{"action": "set", "id": "x"}\nnot json\n{"action": "later"}\n')
    api.withdraw_question_set(cohort, id)
    assert api.question_sets(cohort) == []
    assert len((cohort / SETS_FILE).read_text().splitlines()) == 5
    with pytest.raises(UnknownName):
        api.withdraw_question_set(cohort, id)


def asked(cohort: Path, **changes: object) -> str:
    spec = api.question_set_spec(str(cohort), "round", QUESTIONS, ["bm25"], "extractive")
    protocol = {"preset": "corrected", "k": 1, "recency": 0, "unmatched": "kept"}
    return finished_run(spec | {"protocol": protocol} | changes)


def test_every_patient_is_asked_and_each_answer_names_its_source(cohort: Path) -> None:
    run = asked(cohort)
    assert api.status(run)["planned"] == len(NOTES) * len(QUESTIONS)
    assert api.asked_questions(run) == QUESTIONS
    cells = {(c["record"], c["question"]): c for c in api.answer_cells(run)}
    assert list(cells) == [(p, q) for p in NOTES for q in range(len(QUESTIONS))]
    assert "ramipril" in cells["p1", 0]["answer"]
    assert "smoke" in cells["p2", 1]["answer"]
    assert cells["p2", 1]["event"] == 0
    assert all(c["evidence"] is None for c in cells.values())
    charts = api.chart_sentences(run, list(cells.values()))
    best = [row["sentences"][0] for row in charts]
    assert "ramipril" in best[0]["text"]
    assert best[0]["id"] == cells["p1", 0]["source"]
    assert all(row["of"] >= len(row["sentences"]) for row in charts)
    summary = api.answer_summary(list(cells.values()), QUESTIONS)
    assert [(row["answered"], row["found no answer"]) for row in summary] == [(1, 2), (1, 2)]
    rows = list(csv.DictReader(io.StringIO(api.answers_csv(list(cells.values()), QUESTIONS))))
    assert len(rows) == 6
    assert rows[0]["patient"] == "p1"
    assert rows[0]["question"] == QUESTIONS[0]


def mark(cohort: Path, patient: str, question: str, *texts: str) -> None:
    id = api.keep_question(cohort, patient, question, by="ann")
    note = event_text(api.open_data(cohort).records[patient].events[0])
    starts = [(note.index(text), len(text)) for text in texts]
    api.mark_evidence(cohort, id, [(0, at, at + length) for at, length in starts], by="ann")


def test_evidence_that_is_marked_later_counts_at_once_and_in_later_runs(cohort: Path) -> None:
    run = asked(cohort)
    mark(cohort, "p1", QUESTIONS[0], "The drug ramipril was stopped.")
    mark(cohort, "p2", QUESTIONS[1], "Lives alone.")
    # BM25 keeps one sentence: of two pieces in two sentences it drops one.
    mark(cohort, "p1", QUESTIONS[1], "The drug ramipril was stopped.", "Follow-up in May.")
    mark(cohort, "p2", QUESTIONS[0], "Nothing of note.", "Lives alone.")
    wanted = {
        ("p1", 0): "in the prompt", ("p2", 1): "dropped",
        ("p1", 1): "partly dropped", ("p2", 0): "partly dropped",
    }  # fmt: skip

    def evidence(of: str) -> dict[tuple[str, int], str]:
        return {
            (c["record"], c["question"]): c["evidence"]
            for c in api.answer_cells(of)
            if c["evidence"] is not None
        }

    assert evidence(run) == wanted
    later = asked(cohort)
    assert evidence(later) == wanted
    recall = {
        row["criterion"]: (row["n"], row["hits"])
        for row in api.report(later)["tables"]["recall"]
        if row["band"] == "overall"
    }
    assert (recall["any piece"], recall["all pieces"]) == ((4, 3), (4, 1))
    summary = api.answer_summary(api.answer_cells(later), QUESTIONS)
    assert [(row["in the prompt"], row["partly dropped"], row["dropped"]) for row in summary] == [
        (1, 1, 0), (0, 1, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_cancelled_run_shows_what_is_missing_and_resumes(cohort: Path) -> None:
    run = asked(cohort)
    folder = Path(api.status(run)["folder"])
    rows = api.rows(run, "answers")
    assert len(rows) == 6
    (folder / "done.json").unlink()
    import pandas as pd

    path = folder / "items" / "answers.parquet"
    frame = pd.read_parquet(path)
    frame.iloc[:2].to_parquet(path)
    cells = api.answer_cells(run)
    assert sum(c["state"] == "not asked yet" for c in cells) == 4
    api.wait(api.resume(run))
    assert {c["state"] for c in api.answer_cells(run)} == {"answered", "found no answer"}
