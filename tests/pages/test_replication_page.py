"""The Replication page: a step of the waterfall or a fault alone opens its run's answers."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from midchart.pages.ui import state
from midchart.pages.ui.replication import view
from tests.support.pages import click, clickable

pytestmark = pytest.mark.slow

STEP = {
    "accuracy": 0.5, "patient_low": 0.4, "patient_high": 0.6, "n": 20, "unparsed": 0,
    "low": None, "high": None,
    "p": None, "acted": 0, "changed": 0, "unscored": 0, "both": 20,
}  # fmt: skip


def _page() -> None:
    import streamlit as st

    from midchart.pages.ui.replication import view

    steps = [{"run": "r1", "name": "a", "title": "as published", "did": ""}]
    steps += [{"run": "r2", "name": "b", "title": "without b", "did": "x"}]
    fault = {
        "run": "r3", "fault": "b", "title": "b alone", "did": "", "silent": "", "n": 20, "acted": 4,
        "right_here": 1, "right_there": 2, "difference": 0.05, "low": 0.0, "high": 0.1, "p": 0.5,
        "unscored": 0,
    }  # fmt: skip
    view.waterfall({"steps": steps, "runs": ["r1", "r2"]}, [], "bm25", "exact")
    view.faults_alone([fault])
    st.text(str(st.session_state.get("page_that_a_click_opens")))


def test_rows_and_markers_open_the_answers_of_their_run(monkeypatch):
    rows = [
        STEP | {"run": "r1", "difference": None},
        STEP | {"run": "r2", "difference": 0.05, "acted": 3, "changed": 1, "low": 0.0, "high": 0.1,
                "p": 0.5},
    ]  # fmt: skip
    monkeypatch.setattr(state, "waterfall", lambda *_: rows)
    clickable(monkeypatch)
    app = AppTest.from_function(_page).run()
    assert not app.exception, [one.value for one in app.exception]
    opened = "('arms', {'run': '%s', 'view': 'questions', 'differ': 'false'%s})"
    arm = ", 'q_arm': 'bm25'"
    assert click(app, "replication-waterfall", 1).text[0].value == opened % ("r2", arm)
    first = click(app, "replication_waterfall", point=[0])
    assert first.text[0].value == opened % ("r1", arm)
    assert click(app, "replication-alone").text[0].value == opened % ("r3", "")
    assert click(app, "replication_alone", point=[0]).text[0].value == opened % ("r3", "")


def paper_row(label: str, value: float, published: float | None, corrected: float | None) -> dict:
    ends = dict.fromkeys(
        ("low", "high", "published_low", "published_high", "corrected_low", "corrected_high")
    )
    return {
        "table": "stage2", "label": label, "what": "overall", "unit": "share", "value": value,
        "published": published, "corrected": corrected, "published_n": 30, "corrected_n": 30,
    } | ends  # fmt: skip


def test_the_headline_says_what_the_paired_comparison_shows_and_nothing_else():
    rows = [paper_row("bm25", 0.2, 0.3, 0.4)]
    assert view.verdict(rows, "bm25", "small", "exact", "exact") == (
        "BM25 is correct on 30.0 % under the published protocol and 40.0 % under the corrected "
        "protocol (n = 30); paper: 20.0 %.",
        ["Read by Small reader (4.7 million weights), judged by Exact values (offline)."],
    )
    pair = {
        "n": 28, "difference": 0.1, "patient_low": -0.05, "patient_high": 0.25,
        "verdict": "no difference shown",
    }  # fmt: skip
    text, below = view.verdict(rows, "bm25", "small", "exact", "token_overlap", pair)
    assert text.endswith(
        "paper: 20.0 %. Corrected less published, on the same 28 questions: "
        "+10.0 [−5.0, +25.0] points, no difference shown."
    )
    assert below[0].endswith("not by the primary judge Token overlap (offline).")
    assert "apart" not in text and "overlap" not in text


def test_how_many_pairs_are_in_the_paper_s_order_is_counted_and_not_promised():
    rows = [
        paper_row("bm25", 0.3, 0.1, 0.3), paper_row("dense", 0.2, 0.2, 0.2),
        paper_row("mmr", 0.1, 0.3, 0.25), paper_row("full", 0.1, None, None),
    ]  # fmt: skip
    assert view.ranking_text(rows) == (
        "Pairs of lines in the paper's order here: 0 of 3 under the published protocol; 2 of 3 "
        "under the corrected protocol (by chance: half; by the values alone, whatever their "
        "intervals)."
    )
    assert view.ranking_text(rows[:2]) == ""
