"""Workers killed at random moments; the result equals that of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from midchart.core.errors import InputError, WorkFailed
from midchart.core.results.report import report
from midchart.core.runs.process import children, resume, start, status, wait
from tests.support.run_helpers import (
    ROOT,
    contents,
    finished_run,
    held,
    spec,
    until,
    wait_until,
)

pytestmark = pytest.mark.slow

RECORDS = 5
ENVIRONMENT = {"TEST_READER_DELAY_S": "0.003"}


@pytest.fixture(scope="module")
def undisturbed(cohort: Path):
    run = finished_run(spec(cohort))
    return contents(run), report(run)


def kill(run: str) -> bool:
    """Kill the worker at once; whether it was still at work."""
    child = children[run]
    os.kill(child.pid, signal.SIGKILL)
    return child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("seed", [1, 2])
def test_repeated_kills_lose_no_row_and_duplicate_none(
    cohort: Path, undisturbed, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.02")
    moments = random.Random(seed)
    run = start(spec(cohort))
    kills, seen = 0, -1
    while kills < 6:
        time.sleep(moments.uniform(0.3, 0.6))
        if status(run)["status"] == "done":
            break
        kill(run)
        now = status(run)
        if now["status"] == "done":
            break
        assert now["status"] == "crashed"
        assert now["done"] >= seen
        assert now["failed"] == 0
        contents(run)
        seen, kills = now["done"], kills + 1
        resume(run)
    wait(run)
    assert kills >= 2
    rows_now, run_report = contents(run), report(run)
    assert rows_now == undisturbed[0]
    assert run_report["tables"]["accuracy"] == undisturbed[1]["tables"]["accuracy"]
    assert run_report["tables"]["recall"] == undisturbed[1]["tables"]["recall"]


def test_damaged_lines_are_left_out_counted_and_their_items_repeated(
    cohort: Path, undisturbed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.05")
    run = start(spec(cohort))
    path = Path(status(run)["folder"]) / "items" / "answers.jsonl"
    until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 4, "four answers")
    assert kill(run)
    parts = path.read_bytes().split(b"\n")
    parts[1] = parts[1][:40]
    parts[2] = parts[2].replace(b'"status":"ok"', b'"status":7')
    path.write_bytes(b"\n".join(parts))
    (path.parent.parent / "events.jsonl").open("ab").write(b"{\n[1]\n\xff\n")
    assert status(run)["status"] == "crashed"
    resume(run)
    wait(run)
    now, run_report = status(run), report(run)
    assert now["status"] == "done"
    assert now["warnings"] == []
    log = (path.parent.parent / "log.txt").read_text(encoding="utf-8")
    assert "answers.jsonl: 2 damaged lines left out" in log
    assert contents(run) == undisturbed[0]
    assert run_report["tables"]["accuracy"] == undisturbed[1]["tables"]["accuracy"]


def test_kills_during_compaction_lose_no_row(cohort: Path, undisturbed):
    moments = random.Random(3)
    run = start(spec(cohort))
    planned = status(run)["planned"]
    killed = 0
    for _ in range(10):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            now = status(run)
            if now["done"] >= planned - 6 or now["status"] == "done":
                break
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.06))
        if run in children:
            killed += kill(run)
        if status(run)["status"] == "done":
            assert contents(run) == undisturbed[0]
            # Take it up again: without done.json a finished run is one that died at its end.
            (Path(now["folder"]) / "done.json").unlink()
        assert status(run)["status"] == "crashed"
        resume(run)
    wait(run)
    assert contents(run) == undisturbed[0]
    assert killed >= 3


def test_a_waiting_call_ends_with_the_workers_death(cohort: Path, monkeypatch):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.2")
    run = start(spec(cohort))

    def stop(done: int, planned: int, failed: int, seconds_left: float | None):
        if done > 10 and run in children:
            kill(run)

    with pytest.raises(WorkFailed, match=r"died after \d+ of 240 items"):
        wait(run, stop)
    assert status(run)["status"] == "crashed"


def test_a_worker_outlives_the_command_that_started_it(cohort: Path, place: Path):
    code = (
        "from midchart.core.runs.process import start; from tests.support.run_helpers import spec; "
        "from tests.support import run_members as m; m.READERS.get('extractive'); "
        f"print(start(spec({str(cohort)!r})), flush=True); import os; os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    run = done.stdout.strip()
    assert wait_until(run, "done", "crashed") == "done"


def test_a_second_worker_is_refused(cohort: Path, tmp_path: Path, monkeypatch):
    hold = held(monkeypatch, tmp_path / "hold", 0)
    run = start(spec(cohort, arms=["bm25"]))
    with pytest.raises(InputError, match="running already"):
        resume(run)
    second = subprocess.run(
        [sys.executable, "-m", "midchart.core.runs.worker", run],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert second.returncode == 2
    assert "running already" in second.stderr
    assert status(run)["status"] == "running"
    hold.unlink()
    wait(run)
    assert len(contents(run)["answers"]) == 20
