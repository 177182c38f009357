"""The queue of runs: one slot at a time, in order, despite kills, cancels and several processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.errors import InputError
from midchart.core.results.items import rows
from midchart.core.runs.directory import RunDirectory, waiting, write_json
from midchart.core.runs.process import (
    cancel,
    cancel_runs,
    children,
    enqueue,
    resume,
    start,
    status,
    tick,
    wait,
)
from midchart.core.runs.status import any_active
from tests.support import run_members
from tests.support.run_helpers import ROOT, held, spec, until, wait_until, write_cohort, write_site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue")
    write_site(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        run_members.enter()
        yield folder
        run_members.leave()


@pytest.fixture
def cohort(site, workspace, monkeypatch):
    monkeypatch.setenv("MIDCHART_GPUS", "")
    return write_cohort(workspace / "data" / "cohorts" / "tiny", records=1)


def small(cohort, **changes):
    """Eight items, four of them to read."""
    return spec(cohort, **{"arms": ["bm25"], "judges": ["test_words"], **changes})


@pytest.fixture
def hold(tmp_path, monkeypatch):
    """Runs go no further than their second question while this file is there."""
    return held(monkeypatch, tmp_path / "hold", 2)


def folder_of(run: str) -> RunDirectory:
    return RunDirectory(settings.runs_folder() / run)


def events(run: str) -> list[dict]:
    return [json.loads(line) for line in folder_of(run).events.read_text().splitlines()]


def test_the_next_run_starts_without_a_status_call_and_one_without_a_server_reaches_no_network(
    cohort, hold, monkeypatch
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("TEST_READER_CALLS", str(server.getsockname()[1]))
        runs = [enqueue(small(cohort, name=f"number {i}")) for i in range(2)]
        numbers = {row["run"]: (row["status"], row["queue_number"]) for row in status()}
        assert numbers[runs[0]] == ("running", None)
        assert numbers[runs[1]] == ("queued", 1)
        hold.unlink()
        # Only the disk is looked at: no call of this process starts anything.
        until(lambda: all(folder_of(run).done.exists() for run in runs), "both are done")
    spans = [(events(run)[0]["time"], events(run)[-1]["time"]) for run in runs]
    assert spans[0][1] <= spans[1][0], "one at a time, in order"
    assert not waiting()
    confined = sys.platform == "linux"  # nothing of it is promised elsewhere
    for run in runs:
        reasons = [row["reason"] for row in rows(run, "answers")]
        assert ["PermissionError" in str(reason) for reason in reasons] == [confined] * 4
        assert status(run)["unreachable"] == confined


def test_a_killed_worker_keeps_its_rows_and_the_next_run_starts(cohort, hold):
    first, second = enqueue(small(cohort, seed=1)), enqueue(small(cohort, seed=2))
    until(lambda: len(rows(first, "answers")) == 2, "two are answered")
    child = children[first]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    now = status(first)
    assert now["status"] == "crashed" and now["done"] >= 2 and "from outside" in now["reason"]
    until(folder_of(second).events.exists, "the next one starts, without a status call")
    hold.unlink()
    assert resume(first, queued=True) == first
    wait(first)
    wait(second)
    for run in (first, second):
        assert len(rows(run, "answers")) == len({r["key"] for r in rows(run, "answers")}) == 4


def test_a_queued_run_is_cancelled_immediately_and_can_be_queued_again(cohort, hold):
    first, second, third = (enqueue(small(cohort, seed=i)) for i in range(3))
    with pytest.raises(InputError, match="is queued already"):
        resume(third)
    cancel(second)
    assert status(second)["status"] == "cancelled"
    assert status(third)["queue_number"] == 1
    with pytest.raises(InputError, match="nothing to cancel"):
        cancel(second)
    resume(second, queued=True)
    assert status(second)["queue_number"] == 2, "at the end, whatever its id says"
    hold.unlink()
    wait(second)
    assert [status(run)["status"] for run in (first, second, third)] == ["done"] * 3


def test_concurrent_processes_start_a_queued_run_once(cohort, monkeypatch):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.1")
    first = enqueue(small(cohort, seed=1))
    second = enqueue(small(cohort, seed=2))
    look = [
        sys.executable,
        "-c",
        "from midchart.core.runs.status import status\nfor _ in range(40): status()",
    ]
    lookers = [subprocess.Popen(look, cwd=ROOT) for _ in range(3)]
    wait(second)
    assert [one.wait(timeout=60) for one in lookers] == [0, 0, 0]
    for run in (first, second):
        assert sum(event["event"] == "started" for event in events(run)) == 1


def test_a_launcher_killed_between_start_and_note_starts_nothing_twice(cohort, hold):
    run = start(small(cohort))
    # What a launcher leaves that dies right after it started the worker.
    write_json(folder_of(run).queued, {"queue_number": 1, "wants": "cpu", "since": ""})
    tick()
    assert status(run)["status"] == "running"
    hold.unlink()
    wait_until(run, "done", "queued")
    wait(run)
    assert len(rows(run, "answers")) == 4


def test_each_gpu_and_the_cpu_have_one_slot(cohort, monkeypatch):
    monkeypatch.setenv("MIDCHART_GPUS", "0,1")
    locks = {}

    def held(folder, lock, slot):
        folder.slot.write_text(slot)
        locks[folder.id] = lock  # as a worker holds it

    monkeypatch.setattr("midchart.core.runs.process.launch", held)
    plain = enqueue(small(cohort))
    monkeypatch.setattr(run_members.EchoReader, "mark", classmethod(lambda cls: "m"), raising=False)
    heavy = [enqueue(small(cohort, seed=i)) for i in range(3)]
    slots = [(status(run)["status"], status(run)["slot"]) for run in (plain, *heavy)]
    assert slots[:3] == [("running", "cpu"), ("running", "gpu 0"), ("running", "gpu 1")]
    assert slots[3] == ("queued", "")
    locks[heavy[1]].release()
    assert status(heavy[2])["slot"] == "gpu 1", "the slot that is free"
    assert status(heavy[1])["status"] == "crashed" and status(plain)["status"] == "running"
    for lock in locks.values():
        lock.release()
    seen = settings.worker_environment("1")
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["MIDCHART_GPUS"]) == ("1", "0,1")


def test_the_whole_queue_is_cancelled_and_nothing_of_it_starts(cohort, hold, capsys):
    assert main(["cancel"]) == main(["cancel", "x", "--all"]) == 2
    first, second, third = (enqueue(small(cohort)) for _ in range(3))
    assert any_active()
    assert main(["cancel", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cancelled"] == [third, second, first]
    hold.unlink()
    wait_until(first, "cancelled")
    assert {row["status"] for row in status()} == {"cancelled"} and not any_active()
    assert cancel_runs([first, second]) == []
    assert not any(folder_of(run).events.exists() for run in (second, third))


def test_the_command_line_waits_in_the_queue_and_shows_its_order(cohort, hold, tmp_path, capsys):
    toml = tmp_path / "two.toml"
    toml.write_text(
        f'kind = "answers"\ndata = "{cohort}"\narms = ["bm25"]\nreaders = ["test_echo"]\n'
    )
    first = start(small(cohort))
    assert main(["run", str(toml), "--queued", "--detach", "--json"]) == 0
    queued_run = json.loads(capsys.readouterr().out)
    assert queued_run["status"] == "queued"
    assert main(["status", "--json"]) == 0
    numbers = {row["run"]: row["queue_number"] for row in json.loads(capsys.readouterr().out)}
    assert numbers == {first: None, queued_run["run"]: 1}
    assert main(["cancel", queued_run["run"]]) == 0
    assert "cancelled" in capsys.readouterr().out
    hold.unlink()
    assert main(["resume", queued_run["run"], "--queued", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "done"
