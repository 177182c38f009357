"""The Gate page without a browser: empty, each view, partial, checkpoints; and its figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import streamlit as st

from midchart.core import api
from midchart.core.gate.checkpoint import save_gate
from midchart.pages.ui import state
from midchart.pages.ui.gate import text, view
from midchart.pages.ui.shared import variants
from tests.support import gate_report
from tests.support.gates import random_gate
from tests.support.pages import open_page, page_text
from tests.support.reports import show_run

pytestmark = pytest.mark.slow

VIEWS = ["Ablation", "Training", "Calibration", "Scores", "Faults"]


@pytest.fixture
def run(home, monkeypatch):
    """A finished gate run, as status and report tell of it."""
    now = gate_report.status()
    show_run(monkeypatch, now, gate_report.report)
    return now


def allow_training(home: Path) -> None:
    tag = 'name = "small"\ntraining_allowed = true\n'
    (home / "data" / "cohorts" / "small" / "midchart.toml").write_text(tag)


def test_without_a_run_it_says_what_will_be_here_and_how_to_begin(home):
    app = open_page("gate")
    assert "No gate run yet" in page_text(app)
    assert "midchart run docs/gate.toml" in app.code[0].value
    assert app.button(key="start_gate").disabled
    assert "does not allow training" in page_text(app)


def test_its_button_hands_over_the_ready_made_run(home, monkeypatch):
    started = []
    allow_training(home)
    run_spec = view.spec("small")
    assert run_spec["kind"] == "gate" and run_spec["data"] == str(
        home / "data" / "cohorts" / "small"
    )
    monkeypatch.setattr(api, "enqueue", started.append)
    monkeypatch.setattr(api, "preflight", lambda _, on: {"problems": [], "estimate": None})
    open_page("gate").button(key="start_gate").click().run()
    assert started == [run_spec]


@pytest.mark.parametrize(
    ("view", "charts"), list(zip(VIEWS, [5, 2, 1, 1, 2], strict=True)), ids=str
)
def test_each_view_has_its_charts_their_numbers_and_n(run, view, charts):
    app = open_page("gate", view=view)
    assert len(app.get("plotly_chart")) == charts
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert app.dataframe and app.get("download_button")
    assert "n = " in page_text(app) and "no single pairs" in page_text(app)


def test_the_ablation_holds_every_variant_with_intervals_and_says_what_the_question_is_worth(run):
    app = open_page("gate")
    frame = app.dataframe[0].value
    assert len(frame) == 29 and frame["AUROC"].str.contains(r"\[0\.").all()
    assert frame["n (evidence)"].eq(36).all()
    assert "with the question" in page_text(app) and "without it" in page_text(app)
    app.segmented_control(key="measure").set_value("Score gap").run()
    assert "no interval is given" in page_text(app)


def test_a_variant_is_chosen_by_address_and_the_standard_comes_first(run):
    app = open_page("gate", view="Training")
    first = gate_report.tables()["training"][0]["variant"]
    assert app.selectbox(key="variant").value == first
    name = "n=4 dim=128 deep"
    app = open_page("gate", view="Training", variant=name)
    assert app.selectbox(key="variant").value == name
    assert len(app.dataframe[0].value) == 4


def test_faults_say_what_each_switch_does_once(run):
    shown = page_text(open_page("gate", view="Faults"))
    assert shown.count("a salt that differs between processes") == 1
    assert "first three positive sentences in time" in shown and "earliest" not in shown


def test_a_run_that_holds_little_yet_reports_it_in_each_view(home, monkeypatch):
    now = gate_report.status(state="running")
    empty = {name: [] for name in gate_report.tables()}
    show_run(monkeypatch, now, lambda run: gate_report.report(run, empty))
    for name in VIEWS:
        shown = page_text(open_page("gate", view=name))
        assert "has no results for" in shown and "results are partial" in shown
    app = open_page("gate")
    assert app.progress[0].value == pytest.approx(100 * 12 / 34, abs=1)


def test_a_gate_run_is_none_of_the_arms_pages_runs(run):
    assert state.runs(state.COMPARING) == []
    assert "No run yet" in page_text(open_page("arms"))
    assert "No finished run yet" in page_text(open_page("home"))


def test_checkpoints_tell_their_provenance_and_no_patient(home):
    assert "No gate has been trained yet" in page_text(open_page("gate", view="Checkpoints"))
    gate = random_gate()
    save_gate(home / "cache" / "gates" / "one", gate)
    st.cache_data.clear()
    (card,) = api.gate_cards()
    assert (card["hash"], card["n"], card["buckets"], card["problem"]) == ("blake2", 3, 5000, "")
    assert card["parameters"] == sum(w.size for w in gate.weights.values())
    assert card["patients"] == {"train": 2, "validation": 1, "test": 1}
    assert not {"p1", "p2", "p3", "p4"} & set(json.dumps(card).split('"'))
    app = open_page("gate", view="Checkpoints")
    facts = dict(app.dataframe[0].value.to_numpy().tolist())
    assert facts["Hash of n-grams"] == "blake2" and facts["Rows of the table"] == "5,000"
    assert facts["SHA of the weights"] == card["digest"][:16]


def test_a_broken_checkpoint_is_reported_in_one_line(home):
    folder = home / "cache" / "gates" / "broken"
    save_gate(folder, random_gate())
    (folder / "gate.json").write_text("{")
    app = open_page("gate", view="Checkpoints")
    assert len(app.error) == 1 and "\n" not in app.error[0].value
    assert "train-gate" in app.error[0].value.replace("\\", "")


def test_a_panel_holds_every_point_of_a_head_within_its_range():
    frame = pd.DataFrame(gate_report.tables()["ablation"])
    rows = text.standard_grid(frame)
    assert len(rows) == 27
    span = variants.padded(rows[["auroc", "ci_low", "ci_high"]].to_numpy().ravel(), 0.02)
    deep = rows[rows["head"] == "deep"]
    figure = view.head_panel(deep, "auroc", "ci_low", "ci_high", 1, span)
    assert [t.name for t in figure.data] == ["2-grams", "3-grams", "4-grams"]
    assert len({t.marker.symbol for t in figure.data}) == 3
    for trace in figure.data:
        expected = deep[deep["ngram"] == int(trace.name[0])].sort_values("dim")
        assert list(trace.y) == expected["auroc"].tolist()
        assert (np.array(trace.y) - trace.error_y.arrayminus >= span[0]).all()
        assert (np.array(trace.y) + trace.error_y.array <= span[1]).all()


def test_the_question_is_worth_what_the_two_rows_say():
    base = {"ngram": 3, "dim": 64, "head": "standard", "loss": "bce", "n": 10}
    rows = pd.DataFrame(
        [
            base | {"query": True, "auroc": 0.9, "ci_low": 0.8, "ci_high": 0.95,
                    "recall": 0.5, "recall_low": 0.2, "recall_high": 0.8},
            base | {"query": False, "auroc": 0.7, "ci_low": 0.6, "ci_high": 0.75,
                    "recall": 0.3, "recall_low": 0.1, "recall_high": 0.6},
        ]
    )  # fmt: skip
    assert text.question_text(rows) == (
        "AUROC: 0.900 [0.800, 0.950] with the question, 0.700 [0.600, 0.750] without it; "
        "questions with a shared word kept: 50.0 % [20.0, 80.0] with the question, "
        "30.0 % [10.0, 60.0] without it."
    )
    assert text.question_text(rows.head(1)) == ""


def test_the_papers_figures_are_shown_with_ours():
    frame = pd.DataFrame(
        [
            {"factor": "ngram", "value": "3", "paper_recall": 0.981, "paper_low": 0.96,
             "paper_high": 1.0, "paper_n": None, "recall": 0.5, "low": 0.4, "high": 0.6, "n": None},
            {"factor": "with_query", "value": "overall", "paper_recall": 0.9, "paper_low": None,
             "paper_high": None, "paper_n": 83, "recall": None, "low": None, "high": None, "n": 3},
        ]
    )  # fmt: skip
    table = text.published_table(frame)
    assert table["paper"].tolist() == ["98.1 % [96.0, 100.0]", "90.0 % n=83"]
    assert table["this run"].tolist() == ["50.0 % [40.0, 60.0]", "–"]
