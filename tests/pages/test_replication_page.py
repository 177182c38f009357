"""The Replication page: a step of the waterfall or a fault alone opens its run's answers."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from pages.ui import state
from tests.support.pages import click, clickable

STEP = {
    "accuracy": 0.5, "patient_low": 0.4, "patient_high": 0.6, "n": 20, "unparsed": 0,
    "low": None, "high": None,
    "p": None, "acted": 0, "changed": 0, "unscored": 0, "both": 20,
}  # fmt: skip


def _page() -> None:
    import streamlit as st

    from pages.ui.replication import view

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
    opened = "('arms', {'run': '%s', 'view': 'Questions', 'differ': 'false'%s})"
    arm = ", 'q_arm': 'bm25'"
    assert click(app, "replication-waterfall", 1).text[0].value == opened % ("r2", arm)
    first = click(app, "replication_waterfall", point=[0])
    assert first.text[0].value == opened % ("r1", arm)
    assert click(app, "replication-alone").text[0].value == opened % ("r3", "")
    assert click(app, "replication_alone", point=[0]).text[0].value == opened % ("r3", "")
