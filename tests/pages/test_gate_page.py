"""The Gate page without a browser: empty, each view, partial, checkpoints; and its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.gate.checkpoint import save_gate
from midchart.pages.ui.gate.view import OFFER
from tests.support import gate_report
from tests.support.gates import random_gate
from tests.support.pages import figures_of, open_page, page_at, page_text, pages_opened
from tests.support.reports import show_run
from tests.support.run_helpers import allow

pytestmark = pytest.mark.slow

VIEWS = ["shapes", "training", "calibration", "scores", "faults"]


@pytest.fixture
def run(home, monkeypatch):
    """A finished gate run, as status and report tell of it."""
    now = gate_report.status()
    show_run(monkeypatch, now, gate_report.report)
    return now


def allow_training(home: Path) -> None:
    allow(home / "data" / "cohorts" / "small", "training_allowed")


def checkpoints() -> AppTest:
    """The page without a run, the list of checkpoints open."""
    app = page_at("gate")
    app.session_state["own_checkpoints"] = True
    app.run()
    assert not app.exception
    return app


def test_without_a_run_it_says_what_will_be_here_and_how_to_begin(home):
    app = open_page("gate")
    assert "No gate run yet" in page_text(app)
    assert "midchart run docs/gate.toml" in app.code[0].value
    assert app.button(key="start_gate").disabled
    assert "does not allow training" in page_text(app)


def test_its_button_hands_over_the_ready_made_run(home, monkeypatch):
    started = []
    allow_training(home)
    run_spec = OFFER.spec("small")
    assert run_spec["kind"] == "gate" and run_spec["data"] == str(
        home / "data" / "cohorts" / "small"
    )
    monkeypatch.setattr(api, "enqueue", lambda spec, on: started.append(spec) or "r")
    opened = pages_opened(monkeypatch)
    monkeypatch.setattr(api, "preflight", lambda _, on: {"problems": [], "estimate": None})
    open_page("gate").button(key="start_gate").click().run()
    assert started == [run_spec] and opened == [("runs", {"run": "r"})]


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_its_figure_their_numbers_and_the_conclusion(run, view):
    app = open_page("gate", view=view)
    (figure,) = figures_of(app)
    assert figure.alt
    assert len(app.dataframe[0].value)
    stated = {"shapes": "The gate keeps", "scores": "Pairs: highest", "training": ", epoch ",
              "calibration": "Farthest from the diagonal"}  # fmt: skip
    assert stated.get(view, "highest") in page_text(app)
    assert 'class="mc-headline"' in page_text(app)


def test_a_run_that_holds_little_yet_says_so(home, monkeypatch):
    now = gate_report.status(state="running")
    empty = {name: [] for name in gate_report.tables()}
    show_run(monkeypatch, now, lambda run: gate_report.report(run, empty) | {"status": "running"})
    app = open_page("gate", view="real")
    assert "results are partial" in page_text(app)
    monkeypatch.setattr(api, "report", lambda run: gate_report.report(run, empty))
    assert not figures_of(open_page("gate"))
    assert app.progress[0].value == pytest.approx(100 * 12 / 34, abs=1)


def test_checkpoints_tell_their_provenance_and_no_patient(home):
    (included,) = api.gate_cards()
    assert included["patients"] == {"train": 24, "validation": 4, "test": 12}
    gate = random_gate()
    save_gate(home / "cache" / "gates" / "one", gate)
    st.cache_data.clear()
    card, _ = api.gate_cards()
    assert (card["hash"], card["n"], card["buckets"], card["problem"]) == ("blake2", 3, 5000, "")
    assert card["parameters"] == sum(w.size for w in gate.weights.values())
    assert card["patients"] == {"train": 2, "validation": 1, "test": 1}
    assert not {"p1", "p2", "p3", "p4"} & set(json.dumps(card).split('"'))
    app = checkpoints()
    facts = dict(app.dataframe[0].value.to_numpy().tolist())
    assert facts["Hash of n-grams"] == "blake2" and facts["Rows of the table"] == "5,000"
    assert facts["SHA of the weights"] == card["digest"][:16]


def test_a_broken_checkpoint_is_reported_in_one_line(home):
    folder = home / "cache" / "gates" / "broken"
    save_gate(folder, random_gate())
    (folder / "gate.json").write_text("{")
    app = checkpoints()
    assert len(app.error) == 1 and "\n" not in app.error[0].value
    assert "train-gate" in app.error[0].value.replace("\\", "")
