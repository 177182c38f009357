"""The Forecast page without a browser: empty, each view, partial; its texts and figures."""

from __future__ import annotations

import pandas as pd
import pytest

from midchart.core import api
from midchart.core.synthetic.laboratory import make_laboratory
from midchart.pages.ui.forecast import text, view
from midchart.pages.ui.shared import chart, results
from tests.support import forecast_report
from tests.support.pages import click, clickable, open_page, plain_text
from tests.support.reports import show_run

pytestmark = pytest.mark.slow

VIEWS = {"Comparison": 3, "Curves": 3, "Training": 4, "Gate health": 3, "Sparsity": 4}
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
    monkeypatch.setattr(api, "enqueue", started.append)
    app = open_page("forecast")
    assert app.selectbox(key="cohort").options == ["lab"]
    app.button(key="start_forecast").click().run()
    assert started == [view.spec("lab")]
    assert started[0]["kind"] == "forecast" and "tasks" not in started[0]
    assert started[0]["data"] == str(home / "data" / "cohorts" / "lab")


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_its_charts_their_numbers_and_n_under_the_verdict(run, view):
    app = open_page("forecast", view=view)
    assert len(app.get("plotly_chart")) == VIEWS[view]
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert app.dataframe and app.get("download_button")
    assert "n = " in plain_text(app)
    assert "better than Softmax: Sparsemax +3.5 [" in plain_text(app)


@pytest.mark.parametrize("imported", [True, False])
def test_numbers_open_sequences_or_say_that_the_run_stores_none(home, monkeypatch, imported):
    shown(monkeypatch, forecast_report.status() | {"imported": imported})
    for name in ("Curves", "Training", "Gate health", "Sparsity"):
        content = plain_text(open_page("forecast", view=name))
        assert ("stores no single sequences" in content) == imported, name
        assert ("Click a number to see" in content) != imported, name


@pytest.mark.parametrize(("name", "key"), [("Gate health", "gate_means"), ("Sparsity", "sparsity")])
def test_a_marker_of_a_gate_or_of_weights_opens_the_sequences_of_its_attention(
    home, monkeypatch, name, key
):
    shown(monkeypatch, forecast_report.status() | {"imported": False})
    clickable(monkeypatch)
    app = open_page("forecast", view=name)
    keys = [str(b.key) for b in app.button if str(b.key).startswith("click_")]
    (first, *_) = [one for one in keys if one.startswith(f"click_{key}")]
    click(app, first.removeprefix("click_"), point=["gated_differential"])
    assert app.session_state["view"] == "Curves", "a run of this test has no trained models"
    assert app.session_state["curve"] == ["gated_differential"]


def test_task_and_variants_come_from_the_address(run):
    app = open_page("forecast", view="Curves", task="hyperkalemia")
    assert app.selectbox(key="task").value == "lab_hyperkalemia"
    assert " positive (2.4 %)" in plain_text(app)
    assert app.multiselect(key="curve").value == [
        "softmax", "differential", "gated_differential", "logistic_counts",
    ]  # fmt: skip
    app.multiselect(key="curve").set_value([]).run()
    assert "Select a variant" in plain_text(app) and not app.exception


def test_a_run_that_holds_little_yet_reports_it_and_what_failed(home, monkeypatch):
    tables = {name: [] for name in forecast_report.tables()}
    failed = {"task": TASK, "variant": "h2o", "seed": 1, "reason": "out of memory"}
    now = forecast_report.status(state="running")
    shown(monkeypatch, now, tables | {"failures": [failed]})
    app = open_page("forecast")
    assert "No model has been evaluated yet" in plain_text(app) and "partial" in plain_text(app)
    assert app.progress[0].value == pytest.approx(100 * 9 / 26, abs=1)
    assert app.dataframe[0].value["reason"].tolist() == ["out of memory"]


def test_a_run_of_baselines_alone_breaks_no_view(home, monkeypatch):
    tables = forecast_report.tables()
    for name in tables:
        tables[name] = [
            row for row in tables[name] if row.get("variant") in forecast_report.BASELINES
        ]
    shown(monkeypatch, forecast_report.status(), tables)
    for name in VIEWS:
        assert "has no Softmax to compare with" in plain_text(open_page("forecast", view=name))


def _tables(**changed):
    frames = {
        name: results.frame_of(forecast_report.tables(), name) for name in forecast_report.tables()
    }
    of_task = {name: f[f["task"] == TASK] for name, f in frames.items() if "task" in f}
    verdict = of_task["verdict"]
    verdict = verdict.assign(verdict=verdict["variant"].map(forecast_report.VERDICTS | changed))
    return verdict, of_task["summary"], text.attentions(of_task["forecast"])


def test_the_verdict_names_better_worse_collapsed_and_counts():
    verdict = text.verdict(*_tables(), TASK)
    assert verdict.startswith("Anemia: better than Softmax: Sparsemax +3.5 [")
    assert "; worse than Softmax: H2O −4.0 [" in verdict and "Constant" not in verdict
    assert "The gate of Gated differential collapsed in 1 of 2 seeds." in verdict
    assert (
        "Better than Softmax among the count-based baselines: Logistic regression (counts) +4.2 ["
        in verdict
    )


def test_nothing_is_claimed_where_nothing_is_shown():
    none = dict.fromkeys(forecast_report.VERDICTS, "no difference shown") | {"softmax": "reference"}
    verdict = text.verdict(*_tables(**none), TASK)
    assert verdict.startswith("Anemia: no attention is significantly better or worse than Softmax.")
    assert "count-based" not in verdict


def test_the_papers_marks_stand_in_their_rows_and_chance_is_drawn():
    _, summary, trained = _tables()
    lines = text.area_rows(summary, "auroc", trained)
    published = pd.DataFrame(forecast_report.tables()["published"])
    papers = text.paper_values(published, "auroc", TASK)
    figure = view.forest(lines, papers, "AUROC", 0.5, "chance", "synthetic records")
    assert "◇ paper, on EHRSHOT" in str(figure.layout.annotations)
    assert figure.layout.xaxis.title.text == "AUROC, synthetic records"
    trace = next(t for t in figure.data if t.name == "paper's value")
    rows = [len(lines) - [line.label for line in lines].index(p.name) - 0.3 for p in papers]
    assert list(trace.y) == rows and set(trace.x) == {0.764}
    low, high = figure.layout.xaxis.range
    assert all(low < v < high for line in lines for v in (line.low, line.high))
    assert figure.layout.shapes[0].x0 == 0.5
    baselines = [line.label for line in lines if line.control]
    assert baselines == list(forecast_report.BASELINES)


def test_the_chosen_seed_is_strong_and_the_others_faint():
    roc = pd.DataFrame(forecast_report.tables()["roc"])
    roc = roc[roc["task"] == TASK]
    looks = chart.distinct_looks(["softmax", "logistic_counts"])
    named = {name: name for name in looks}
    figure = view.curve(roc, "false_positive_rate", "sensitivity", looks, named, 2, None)
    diagonal, first, second, base = figure.data
    assert (diagonal.hoverinfo, first.opacity, second.opacity, base.opacity) == ("skip", 0.5, 1, 1)
    assert [t.showlegend for t in (first, second, base)] == [False, True, True]


def test_hostile_names_stay_text_in_figures():
    looks = chart.distinct_looks(["<b>x</b>"])
    rows = pd.DataFrame([{"variant": "<b>x</b>", "seed": 1, "a": 0.0, "b": 1.0}])
    figure = view.curve(rows, "a", "b", looks, {"<b>x</b>": "<b>x</b>"}, 1, None)
    assert "<b>" not in figure.data[1].name + figure.data[1].hovertemplate


def test_a_p_that_is_not_estimable_is_shown_with_its_reason():
    reason = "all positive labels are of one patient"
    rows = pd.DataFrame(forecast_report.tables()["summary"])
    rows = rows[rows["task"] == TASK].assign(title=lambda frame: frame["variant"])
    compared = rows["difference"].notna()
    rows["not_estimable"] = None
    rows.loc[compared, "not_estimable"] = reason
    rows.loc[compared, "holm_p"] = float("nan")
    cells = text.summary_table(rows)["p (Holm)"][compared.to_numpy()]
    assert len(cells) and set(cells) == {f"p not estimable: {reason}"}
    texts = [row.text for row in text.difference_rows(rows, ["softmax", "differential"])]
    assert texts and all(one.endswith(f", p not estimable: {reason}") for one in texts)


def test_the_mean_over_tasks_is_shown_with_its_interval_and_what_it_covers(home, monkeypatch):
    shown(monkeypatch, forecast_report.status())
    app = open_page("forecast")
    (frame,) = [f.value for f in app.dataframe if "mean difference (points)" in f.value]
    row = frame.set_index("variant").loc[api.title("variant", "differential")]
    assert row["mean difference (points)"] == "+0.5 [−1.5, +2.5]"
    assert (row["lowest task"], row["highest task"]) == ("−0.5", "+1.5")
    assert "the tasks are fixed" in plain_text(app)
