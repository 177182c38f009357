"""The benchmark: its result file, continued where a run stopped, and checked on reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.errors import DataError, InputError
from midchart.core.options import read_table
from midchart.core.runs.directory import find_run, make_run, run_ids
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec, read_spec_file
from midchart.core.services import benchmark as module
from tests.support.pages import page_at, page_text
from tests.support.run_helpers import continue_run, finished_run, set_workspace, write_cohort

SUITE = """
[doses]
title = "Doses"
kind = "answers"
data = "demo"
judges = ["token_overlap"]

[needles]
title = "Needles"
kind = "needles"
data = "demo"
judges = ["exact"]
lengths = [100]
depths = [0, 50, 100]
needles = 1

[away]
title = "Not present"
kind = "answers"
data = "no such cohort"
judges = ["exact"]
"""
SPEC = 'name = "Two arms / ..\\\\"\narms = ["bm25", "oracle"]\nreaders = ["extractive"]\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_workspace(monkeypatch, tmp_path)
    write_cohort(tmp_path / "data" / "cohorts" / "demo", records=6, events=28)
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "two.toml").write_text(SPEC)
    monkeypatch.setattr(module, "SUITE", tmp_path / "suite.toml")
    # Runs are done in this process, which takes a tenth of a worker's time.
    monkeypatch.setattr(module, "start", finished_run)
    monkeypatch.setattr(
        module, "resume", lambda run: find_run(run).done.exists() or continue_run(find_run(run))
    )
    monkeypatch.setattr(module, "wait", lambda run, progress: None)
    return tmp_path


def test_a_result_holds_scores_hashes_and_what_is_absent(place: Path):
    file = api.benchmark(place / "two.toml")
    assert file == place / "data" / "benchmarks" / "two-arms.json"
    assert api.benchmarks() == {"two-arms": file}
    result = api.read_benchmark(file)
    doses, needles, away = result["parts"]
    assert "no such cohort" in away["absent"] and not away["scores"]
    report = api.report(doses["run"])["tables"]
    for row in report["accuracy"]:
        if row["band"] == "overall":
            (score,) = (
                one for one in doses["scores"]
                if (one["arm"], one["measure"]) == (row["label"], "correct")
            )  # fmt: skip
            assert (score["value"], score["n"]) == (row["accuracy"], row["n"])
            assert (score["low"], score["interval"]) == (row["patient_low"], "patients")
    measures = {score["measure"] for score in doses["scores"]}
    assert measures == {
        "correct",
        "all pieces of the evidence in the prompt",
        "any piece of the evidence in the prompt",
    }
    assert {score["measure"] for score in needles["scores"]} == {
        "correct, 100 tokens, 0 distractors", "middle − edges"
    }  # fmt: skip
    assert doses["rows"] and doses["spec"] != needles["spec"] and len(result["suite"]) == 64
    assert doses["cohort"] == needles["cohort"] and result["versions"]["code"]

    again = api.read_benchmark(api.benchmark(place / "two.toml", place / "again.json"))
    assert again["parts"] == result["parts"] and len(run_ids()) == 2, "nothing is run twice"


def test_a_run_that_stopped_is_continued(place: Path):
    chosen = read_table(module.BenchmarkSpec, read_spec_file(place / "two.toml"))
    table = module._run_spec(module.suite()[1]["doses"], chosen)
    stopped = make_run(plan(read_spec(table)))
    result = api.read_benchmark(api.benchmark(place / "two.toml"))
    assert result["parts"][0]["run"] == stopped.id and stopped.done.exists()
    assert result["parts"][0]["scores"] and result["parts"][0]["failed"] == 0


def test_a_wrong_spec_or_result_is_refused_in_one_line(place: Path):
    for text, says in (
        (SPEC.replace("bm25", "bm52"), "Did you mean bm25"),
        (SPEC + "limit = 3\n", "no field of the spec|unknown field|limit"),
        ('arms = ["bm25"]', "lacks 'readers'"),
    ):
        (place / "wrong.toml").write_text(text)
        with pytest.raises(InputError, match=says):
            api.benchmark(place / "wrong.toml")
    assert not run_ids()
    good = {"format": module.FORMAT, "name": "n", "suite": "s", "finished": "", "versions": {}}
    for change in ({"parts": [{}]}, {"format": "other", "parts": []}, {"parts": "", "name": 3}):
        with pytest.raises(DataError):
            api.read_benchmark(json.dumps({**good, **change}).encode(), "x.json")
    with pytest.raises(DataError, match="larger"):
        api.read_benchmark(b" " * (module.LARGEST_RESULT + 1), "x.json")


def test_page_arms_shows_results_side_by_side(place: Path):
    folder = place / "data" / "benchmarks"
    folder.mkdir()
    score = {"arm": "bm25", "reader": "extractive", "judge": "exact", "measure": "correct"}
    score |= {"n": 20, "value": 0.25, "low": 0.1, "high": 0.4, "interval": "patients"}
    part = {"part": "doses", "title": "Doses", "absent": "", "failed": 0, "seconds": 1.0}
    for name, value, cohort in (("one", 0.25, "a"), ("<b>two", 0.5, "b")):
        parts = [{**part, "cohort": cohort, "scores": [{**score, "value": value}]}]
        head = {"format": module.FORMAT, "name": name, "suite": "s", "finished": "", "versions": {}}
        (folder / f"{name[-3:]}.json").write_text(json.dumps({**head, "parts": parts}))
    (folder / "bad.json").write_text("{")
    app = page_at("arms").run()
    assert not app.exception
    text = page_text(app).replace("\\", "")
    assert "Different cohort files were used for: Doses" in text and "is not JSON" in text
    (frame,) = (one.value for one in app.dataframe if "measure" in one.value)
    shown = frame.iloc[0].to_dict()
    assert shown["one · bm25 · extractive"] == "25.0 % [10.0, 40.0]"
    assert [name for name in shown if "two" in name and "50.0" in shown[name]]
