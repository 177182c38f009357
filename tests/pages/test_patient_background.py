"""Slow arms are run in a thread, and the page shows them when they are done."""

from __future__ import annotations

import threading

import pytest

from midchart.core import api
from midchart.core.errors import WorkFailed
from midchart.pages.ui.patient import model
from tests.support.pages import page_at, page_html, plain_text

pytestmark = pytest.mark.slow


def test_a_page_is_drawn_before_its_slow_arms_are_done(cohort, monkeypatch):
    gate, select = threading.Event(), api.select

    def slow(cohort, record, instruction, arm, protocol):
        if arm == "hybrid":
            gate.wait(60)
        return select(cohort, record, instruction, "bm25", protocol)

    monkeypatch.setattr(api, "select", slow)
    monkeypatch.setattr(model, "MOMENT_S", 2.0)
    app = page_at("patient")
    app.session_state["patient_arms"] = ["hybrid", "bm25"]
    app.session_state["k"] = 7  # selections of other tests are cached
    app.run()
    assert not app.exception
    assert ">running<" in page_html(app)
    assert "Hybrid (BM25 and MiniLM)" in plain_text(app) and "(scoring" in plain_text(app)
    assert "BM25 kept" in page_html(app) or "BM25 dropped" in page_html(app)
    assert app.get("bidi_component"), "the record can be read meanwhile"
    gate.set()
    monkeypatch.setattr(model, "MOMENT_S", 60.0)
    app.run()
    assert ">running<" not in page_html(app) and "scoring sentences" not in plain_text(app)
    assert (
        page_html(app).count("Answers of ") == 1 and page_html(app).count("found no answer in") == 2
    )


def test_an_arm_that_fails_in_its_thread_says_why_on_the_page(cohort, monkeypatch):
    def fail(cohort, record, instruction, arm, protocol):
        raise WorkFailed("the gate's loss is NaN")

    monkeypatch.setattr(api, "select", fail)
    app = page_at("patient")
    app.session_state["patient_arms"] = ["bm25"]
    app.session_state["k"] = 8
    app.run()
    assert not app.exception and "loss is NaN" in page_html(app)
