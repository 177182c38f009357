"""The Arms page without a browser: its views, its pickers, its states, and single questions."""

from __future__ import annotations

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.judges.rules import FAILURE_KINDS
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.shared import results
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


@pytest.mark.parametrize("view", ["types", "k", "costs", "tests"])
def test_a_view_opens_with_the_sentence_and_its_numbers(run, view):
    assert len(opened(run, view).dataframe[0].value)


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


def test_a_table_by_position_has_a_column_for_each_band(run):
    frame = opened(run, view="evidence_position").dataframe[0].value
    assert frame.columns[0] == "arm" and len(frame.columns) > 1
    assert set(frame.columns[1:]) <= set(results.BAND_ORDER)
    known = [cell for cell in frame.iloc[0, 1:] if isinstance(cell, str)]
    assert "100.0 % [20.7, 100.0] n 1 chance 100.0 %" in known, "1 of 1, Wilson; all is shown"


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


def test_accuracy_with_and_without_evidence_is_shown(run):
    app = opened(run, view="found")
    rows = list(app.dataframe[0].value.iloc[:, 0])
    assert "Full record, all in prompt" in rows and "BM25, k = 1, not all in prompt" in rows
    app.selectbox(key="of_criterion").set_value("lexical").run()
    assert not app.exception and "Full record, hit" in list(app.dataframe[0].value.iloc[:, 0])


def test_judges_are_compared_in_cells_that_add_up(run):
    frame = opened(run, view="judges").dataframe[0].value
    assert (
        frame[["both yes", "only first", "only second", "neither"]].sum(axis=1) == frame["n"]
    ).all()
    assert list(frame.iloc[:, 0]) == ["Token overlap (offline), Exact values (offline)"]
    differ = api.disagreements(run, "extractive", "token_overlap", "exact")
    assert bool(differ) == bool(frame[["only first", "only second"]].to_numpy().sum())


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


def test_failures_are_kinds_in_the_order_of_the_rules(run):
    frame = opened(run, view="failures").dataframe[0].value
    rows = api.report(run)["tables"]["failure_kinds"]
    kinds = {row["kind"] for row in rows}
    assert set(frame.columns[1:]) <= kinds <= set(questions.RULES)
    assert tuple(questions.RULES) == FAILURE_KINDS, "in the order of the rules"
    refused = opened(run, view="refusals").dataframe[0].value
    assert {"% declined", "answered accuracy"} <= set(refused)


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


def test_dropped_evidence_is_marked_as_visibly_as_kept(run):
    app = opened(run, view="questions", differ="false")
    frame = frame_with(app, "question")
    row = list(frame["question"]).index("What did the colonoscopy show?")
    app.selectbox(key="asked").select_index(row + 1).run()
    app.pills(key="abreast_").set_value(["full", "recency"]).run()
    html = "".join(h.value for h in app.html)
    assert 'class="mc-line mc-held"' in html
    assert 'class="mc-line mc-dropped"' in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count('class="mc-verdict') >= 4, "both judges of both arms"


def test_a_run_that_judges_nothing_has_the_views_it_can_fill(run, finished):
    app = open_page("arms", run=finished.selection)
    assert "keeps all pieces of the evidence of" in page_text(
        app
    ) and "and any piece of" in page_text(app)
    views = [view.name for view in api.views_of(api.report(finished.selection))]
    assert "evidence" in views and "overall" not in views
    for view in (*views, "questions"):
        app = open_page("arms", run=finished.selection, view=view, differ="false")
    assert "kept" in frame_with(app, "question")["BM25"].unique()
    app.selectbox(key="asked").select_index(1).run()
    assert not app.exception and 'class="mc-card"' in page_text(app)


def test_outcomes_are_read_without_text(run):
    run = next(r for r in state.runs() if r["run"] == run)
    frame = state.outcomes(run, "extractive", "exact")
    assert not {"question", "answer", "prompt", "selection"} & set(frame.columns)
    assert not frame.astype(str).apply(lambda one: one.str.contains("colonoscopy")).any(axis=None)
