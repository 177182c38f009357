"""Slow arms are run in a thread, and after them the neighbours' records."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from midchart.core import api, identity
from midchart.core.errors import WorkFailed
from midchart.pages.ui.patient import background, cached
from midchart.pages.ui.patient.model import Choice
from tests.support.pages import page_at, page_html, plain_text

pytestmark = pytest.mark.slow


@pytest.fixture
def choice(cohort: api.Cohort) -> Choice:
    """The first patient's first question, with a slow arm."""
    first = cohort.instructions[0]
    record = cohort.records[first.record_id]
    key, arms = api.cohort_key(cohort), ("hybrid", "bm25")
    return Choice(key, cohort, record, first, None, arms, "", (), api.Protocol())


@pytest.fixture
def selected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Patient, arm and acting person of each selection."""
    calls: list[tuple[str, str, str]] = []
    select = api.select

    def count(cohort, record, instruction, arm, protocol):
        calls.append((record.id, arm, identity.person().name))
        return select(cohort, record, instruction, "bm25", protocol)

    monkeypatch.setattr(api, "select", count)
    return calls


def finish() -> None:
    """Wait until the neighbours are read."""
    for thread in threading.enumerate():
        if thread.name == background.NAME:
            thread.join(60)


def test_the_neighbours_are_read_by_the_slow_arms_once_in_the_name_of_the_person(
    choice, selected, monkeypatch
):
    monkeypatch.setattr(background, "AHEAD", (1, 2, -1))
    monkeypatch.setattr(background, "QUIET_S", 0.0)
    monkeypatch.setattr(background, "_embedded", set())
    monkeypatch.setattr(identity, "_resolver", [lambda: None])  # a thread has no session
    others = [id for id in choice.cohort.records if id != choice.record.id]
    for _ in range(2):
        with identity.acting_as(identity.Person("ada", "viewer")):
            background.read_ahead(choice)
        finish()
        assert sorted(selected) == sorted((id, "hybrid", "ada") for id in others)


def test_the_record_that_the_page_opens_with_is_read_ahead(choice, selected, monkeypatch):
    monkeypatch.setattr(background, "AHEAD", (1,))
    monkeypatch.setattr(background, "QUIET_S", 0.0)
    monkeypatch.setattr(background, "_embedded", set())
    background.read_first(choice.cohort.path)
    finish()
    assert [(record, arm) for record, arm, _ in selected] == [
        (next(iter(choice.cohort.records)), "hybrid")
    ]


def test_long_records_and_quick_arms_are_not_read_ahead(choice, selected, monkeypatch):
    monkeypatch.setattr(background, "AHEAD", (1,))
    monkeypatch.setattr(background, "QUIET_S", 0.0)
    monkeypatch.setattr(background, "_embedded", set())
    background.read_ahead(replace(choice, arms=("bm25",)))
    monkeypatch.setattr(cached, "UNITS_AT_ONCE", 5)
    background.read_ahead(choice)
    finish()
    assert selected == []


def test_a_page_is_drawn_before_its_slow_arms_are_done(cohort, monkeypatch):
    gate, select = threading.Event(), api.select

    def slow(cohort, record, instruction, arm, protocol):
        if arm == "hybrid":
            gate.wait(60)
        return select(cohort, record, instruction, "bm25", protocol)

    monkeypatch.setattr(api, "select", slow)
    monkeypatch.setattr(background, "MOMENT_S", 2.0)
    app = page_at("patient")
    app.session_state["patient_arms"] = ["hybrid", "bm25"]
    app.session_state["k"] = 7  # selections of other tests are cached
    app.run()
    assert not app.exception
    assert ">running<" in page_html(app) and "Hybrid (BM25 and MiniLM) selecting" in plain_text(app)
    assert "BM25 kept" in page_html(app) or "BM25 dropped" in page_html(app)
    assert app.get("bidi_component"), "the record can be read meanwhile"
    gate.set()
    monkeypatch.setattr(background, "MOMENT_S", 60.0)
    app.run()
    assert ">running<" not in page_html(app) and "selecting sentences" not in plain_text(app)
    assert page_html(app).count("Reader: ") == 2


def test_an_arm_that_fails_in_its_thread_says_why_on_the_page(cohort, monkeypatch):
    def fail(cohort, record, instruction, arm, protocol):
        raise WorkFailed("the gate's loss is NaN")

    monkeypatch.setattr(api, "select", fail)
    app = page_at("patient")
    app.session_state["patient_arms"] = ["bm25"]
    app.session_state["k"] = 8
    app.run()
    assert not app.exception and "loss is NaN" in page_html(app)
