"""The Patient page's headline is what a wrong answer means, and it opens on one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.pages.ui.patient import controls, model, view
from tests.pages.test_patient_marks import PIECES, prompted, view_of
from tests.support.pages import page_at, page_html, page_text
from tests.support.run_helpers import (
    finished_run,
    read_questions,
    spec,
    write_cohort,
    write_questions,
)

pytestmark = pytest.mark.slow


def judged(view: model.ArmView, answer: str, outcome: str, refusal: bool = False) -> model.ArmView:
    verdicts = {"exact_else_overlap": api.Verdict(outcome, refusal)}
    return replace(view, answer=api.Answer(answer), verdicts=verdicts)


HELD, GONE = view_of("bm25", "e2.1"), view_of("dense", "e0")
OTHER = replace(view_of("hybrid", "e2.1"), title="HYBRID")


WRONG = judged(prompted(HELD), "[2015-02-03] The score was 28", "incorrect")
SILENT, CORRECT = judged(prompted(GONE), "", "incorrect"), judged(HELD, "Metformin.", "correct")
CONTROL = judged(replace(HELD, name="oracle", title="ORACLE"), "5", "incorrect")


@pytest.mark.parametrize(
    ("views", "reference", "tag", "sentence"),
    [
        (
            [SILENT, WRONG, judged(prompted(OTHER), "28", "incorrect")], "36 points",
            "dropped evidence", "<b>The evidence was in the prompt: BM25 and HYBRID still answered "
            "28 instead of 36. DENSE dropped the evidence and gave no answer.</b>",
        ),
        (
            [WRONG], "36 points", "wrong or no answer",
            "<b>The evidence was in the prompt: BM25 still answered 28 instead of 36.</b>",
        ),
        (
            [judged(GONE, "warfarin", "incorrect"), CORRECT], "Metformin", "dropped evidence",
            "<b>DENSE dropped the evidence and answered “warfarin”.</b>",
        ),
        (
            [CONTROL, judged(GONE, "28", "incorrect")], "36", "dropped evidence",
            "<b>DENSE dropped the evidence and answered 28 instead of 36.</b>",
        ),
        (
            [CONTROL, CORRECT], "Metformin", "kept evidence",
            "The evidence was in the prompt: BM25 answered correctly.",
        ),
        ([CONTROL], "36", "kept evidence", "ORACLE kept the evidence."),
    ],
)  # fmt: skip
def test_the_headline_is_what_was_answered_wrongly_and_never_what_a_control_did(
    views, reference, tag, sentence
):
    html = view.headline(views, PIECES, reference)
    assert f">{tag}</span>" in html and sentence in html
    assert ("<b>" in html) == sentence.startswith("<b>")


@pytest.mark.parametrize(
    "answer, reference, words",
    [
        ("The dose is 28 mg daily.", "36 mg", "28 mg instead of 36 mg"),
        ("[2015-10-03] Dose 28", "Dose: 36", "28 instead of 36"),
        ("Urea nitrogen: 12 mg/dL", "15 mg/dL on 03/19/2010.", "12 mg/dL instead of 15 mg/dL"),
        ("28 mg and 5 mg", "36 mg", "“28 mg and 5 mg”"),
        ("on 2015-10-03", "on 2016-10-03", "“on 2015-10-03”"),
        ("36 mg twice", "36 mg", "“36 mg twice”"),
        ("No.", "", "“No”"),
        ("", "36 mg", ""),
    ],
)
def test_the_contrast_is_of_single_values_or_of_the_texts(answer, reference, words):
    assert view.contrast(answer, reference) == words


@pytest.fixture
def cohort(empty):
    """A cohort of which one answer, from the middle of a record, is never the reference."""
    place = write_cohort(empty / "data" / "cohorts" / "tiny")
    questions = read_questions(place)
    for row in questions:
        if row["instruction_id"] == "i12":
            row["clinician_response"] = "999 milligram"
    write_questions(place, questions)
    return place


def opened() -> AppTest:
    app = page_at("patient")
    app.session_state["patient_arms"] = ["bm25"]
    app.run()
    assert not app.exception
    return app


def test_it_opens_on_a_wrong_answer_from_the_middle_of_a_record(cohort):
    assert controls.NO_WRONG_ANSWER.split(":")[0] in page_text(opened())
    table = spec(
        cohort, name="first", arms=["bm25"], readers=["extractive"],
        judges=["exact", "token_overlap"], protocol="corrected",
    )  # fmt: skip
    run = finished_run(table)
    [row, *_] = api.wrong_in_the_middle(run, "extractive", ("bm25", "hybrid"))
    assert (row["instruction"], row["record"], row["wrong"]) == ("i12", "2", 1)
    app = opened()
    assert app.radio(key="patient_question").value == "i12"
    assert "that the run first answered wrongly under 1 of" in page_text(app)
    assert ">999 milligram</div>" in page_html(app)
    # A later choice stays, and the address decides.
    app.radio(key="patient_question").set_value("i10").run()
    assert app.radio(key="patient_question").value == "i10"
    assert "Opened on a question" not in page_text(app)
