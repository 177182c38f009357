"""A run from spec to report: what is in its folder, its rows and its tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from midchart.core import cli as command
from midchart.core import config as settings
from midchart.core.cli import meter
from midchart.core.errors import InputError, UnknownName, WorkFailed
from midchart.core.results.items import (
    item,
    outcomes,
    rows,
)
from midchart.core.results.report import report, run_totals
from midchart.core.runs.process import cancel, resume, start, status, wait
from tests.support.run_helpers import (
    finished_run,
    read_questions,
    spec,
    wait_until,
    write_cohort,
    write_questions,
)


@pytest.fixture(scope="module")
def done(cohort: Path) -> str:
    return finished_run(spec(cohort))


def test_the_folder_documents_the_run(done: str, cohort: Path):
    now = status(done)
    folder = Path(now["folder"])
    assert now["status"] == "done"
    assert now["planned"] == now["done"] == 12 * 4 * 1 * (1 + 2)
    assert sorted(p.name for p in (folder / "items").iterdir()) == [
        "answers.parquet",
        "verdicts.parquet",
    ]
    document = json.loads((folder / "spec.json").read_text())
    assert document["cohort"]["path"] == str(cohort.resolve())
    assert document["cohort"]["data_use"]["training_allowed"] is False
    assert document["protocol"]["seed"] == 7
    assert len(document["protocol"]) > 20
    assert {"code", "python", "packages", "midchart"} <= document["versions"].keys()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["started", "finished"]
    assert json.loads((folder / "done.json").read_text())["done"] == now["done"]
    assert done in [one["run"] for one in status()]


def test_rows_have_unique_keys_and_the_prompt(done: str):
    answers, verdicts = rows(done, "answers"), rows(done, "verdicts")
    assert (len(answers), len(verdicts)) == (48, 96)
    for table in (answers, verdicts):
        assert len({row["key"] for row in table}) == len({row["item"] for row in table})
        assert len({row["key"] for row in table}) == len(table)
    assert {v["answer_key"] for v in verdicts} == {a["key"] for a in answers}
    for row in answers:
        assert "QUESTION: What dose of" in row["prompt"]
        assert row["question_survived"] is True
        assert {line["kept_by"] for line in row["selection"]} <= {"arm", "recency", "both"}
        by_arm = sum(line["kept_by"] != "recency" for line in row["selection"])
        most = {"bm25": 20, "bm25 k=1": 1, "recency": 0, "full": 20}[row["label"]]
        unmatched = row["label"] == "bm25" and 0 < by_arm < most  # fewer share a word
        assert by_arm == most or unmatched
    with pytest.raises(UnknownName):
        rows(done, "answer")


def test_recall_counts_the_selected_evidence(done: str):
    table = {
        (r["label"], r["criterion"]): r
        for r in report(done)["tables"]["recall"]
        if r["band"] == "overall"
    }
    assert table["full", "any piece"]["recall"] == 1.0
    # The latest five of twenty events hold the last of four facts, in each of three records.
    assert table["recency", "any piece"]["hits"] == 3
    assert table["recency", "any piece"]["n"] == 12
    # Every record's last fact holds "milligram", the answers' content word.
    assert table["recency", "lexical"]["recall"] == 1.0


def test_the_report_is_the_same_each_time_and_whatever_the_order_of_rows(
    done: str, cohort: Path, place: Path
):
    first = report(done)
    assert report(done) == first
    turned = finished_run(spec(cohort))
    # The same rows, written the other way round.
    items = Path(status(turned)["folder"]) / "items"
    for table in ("answers", "verdicts"):
        backwards = rows(turned, table)[::-1]
        (items / f"{table}.parquet").unlink()
        text = "\n".join(json.dumps(row) for row in backwards) + "\n"
        (items / f"{table}.jsonl").write_text(text)
    second = report(turned)
    for name in first["tables"]:
        if name not in ("tokens", "costs"):  # they hold seconds
            assert second["tables"][name] == first["tables"][name], name


def test_one_instruction_is_shown_across_arms_and_differences_are_listed(done: str):
    listed = outcomes(done, "test_echo", "test_words")
    first = listed[0]["instruction"]
    expected = {row["label"]: row["outcome"] for row in listed if row["instruction"] == first}
    details = item(done, first)
    assert [arm["label"] for arm in details["arms"]] == ["bm25", "bm25 k=1", "recency", "full"]
    for arm in details["arms"]:
        assert [v["judge"] for v in arm["verdicts"]] == ["test_words", "test_even"]
        outcome = {v["judge"]: v["outcome"] for v in arm["verdicts"]}["test_words"]
        assert outcome == expected[arm["label"]]
    with pytest.raises(UnknownName):
        item(done, "nobody's")


def test_two_entries_of_one_reader_and_of_one_judge_are_two(cohort: Path):
    readers = ["test_echo", {"name": "test_echo", "shout": True}]
    judges = ["test_words", {"name": "test_words", "strict": True}]
    run = finished_run(spec(cohort, arms=["full"], readers=readers, judges=judges, limit=3))
    answers = rows(run, "answers")
    assert [r["reader"] for r in answers[:2]] == ["test_echo", "test_echo shout=True"]
    assert [r["answer"].isupper() for r in answers[:2]] == [False, True]
    assert len({r["key"] for r in answers}) == len(answers) == 6
    assert len(rows(run, "verdicts")) == 12
    overall = [r for r in report(run)["tables"]["accuracy"] if r["band"] == "overall"]
    assert {(r["reader"], r["judge"], r["n"]) for r in overall} == {
        (reader, judge, 3)
        for reader in ("test_echo", "test_echo shout=True")
        for judge in ("test_words", "test_words strict=True")
    }
    assert [(a["reader"], len(a["verdicts"])) for a in item(run, "i00")["arms"]] == [
        ("test_echo", 2),
        ("test_echo shout=True", 2),
    ]
    document = json.loads((Path(status(run)["folder"]) / "spec.json").read_text())
    assert document["spec"]["readers"][1] == {
        "name": "test_echo",
        "options": {"shout": True},
        "label": "test_echo shout=True",
    }


@pytest.fixture(scope="module")
def odd(place: Path) -> Path:
    """A cohort with a question without evidence, one unlocated, one long, one unparsable."""
    folder = write_cohort(place / "odd", records=1)
    first, second, third, fourth = read_questions(folder)
    first |= {"evidence": "", "clinician_response": ""}
    second |= {"evidence": "zzzz qqqq", "clinician_response": "20 milligram 20"}
    third["question"] += " " + "Please tell it as the record has it, in one short line. " * 2
    fourth["question"] += " (unparsable)"
    write_questions(folder, [first, second, third, fourth])
    return folder


def test_questions_without_evidence_are_not_judged_and_unlocated_ones_reported(odd: Path):
    run = finished_run(spec(odd, arms=["full", "oracle"], judges=["test_words"]))
    verdicts = {(v["label"], v["instruction"]): v for v in rows(run, "verdicts")}
    none = verdicts["full", "i00"]
    assert (none["outcome"], none["status"]) == ("failed", "failed")
    assert "no reference answer" in none["reason"]
    assert verdicts["full", "i01"]["band"] == "unlocated"
    assert verdicts["full", "i03"]["outcome"] == "unparsed"
    assert verdicts["oracle", "i01"]["reason"] == "the answer failed"
    tables = report(run)["tables"]
    overall = {r["label"]: r for r in tables["accuracy"] if r["band"] == "overall"}
    assert (overall["full"]["n"], overall["full"]["unparsed"], overall["full"]["failed"]) == (
        2,
        1,
        1,
    )
    assert [r["n"] for r in tables["unlocated"] if r["label"] == "full"] == [1]
    in_bands = sum(
        r["n"]
        for r in tables["accuracy"]
        if r["label"] == "full" and r["band"] in ("middle", "edge")
    )
    assert in_bands == 1
    assert any("no located evidence" in r["reason"] for r in tables["failures"])
    now = status(run)
    assert now["done"] + now["failed"] == now["planned"] == 16
    assert now["failed"] == 1 + 2 * 2


@pytest.mark.slow
def test_a_run_with_failed_items_exits_1_with_the_reason(cohort: Path, monkeypatch, capsys):
    monkeypatch.setenv("TEST_READER_FAILS_ON", "metformin")
    run_spec = spec(cohort, arms=["full"], judges=["test_words"])
    call = argparse.Namespace(
        spec=run_spec, on="", queued=False, detach=False, json=True, estimate=0
    )
    with pytest.raises(WorkFailed, match="items failed") as error:
        command.run(call)
    (printed,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    now = status(printed["run"])
    assert error.value.exit_status == 1 and printed["status"] == now["status"] == "done"
    assert f"{now['failed']} of {now['planned']} items failed: " in str(error.value)
    assert "RuntimeError" in str(error.value) and f"resume {printed['run']}" in str(error.value)
    assert "\n" not in str(error.value)
    monkeypatch.delenv("TEST_READER_FAILS_ON")
    command.resume(argparse.Namespace(run=printed["run"], budget=None, queued=False, on="",
                                      detach=False, json=True))  # fmt: skip
    assert status(printed["run"])["failed"] == 0


def test_progress_counts_failed_items(capsys):
    step = meter("r")
    step(2, 4, 0)
    step(4, 4, 3)
    first, last = capsys.readouterr().err.strip().splitlines()
    assert "failed" not in first and "4/4 (100 %), 3 failed" in last


@pytest.mark.slow
def test_failed_items_store_no_text_and_are_repeated_on_resume(
    cohort: Path, place: Path, monkeypatch
):
    monkeypatch.setenv("TEST_READER_FAILS_ON", "metformin")
    run = start(spec(cohort, arms=["full", "recency"], judges=["test_words"]))
    wait(run)
    now = status(run)
    failing = sum("metformin" in q["question"] for q in read_questions(cohort))
    assert now["status"] == "done"
    assert now["failed"] == 2 * 2 * failing > 0
    failed = [r for r in rows(run, "answers") if r["status"] == "failed"]
    assert all(r["reason"].startswith("RuntimeError") for r in failed)
    assert all(r["answer"] is None for r in failed)
    folder = Path(now["folder"])
    for path in (folder / "log.txt", folder / "events.jsonl"):
        assert "Patient" not in path.read_text()
    table = report(run)["tables"]["accuracy"]
    overall = [r for r in table if r["band"] == "overall"]
    assert [(r["n"], r["failed"]) for r in overall] == [(12 - failing, failing)] * 2

    monkeypatch.setenv("TEST_READER_FAILS_ON", "")
    before = {r["key"] for r in rows(run, "answers") if r["status"] == "ok"}
    assert resume(run) == run
    wait(run)
    now = status(run)
    assert (now["status"], now["done"], now["failed"]) == ("done", now["planned"], 0)
    after = [r["key"] for r in rows(run, "answers")]
    assert len(after) == len(set(after)) == 24
    assert before < set(after)
    stamp = (folder / "done.json").stat().st_mtime_ns
    assert resume(run) == run
    assert (folder / "done.json").stat().st_mtime_ns == stamp


@pytest.mark.slow
def test_a_cancelled_run_can_be_resumed(cohort: Path, monkeypatch):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.2")
    run = start(spec(cohort))
    wait_until(run, "running")
    cancel(run)
    assert status(run)["status"] in ("cancelling", "cancelled")
    assert wait_until(run, "cancelled") == "cancelled"
    with pytest.raises(WorkFailed, match="cancelled"):
        wait(run)
    with pytest.raises(InputError, match="nothing to cancel"):
        cancel(run)
    partial = report(run)
    assert partial["status"] == "cancelled"
    assert partial["items"]["done"] < partial["items"]["planned"]
    monkeypatch.setenv("TEST_READER_DELAY_S", "0")
    resume(run)
    wait(run)
    assert len(rows(run, "answers")) == 48
    # A line of the log has the seconds since its start; those of both starts count.
    log = [("started", 0), ("progress", 40), ("cancelled", 0), ("started", 0), ("finished", 1)]
    lines = [
        json.dumps({"time": "2026-11-28T09:00:00+00:00", "event": event, "seconds": seconds})
        for event, seconds in log
    ]
    (settings.runs_folder() / run / "events.jsonl").write_text("\n".join([*lines, ""]))
    assert run_totals(run)["seconds"] == 41


@pytest.mark.slow
def test_ctrl_c_on_a_waiting_call_cancels(cohort: Path, monkeypatch):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.2")
    run = start(spec(cohort))

    def stop(done: int, planned: int, failed: int, seconds_left: float | None):
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait(run, stop)
    assert status(run)["status"] == "cancelled"


@pytest.mark.slow
def test_a_resume_with_another_cohort_is_refused(place: Path, monkeypatch):
    folder = write_cohort(place / "moving", records=1)
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.2")
    run = start(spec(folder))
    cancel(run)
    wait_until(run, "cancelled")
    record = folder / "ehrs" / "1.xml"
    record.write_text(record.read_text().replace("Glucose", "Sodium"))
    with pytest.raises(InputError, match="other files"):
        resume(run)
    assert status(run)["status"] == "cancelled"


# Ids of runs sort by age, also within a second.
