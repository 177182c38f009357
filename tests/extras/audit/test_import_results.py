"""Logs of other systems as runs that are only read here."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.errors import DataError, DataUseError, InputError, MidchartError, UnknownName
from midchart.core.runs.directory import find_run, run_ids
from midchart.extras.audit.other_results import import_results

LOGS = Path(__file__).with_name("logs")


@pytest.fixture(autouse=True)
def data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))


def lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def two_models(folder: Path, patients: bool = True) -> Path:
    """Forty questions of ten patients: model a is right in all, model b in the first half."""
    rows = [
        {
            "question": f"Question {n}?",
            "answer": "yes",
            "model": model,
            "correct": float(model == "a" or n < 20),
            "prompt": f"Chart {n}. Question {n}?",
            "finish_reason": "length" if model == "b" and n < 3 else "stop",
            "prompt_tokens": 10,
            "cost": 0.5,
            **({"patient": f"p{n % 10}"} if patients else {}),
        }
        for model in "ab"
        for n in range(40)
    ]
    return lines(folder / "answers.jsonl", rows)


def test_a_log_is_a_finished_run_with_its_scores_by_patient(tmp_path):
    imported = import_results(two_models(tmp_path), "ward")
    assert (imported["samples"], imported["scores"], imported["patients"]) == (80, 80, 10)
    assert imported["warnings"] == []
    report = api.report(imported["run"])
    assert (report["kind"], report["status"], report["name"]) == ("other_results", "done", "ward")
    first, second = report["tables"]["scores"]
    assert (first["answered_by"], first["score"], first["n"], first["patients"]) == (
        "a",
        1.0,
        40,
        10,
    )
    assert (second["score"], second["cut_off"], second["read_tokens"]) == (0.5, 3, 400)
    assert second["cost_usd"] == pytest.approx(20)
    assert second["patient_low"] < 0.5 < second["patient_high"]
    assert second["question_low"] is None
    (pair,) = report["tables"]["differences"]
    assert (pair["difference"], pair["n"]) == (0.5, 40)
    assert (pair["only_first"], pair["only_second"]) == (20, 0)
    assert pair["p"] == pytest.approx(2 * 0.5**20)
    assert pair["patient_low"] > 0
    assert "1 difference is shown" in report["conclusion"]["headline"]
    assert "+50.0 points, 40 questions" in report["conclusion"]["details"][-1]


def test_without_patients_intervals_are_by_question_and_it_says_so(tmp_path):
    imported = import_results(two_models(tmp_path, patients=False))
    assert imported["patients"] is None
    report = api.report(imported["run"])
    second = report["tables"]["scores"][1]
    assert second["question_low"] < 0.5 < second["question_high"]
    assert second["patient_low"] is None and second["patients"] is None
    assert any("name no patient" in line for line in report["warnings"])


def test_means_equal_what_the_tool_printed():
    report = api.report(import_results(LOGS / "lm_eval")["run"])
    assert {(r["task"], r["metric"]): round(r["score"], 4) for r in report["tables"]["scores"]} == {
        ("ward", "exact_match"): 0.6667,
        ("ward_choice", "acc"): 0.6667,
    }


def test_prompts_are_in_the_run_once_and_go_with_it(tmp_path):
    run = import_results(two_models(tmp_path))["run"]
    folder = find_run(run)
    store = folder.store(folder.plan())
    assert len(store.select("prompts")) == 40
    row = store.select("samples", "prompt_hash", "question = 'Question 7?'")[0]
    (prompt,) = store.select("prompts", "messages", f"key = '{row['prompt_hash']}'")
    assert json.loads(prompt["messages"]) == [["user", "Chart 7. Question 7?"]]
    api.remove_run(run)
    assert not folder.path.exists()


def test_broken_lines_are_named_in_the_report_and_the_rest_loads(tmp_path):
    path = two_models(tmp_path)
    path.write_text("{broken\n" + path.read_text())
    report = api.report(import_results(path)["run"])
    assert report["items"]["done"] == 80
    assert any(line.startswith("answers.jsonl:1: ") for line in report["warnings"])


def test_nothing_is_left_of_a_log_that_cannot_be_read(tmp_path):
    bad = lines(tmp_path / "bad.jsonl", [{"question": "", "answer": "x"}])
    with pytest.raises(DataError):
        import_results(bad, sample_format="table")
    with pytest.raises(UnknownName):
        import_results(two_models(tmp_path), sample_format="none")
    assert not any(settings.runs_folder().iterdir())


def test_texts_of_a_log_leave_only_where_its_tag_allows(tmp_path):
    run = import_results(two_models(tmp_path))["run"]
    with pytest.raises(DataUseError):
        api.export_run(run, tmp_path / "with.zip", with_text=True)
    written = api.export_run(run, tmp_path / "without.zip")
    assert written["with_text"] is False
    assert {"question", "answer", "place", "reference"} <= set(written["dropped"]["samples"])
    with zipfile.ZipFile(tmp_path / "without.zip") as archive:
        for name in archive.namelist():
            assert b"Chart 7" not in archive.read(name), name
    api.remove_run(run)
    again = api.import_run(tmp_path / "without.zip")
    assert api.report(again["run"])["tables"]["scores"][0]["score"] == 1.0


@pytest.mark.parametrize("wrong", ["\x1b[31mred", "a\u202eb", "a\U000e0041", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_shown_is_refused_and_no_run_is_made(tmp_path, wrong):
    with pytest.raises(InputError, match="name: printable text of 200 characters") as refused:
        import_results(two_models(tmp_path), wrong)
    assert str(refused.value).isprintable() and not run_ids()


def test_the_name_of_a_log_is_made_visible_and_cut(tmp_path):
    for name, starts in (
        ("b\u202ecod\x1b[31m\n.jsonl", "b\\u202ecod\\x1b[31m\\n.jsonl ("),
        ("\u202e" * 80 + ".jsonl", "\\u202e" * 16 + "\\u2… ("),
    ):
        log = two_models(tmp_path).rename(tmp_path / name)
        folder = find_run(import_results(log)["run"])
        document = json.loads(folder.spec.read_text())
        run_name = document["spec"]["name"]
        assert run_name.startswith(starts) and run_name == api.status(folder.id)["name"]
        sources = {document["spec"]["data"], document["cohort"]["path"]}
        assert {run_name, *sources} == {run_name, run_name.rpartition(" (")[0]}


def test_a_log_is_no_spec_of_a_run(tmp_path):
    with pytest.raises(InputError, match="import-results"):
        api.start({"name": "x", "kind": "other_results"})


@pytest.mark.parametrize("which", (1, 5, 10, 15))
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, which):
    log = two_models(tmp_path)
    times, sync = 0, os.fsync

    def full(handle: int) -> None:
        nonlocal times
        times += 1
        if times >= which:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MidchartError, match="No space left on device"):
        import_results(log)
    assert not list(settings.runs_folder().glob("*"))
