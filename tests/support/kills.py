"""Kills a run's worker at random points and resumes it: ``python -m tests.support.kills``.

A worker is a fork of a process that has imported the program and done nothing else, so that a kill
costs its work and not the start of Python. After each kill the rows on disk are held to those
before it; each finished run is held to one that nothing disturbed. ``--clock``: the time of day
jumps back by up to a day at each start and at random moments of the work. ``--full``: instead of
being killed, a worker is refused its writes beyond a random size of a file, as on a full disk.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from midchart.core import config, provenance
from midchart.core.runs.directory import RunDirectory, make_run, run_ids
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import (
    contents,
    continue_run,
    members_place,
    spec,
    write_cohort,
)

DELAY_S = 0.01
"""Seconds of an answer."""
REFUSED = 3
"""Exit status of an operation that was refused in a line."""
LARGEST = 60_000
"""Bytes of a file from which on a full disk refuses writes, at most."""


def fork(work: Callable[[], object]) -> int:
    """Start ``work`` in a child, which ends with 0, or 1 after an error; gives its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001 - told by the status, and in a line
        print(f"{type(error).__name__}: {error}"[:200], file=sys.stderr)
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """The exit status of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def turn_back(draw: random.Random) -> None:
    """From now on the time of day is wrong, and jumps back now and then."""
    late = [draw.uniform(0, 86_400)]
    real = time.time

    def turned() -> float:
        if draw.random() < 0.05:
            late[0] += draw.uniform(0, 3_600)
        return real() - late[0]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(turned(), tz) - timedelta(0)  # pyright: ignore

    time.time = turned
    provenance.datetime = Clock


def refuse_beyond(size: int) -> None:
    """From now on this process cannot make a file larger, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def obey_modes() -> None:
    """From now on the modes of files hold for this process, also where it is root's: it has no
    capability any more."""
    version_3 = struct.pack("Ii", 0x20080522, 0)
    assert ctypes.CDLL(None, use_errno=True).capset(version_3, bytes(24)) == 0


def rows_on_disk(folder: RunDirectory) -> dict[str, str] | None:
    """Table and key of each whole line → the line; None once tables are Parquet."""
    lines: dict[str, str] = {}
    if any(folder.items.glob("*.parquet")):
        return None
    for file in folder.items.glob("*.jsonl"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            key = f"{file.stem} {json.loads(line)['key']}"
            if key in lines:
                raise AssertionError(f"{key} is there twice")
            lines[key] = line.decode()
    return lines


def attack(kills: int, seed: int, longest_s: float, clock: bool, full: bool) -> str:
    """Disturb workers so many times; gives a line of figures, raises AssertionError."""
    draw = random.Random(seed)
    cohort = write_cohort(config.cohorts_folder() / "ward", records=5)
    table, reference = spec(cohort), config.data_folder() / "reference.json"

    def keep() -> None:
        (run,) = run_ids()
        assert continue_run(RunDirectory(config.runs_folder() / run)) == "done"
        reference.write_text(json.dumps(contents(run)))

    def compare(run: str) -> None:
        assert json.loads(json.dumps(contents(run))) == json.loads(reference.read_text())

    assert ended(fork(lambda: make_run(plan(read_spec(table))))) == 0
    assert ended(fork(keep)) == 0
    done = runs = lost = 0
    while done < kills:
        before_ids = set(run_ids())
        assert ended(fork(lambda: make_run(plan(read_spec(table))))) == 0
        (run,) = set(run_ids()) - before_ids
        folder, before = RunDirectory(config.runs_folder() / run), {}
        while not folder.done.exists():
            disturbed = done < kills
            limit = draw.randrange(200, LARGEST)

            def work(
                limit: int = limit, disturbed: bool = disturbed, folder: RunDirectory = folder
            ) -> None:
                if clock:
                    turn_back(draw)
                if full and disturbed:
                    refuse_beyond(limit)
                continue_run(folder)

            draw.random()
            child = fork(work)
            if disturbed and not full:
                time.sleep(draw.uniform(0.0, longest_s))
                os.kill(child, signal.SIGKILL)
            status = ended(child)
            done += disturbed and (status == -signal.SIGKILL or (full and status == 1))
            after = rows_on_disk(folder)
            if after is not None:
                lost += len(before.keys() - after.keys())
                assert all(after[key] == line for key, line in before.items()), run
                before = after
        assert ended(fork(lambda run=run: compare(run))) == 0, run
        runs += 1
    return f"{done} disturbed workers in {runs} finished runs: {lost} rows lost, 0 doubled or torn"


def main() -> None:
    """Run the attack in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=3.0, help="seconds before a kill at most")
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--full", action="store_true")
    call = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        members_place(Path(place), TEST_READER_DELAY_S=str(DELAY_S)),
    ):
        os.environ["MIDCHART_STATE"] = f"{place}/state"
        print(attack(call.kills, call.seed, call.longest, call.clock, call.full))


if __name__ == "__main__":
    main()
