"""The Patient page: its content, its messages when something is missing, and its address."""

from __future__ import annotations

import json
import re

import pytest

from midchart.pages.ui.patient import controls
from tests.support.pages import page_at, page_html

pytestmark = pytest.mark.slow

ARMS = ["bm25", "recency", "oracle"]


def ask(app, record: str, question: str):
    app.session_state["patient_patient"] = record
    app.session_state["patient_question"] = question
    app.run()
    assert not app.exception
    return app


def test_it_opens_on_a_patient_with_cards_in_words_and_the_dropped_evidence_marked(patient_page):
    app = ask(patient_page, "9001", "q1")
    html = page_html(app)
    assert "<b>The evidence was in the prompt: BM25 still answered “" in html
    assert ">wrong or no answer</span>" in html, "no method dropped it"
    assert '<mark class="mc-dropped">2 of 2 dropped</mark>' in html
    assert html.index("<b>The evidence was in the prompt") < html.index('class="mc-passage')
    assert "<script" not in html and "<img" not in html


def test_a_question_without_evidence_reports_it_and_the_oracle_is_away_not_replaced(patient_page):
    app = ask(patient_page, "9001", "q2")
    assert any("evidence" in i.value for i in app.info)
    html = page_html(app)
    assert ">not available<" in html and "located evidence, which this question does not" in html


def test_a_record_that_cannot_be_read_is_none_of_the_patients(patient_page):
    patient_page.run()
    labels = patient_page.selectbox(key="patient_patient").options
    assert len(labels) == 2 and not any("9002" in label for label in labels)


def test_a_typed_question_works_and_never_reaches_the_address(patient_page):
    app = ask(patient_page, "9003", "typed")
    assert "Type a question" in app.text_input(key="patient_typed").placeholder
    assert app.get("bidi_component"), "the record can be read without a question"
    app.text_input(key="patient_typed").set_value("secret words about complaints?").run()
    assert not app.exception
    assert "secret" not in json.dumps(dict(app.query_params))
    assert "question" not in app.query_params
    again = page_at("patient")
    for name, value in dict(app.query_params).items():
        again.query_params[name] = value
    again.run()
    assert again.text_input(key="patient_typed").value == "secret words about complaints?"
    again = page_at("patient", typed="0123456789").run()
    assert any("names a typed question" in i.value for i in again.info) and not again.exception
    assert any("cannot be evaluated" in i.value for i in app.info)
    assert re.search(r"<b>BM25</b><small>\d+ of \d+ sentences kept", page_html(app))


def test_the_address_names_patient_and_question_by_tokens_and_opens_them_again(patient_page):
    app = ask(patient_page, "9001", "q2")
    address = dict(app.query_params)
    assert address == {
        "patient": controls.token("hand", "9001"),
        "question": controls.token("hand", "q2"),
        "arms": ARMS,
        "reader": ":extractive",
    }
    again = page_at("patient")
    for name, value in address.items():
        again.query_params[name] = value
    again.run()
    assert again.radio(key="patient_question").value == "q2"
    assert again.multiselect(key="patient_arms").value == ARMS
    plain = page_at("patient")
    plain.session_state["patient_arms"] = ARMS
    plain.query_params["patient"] = "9003"
    plain.run()
    assert plain.selectbox(key="patient_patient").value == "9003"


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ({"cohort": "none"}, "There is no cohort with questions named none: there are hand."),
        ({"patient": "0000000000"}, "There is no patient 0000000000: cohort hand has 2 patients"),
        (
            {"patient": "9001", "question": "0000000000"},
            "There is no question 0000000000: this patient has 2 questions",
        ),
        ({"patient": "[x](y)"}, "There is no patient [x](y): cohort hand has 2 patients"),
    ],
)
def test_an_unknown_patient_question_or_cohort_stops_with_one_line(patient_page, address, line):
    for name, value in address.items():
        patient_page.query_params[name] = value
    patient_page.run()
    assert not patient_page.exception and len(patient_page.error) == 1
    assert patient_page.error[0].value.replace("\\", "").startswith(line)
    assert not page_html(patient_page).count("mc-by-arm"), "no other patient is shown"


def test_everything_shown_is_offered_as_files(patient_page):
    app = ask(patient_page, "9001", "q1")
    labels = [one.label for one in app.get("download_button")]
    assert "Selections, CSV" not in labels, "made when the drawer is opened"
    patient_page.session_state["patient_drawer"] = True
    app = ask(patient_page, "9001", "q1")
    offered = {one.label for one in app.get("download_button")}
    assert "Selections, CSV" in offered


def test_a_large_cohort_lists_some_patients_and_finds_the_others(patient_page, monkeypatch):
    patient_page.run()
    every = patient_page.selectbox(key="patient_patient").options
    monkeypatch.setattr(controls, "LISTED_PATIENTS", len(every) - 1)
    app = patient_page.run()
    listed = app.selectbox(key="patient_patient").options
    assert len(listed) == len(every) - 1 and set(listed) < set(every)
    assert any(
        f"The first {len(every) - 1} of {len(every)} patients are listed; 1 more" in c.value
        for c in app.caption
    )
    absent = next(label for label in every if label not in listed)
    record = re.match(r"\w+", absent)[0]
    app.text_input(key="patient_find").set_value(record).run()
    assert absent in app.selectbox(key="patient_patient").options
    assert any(f"1 patient of {len(every)} found" in c.value for c in app.caption)
    ask(app, record, "typed")
    address = dict(app.query_params)
    assert record not in json.dumps(address)
    again = page_at("patient")
    for name, value in address.items():
        again.query_params[name] = value
    again.run()
    assert again.selectbox(key="patient_patient").value == record, "a link opens an unlisted one"
