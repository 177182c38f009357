"""The Curve page without a browser: empty, every choice, a point, needles; and its figures."""

from __future__ import annotations

import io
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
import streamlit as st

from midchart.core import api
from midchart.core.errors import InputError
from midchart.pages.ui import state
from midchart.pages.ui.curve import charts, data, needles, observed
from midchart.pages.ui.curve import text as curve_text
from midchart.pages.ui.shared import tables
from midchart.pages.ui.shared.pickers import token
from tests.support import curve_report
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


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A data folder with a small demo cohort, its responses simulated."""
    with workspace_at(tmp_path_factory.mktemp("curve")) as folder:
        api.prepare_demo(patients=8, events_per_patient=60)
    return folder


@pytest.fixture
def cohort(demo):
    """The demo cohort, its workspace in force."""
    with shared_workspace(demo):
        yield api.open_data("demo")


def test_the_verdict_comes_first_then_the_curve_with_its_numbers(cohort):
    app = open_page("curve")
    (text,) = (row["text"] for row in api.curve(cohort)["verdict"])
    shown = page_text(app).replace("\u00a0", " ")
    assert text.split(". ")[1].replace("'", "&#x27;") in shown
    charts = figures_of(app)
    assert len(charts) == 1 + 6
    assert all(c.alt and "n " in c.alt for c in charts)
    assert shown.count("simulated answers") == 1 + 1 + 6, "next to every chart"
    bins = frame_with(app, "evidence at")
    assert len(bins) == 10 and bins["n"].sum() == api.curve(cohort)["summary"][0]["n"]
    assert bins["paper"][2] == "59.5 % [46.3, 71.0]"
    row = api.curve(cohort)["curve"][2]
    plain = f"[{100 * row['plain_low']:.1f}, {100 * row['plain_high']:.1f}]"
    assert bins["95 %, answers as independent"][2] == plain != bins["95 %"][2]
    for number in ("Gap, best − worst", "expected by chance", "80.0 % if evenly"):
        assert number in shown


def test_every_frame_to_export_says_that_its_answers_are_simulated(cohort):
    key = api.cohort_key(cohort)
    choice = data.PickedCurve("clinician", "order", 10, "best", "model")
    one, many = data.one(key, cohort, choice), data.groups(key, cohort, choice)
    for frame in (one.curve, one.summary, many.curve, many.summary,
                  data.questions(key, cohort, choice, 0)):  # fmt: skip
        assert len(frame) and frame["simulated"].all()
    again = pd.read_csv(io.BytesIO(tables.csv_bytes(one.curve)))
    assert again["simulated"].all() and {"ci_low", "null_high", "n"} <= set(again)


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ({"score": "Exact match"}, "score", "exact"),
        ({"score": "Token overlap (Jaccard)"}, "score", "jaccard"),
        ({"position": "Elapsed time"}, "position", "time"),
        ({"bins": "Quintiles"}, "bins", 5),
        ({"snippets": "Every piece"}, "snippets", "all"),
        ({"by": "Domain"}, "by", "domain"),
        ({"by": "Task type"}, "by", "task_type"),
    ],
)
def test_every_choice_is_in_the_address_and_drawn(cohort, query, key, value):
    app = open_page("curve", **query)
    widgets = [*app.selectbox, *app.segmented_control]
    assert next(w for w in widgets if w.key == key).value == value
    options = {"by": "stratum"}.get(key, key)
    expected = api.curve(cohort, **{options: value})
    if key == "by":
        assert len(figures_of(app)) == 1 + len(expected["summary"])
    else:
        bins = frame_with(app, "evidence at")
        assert list(bins["n"]) == [row["n"] for row in expected["curve"]]
    published = "paper" in frame_with(app, "evidence at")
    assert published == (key in ("snippets", "by"))


def test_a_group_is_drawn_large_by_a_token_in_the_address(cohort):
    app = open_page("curve", of=token("demo", "model/sim-model-e"))
    assert app.selectbox(key="curve_of_model").value == "sim-model-e"
    (row,) = api.curve(cohort, stratum="model", value="sim-model-e")["summary"]
    assert frame_with(app, "evidence at")["n"].sum() == row["n"]
    assert "one of several groups" in page_text(app)
    app.selectbox(key="curve_of_model").set_value("").run()
    assert "of" not in app.query_params
    app.selectbox(key="curve_of_model").set_value("sim-model-a").run()
    assert app.query_params["of"] == token("demo", "model/sim-model-a")
    assert open_page("curve", of="0123456789").selectbox(key="curve_of_model").value == ""


def test_a_point_opens_its_questions_with_codes_verdicts_and_the_way_to_the_record(cohort):
    app = open_page("curve", at="20-30")
    rows = pd.DataFrame(api.curve_bin(cohort, 2))
    shown = frame_with(app, "patient")
    assert len(shown) == rows["instruction"].nunique()
    assert shown["position"].between(20, 30).all()
    right = sum((shown[model] == "✓ correct").sum() for model in curve_report.MODELS)
    assert right == rows["correct"].sum()
    one = shown.iloc[0]
    asked = parse_qs(urlsplit(one["open"]).query)
    ids = {token("demo", i.id): i for i in cohort.instructions}
    assert asked["question"] == [one["question"]] and asked["cohort"] == ["demo"]
    assert asked["patient"] == [token("demo", ids[one["question"]].record_id)]
    for instruction in cohort.instructions:
        assert instruction.record_id not in one["open"] and instruction.id not in one["open"]


def test_a_click_opens_a_point_of_the_curve_alone(monkeypatch):
    held: dict[str, str] = {}
    monkeypatch.setattr(st, "session_state", held)
    observed.open_point(3, 10)
    assert held["at"] == "30-40"
    observed.open_point(7, 5)  # the paper's deciles over quintiles
    assert held["at"] == "30-40"


def test_a_row_or_marker_of_a_group_lists_its_questions_and_a_question_opens_its_record(
    cohort, monkeypatch
):
    clickable(monkeypatch)
    app = open_page("curve")
    groups = frame_with(app, "p (gap)")
    at = list(groups["model"]).index("sim-model-e")
    click(app, "by-model", at, "n")
    assert app.selectbox(key="curve_of_model").value == "sim-model-e"
    rows = pd.DataFrame(api.curve_bin(cohort, None, stratum="model", value="sim-model-e"))
    assert len(rows) == groups["n"][at]
    listed = frame_with(app, "patient")
    assert len(listed) == rows["instruction"].nunique() and "sim-model-e" in listed
    assert "at 0-100 %, sim-model-e" in plain_text(app)
    click(app, "curve_group_0", point=[3, "40-50", 1])
    assert app.selectbox(key="curve_of_model").value == groups["model"][0]
    assert app.selectbox(key="at").value == "30-40"
    click(app, "-curve", 1)
    assert app.selectbox(key="at").value == "10-20"
    pages = []
    monkeypatch.setattr(
        st, "switch_page", lambda page, query_params: pages.append((page.url_path, query_params))
    )
    question = frame_with(app, "patient").iloc[0]
    click(app, "-at-10-20", 0)
    codes = {name: question[name] for name in ("patient", "question")}
    assert pages == [("patient", {"cohort": "demo", **codes})]


def test_twelve_groups_are_drawn_and_the_table_has_the_rest(cohort, monkeypatch):
    monkeypatch.setattr(api, "curve", lambda cohort, **options: curve_report.curve(**options))
    app = open_page("curve", by="Specialty")
    assert len(figures_of(app)) == 1 + observed.MOST_GROUPS
    assert "the 12 of 15 with the most answers" in page_text(app)
    assert len(frame_with(app, "p (gap)")) == 15


def test_groups_without_a_curve_are_named_and_one_alone_says_why(cohort, monkeypatch):
    original = curve_report.curve

    def partial(cohort, **options):
        if options.get("value") == "social":
            gone = [{"stratum": "domain", "value": "social", "reason": "no answer has a position"}]
            return {"curve": [], "summary": [], "verdict": [], "failures": gone}
        tables = original(**options)
        if options.get("stratum") == "domain":
            for name in ("curve", "summary", "verdict"):
                tables[name] = [row for row in tables[name] if row["value"] != "social"]
            tables["failures"] = [{"value": "social", "reason": "no answer has a position"}]
        return tables

    monkeypatch.setattr(api, "curve", partial)
    text = page_text(open_page("curve", by="Domain"))
    assert "Without a curve, as no answer has both score and position: social" in text
    text = page_text(open_page("curve", by="Domain", of=token("demo", "domain/social")))
    assert "No curve: no answer has a position" in text


def test_a_cohort_without_responses_says_what_is_missing(home):
    app = open_page("curve")
    assert "No responses in this cohort" in page_text(app)
    assert "clinician-reviewed-model-responses.tsv" in page_text(app)
    assert not figures_of(app)


@pytest.mark.parametrize("view", ["Observed", "Needles"])
def test_where_no_cohort_has_questions_it_says_so(home, monkeypatch, view):
    monkeypatch.setattr(state, "question_cohorts", list)
    app = open_page("curve", view=view)
    assert "No installed cohort has questions" in page_text(app) and not figures_of(app)


def test_a_refusal_of_the_engine_is_shown_in_one_line(cohort, monkeypatch):
    def refuse(cohort, **options):
        raise InputError("the responses cannot be read")

    monkeypatch.setattr(api, "curve", refuse)
    app = open_page("curve")
    assert [e.value for e in app.error] == ["the responses cannot be read"]


def test_a_hostile_group_name_is_text(cohort, monkeypatch):
    bad = "<img src=x> **b** $x$"
    monkeypatch.setitem(curve_report.GROUPS, "model", (bad,))
    monkeypatch.setattr(api, "curve", lambda cohort, **options: curve_report.curve(**options))
    markdown = "\n".join(str(e.value) for e in open_page("curve").get("markdown"))
    assert "\\<img src=x\\> \\*\\*b\\*\\* \\$x\\$" in markdown and "<img" not in markdown.replace(
        "\\<img", ""
    )


def test_home_links_to_the_curve(cohort):
    links = [e.proto.label for e in open_page("home").get("page_link")]
    assert "Open the curve" in links


NEEDLES = {"curve": "needles"}


def test_without_a_needle_run_a_button_hands_over_the_ready_made_one(home, monkeypatch):
    started = []
    monkeypatch.setattr(api, "enqueue", started.append)
    monkeypatch.setattr(api, "preflight", lambda _, on: {"problems": [], "estimate": None})
    app = open_page("curve", **NEEDLES)
    assert "No needle run yet" in page_text(app)
    assert "midchart run docs/needles.toml" in [code.value for code in app.code]
    app.button(key="start_needles").click().run()
    (spec,) = started
    assert spec == needles.spec("small")
    assert spec["kind"] == "needles" and spec["data"] == str(home / "data" / "cohorts" / "small")
    app.segmented_control(key="needle_moved").set_value("note").run()
    assert "midchart run docs/real_position.toml" in [code.value for code in app.code]


def _run(monkeypatch, state: str = "done", tables=None) -> None:
    now = curve_report.status(state)
    show_run(monkeypatch, now, lambda run: curve_report.report(run, tables) | {"status": state})
    monkeypatch.setattr(api, "review_mark", lambda run: ())


def test_needles_begin_with_the_contrast_of_every_arm_and_its_conclusion(home, monkeypatch):
    _run(monkeypatch)
    app = open_page("curve", **NEEDLES)
    assert "Full record: no difference was shown." in page_text(app)
    (frame,) = (one.value for one in app.dataframe if "middle" in one.value)
    assert sorted(frame["arm"]) == ["Full record", "Recency only"]
    app = open_page("curve", view="grid", **NEEDLES)
    (grid,) = (one.value for one in app.dataframe if "length" in one.value)
    heatmap = curve_report.needles()["heatmap"]
    assert set(map(str, grid.columns[1:])) == {str(row["depth"]) for row in heatmap}
    app = open_page("curve", view="cuts", **NEEDLES)
    cuts = app.dataframe[0].value
    assert "events before" in cuts and len(cuts) == len(curve_report.needles()["cuts"])


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
    wanted = [f"length:{length}", "depth:0", "distractors:7777", "patient:9001"]
    app = open_page("curve", needle_cell=wanted, **NEEDLES)
    assert {"length", "depth", "label", "reader", "judge"} == asked.keys()
    assert (asked["length"], asked["depth"]) == (length, 0)
    question = frame_with(app, "all evidence in the prompt")["question"][0]
    assert question == cohort.instructions[0].question
    app.button(key="needle_close").click().run()
    assert "needle_cell" not in app.query_params and "Items behind" not in page_text(app)


@pytest.mark.parametrize("state", ["running", "crashed"])
def test_needles_that_are_not_done_are_partial(home, monkeypatch, state):
    _run(monkeypatch, state)
    app = open_page("curve", **NEEDLES)
    assert "partial" in page_text(app).lower() and "no difference was shown" not in page_text(app)
    keys = {button.key for button in app.button}
    run = curve_report.status()["run"]
    assert (f"cancel_{run}" if state == "running" else f"resume_curve_{run}") in keys


def _rows(**options) -> pd.DataFrame:
    return pd.DataFrame(curve_report.curve(**options)["curve"])


def test_the_curve_holds_its_points_band_paper_and_n():
    rows, paper = _rows(), pd.DataFrame(api.published_curve())
    figure = charts.curve(rows, paper, "accuracy", selected=4)
    band, published, observed, counts = figure.data
    assert list(observed.x) == pytest.approx([5 + 10 * i for i in range(10)])
    assert list(observed.y) == pytest.approx((100 * rows["accuracy"]).tolist())
    assert list(observed.error_y.array) == pytest.approx([10] * 10)
    assert [i for i, w in enumerate(observed.marker.line.width) if w] == [4]
    assert [point[0] for point in observed.customdata] == list(range(10))
    assert min(band.y) == pytest.approx(36) and max(band.y) == pytest.approx(54)
    assert band.x[:4] == (0, 10, 10, 20) and len(band.x) == 40
    assert published.line.dash == "dash" and published.y[2] == pytest.approx(59.5)
    assert counts.text[0] == "366"
    assert {a.text for a in figure.layout.annotations} >= {"observed", "chance", "paper"}


def test_bins_without_answers_or_chance_leave_gaps():
    rows = _rows(bins=5)
    rows.loc[1, ["accuracy", "ci_low", "ci_high", "null_low", "null_high"]] = None
    rows.loc[4, ["ci_low", "ci_high"]] = None
    rows.loc[1, "n"] = 0
    figure = charts.panel(rows)
    bands = [t for t in figure.data if t.fill == "toself"]
    assert [len(band.x) for band in bands] == [4, 12], "one bin, then three"
    observed = next(t for t in figure.data if t.name == charts.OBSERVED)
    assert pd.isna(observed.y[1]) and pd.isna(observed.error_y.array[4]), (
        "no width would be a claim"
    )


def test_the_summary_gives_each_number_with_its_comparison():
    (row,) = curve_report.curve()["summary"]
    numbers = {what: (value, comparison) for what, value, comparison in curve_text.summary(row)}
    assert numbers["Gap, best − worst"][1] == "19.0 points expected by chance"
    assert numbers["Middle − edge"][0] == "−2.0 points [−11.0, +7.0], p = 0.660 (Holm 0.830)"
    assert numbers["Evidence within 10–90 %"] == ("67.8 %", "80.0 % if evenly distributed")
    assert numbers["Evidence without a position"][0] == "5"
    empty = {**row, "difference": None, "difference_low": None, "difference_high": None,
            "difference_p": None, "difference_holm": None, "null_gap": None}  # fmt: skip
    numbers = {what: (value, comparison) for what, value, comparison in curve_text.summary(empty)}
    assert numbers["Middle − edge"][0] == "–, no p"


def test_the_table_s_caption_says_how_much_wider_the_clustered_intervals_are(cohort, monkeypatch):
    monkeypatch.setattr(api, "curve", lambda cohort, **options: curve_report.curve(**options))
    app = open_page("curve")
    # The report's intervals by question are 20 points wide, its plain ones 6.
    assert "are +14.0 to +14.0 points wider than plain ones" in page_text(app)


def test_how_much_wider_is_over_the_bins_that_have_both_intervals():
    frame = pd.DataFrame(
        {
            "ci_low": [0.2, 0.3, None, 0.1],
            "ci_high": [0.6, 0.5, None, 0.4],
            "plain_low": [0.3, 0.3, 0.2, None],
            "plain_high": [0.5, 0.45, 0.4, None],
        }
    )
    assert "are +5.0 to +20.0 points wider" in curve_text.wider(frame)
    assert curve_text.wider(frame[2:]) == ""
