"""The Forecast page without a browser: empty, each view, partial; its values."""

from __future__ import annotations

import pytest

from midchart.core import api
from midchart.extras.lab.synthetic.laboratory import make_laboratory
from midchart.pages.ui.forecast.attention import OFFER
from tests.support import forecast_report
from tests.support.pages import click, clickable, figures_of, open_page, pages_opened, plain_text
from tests.support.reports import show_run

pytestmark = pytest.mark.slow

VIEWS = {"areas": 1, "differences": 1, "mean": 1, "paper": 0, "roc": 1, "precision": 1,
         "calibration": 1, "training": 1, "gates": 1, "sparsity": 1, "split": 0}  # fmt: skip
"""Each view and how many figures it has."""
OPENING = ("areas", "differences", "roc", "precision", "calibration", "training", "gates",
           "sparsity")  # fmt: skip
COMPARED = "better than Softmax: Sparsemax +3.5 ["
SHOWN = {
    "areas": ("Means over 2 seeds of each attention, n = 2,400 held-out labels",
              (".705\\u2013.765", "hyperkalemia")),
    "differences": (COMPARED, ()),
    "split": (COMPARED, ()),
    "roc": ("At a false positive rate of 10.0\xa0%, sensitivity is from", ('"name":"chance"',)),
    "calibration": ("Farthest from the diagonal: ", ('"name":"perfect calibration"',)),
}  # fmt: skip
"""View → what its headline says, and what is at its marks."""
TABLES = {"gates": "gate", "sparsity": "sparsity"}
TASK = forecast_report.TASKS[0]


def shown(monkeypatch, now, tables=None):
    show_run(monkeypatch, now, lambda run: forecast_report.report(run, tables))


@pytest.fixture
def run(home, monkeypatch):
    """A finished forecast run, as status and report tell of it."""
    shown(monkeypatch, forecast_report.status())


def test_without_labels_it_says_how_to_make_some(home):
    app = open_page("forecast")
    assert "No forecast run yet" in plain_text(app) and "has labels to forecast" in plain_text(app)
    assert "midchart demo --laboratory ehrshot" in [code.value for code in app.code]
    assert not [b for b in app.button if b.key == "start_forecast"]


def test_its_button_hands_over_the_ready_made_run(home, monkeypatch):
    make_laboratory(home / "data" / "cohorts" / "lab", patients=6, events_per_patient=80)
    started = []
    monkeypatch.setattr(api, "enqueue", lambda spec, on: started.append(spec) or "r")
    opened = pages_opened(monkeypatch)
    app = open_page("forecast")
    assert app.selectbox(key="cohort").options == ["lab"]
    app.button(key="start_forecast").click().run()
    assert started == [OFFER.spec("lab")] and opened == [("runs", {"run": "r"})]
    assert started[0]["kind"] == "forecast" and "tasks" not in started[0]
    assert started[0]["data"] == str(home / "data" / "cohorts" / "lab")


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_its_figure_and_its_numbers_under_the_verdict(run, view):
    app = open_page("forecast", view=view)
    drawn = figures_of(app)
    assert len(drawn) == VIEWS[view] and all(chart.alt for chart in drawn)
    assert len(app.dataframe[0].value)
    headline, marks = SHOWN.get(view, (": highest ", ()))
    assert headline in plain_text(app)
    assert all(mark in drawn[0].spec for mark in marks), view


@pytest.mark.parametrize("imported", [True, False])
def test_numbers_open_sequences_only_where_the_models_are_here(home, monkeypatch, imported):
    shown(monkeypatch, forecast_report.status() | {"imported": imported})
    for name in OPENING:
        content = plain_text(open_page("forecast", view=name))
        assert ("Click a number or a marker" in content) != imported, name


@pytest.mark.parametrize("name", ["gates", "sparsity"])
def test_a_marker_of_a_gate_or_of_weights_opens_the_sequences_of_its_attention(
    home, monkeypatch, name
):
    shown(monkeypatch, forecast_report.status() | {"imported": False})
    clickable(monkeypatch)
    rows = [r for r in forecast_report.tables()[TABLES[name]] if r["task"] == TASK]
    place = next(i for i, row in enumerate(rows) if row["variant"] == "gated_differential")
    app = click(open_page("forecast", view=name), f"kit_{name}", point=[place])
    assert app.selectbox(key="view").value == "map"
    assert app.session_state["attended"] == ["gated_differential"]


def test_a_run_that_holds_little_yet_reports_it_and_what_failed(home, monkeypatch):
    tables = {name: [] for name in forecast_report.tables()}
    failed = {"task": TASK, "variant": "h2o", "seed": 1, "reason": "out of memory"}
    now = forecast_report.status(state="running")
    shown(monkeypatch, now, tables | {"failures": [failed]})
    app = open_page("forecast")
    assert "partial" in plain_text(app) and 'class="mc-headline"' not in plain_text(app)
    assert app.progress[0].value == pytest.approx(100 * 9 / 26, abs=1)
    assert app.dataframe[0].value["reason"].tolist() == ["out of memory"]


def test_hostile_names_stay_text_in_figures(home, monkeypatch):
    tables = forecast_report.tables()
    for row in tables["roc"]:
        row["variant"] = "<b>x</b>"
    shown(monkeypatch, forecast_report.status(), tables)
    (figure,) = figures_of(open_page("forecast", view="roc"))
    assert "<b>x" not in figure.spec and "&lt;b&gt;x" in figure.spec
