"""The Patient page's headline is what a wrong answer means, and it opens on one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.pages.ui.patient import controls, model, screen
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


def test_wrong_answers_with_the_evidence_in_the_prompt_come_first():
    views = [
        judged(prompted(GONE), "", "incorrect"),
        judged(prompted(HELD), "[2015-02-03] The score was 28", "incorrect"),
        judged(prompted(OTHER), "28", "incorrect"),
    ]
    assert screen.harm_sentences(views, PIECES, "36 points") == (
        "The evidence was in the prompt: BM25 and HYBRID still answered 28 instead of 36. "
        "DENSE dropped the evidence and gave no answer.",
        "",
        True,
    )
    html, _ = screen.verdict(views[1:], PIECES, "36 points")
    assert ">wrong or no answer</span>" in html and "<b>The evidence was in the prompt" in html


def test_a_wrong_answer_without_the_evidence_names_who_dropped_it_and_what_was_right():
    views = [
        judged(GONE, "warfarin", "incorrect"),
        judged(HELD, "Metformin was stopped.", "correct"),
    ]
    assert screen.harm_sentences(views, PIECES, "Metformin") == (
        "DENSE dropped the evidence and answered “warfarin”.",
        "The evidence was in the prompt: BM25 answered correctly. The reference answer is "
        "“Metformin”.",
        True,
    )
    headline, rest = screen.verdict(views, PIECES, "Metformin")
    assert ">dropped evidence</span>" in headline and "BM25 answered correctly" in rest


def test_what_controls_did_is_not_the_headline():
    control = judged(replace(HELD, name="oracle", title="ORACLE"), "5", "incorrect")
    sentences = screen.harm_sentences([control, judged(GONE, "28", "incorrect")], PIECES, "36")
    assert sentences == (
        "DENSE dropped the evidence and answered 28 instead of 36.",
        "The evidence was in the prompt: ORACLE still answered 5 instead of 36.",
        True,
    )
    alone = screen.harm_sentences([control], PIECES, "36")
    assert alone is not None and not alone.harmful, "no method was wrong"


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
    assert screen.contrast(answer, reference) == words


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
    assert "The reference answer is “999 milligram”." in page_html(app)
    # A later choice stays, and the address decides.
    app.radio(key="patient_question").set_value("i10").run()
    assert app.radio(key="patient_question").value == "i10"
    assert "Opened on a question" not in page_text(app)
