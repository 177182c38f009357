"""The Curve page without a browser: its choices, a point, groups, needles and empty states."""

from __future__ import annotations

import pandas as pd
import pytest
import streamlit as st

from midchart.core import api
from midchart.core.errors import InputError
from midchart.pages.ui import state
from midchart.pages.ui.curve import needles
from midchart.pages.ui.shared.pickers import token
from tests.support import curve_report
from tests.support.pages import (
    click,
    clickable,
    figures_of,
    frame_with,
    open_page,
    page_text,
    pages_opened,
    plain_text,
)
from tests.support.reports import show_run

NEEDLES = {"curve": "needles"}


def _n(frame: pd.DataFrame, row: int = 0) -> list[int]:
    cells = [cell for cell in frame.iloc[row] if isinstance(cell, str)]
    return [int(cell.rpartition("n ")[2]) for cell in cells if " n " in cell]


def test_the_verdict_comes_first_then_the_curve_next_to_the_paper_s(cohort):
    app = open_page("curve")
    result = api.curve(cohort)
    shown = page_text(app).replace("\u00a0", " ").replace("&#x27;", "'")
    assert result["verdict"][0]["text"].split(". ")[1] in shown
    assert "simulated answers" in shown and len(figures_of(app)) == 3
    bins = frame_with(app, "answers")
    assert _n(bins) == [row["n"] for row in result["curve"] if row["n"]]
    assert bins["25"][1] == "59.5 % [46.3, 71.0]", "the paper's curve, third tenth"
    numbers = frame_with(app, "share 10 90")
    assert numbers["value"][0] == "all answers" and len(numbers) == 1 + len(curve_report.MODELS)


@pytest.mark.parametrize(
    ("query", "options", "published"),
    [
        ({"score": "Exact match"}, {"score": "exact"}, False),
        ({"score": "Token overlap (Jaccard)"}, {"score": "jaccard"}, False),
        ({"position": "Elapsed time"}, {"position": "time"}, False),
        ({"bins": "Quintiles"}, {"bins": 5}, False),
        ({"snippets": "Every piece"}, {"snippets": "all"}, True),
        ({"by": "Domain"}, {}, True),
    ],
)
def test_every_choice_is_in_the_address_and_drawn(cohort, query, options, published):
    bins = frame_with(open_page("curve", **query), "answers")
    assert _n(bins) == [row["n"] for row in api.curve(cohort, **options)["curve"] if row["n"]]
    assert (len(bins) == 2) == published


def test_a_group_is_drawn_by_a_token_in_the_address(cohort):
    app = open_page("curve", of=token("demo", "model/sim-model-e"))
    assert app.selectbox(key="curve_of_model").value == "sim-model-e"
    (row,) = api.curve(cohort, stratum="model", value="sim-model-e")["summary"]
    assert sum(_n(frame_with(app, "answers"))) == row["n"]
    app.selectbox(key="curve_of_model").set_value("").run()
    assert "of" not in app.query_params
    assert open_page("curve", of="0123456789").selectbox(key="curve_of_model").value == ""


def test_numbers_and_rows_open_their_questions_and_a_question_its_record(cohort, monkeypatch):
    clickable(monkeypatch)
    app = open_page("curve", at="20-30")
    rows = pd.DataFrame(api.curve_bin(cohort, 2))
    shown = frame_with(app, "patient")
    assert len(shown) == rows["instruction"].nunique() and shown["position"].between(20, 30).all()
    right = sum((shown[model] == "✓ correct").sum() for model in curve_report.MODELS)
    assert right == rows["correct"].sum()
    ids = {*(one.id for one in cohort.instructions), *cohort.records}
    assert not ids & {*shown["patient"], *shown["question"]}, "codes alone"
    click(app, "-groups", 4, "35")
    assert app.selectbox(key="curve_of_model").value == "sim-model-e"
    assert app.selectbox(key="at").value == "30-40"
    assert "at 30-40 %, sim-model-e" in plain_text(app)
    click(app, "-contrasts", 2)
    assert app.selectbox(key="at").value == "0-100"
    opened = pages_opened(monkeypatch)
    question = frame_with(app, "patient").iloc[0]
    click(app, "-at-0-100", 0)
    codes = {name: question[name] for name in ("patient", "question")}
    assert opened == [("patient", {"cohort": "demo", **codes})]


def test_groups_without_a_curve_are_named_and_one_alone_says_why(cohort, monkeypatch):
    reason = "no answer has a position"
    gone = {"stratum": "domain", "value": "social", "reason": reason}

    def partial(cohort, **options):
        tables = curve_report.curve(**options)
        if options.get("value") == "social":
            return {name: [] for name in tables} | {"failures": [gone]}
        return tables | {"failures": [gone] * (options.get("stratum") == "domain")}

    monkeypatch.setattr(api, "curve", partial)
    text = page_text(open_page("curve", by="Domain"))
    assert "Without a curve, as no answer has both score and position: social" in text
    text = page_text(open_page("curve", by="Domain", of=token("demo", "domain/social")))
    assert f"No curve: {reason}" in text


@pytest.mark.parametrize("view", ["observed", "needles"])
def test_what_is_missing_is_said(home, monkeypatch, view):
    app = open_page("curve")
    assert "clinician-reviewed-model-responses.tsv" in page_text(app) and not figures_of(app)
    monkeypatch.setattr(state, "question_cohorts", list)
    app = open_page("curve", curve=view)
    assert "No cohort with questions" in page_text(app) and not figures_of(app)


def test_a_refusal_of_the_engine_is_one_line_and_a_hostile_group_is_text(cohort, monkeypatch):
    bad = "<img src=x> **b** $x$"
    monkeypatch.setitem(curve_report.GROUPS, "model", (bad,))
    gone = {"value": bad, "reason": bad}
    monkeypatch.setattr(
        api, "curve", lambda _, **options: curve_report.curve(**options) | {"failures": [gone]}
    )
    app = open_page("curve")
    assert bad in plain_text(app) and "<img" not in page_text(app).replace("\\<img", "")

    def refuse(cohort, **options):
        raise InputError("the responses cannot be read")

    monkeypatch.setattr(api, "curve", refuse)
    st.cache_data.clear()
    assert [e.value for e in open_page("curve").error] == ["the responses cannot be read"]


def test_without_a_needle_run_a_button_hands_over_the_ready_made_one(home, monkeypatch):
    started = []
    monkeypatch.setattr(api, "enqueue", lambda spec, on: started.append(spec) or "r")
    opened = pages_opened(monkeypatch)
    monkeypatch.setattr(api, "preflight", lambda _, on: {"problems": [], "estimate": None})
    app = open_page("curve", **NEEDLES)
    assert "No needle run yet" in page_text(app)
    assert "midchart run docs/needles.toml" in [code.value for code in app.code]
    app.button(key="start_needles").click().run()
    (spec,) = started
    assert opened == [("runs", {"run": "r"})]
    assert spec == needles.FACT.spec("small")
    assert spec["kind"] == "needles" and spec["data"] == str(home / "data" / "cohorts" / "small")


def _run(monkeypatch, state: str = "done") -> None:
    now = curve_report.status(state)
    show_run(monkeypatch, now, lambda run: curve_report.report(run, None) | {"status": state})
    monkeypatch.setattr(api, "review_mark", lambda run: ())


@pytest.mark.parametrize(
    ("view", "column", "first"),
    [("", "middle", "Full record"), ("grid", "length", None), ("cuts", "events before", None)],
)
def test_needles_have_their_views(home, monkeypatch, view, column, first):
    _run(monkeypatch)
    app = open_page("curve", **NEEDLES, **({"view": view} if view else {}))
    stated = "highest 1000, depth" if view == "grid" else "Full record: no difference was shown."
    assert stated in page_text(app)
    frame = frame_with(app, column)
    assert first is None or first in set(frame["arm"])


def test_a_cell_of_the_grid_opens_its_items_and_is_closed_again(home, monkeypatch):
    _run(monkeypatch)
    cohort, asked = api.open_data("small"), {}
    monkeypatch.setattr(state, "cohort_of", lambda run: cohort)

    def items(run: str, **cell: str | int) -> list[dict[str, object]]:
        asked.update(cell)
        one = {"instruction": cohort.instructions[0].id, "fact": "dose", "outcome": "correct"}
        site = {"length": 1, "depth": 2, "distractors": 0}
        return [{**one, **site, "evidence_in_prompt": True, "evidence_all_in_prompt": True}]

    monkeypatch.setattr(api, "needle_items", items)
    length = int(curve_report.needles()["heatmap"][0]["length"])
    app = open_page("curve", **NEEDLES)
    app.session_state["needle_cell"] = {"length": length, "depth": 0}
    app.run()
    assert {"length", "depth", "label", "reader", "judge"} == asked.keys()
    question = frame_with(app, "all evidence in the prompt")["question"][0]
    assert question == cohort.instructions[0].question
    app.button(key="needle_close").click().run()
    assert "Items behind" not in page_text(app)


@pytest.mark.parametrize("state", ["running", "crashed"])
def test_needles_that_are_not_done_are_partial(home, monkeypatch, state):
    _run(monkeypatch, state)
    app = open_page("curve", **NEEDLES)
    assert "partial" in page_text(app).lower() and "no difference was shown" not in page_text(app)
    run = curve_report.status()["run"]
    button = f"cancel_{run}" if state == "running" else f"resume_curve_{run}"
    assert button in {button.key for button in app.button}
