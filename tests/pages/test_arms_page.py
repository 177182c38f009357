"""The Arms page without a browser: every view, its pickers, its states."""

from __future__ import annotations

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.judges.rules import FAILURE_KINDS
from midchart.pages.ui import state
from midchart.pages.ui.arms import comparison, questions
from midchart.pages.ui.shared import chart, results
from tests.support.pages import click, clickable, frame_with, open_page, page_text

pytestmark = pytest.mark.slow


def opened(run: str, view: str = "Overall", **query: str) -> AppTest:
    """A view of the run, with what every view has."""
    app = open_page("arms", run=run, view=view, **query)
    text = page_text(app)
    assert 'class="mc-headline"' in text and "rule-based, not a clinician" in text
    assert "<script>alert" not in text
    return app


@pytest.mark.parametrize("view", ["Question types", "By k", "Costs"])
def test_a_view_opens_with_the_sentence_and_its_numbers(run, view):
    app = opened(run, view)
    assert app.dataframe or view != "Costs"


def test_overall_has_a_figure_its_numbers_and_what_failed(run):
    app = opened(run)
    assert len(app.get("plotly_chart")) == 1
    frame = app.dataframe[0].value
    assert set(frame["arm"]) == {"Full record", "BM25", "BM25, k = 1", "Recency only"}
    assert {"95 %", "n", "refusals", "unparsed", "failed"} <= set(frame)
    assert list(frame["failed"]) == [1] * 4
    failed = app.dataframe[-1].value
    assert failed["reason"].str.contains("no reference answer").any()
    assert failed["count"].sum() == api.status(run)["failed"]
    assert all(len(ends) > 1 for ends in frame["95 %"]), "Wilson's"
    app.segmented_control(key="interval").set_value("patient").run()
    assert set(app.dataframe[0].value["95 %"]) == {"–"}
    assert any("none below 5 patients" in str(one.value) for one in app.caption)


def test_by_position_tells_intervals_apart(run):
    app = opened(run, view="By position", measure="Evidence")
    assert app.segmented_control(key="interval").value == "wilson", "none by patient here"
    frame = app.dataframe[0].value
    assert list(frame.columns[:2]) == ["arm", "0-10 · n 0"]
    assert frame["overall · n 1"][0] == "100.0 [20.7, 100.0] chance 100.0", "1 of 1, Wilson"
    app.segmented_control(key="interval").set_value("percentile").run()
    assert app.dataframe[0].value["overall · n 1"][0] == "100.0 [20.7, 100.0] chance 100.0", (
        "widened"
    )


def test_pairs_are_against_the_chosen_baseline(run):
    app = opened(run, view="Pairs")
    frame = app.dataframe[0].value
    assert list(frame["arm"]) == ["BM25", "BM25, k = 1", "Recency only"]
    assert (frame["p (Holm)"] >= frame["p"]).all()
    assert "Full record" in page_text(app)
    app.selectbox(key="baseline").set_value("bm25 k=1").run()
    assert not app.exception
    assert list(app.dataframe[0].value["arm"]) == ["Full record", "BM25", "Recency only"]
    assert "BM25, k = 1 (" in page_text(app), "the sentence is about the baseline chosen"
    assert "each further baseline adds its own" in page_text(app)


def test_accuracy_with_and_without_evidence_is_shown(run):
    app = opened(run, view="Evidence")
    frame = app.dataframe[0].value
    assert [c.split(" · ")[0] for c in frame.columns] == [
        "arm",
        "all in prompt",
        "not all in prompt",
        "difference (points)",
    ]
    app.selectbox(key="hit").set_value("lexical").run()
    assert "any word of the reference" in page_text(app)


def test_judges_crosstab_adds_up_and_the_different_answers_are_listed(run):
    app = opened(run, view="Judges")
    assert "Agreement with human reviewers: Review page, Agreement." in page_text(app)
    (link,) = [one.proto for one in app.get("page_link") if "human reviewers" in one.proto.label]
    assert link.query_string == f"run={run}&view=Agreement"
    frame = app.dataframe[0].value
    cells = [
        "both correct",
        "only Token overlap (offline)",
        "only Exact values (offline)",
        "both incorrect",
    ]
    assert (frame[cells].sum(axis=1) == frame["n"]).all()
    counts = frame.iloc[0]
    assert counts["arm"] == "all arms"
    listed: dict[str, int] = {}
    for both in ("parted", "correct", "first", "second", "incorrect", "any"):
        app.selectbox(key="both").set_value(both).run()
        assert not app.exception
        listed[both] = sum(len(one.value) for one in app.dataframe if "question" in one.value)
    assert (
        listed["any"]
        == counts["answers"]
        == sum(listed.values()) - listed["any"] - listed["parted"]
    )
    assert listed["parted"] == listed["first"] + listed["second"]
    assert listed["parted"] == len(api.disagreements(run, "extractive", "token_overlap", "exact"))
    app.selectbox(key="both").set_value("any").run()
    app.selectbox(key="both_arm").set_value("bm25").run()
    assert set(frame_with(app, "question")["arm"]) == {"BM25"}


def test_failed_items_open_the_questions_in_which_their_arm_failed(run, monkeypatch):
    clickable(monkeypatch)
    app = click(opened(run), f"{run}-failed", 0)
    assert app.selectbox(key="q_outcome").value == "failed"
    assert len(frame_with(app, "question")) == 1


def test_training_patients_open_their_questions_alone(run, monkeypatch):
    clickable(monkeypatch)
    report, outcomes = api.report(run), api.outcomes

    def seen(run: str, reader: str, judge: str) -> list[dict]:
        rows = outcomes(run, reader, judge)
        return [row | {"counted": row["instruction"] != "q1"} for row in rows]

    st.cache_data.clear()
    report["tables"]["accuracy_seen"] = report["tables"]["accuracy"]
    monkeypatch.setattr(api, "report", lambda run: report)
    monkeypatch.setattr(api, "outcomes", seen)
    app = opened(run)
    arm = frame_with(app, "refusals").iloc[0]["arm"]
    click(app, "-seen", 0, "n")
    assert app.selectbox(key="q_patients").value == "training"
    assert api.title("arm", app.selectbox(key="q_arm").value) == arm
    about = {one.id: one.question for one in api.open_data("small").instructions}
    assert list(frame_with(app, "question")["question"]) == [about["q1"]]
    assert app.query_params["q_patients"] == "training"


def test_failures_are_kinds_refusals_and_an_example_to_read(run):
    app = opened(run, view="Failures")
    report = api.report(run)
    kinds = {r["kind"] for r in report["tables"]["failure_kinds"] if r["judge"] == "token_overlap"}
    assert kinds <= set(questions.RULES)
    assert tuple(questions.RULES) == FAILURE_KINDS, "in the order of the rules"
    assert "Refusals" in page_text(app)
    refused = frame_with(app, "% correct when answered")
    assert (refused["refused"] + refused["answered"] == refused["n"]).all()


def test_questions_show_arms_abreast_with_text_escaped(run):
    app = opened(run, view="Questions", differ="false")
    frame = frame_with(app, "question")
    assert len(frame) == 3
    app.selectbox(key="asked").select_index(1).run()
    html = "".join(h.value for h in app.html)
    assert frame["question"][0] in html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert frame["question"][0] in app.selectbox(key="asked").options, "a menu of questions"
    value = "".join(app.query_params["asked"])
    assert re.fullmatch(r"[0-9a-f]{10}", value), "the address holds a token alone"
    app.button(key="asked_Next").click().run()
    assert "".join(app.query_params["asked"]) != value
    app.button(key="asked_All questions").click().run()
    assert len(frame_with(app, "question")) == 3 and "asked" not in app.query_params


def test_dropped_evidence_is_marked_as_visibly_as_kept(run):
    app = opened(run, view="Questions", differ="false")
    frame = frame_with(app, "question")
    row = list(frame["question"]).index("What did the colonoscopy show?")
    app.selectbox(key="asked").select_index(row + 1).run()
    app.pills(key="abreast_").set_value(["full", "recency"]).run()
    html = "".join(h.value for h in app.html)
    assert 'class="mc-line mc-held"' in html
    assert 'class="mc-line mc-dropped"' in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count('class="mc-verdict') >= 4, "both judges of both arms"


def test_a_run_that_judges_nothing_has_the_views_it_can_fill(run, finished):
    app = open_page("arms", run=finished.selection)
    assert "keeps all pieces of the evidence of" in page_text(
        app
    ) and "and any piece of" in page_text(app)
    assert app.pills(key="view").options == ["Overall", "By position"]
    for view in ("By position", "By k", "Costs", "Questions"):
        app = open_page("arms", run=finished.selection, view=view, differ="false")
    assert "kept" in frame_with(app, "question")["BM25"].unique()
    app.selectbox(key="asked").select_index(1).run()
    assert not app.exception and 'class="mc-card"' in page_text(app)


def test_kinds_in_the_cohorts_own_words_are_a_list_and_in_no_address(run, monkeypatch):
    real = state.report
    pixel = "![x](https://pixel.example/p)"

    def report(run):
        tables = real(run)
        rows = [
            {**row, "domain": domain}
            for row in tables["tables"]["accuracy"] if row["band"] == "overall"
            for domain in (pixel, "gut <b>")
        ]  # fmt: skip
        return {**tables, "tables": {**tables["tables"], "domain": rows}}

    monkeypatch.setattr(state, "report", report)
    app = open_page("arms", run=run, view="Question types", by="domain")
    assert app.selectbox(key="kind_domain").options == [pixel, "gut <b>"]
    app.selectbox(key="kind_domain").select("gut <b>").run()
    assert not app.exception
    address = str(dict(app.query_params))
    assert "gut" not in address and "pixel" not in address and app.query_params["kind"]
    (chart,) = app.get("plotly_chart")
    assert "gut <b>" not in chart.proto.spec and "gut &lt;b&gt;" in chart.proto.spec


def test_a_forest_names_every_row_once_with_its_numbers(run):
    rows = results.where(
        results.frame_of(api.report(run), "accuracy"), band="overall", judge="token_overlap"
    )
    lines = chart.share_rows(rows, "accuracy", "wilson_low", "wilson_high")
    assert [line.value for line in lines] == sorted((x.value for x in lines), reverse=True)
    figure = chart.forest(lines, "accuracy")
    assert sum(len(trace.x) for trace in figure.data) == len(rows)
    ticks = figure.layout.yaxis.ticktext
    assert len(ticks) == len(rows)
    assert all(re.search(r"\d % \[[\d.]+, [\d.]+\] n \d", text) for text in ticks)
    hollow = [trace for trace in figure.data if trace.marker.symbol.endswith("-open")]
    assert [len(trace.x) for trace in hollow] == [1], "recency, the control"
    assert chart.forest_alt(lines, "accuracy").startswith("Forest plot of accuracy, 4 rows")


def test_outcomes_are_read_without_text(run):
    run = next(r for r in state.runs() if r["run"] == run)
    frame = state.outcomes(run, "extractive", "exact")
    assert not {"question", "answer", "prompt", "selection"} & set(frame.columns)
    assert not frame.astype(str).apply(lambda one: one.str.contains("colonoscopy")).any(axis=None)


@pytest.mark.parametrize(
    ("table", "filters"),
    [
        ("accuracy", lambda row: comparison.of_position(row["band"])),
        ("hit_miss", lambda row: comparison.of_evidence(row["criterion"], row["hit"])),
        ("task_type", lambda row: {"type": row["task_type"]}),
        ("failure_kinds", lambda row: {"failure": row["kind"]}),
    ],
)
def test_as_many_questions_are_behind_a_number_as_it_counts(run, table, filters):
    status = next(r for r in state.runs() if r["run"] == run)
    outcomes = state.outcomes(status, "extractive", "exact")
    judged = outcomes[outcomes["outcome"].isin(questions.JUDGED)]
    rows = [row for row in api.report(run)["tables"][table] if row["judge"] == "exact"]
    assert rows
    for row in rows:
        chosen = questions.matching(judged, {"arm": row["label"], **filters(row)}, "full")
        assert len(chosen) == row["count" if table == "failure_kinds" else "n"], row


def test_the_questions_behind_a_pair_are_its_discordant_ones(run):
    status = next(r for r in state.runs() if r["run"] == run)
    outcomes = state.outcomes(status, "extractive", "exact")
    for row in api.report(run)["tables"]["paired"]:
        if row["judge"] == "exact":
            counts = {"this": "only_this", "baseline": "only_baseline", "both": "n"}
            for versus, column in counts.items():
                filters = {"arm": row["label"], "versus": versus}
                assert len(questions.matching(outcomes, filters, "full")) == row[column]
