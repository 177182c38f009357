"""The Inhibition page without a browser: empty, each view, partial; the offered runs."""

from __future__ import annotations

import pytest

from midchart.core import api
from midchart.core.errors import InputError
from midchart.pages.ui.inhibition import view
from midchart.pages.ui.shared import chart
from tests.support.inhibition_rows import make_rows
from tests.support.pages import open_page, plain_text
from tests.support.reports import run_report, run_status, show_run

pytestmark = pytest.mark.slow

VIEWS = ("Depth", "Length", "Distractors", "Attention", "Comparison", "Training")
RUN = "20260101-000000-abcdef"


def sagging(variant: str, placement: str, length: int, depth: float) -> float:
    return 0.3 if variant == "softmax" and placement == "edges" and 0.3 <= depth <= 0.7 else 0.9


TABLES = make_rows(sagging)


def shown(monkeypatch, tables, state: str = "done") -> None:
    now = run_status("inhibition", RUN, 12, 12, status=state)
    report = run_report(now, tables, ["3 seeds: few"])
    show_run(monkeypatch, now, lambda run: report)


def test_with_nothing_here_it_offers_the_run_that_is_shipped_and_both_sizes(empty, monkeypatch):
    command = "midchart run lab.toml"
    offered = {"run": RUN, "made": "2026-01-02T03:04", "command": command, "folder": ""}
    asked, begun = [], []
    monkeypatch.setattr(api, "shipped_runs", lambda kind="": [offered])

    def refuse(run: str) -> None:
        asked.append(run)
        raise InputError("cannot be")

    monkeypatch.setattr(api, "open_shipped", refuse)
    monkeypatch.setattr(api, "enqueue", begun.append)
    app = open_page("inhibition")
    page = plain_text(app)
    assert "No inhibition run yet" in page and "finished run is included as an example" in page
    assert app.code[0].value == command
    app.button(key=f"open_{RUN}").click().run()
    assert asked == [RUN] and "cannot be" in plain_text(app)
    app.segmented_control(key="size").set_value("Full comparison").run()
    assert app.code[1].value == "midchart run docs/inhibition.toml"
    app.button(key="start_inhibition").click().run()
    assert begun == [view.spec("Full comparison")] and "data" not in begun[0]


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_has_a_chart_a_placement_its_numbers_and_n(empty, monkeypatch, name):
    shown(monkeypatch, TABLES)
    app = open_page("inhibition", view=name)
    charts_here = app.get("plotly_chart")
    assert len(charts_here) == 2 and all(chart.proto.alt for chart in charts_here)
    assert app.dataframe and app.get("download_button") and "n = " in plain_text(app)
    assert "flatter: differential" in plain_text(app)
    assert all(title in plain_text(app) for title in view.PLACEMENTS.values())


def test_records_come_from_the_address(empty, monkeypatch):
    shown(monkeypatch, TABLES)
    app = open_page("inhibition", view="Depth")
    assert app.selectbox(key="records").value == "12 lines, 2 distractors"
    wanted = "16 lines, 2 distractors (longer than trained)"
    app = open_page("inhibition", view="Depth", records=wanted)
    assert app.selectbox(key="records").value == wanted
    assert set(app.dataframe[0].value["length"]) == {16}


def test_a_run_at_work_without_results_reports_it(empty, monkeypatch):
    shown(monkeypatch, {**{name: [] for name in TABLES}}, "running")
    monkeypatch.setattr(api, "shipped_runs", lambda kind="": [])
    app = open_page("inhibition")
    assert "No decoder has been evaluated yet" in plain_text(app) and "partial" in plain_text(app)


def test_a_part_of_a_run_breaks_no_view(empty, monkeypatch):
    part = {
        name: [r for r in rows if r.get("variant") == "softmax" and r["placement"] == "edges"]
        for name, rows in TABLES.items()
    }
    shown(monkeypatch, part, "running")
    for name in VIEWS:
        app = open_page("inhibition", view=name)
        assert len(app.get("plotly_chart")) == (0 if name == "Comparison" else 1)


def test_a_band_lies_between_its_bounds_and_names_are_inert():
    import pandas as pd

    rows = pd.DataFrame([
        {"variant": "<b>x</b>", "place": x, "accuracy": 0.5, "ci_low": 0.4, "ci_high": 0.7, "n": 9}
        for x in (0.0, 50.0, 100.0)
    ])  # fmt: skip
    figure = view.curves_figure(rows, "place", "depth", {"<b>x</b>": chart.Look("#12436D", "circle",
                                                                           "solid")})  # fmt: skip
    band, line = figure.data
    assert list(band.y) == [70, 70, 70, 40, 40, 40] and list(line.y) == [50, 50, 50]
    assert "<b>" not in line.name and "<b>" not in line.hovertemplate
