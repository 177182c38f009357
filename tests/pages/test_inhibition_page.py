"""The Inhibition page without a browser: empty, each view, partial; the offered runs."""

from __future__ import annotations

import json

import pytest

from midchart.core import api
from midchart.core.errors import InputError
from midchart.core.training_experiments.inhibition.views import conclusion
from midchart.pages.ui.inhibition import view
from tests.support.inhibition_rows import make_rows
from tests.support.pages import figures_of, open_page, plain_text
from tests.support.reports import run_report, run_status, show_run

pytestmark = pytest.mark.slow

VIEWS = ("comparison", "depth", "length", "distractors", "attended", "training")
RUN = "20260101-000000-abcdef"


def sagging(variant: str, placement: str, length: int, depth: float) -> float:
    return 0.3 if variant == "softmax" and placement == "edges" and 0.3 <= depth <= 0.7 else 0.9


TABLES = make_rows(sagging)


def report_of(tables, state: str = "done"):
    return run_report(run_status("inhibition", RUN, 12, 12, status=state), tables, ["3 seeds: few"])


def shown(monkeypatch, tables, state: str = "done") -> None:
    now = run_status("inhibition", RUN, 12, 12, status=state)
    report = report_of(tables, state)
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
def test_each_view_has_a_figure_its_numbers_and_the_conclusion(empty, monkeypatch, name):
    shown(monkeypatch, TABLES)
    app = open_page("inhibition", view=name)
    (figure,) = figures_of(app)
    assert figure.alt and len(app.dataframe[0].value)
    first = conclusion(report_of(TABLES))
    assert first.headline and first.headline in plain_text(app).replace("\xa0", " ")


def test_placement_and_length_come_from_the_address(empty, monkeypatch):
    shown(monkeypatch, TABLES)
    app = open_page("inhibition", view="depth", of_length="16")
    assert app.selectbox(key="of_length").value == "16"
    wanted = [r for r in TABLES["depth"] if r["length"] == 16 and r["placement"] == "uniform"
              and r["distractors"] == 2 and r["variant"] == "softmax"]  # fmt: skip
    row = app.dataframe[0].value.iloc[0]
    assert row["variant"] == "Softmax"
    assert [f"{100 * r['accuracy']:.1f} %" in row.iloc[1 + i] for i, r in enumerate(wanted)] == [
        True
    ] * len(wanted)


def test_a_run_at_work_without_results_reports_it(empty, monkeypatch):
    shown(monkeypatch, {**{name: [] for name in TABLES}}, "running")
    monkeypatch.setattr(api, "shipped_runs", lambda kind="": [])
    app = open_page("inhibition")
    assert "has no results" in plain_text(app) and "partial" in plain_text(app)


def test_a_part_of_a_run_breaks_no_view(empty, monkeypatch):
    part = {
        name: [r for r in rows if r.get("variant") == "softmax" and r["placement"] == "edges"]
        for name, rows in TABLES.items()
    }
    shown(monkeypatch, part, "running")
    for one in api.views_of(report_of(part)):
        app = open_page("inhibition", view=one.name)
        assert len(app.dataframe[0].value), one.name
        assert 'class="mc-headline"' not in plain_text(app)


def test_an_interval_lies_between_its_bounds_and_names_are_inert(empty, monkeypatch):
    tables = {
        name: [{**row, **({"variant": "<b>x</b>"} if "variant" in row else {})} for row in rows]
        for name, rows in TABLES.items()
    }
    shown(monkeypatch, tables)
    (figure,) = figures_of(open_page("inhibition", view="depth"))
    drawn = json.loads(figure.spec)["data"]
    (line,) = [trace for trace in drawn if trace.get("customdata") is not None]
    assert "<b>" not in line["name"] and "<b>" not in line["hovertemplate"]
    assert line["error_y"]["array"] is not None
