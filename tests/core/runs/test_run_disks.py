"""Runs on full and read-only disks, on a small tmpfs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midchart.core.errors import InputError
from midchart.core.results.items import rows
from midchart.core.runs.directory import make_run, write_json
from midchart.core.runs.estimate import preflight
from midchart.core.runs.planner import plan
from midchart.core.runs.process import cancel, enqueue, resume, start, status, wait
from midchart.core.runs.spec import read_spec
from tests.support import run_members
from tests.support.run_helpers import finished_run, spec, wait_until, write_cohort, write_site

ROOM = 400_000


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A data folder whose runs lie on a disk of their own, of 400 kB; gives the runs' folder."""
    site, data = tmp_path / "site", tmp_path / "data"
    write_site(site)
    for name, value in (
        ("PYTHONPATH", site), ("MIDCHART_DATA", data), ("MIDCHART_CACHE", tmp_path / "cache")
    ):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    runs = data / "runs"
    runs.mkdir(parents=True)
    try:
        mount("-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(runs))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this account may not mount a disk")
    run_members.enter()
    yield runs
    run_members.leave()
    subprocess.run(["umount", "-l", str(runs)], check=True)


@pytest.fixture
def cohort(disk):
    return write_cohort(disk.parent / "cohorts" / "tiny", records=2)


def fill(disk: Path) -> Path:
    """Take what room is left."""
    stuff = disk / "stuff"
    with stuff.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return stuff
    raise AssertionError("the disk is never full")


@pytest.mark.slow
def test_a_full_disk_stops_a_run_with_a_reason_and_loses_nothing(disk, cohort, monkeypatch):
    monkeypatch.setenv("TEST_READER_DELAY_S", "0.2")
    run = start(spec(cohort))
    while status(run)["done"] < 6:
        assert status(run)["status"] == "running"
    stuff = fill(disk)
    assert wait_until(run, "crashed", patience_s=60) == "crashed"
    now = status(run)
    assert "disk" in now["reason"] or "No space" in now["reason"]
    keys = {row["key"] for row in rows(run, "answers")}
    assert keys
    with pytest.raises(InputError, match=r"No space left|cannot be written"):
        enqueue(spec(cohort))
    assert {path.name for path in disk.iterdir() if path.is_dir()} == {run}, "and no half of one"
    stuff.unlink()
    monkeypatch.setenv("TEST_READER_DELAY_S", "0")
    assert resume(run, queued=True) == run
    wait(run)
    answers = [row["key"] for row in rows(run, "answers")]
    assert keys <= set(answers) and len(answers) == len(set(answers)) == 32


@pytest.fixture
def plain(tmp_path, monkeypatch):
    """A data folder that an account without rights may read and not write."""
    for name in ("MIDCHART_DATA", "MIDCHART_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name[9:].lower()))
    monkeypatch.setattr(
        "midchart.core.weights._in_hub_cache", lambda model: None
    )  # it is root's own
    return tmp_path / "data"


@contextmanager
def nobody(place: Path) -> Generator[None]:
    """For the body this process is an account that owns nothing; only root can become one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an account without rights")
    for path in (place, *place.parents):
        if path != Path("/") and path != Path("/tmp"):
            path.chmod(0o755)
    for path in place.parents[1].rglob("*"):  # data and cache: read, but not written
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.slow
def test_a_read_only_folder_shows_its_runs_and_refuses_new_ones_in_one_line(plain):
    wanted = {
        "kind": "selection", "arms": ["bm25"],
        "data": str(write_cohort(plain / "cohorts" / "tiny", records=1)),
    }  # fmt: skip
    done = finished_run(wanted)
    waits = make_run(plan(read_spec(wanted)), complete=first_in_queue).id
    with nobody(plain / "runs"):
        assert {row["run"]: row["status"] for row in status()} == {done: "done", waits: "queued"}
        assert "nothing can be started from here" in status(waits)["note"]
        assert len(rows(done, "selections")) == 4
        assert "cannot be written" in preflight(wanted)["problems"][0]
        for call in (enqueue, start):
            with pytest.raises(InputError, match=r"cannot be written \(Permission denied\)"):
                call(wanted)
        for call in (cancel, resume):
            with pytest.raises(InputError, match="cannot be written"):
                call(waits)
    assert len(status()) == 2
    wait(waits)
    assert len(rows(waits, "selections")) == 4


def first_in_queue(folder):
    write_json(folder.queued, {"queue_number": 1, "wants": "cpu", "since": ""})
