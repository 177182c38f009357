"""The Arms page without a browser: its views, its pickers, its states, and single questions."""

from __future__ import annotations

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.core import api
from tests.support.pages import (
    click,
    clickable,
    figures_of,
    frame_with,
    open_page,
    page_text,
    plain_text,
)

pytestmark = pytest.mark.slow


def opened(run: str, view: str = "overall", **query: str) -> AppTest:
    """A view of the run, with what every view has."""
    app = open_page("arms", run=run, view=view, **query)
    text = plain_text(app)
    assert 'class="mc-headline"' in text and "rule-based, not a clinician" in text
    assert "<script>alert" not in text
    return app


def test_overall_has_a_figure_its_numbers_and_what_failed(run):
    app = opened(run)
    assert len(figures_of(app)) == 1
    frame = app.dataframe[0].value
    assert set(frame["arm"]) == {"Full record", "BM25", "BM25, k = 1", "Recency only"}
    assert {"% correct", "n", "patients", "refusals", "unparsed", "failed"} <= set(frame)
    assert list(frame["failed"]) == [1] * 4
    assert frame["% correct"].str.contains(r"\d % \[[\d.]+, [\d.]+\]").all(), "Wilson's"
    assert "95 % intervals Wilson, questions independent" in plain_text(app), "none by patient here"
    failed = app.dataframe[-1].value
    assert failed["reason"].str.contains("no reference answer").any()
    assert failed["count"].sum() == api.status(run)["failed"]


def test_pairs_are_against_the_chosen_baseline(run):
    app = opened(run, view="pairs")
    frame = app.dataframe[0].value
    assert set(frame["arm"]) == {"BM25", "BM25, k = 1", "Recency only"}
    assert frame.iloc[:, 1].str.contains("p = ").all()
    assert "Full record" in page_text(app)
    app.selectbox(key="baseline").set_value("bm25 k=1").run()
    assert not app.exception
    assert set(app.dataframe[0].value["arm"]) == {"Full record", "BM25", "Recency only"}
    assert "BM25, k = 1 (" in page_text(app), "the sentence is about the baseline chosen"


def test_failed_items_open_the_questions_in_which_their_arm_failed(run, monkeypatch):
    clickable(monkeypatch)
    app = click(opened(run, view="missed"), f"table_{run}-missed", 0)
    assert app.selectbox(key="q_outcome").value == "failed"
    assert len(frame_with(app, "question")) == 1


def test_training_patients_open_their_questions_alone(run, monkeypatch):
    clickable(monkeypatch)
    report, outcomes = api.report(run), api.outcomes

    def seen(run: str, reader: str, judge: str) -> list[dict]:
        rows = outcomes(run, reader, judge)
        return [row | {"counted": row["instruction"] != "q1"} for row in rows]

    st.cache_data.clear()
    report["tables"]["accuracy_seen"] = report["tables"]["accuracy"]
    monkeypatch.setattr(api, "report", lambda run: report)
    monkeypatch.setattr(api, "outcomes", seen)
    app = opened(run, view="seen")
    assert "do not generalise to new" in plain_text(app)
    arm = app.dataframe[0].value.iloc[0]["arm"]
    click(app, "-seen", 0, "n")
    assert app.selectbox(key="q_patients").value == "training"
    assert api.title("arm", app.selectbox(key="q_arm").value) == arm
    about = {one.id: one.question for one in api.open_data("small").instructions}
    assert list(frame_with(app, "question")["question"]) == [about["q1"]]
    assert app.query_params["q_patients"] == "training"


def test_questions_show_arms_abreast_with_text_escaped(run):
    app = opened(run, view="questions", differ="false")
    frame = frame_with(app, "question")
    assert len(frame) == 3
    app.selectbox(key="asked").select_index(1).run()
    html = "".join(h.value for h in app.html)
    assert frame["question"][0] in html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert frame["question"][0] in app.selectbox(key="asked").options, "a menu of questions"
    value = "".join(app.query_params["asked"])
    assert re.fullmatch(r"[0-9a-f]{10}", value), "the address holds a token alone"
    app.button(key="asked_Next").click().run()
    assert "".join(app.query_params["asked"]) != value
    app.button(key="asked_All questions").click().run()
    assert len(frame_with(app, "question")) == 3 and "asked" not in app.query_params
