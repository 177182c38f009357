"""A run on all cores of this machine: the rows of one process, whatever ends in between."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from midchart.core.runs.cores import CoreWorker, cores
from midchart.core.runs.process import cancel, children, resume, start, status, wait
from midchart.core.runs.shards import WorkerDied
from tests.support.run_helpers import (
    contents,
    members_place,
    spec,
    until,
    wait_for_items,
    wait_until,
    write_cohort,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with members_place(tmp_path_factory.mktemp("cores"), TEST_READER_DELAY_S="0.04") as folder:
        yield folder


@pytest.fixture(scope="module")
def cohort(place):
    return write_cohort(place / "data" / "cohorts" / "tiny", records=6)


@pytest.fixture(scope="module")
def undisturbed(cohort):
    """What the run gives in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_READER_DELAY_S", "0")
        run = start(spec(cohort))
        wait(run)
    return contents(run)


def workers(run: str) -> set[int]:
    """Processes of a run's workers."""
    parent = str(children[run].pid)
    pids = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, of = path.read_text().rpartition(") ")[2].split()[:2]
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if of == parent and state != "Z" and b"spawn_main" in command:
            pids.add(int(path.parent.name))
    return pids


def test_a_worker_killed_loses_nothing_and_doubles_nothing(cohort, undisturbed):
    run = start(spec(cohort), on="cores")
    killed: list[int] = []

    def watch(done: int, planned: int, *_: object) -> None:
        if not killed and done > planned * 0.1 and (pids := workers(run)):
            assert len(pids) <= cores()
            os.kill(min(pids), signal.SIGKILL)
            killed.append(min(pids))

    wait(run, watch)
    now = status(run)
    assert killed and (now["status"], now["failed"], now["done"]) == ("done", 0, now["planned"])
    assert contents(run) == undisturbed


def test_cancelled_in_seconds_and_resumed_here(cohort, undisturbed):
    run = start(spec(cohort), on="cores")
    wait_for_items(run, 10)
    begun = time.monotonic()
    cancel(run)
    assert wait_until(run, "cancelled") == "cancelled"
    assert time.monotonic() - begun < 8
    assert 10 <= len(contents(run)["answers"]) < len(undisturbed["answers"])
    resume(run, on="here")
    wait(run)
    assert contents(run) == undisturbed


def test_a_killed_run_leaves_no_worker_and_goes_on_where_it_was(cohort, undisturbed):
    run = start(spec(cohort), on="cores")
    wait_for_items(run, 10)
    child, left = children[run], workers(run)
    assert left
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert status(run)["status"] == "crashed"
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "no worker is left", 10)
    resume(run)
    wait(run)
    assert contents(run) == undisturbed


def test_a_worker_without_its_run_reports_why_and_one_that_ends_has_died(place):
    worker = CoreWorker("no-such-run", 1)
    assert "unknown run 'no-such-run'" in worker.receive()["problem"]
    os.kill(worker._process.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied):
        worker.receive()
    worker.kill()
