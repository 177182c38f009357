"""Answers that a model did not finish: unparsed for every judge, inside the bounds, and counted."""

from __future__ import annotations

import pytest

from midchart.core.protocol import Protocol
from midchart.core.readers.twice import agreed
from midchart.core.results.report import report
from midchart.core.runs.directory import find_run
from midchart.core.types import Answer
from tests.support.openai_server import OpenAIFake
from tests.support.run_helpers import finished_run, set_workspace, write_cohort

LENGTH = {"message": {"role": "assistant", "content": "The dose"}, "finish_reason": "length"}
EMPTY = {"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}
FILTERED = {"message": {"role": "assistant", "content": "The"}, "finish_reason": "content_filter"}
TOOL = {"message": {"role": "assistant", "content": ""}, "finish_reason": "tool_calls"}
REFUSED = {"message": {"content": None, "refusal": "I can't help."}, "finish_reason": "stop"}
REASONED = {
    "message": {"content": "20 mg", "reasoning_content": "It says so."}, "finish_reason": "stop",
}  # fmt: skip


@pytest.fixture
def place(monkeypatch, tmp_path):
    set_workspace(monkeypatch, tmp_path)
    return write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=4)


def run(place, choices, protocol="corrected", path="chat"):
    with OpenAIFake() as server:
        server.replies.extend({"choices": [{"index": 0, **choice}]} for choice in choices)
        reader = {
            "name": "served", "url": f"{server.url}/v1", "model": "tiny", "concurrency": 1,
            "path": path, "retries": 0,
        }  # fmt: skip
        if path == "completions":
            reader["template"] = "chatml"
        return finished_run({
            "kind": "answers", "data": str(place), "arms": ["bm25"], "readers": [reader],
            "judges": ["exact", "token_overlap"], "protocol": protocol,
        })  # fmt: skip


def table(run, name):
    folder = find_run(run)
    return folder.store(folder.plan()).select(name)


def test_unfinished_answers_are_unparsed_for_every_judge_and_bound_the_accuracy(place):
    ran = run(place, [LENGTH, EMPTY, FILTERED, TOOL, REFUSED, REASONED])
    answers = table(ran, "answers")
    by_end = {row["ended"]: row for row in answers}
    assert {"length", "empty", "filter", "tool", "refusal", "stop"} == set(by_end)
    assert {row["status"] for row in answers} == {"ok"}
    unfinished = {by_end[end]["key"] for end in ("length", "empty", "filter", "tool")}
    for row in table(ran, "verdicts"):
        assert (row["outcome"] == "unparsed") == (row["answer_key"] in unfinished)
        assert row["status"] == "ok"
    (reasoned,) = (row for row in answers if row["reasoning"])
    assert (reasoned["answer"], reasoned["reasoning"]) == ("20 mg", "It says so.")
    assert reasoned["reasoning_tokens"] == 4

    results = report(ran)
    for row in results["tables"]["accuracy"]:
        if row["band"] == "overall":
            total = len(answers)
            assert (row["cut_off"], row["unparsed"], row["n"]) == (2, 4, total - 4)
            assert row["bound_low"] == pytest.approx(row["correct"] / total)
            assert row["bound_high"] == pytest.approx((row["correct"] + 4) / total)
    (warning,) = (text for text in results["warnings"] if "cut off" in text)
    assert warning.startswith(f"2 of {len(answers)} answers of the reader served")


def test_under_the_published_preset_a_cut_off_answer_is_judged_as_the_paper_s_were(place):
    choices = [{"text": "The dose", "finish_reason": "length"}]
    ran = run(place, choices, "published", "completions")
    (cut,) = (row for row in table(ran, "answers") if row["ended"] == "length")
    assert cut["template"] == "chatml" and cut["endpoint"] == "/v1/completions"
    outcomes = [r["outcome"] for r in table(ran, "verdicts") if r["answer_key"] == cut["key"]]
    assert set(outcomes) == {"incorrect"}


def test_of_two_readings_an_unfinished_one_counts():
    complete, cut = Answer("20 mg"), Answer("20", ended="length")
    assert agreed(complete, cut).ended == agreed(cut, complete).ended == "length"
    assert agreed(complete, complete).ended == "stop"
    assert Protocol().second_read == "none"
