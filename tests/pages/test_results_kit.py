"""Pages of results: every view of a run of each kind, what is behind a number, what a URL holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from midchart.core import api
from midchart.core.results.values import values
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.results import kit
from tests.support import app_data, gate_report
from tests.support.pages import (
    click,
    clickable,
    figures_of,
    frame_with,
    open_page,
    page_text,
    plain_text,
    shared_workspace,
)
from tests.support.reports import show_run
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.slow

PAGES = {"answers": "arms", "selection": "arms", "gate": "gate", "forecast": "forecast"}


@pytest.fixture(scope="session")
def included_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a cohort and the included runs; tests read it."""
    with workspace_at(tmp_path_factory.mktemp("included")) as folder:
        app_data.make_cohort(folder / "data")
        api.open_examples()
    return folder


@pytest.fixture
def included(included_folder: Path) -> Iterator[Path]:
    with shared_workspace(included_folder):
        yield included_folder


def _included(kind: str) -> str:
    return next(one["run"] for one in api.shipped_runs(kind) if not one["folder"])


@pytest.mark.parametrize("kind", PAGES)
def test_each_view_of_an_included_run_shows_its_figure_and_its_table(included, kind):
    run = _included(kind)
    report = api.report(run)
    views = api.views_of(report)
    assert len(views) > 4
    for view in views:
        app = open_page(PAGES[kind], run=run, view=view.name)
        assert app.selectbox(key="view").value == view.name
        assert 'class="mc-headline"' in page_text(app), view.name
        assert app.selectbox(key="view").format_func(view.name) == view.title
        shown = app.dataframe[0].value
        assert len(shown), view.name
        drawn = figures_of(app)
        measured = api.known_measures(api.rows_of(report["tables"], view, {}), view)
        assert len(drawn) == (view.figure != "none" and bool(measured)), view.name
        assert all(figure.alt for figure in drawn)
        assert "has nothing on that" not in page_text(app), view.name
        assert not [one for one in app.info if "was not found" in one.value], view.name


COUNTED = ("overall", "evidence", "position", "evidence_position", "found", "types", "k",
           "evidence_k", "failures", "refusals", "pairs")  # fmt: skip
JUDGED = ("overall", "position", "found", "types", "k", "failures", "refusals", "pairs")
"""Views whose n counts the answers that were judged."""


@pytest.mark.parametrize("name", COUNTED)
def test_as_many_questions_are_behind_a_number_as_it_counts(run, monkeypatch, name):
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(questions, "open_questions", lambda **filters: opened.append(filters))
    status = next(one for one in state.runs() if one["run"] == run)
    report = api.report(run)
    view = next(one for one in api.views_of(report) if one.name == name)
    shown = kit.Shown(status, report, report["tables"], {"reader": "extractive"}, "full")
    fixed = {"reader": "extractive", "judge": "exact"}
    rows = [
        row for row in api.rows_of(report["tables"], view, {})
        if all(row.get(column) in (value, "") for column, value in fixed.items() if column in row)
    ]  # fmt: skip
    outcomes = state.outcomes(status, "extractive", "exact")
    if name in JUDGED:
        outcomes = outcomes[outcomes["outcome"].isin(questions.JUDGED)]
    compared = 0
    for row in rows:
        if row.get("criterion") == "semantic":
            continue
        (one,) = values([row], view, view.measures[0]) or [None]
        if one is None:
            continue
        questions.open_behind(shown, view, one.opens)
        behind = questions.matching(outcomes, opened.pop(), "full")
        assert len(behind) == row["count" if name == "failures" else "n"], row
        compared += row["n"] > 0
    assert compared


def test_a_cell_of_a_table_opens_its_own_questions_and_a_name_those_of_its_row(run, monkeypatch):
    clickable(monkeypatch)
    app = open_page("arms", run=run, view="types", judge="exact")
    frame = app.dataframe[0].value
    place = frame.columns[-1]
    arm = frame["arm"][1]
    click(app, f"table_{run}-types", 1, place)
    assert app.selectbox(key="view").value == "questions"
    assert api.title("arm", app.selectbox(key="q_arm").value) == arm
    assert app.session_state["q_type"] == place
    app = open_page("arms", run=run, view="types", judge="exact")
    click(app, f"table_{run}-types", 1, "arm")
    assert api.title("arm", app.selectbox(key="q_arm").value) == arm
    assert app.session_state["q_type"] == "any"


def test_a_marker_opens_the_questions_of_its_value(run, monkeypatch):
    clickable(monkeypatch)
    app = open_page("arms", run=run, view="overall")
    arm = frame_with(app, "refusals")["arm"][2]
    click(app, "kit_overall", point=[2])
    assert app.selectbox(key="view").value == "questions"
    assert api.title("arm", app.selectbox(key="q_arm").value) == arm


def test_names_of_a_cohort_enter_no_url(run, monkeypatch):
    real, domain = state.report, "gut <b> ![x](https://pixel.example/p)"

    def report(run):
        known = real(run)
        rows = [
            {**row, "domain": domain}
            for row in known["tables"]["accuracy"] if row["band"] == "overall"
        ]  # fmt: skip
        return {**known, "tables": {**known["tables"], "domain": rows}}

    outcomes = api.outcomes
    monkeypatch.setattr(state, "report", report)
    monkeypatch.setattr(
        api, "outcomes",
        lambda *asked: [
            row | {"domain": domain if place % 2 else "heart"}
            for place, row in enumerate(outcomes(*asked))
        ],
    )  # fmt: skip
    st.cache_data.clear()
    clickable(monkeypatch)
    app = open_page("arms", run=run, view="domains", differ="false")
    (figure,) = figures_of(app)
    assert "<b>" not in figure.spec and "gut" in figure.spec
    assert "pixel" not in str(dict(app.query_params))
    click(app, f"table_{run}-domains", 0, domain)
    assert app.session_state["q_domain"] == domain
    address = str(dict(app.query_params))
    assert "gut" not in address and "pixel" not in address and app.query_params["q_domain"]
    shared = open_page("arms", **dict(app.query_params.items()))
    assert shared.session_state["q_domain"] == domain, "the link opens the same questions"


def test_the_primary_judge_is_first_and_concludes_whichever_is_shown(run):
    report = api.report(run)
    app = open_page("arms", run=run, view="overall")
    judge = app.selectbox(key="judge")
    assert judge.value == report["primary_judge"] and "judge" not in app.query_params
    headline = api.conclusion_of(report).headline
    assert headline in plain_text(app).replace("\xa0", " ")
    judge.set_value("exact").run()
    assert app.query_params["judge"] in ("exact", ["exact"])
    assert headline in plain_text(app).replace("\xa0", " ")
    assert "The figures below are by Exact values (offline)." in plain_text(app)


def test_an_unfinished_run_has_no_conclusion(home, monkeypatch):
    for status in ("running", "cancelled"):
        now = gate_report.status() | {"status": status, "done": 12}
        report = gate_report.report(now["run"]) | {"status": status}
        assert api.conclusion_of(report).headline
        show_run(monkeypatch, now, lambda run, report=report: report)
        shown = plain_text(open_page("gate"))
        assert "A run has no conclusion before it has finished" in shown
        assert 'class="mc-headline"' not in shown
        for text in (api.conclusion_of(report).headline, *api.conclusion_of(report).details):
            assert text not in shown


def test_an_experiment_that_declares_no_view_is_drawn_as_tables(run, monkeypatch):
    kind = type(EXPERIMENTS.build("answers"))
    monkeypatch.setattr(kind, "views", ())
    monkeypatch.setattr(kind, "conclusion", lambda self, report, **chosen: api.Conclusion())
    tables = api.report(run)["tables"]
    app = open_page("arms", run=run, view="tokens")
    assert not figures_of(app) and 'class="mc-headline"' not in page_text(app)
    assert app.selectbox(key="view").value == "tokens"
    assert len(app.dataframe[0].value) == len(tables["tokens"])
    named = [name for name, rows in tables.items() if rows]
    assert len(app.selectbox(key="view").options) == len(named) + 1, "and the questions"
