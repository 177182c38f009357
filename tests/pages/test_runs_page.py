"""The Runs page without a browser: a new run, the list and its actions, comparing."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.runs.directory import RunDirectory, make_run, write_json
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.pages.ui.runs import monitor
from tests.support import app_data
from tests.support.pages import (
    click,
    clickable,
    figures_of,
    open_page,
    page_html,
    page_text,
    pages_opened,
    plain_text,
    shared_workspace,
)
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script> **bold** $x$"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A data folder with a cohort and a finished run with a hostile name; and the run's id."""
    with workspace_at(tmp_path_factory.mktemp("runs")) as folder:
        cohort = app_data.make_cohort(folder / "data", "demo")
        run = app_data.make_run(cohort, HOSTILE)
        RunDirectory(settings.runs_folder() / run).log.write_text("one line of the log")
        return folder, run


@pytest.fixture
def run(finished):
    with shared_workspace(finished[0]):
        yield finished[1]


def box(app: AppTest, kind: str, start: str):
    return next(one for one in app.get(kind) if str(one.key).startswith(start))


def test_without_a_run_the_list_says_how_to_begin(home):
    assert "No run yet" in page_text(open_page("runs"))


def test_a_finished_run_is_shown_with_its_failures_log_and_results(run):
    app = open_page("runs", run=run)
    text = page_text(app)
    assert "\\<script\\>" in text and "<script>" not in text
    assert "is done: " in text and "Failed items are retried" in text
    failed = app.dataframe[1].value
    assert set(failed["stage"]) == {"verdicts"} and set(failed["instruction"]) == {"q3"}
    assert app.code[0].value == "one line of the log"
    assert app.button(key=f"again_{run}").label == "Retry failed items"


def test_the_queue_is_one_line_on_every_page_but_review(run, monkeypatch):
    real = api.status(run)
    work = {
        **real, "run": "a", "status": "running", "done": 7, "failed": 1,
        "seconds_left": 90.0, "slot": "gpu 0", "note": "asks *again*",
    }  # fmt: skip
    waits = {**real, "run": "b", "status": "queued", "done": 0, "failed": 0, "queue_number": 1}
    monkeypatch.setattr(api, "status", lambda run=None: [waits, work, real])
    monkeypatch.setattr(api, "any_active", lambda: True)
    cancelled = []
    monkeypatch.setattr(api, "cancel_runs", cancelled.append)
    app = open_page("runs", run=run)
    (line,) = app.progress
    assert "8 of 36 items, 1 failed, about 2 min left · 1 queued" in line.text
    assert "asks \\*again\\*" in line.text and "<script>" not in line.text
    assert app.dataframe[0].value["items"].tolist() == ["36 planned", "36 planned", "36"]
    app.button(key="cancel_b").click().run()
    app.button(key="cancel_all").click().run()
    assert cancelled == [["b"], ["a", "b"]]
    assert not open_page("review").progress
    assert len(open_page("home").progress) == 1


def test_runs_are_searched_and_renamed(home):
    cohort = home / "data" / "cohorts" / "small"
    first, _ = (app_data.make_run(cohort, name) for name in ("first", "second"))
    app = open_page("runs", run=first)
    app.text_input(key="runs_search").set_value("FIRST small done").run()
    assert app.dataframe[0].value["name"].tolist() == ["first"]
    app.text_input(key=f"name_{first}").set_value("<b>renamed</b>").run()
    app.button(key=f"rename_{first}").click().run()
    assert api.status(first)["name"] == "<b>renamed</b>"
    app.text_input(key="runs_search").set_value("").run()
    assert app.dataframe[0].value["name"].tolist() == ["second", "<b>renamed</b>"]
    assert not app.exception


def test_the_list_has_what_a_run_came_to_and_names_that_differ(run, monkeypatch):
    report = api.report(run)
    rows = [row for row in report["tables"]["accuracy"]
            if (row["judge"], row["band"]) == (report["primary_judge"], "overall")]  # fmt: skip
    n = sum(row["n"] for row in rows)
    costs = report["tables"]["costs"]
    real = api.status(run)
    again = {**real, "run": f"{run}x", "status": "crashed"}
    monkeypatch.setattr(api, "status", lambda of=None: [real, again])
    frame = open_page("runs").dataframe[0].value
    correct = 100 * sum(row["correct"] for row in rows) / n
    tokens = sum((row["read_tokens"] or 0) + (row["output_tokens"] or 0) for row in costs)
    assert frame["accuracy"][0] == f"{correct:.1f} %, n {n}" and n
    assert frame["tokens"][0] == f"{tokens:,}" and "cost" not in frame
    assert frame["duration"][0].endswith(" s")
    assert frame["name"].tolist() == [HOSTILE, f"{HOSTILE} (2)"]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ((("answers", 1), ("answers", 1)), ""),
        ((("answers", 1),), "select another run"),
        ((("answers", 1), ("gate", 1)), "different kinds, “What readers answer and judges say”"),
        ((("answers", 1), ("answers", 33)), "page Paper"),
    ],
)
def test_compare_says_why_it_is_not_there(entries, why):
    listed = [{"kind": kind, "runs": ["r"] * runs} for kind, runs in entries]
    reason = monitor.not_compared(listed)
    assert why in reason and bool(reason) == bool(why)


def test_the_runs_of_a_group_are_one_row_and_an_address_opens_one_of_them(run, monkeypatch):
    rows = [{**api.status(run), "run": name, "group": "replication, small"} for name in "ba"]
    monkeypatch.setattr(api, "status", lambda run=None: rows)
    for called in ("rows_warning", "log_tail"):
        monkeypatch.setattr(api, called, lambda run: "")
    monkeypatch.setattr(api, "failed_items", lambda run: [{"stage": "verdicts", "reason": "x"}])
    app = open_page("runs", run="b")
    assert app.dataframe[0].value["name"].tolist() == ["replication, small (2 runs)"]
    assert "2 done" in page_text(app) and app.button(key="remove_run_a_2").disabled
    assert app.selectbox(key="of_group_a").value == "b" and "Run b" in page_text(app)


def test_three_choices_say_what_a_run_does_and_the_queue_starts_it(run, monkeypatch):
    started = []
    monkeypatch.setattr(api, "enqueue", lambda spec, on: started.append((spec, on)) or run)
    app = open_page("runs", view="New run")
    arms = box(app, "multiselect", "compose_1_answers_arms")
    assert arms.label == "What to compare" and "BM25" in arms.options
    assert not [title for title in arms.options if "_" in title], "titles, no raw names"
    box(app, "multiselect", "compose_1_answers_readers").set_value(["extractive"]).run()
    text = page_text(app)
    assert "3 questions of 1 patient." in text, "at most twenty"
    assert "1 finished run of the same readers and judges" in text
    assert "Nothing leaves this machine" in text
    table = app.table[0].value
    facts = dict(zip(table.index, table.iloc[:, 0], strict=True))
    # 4 arms × 3 questions × (1 answer + 2 verdicts)
    assert (facts["**Items**"], facts["**Cost**"]) == ("36", "none")
    opened = pages_opened(monkeypatch)
    app.button(key="start_compose").click().run()
    assert not app.exception and opened == [("runs", {"run": run})]
    ((spec, place),) = started
    assert (spec["limit"], place) == (20, "here")
    assert spec["name"] == "Full record, BM25, Dense (MiniLM) and more on demo"


def test_the_form_changes_the_spec_and_a_kind_brings_its_own_fields(run):
    app = open_page("runs", view="New run")
    box(app, "multiselect", "compose_1_answers_arms").set_value(["bm25", "full"])
    box(app, "multiselect", "compose_1_answers_readers").set_value(["extractive"])
    box(app, "number_input", "compose_1_limit").set_value(1)
    app.run()
    run_spec = api.read_toml(app.session_state["compose_text"])
    assert (run_spec["arms"], run_spec["limit"]) == (["bm25", "full"], 1)
    assert app.table[0].value.iloc[0, 0] == "6"
    app.selectbox(key="compose_preset").set_value("curve").run()
    run_spec = api.read_toml(app.session_state["compose_text"])
    assert run_spec["kind"] == "curve" and not {"arms", "readers", "judges"} & set(run_spec)
    assert "A run of kind curve" in page_text(app)


def test_all_that_is_missing_is_listed_and_nothing_can_start(run):
    app = open_page("runs", view="New run")
    app.selectbox(key="compose_preset").set_value("paper-corrected").run()
    warnings = "\n".join(one.value for one in app.warning)
    for word in ("Qwen2", "ANTHROPIC", "llmlingua", "external"):
        assert word in warnings
    assert app.button(key="start_compose").disabled


def test_toml_is_taken_as_it_is_written_and_a_mistake_is_reported(run):
    app = open_page("runs", view="New run")
    app.toggle(key="compose_as_toml").set_value(True).run()
    box(app, "text_area", "compose_toml").set_value("kind = <b>").run()
    assert "not valid TOML" in page_text(app) and "Fix it in the TOML" in page_text(app)
    assert not [button for button in app.button if button.key == "start_compose"]
    box(app, "text_area", "compose_toml").set_value('kind = "nosuch"').run()
    assert "nosuch" in page_text(app) and "Fix it in the TOML" in page_text(app)
    arms = 'arms = ["bm25", { name = "bm25", k = 1 }]\njudges = ["exact"]\nreaders = ["small"]'
    written = f'kind = "answers"\ndata = "demo"\n{arms}\n'
    box(app, "text_area", "compose_toml").set_value(written).run()
    chosen = box(app, "multiselect", "compose_4_answers_arms")
    assert chosen.options[:2] == ["BM25", "BM25, k = 1"] and not app.exception


@pytest.fixture
def other(run) -> str:
    """A second run with the rows of the first and another spec."""
    spec = json.loads(RunDirectory(settings.runs_folder() / run).spec.read_text())
    other = make_run(
        plan(
            read_spec(
                {
                    "name": "other", "kind": "answers", "data": spec["cohort"]["path"],
                    "arms": ["full", "bm25", {"name": "bm25", "k": 1}, "recency", "random"],
                    "readers": ["extractive"], "seed": 9, "judges": ["token_overlap", "exact"],
                }
            )
        )
    )  # fmt: skip
    rows = RunDirectory(settings.runs_folder() / run)
    for file in rows.items.iterdir():
        (other.items / file.name).write_bytes(file.read_bytes())
    write_json(other.done, {"done": 4, "failed": 0})
    return other.id


def test_two_runs_are_compared_with_the_first_as_the_baseline(run, other):
    app = open_page("runs", runs=[run, other])
    assert app.selectbox(key="compare_baseline").value == run
    assert "requires two runs" in page_text(open_page("runs", runs=[run]))
    fields = app.dataframe[1].value
    assert {"spec.arms", "protocol.seed"} <= set(fields["field"])
    assert list(fields.columns)[:3] == ["field", run, other]
    frame = app.dataframe[0].value
    arms = frame.iloc[:, 0].str.split(",").str[0]
    assert set(arms) >= {"Full record", "BM25"} and set(frame["n"]) <= {1, 2}
    differences = frame["points against the baseline"]
    assert set(differences.str[:3]) == {"0.0"}, "the same answers differ in nothing"
    assert len(figures_of(app)) == 1
    app.selectbox(key="compare_baseline").set_value(other).run()
    assert list(app.dataframe[1].value.columns)[:3] == ["field", other, run]


def test_a_question_that_changed_is_read_side_by_side(run, other, monkeypatch):
    (row, *_) = (row for row in api.rows(run, "answers") if row["label"] == "full")
    cell = ("full", "extractive", "token_overlap")
    changed = {
        "run": other, **dict(zip(("arm", "reader", "judge"), cell, strict=True)),
        "measure": "accuracy", "instruction": row["instruction"], "record": row["record"],
        "baseline": False, "this": True, "baseline_cell": cell, "run_cell": cell,
    }  # fmt: skip
    monkeypatch.setattr(api, "changed_questions", lambda baseline, run: [changed])
    app = open_page("runs", runs=[run, other])
    assert app.selectbox(key="compare_pair").options == ["Full record · +1 −0"]
    frame = app.dataframe[1].value
    assert frame["change"].tolist() == ["gained"] and frame["baseline"][0] == "✗ incorrect"
    app.session_state["changed_question"] = row["instruction"]
    app.run()
    assert not app.exception
    assert "(baseline)" in plain_text(app)
    assert "mc-by-arm" in page_html(app) and "**other**" in [m.value for m in app.markdown]


def test_a_run_is_removed_after_a_confirmation(home):
    cohort = home / "data" / "cohorts" / "small"
    first, second = (app_data.make_run(cohort, name) for name in ("first", "second"))
    (home / "data" / "runs" / first / "done.json").write_text("{")
    app = open_page("runs", run=second)
    assert first in page_text(app).replace("\\", "")
    for run in (first, second):
        assert app.button(key=f"remove_run_{run}").disabled
        app.checkbox(key=f"remove_run_sure_{run}").check().run()
        app.button(key=f"remove_run_{run}").click().run()
        assert not app.exception
        assert not (home / "data" / "runs" / run).exists()
    removed = [line for line in api.audit_lines() if line["event"] == "run removed"]
    assert [line["run"] for line in removed] == [first, second]


def test_a_row_opens_its_run_and_a_failed_item_its_question(finished, run, monkeypatch):
    clickable(monkeypatch)
    app = open_page("runs")
    (table,) = [b.key for b in app.button if str(b.key).startswith("click_table_runs-")]
    at = [row["run"] for row in api.status()].index(run)
    click(app, str(table), at, "name")
    assert f"Run {run}" in page_text(app)
    pages = pages_opened(monkeypatch)
    click(app, f"{run}-failed", 0, "reason")
    ((page, query),) = pages
    assert page == "arms" and query["run"] == run
    shown = open_page("arms", **query)
    assert shown.selectbox(key="asked").value == "q3"
