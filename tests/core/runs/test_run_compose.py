"""Specs before the start: presets, TOML round trip, estimated time, everything missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from midchart.core import config as settings
from midchart.core.runs.directory import make_run, write_json
from midchart.core.runs.estimate import preflight
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import presets, read_spec, read_toml, write_toml
from tests.support.run_helpers import ROOT, write_cohort

PLAIN = some.one_of(
    some.booleans(),
    some.integers(-(2**40), 2**40),
    some.floats(allow_nan=False, allow_infinity=False),
    some.text(some.characters(exclude_categories=["Cs"])),
)
VALUES = some.recursive(
    PLAIN,
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(some.text("abcé .\"'", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def cohort(workspace):
    return write_cohort(workspace / "data" / "cohorts" / "demo", records=1)


def small(cohort, **changes):
    return {
        "name": "t",
        "kind": "answers",
        "data": str(cohort),
        "arms": ["bm25"],
        "readers": ["extractive"],
        "judges": ["token_overlap"],
        **changes,
    }


@given(some.dictionaries(some.text("abc-_é ", min_size=1), VALUES, max_size=4))
def test_a_spec_is_the_same_after_toml(table):
    assert read_toml(write_toml(table)) == table


def test_every_preset_is_a_complete_spec_and_the_two_paper_presets_differ_in_protocol():
    by_name = {preset.name: preset for preset in presets()}
    titles = [preset.title for preset in presets()]
    assert titles[0] == "First comparison, 20 questions"
    assert read_toml(presets()[0].text)["limit"] == 20
    files = {path.stem for path in (ROOT / "docs").glob("*.toml")}
    assert files - {"claims"} == set(by_name)
    assert not [title for title in titles if title.endswith(".toml")], "names, not files"
    assert read_toml(by_name["paper-corrected"].text)["protocol"] == "corrected"
    assert read_toml(by_name["paper-published"].text)["protocol"] == "published"
    assert all(read_toml(preset.text)["kind"] for preset in presets())


def test_all_missing_parts_are_reported_together_with_the_amount_of_work(cohort):
    paper = next(preset for preset in presets() if preset.name == "paper-corrected")
    seen = preflight(paper.text)
    problems = " ".join(seen["problems"])
    for word in ("Qwen2.5-7B-Instruct", "ANTHROPIC_API_KEY", "data-use", "ms-marco"):
        assert word in problems
    arms = len(read_toml(paper.text)["arms"])
    # 4 questions × arms × 2 readers × (1 answer + 4 verdicts); token overlap calls nothing.
    assert seen["estimate"]["items"] == 4 * arms * 2 * 5
    # One call more: map_reduce has the short record, 30 events or fewer, written once for all.
    assert [row["calls"] for row in seen["estimate"]["readers"]] == [4 * arms, 4 * arms, 1]
    assert seen["estimate"]["calls"] == 4 * arms * 2 * 4 + 1
    missing = {row["name"] for row in seen["estimate"]["weights"] if not row["here"]}
    assert "Qwen2.5-7B-Instruct" in missing
    assert not settings.runs_folder().exists()


def test_an_invalid_spec_is_one_problem_in_one_line(cohort):
    for wrong, word in (
        ("kind = ", "not valid TOML"),
        ('data = "demo"', "lacks 'kind'"),
        ('kind = "anwsers"\ndata = "demo"', "Did you mean answers"),
        ('kind = "curve"\ndata = "nowhere"', "no such cohort"),
        ('kind = "curve"\ndata = "demo"\narms = ["full"]', "takes no arms"),
    ):
        seen = preflight(wrong)
        assert seen["estimate"] is None
        assert len(seen["problems"]) == 1 and word in seen["problems"][0]
        assert "\n" not in seen["problems"][0]
    assert preflight(small(cohort))["problems"] == []


def test_estimated_time_is_that_of_similar_finished_runs_or_unknown(cohort):
    one = preflight(small(cohort))["estimate"]["time"]
    assert one["seconds"] is None and "nothing like it" in one["basis"]
    for seconds in (16.0, 4.0):
        folder = make_run(plan(read_spec(small(cohort))))
        write_json(folder.done, {"done": 7, "failed": 1, "seconds": seconds})
    for changes, low, high in (
        ({}, 4.0, 16.0),
        ({"limit": 2}, 2.0, 8.0),
        ({"arms": ["full"]}, 4.0, 16.0),
    ):
        time = preflight(small(cohort, **changes))["estimate"]["time"]
        assert time["seconds"] == [low, high] and time["basis"].startswith("2 finished runs of")
    folder.note_person("resumed")  # its seconds are those of the last pass
    assert preflight(small(cohort))["estimate"]["time"]["seconds"] == [16.0, 16.0]
    assert preflight(small(cohort, judges=["exact"]))["estimate"]["time"]["seconds"] is None
