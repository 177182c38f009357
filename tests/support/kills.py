"""Kills a run's worker at random points and resumes it: ``python -m tests.support.kills``.

A worker is a fork of a process that has imported the program and done nothing else, so that a kill
costs its work and not the start of Python. After each kill the rows on disk are held to those
before it; each finished run is held to one that nothing disturbed. ``--clock``: the time of day
jumps back by up to a day at each start and at random moments of the work. ``--full``: instead of
being killed, a worker is refused its writes beyond a random size of a file, as on a full disk.

``--operations`` kills instead, at moments that are uniform over its duration, what people do: the
import of a cohort, its removal with its runs, the marking of questions, and the review of answers;
the duration is measured anew every ten kills. A row for each has the quarters of the duration and
of the changes on disk in which the kills came, the operations that ended before their kill (drawn
again, not counted), and what was there after the next start: all of the operation, none of it, or
of markings and reviews a part. Nothing that had returned is lost, and nothing hidden or removed is
left. ``--read-only``: instead, one of the folders in which the operation changes something, drawn
anew each time, cannot be written; ``--full`` and ``--clock`` as above.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import resource
import shutil
import signal
import stat
import statistics
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from midchart.core import api, config, provenance
from midchart.core.cli import table as print_table
from midchart.core.errors import MidchartError
from midchart.core.results.reviews import distinct_answers, reviewed, reviews_folder
from midchart.core.runs.directory import RunDirectory, find_run, make_run, run_ids
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.services.removal import recover
from midchart.core.storage.rows import close
from tests.support.run_helpers import (
    contents,
    continue_run,
    finished_run,
    members_place,
    spec,
    workspace_at,
    write_cohort,
)

DELAY_S = 0.01
"""Seconds of an answer."""
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree")
"""Events of Python that change a folder; an opening for writing does too."""
PLACES = ("data", "cache", "state")
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


class Counts:
    """Numbers that a child counts up and its parent reads: changes of folders, and parts of the
    operation that have returned."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)

    def read(self) -> tuple[int, int]:
        """Both numbers."""
        return struct.unpack("qq", self._shared[:])

    def changed(self) -> None:
        """One more change of a folder."""
        self._shared[:8] = struct.pack("q", self.read()[0] + 1)

    def returned(self) -> None:
        """One more part of the operation has returned."""
        self._shared[8:] = struct.pack("q", self.read()[1] + 1)

    def watch(self) -> None:
        """Count the changes of this process from now on."""

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event == "open":
                mode, flags = arguments[1], arguments[2]
                writes = isinstance(mode, str) and bool(set(mode) & set("wax+"))
                if writes or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
                    self.changed()
            elif event in CHANGES:
                self.changed()

        sys.addaudithook(hook)


@dataclass(frozen=True)
class Operation:
    """Something that people do: its parts, one after another, and how many of them are there after
    a restart; the latter raises AssertionError where a part of one is there."""

    name: str
    parts: Callable[[], list[Callable[[], object]]]
    there: Callable[[], int]


def _imported() -> int:
    place = config.cohorts_folder() / "second"
    if not place.exists():
        return 0
    assert [card.problem for card in api.cohorts() if card.name == "second"] == [""]
    cohort = api.open_data(place)
    assert (len(cohort.records), len(cohort.instructions)) == (5, 20)
    return 1


def _removed(run: str) -> int:
    if (config.cohorts_folder() / "ward").exists():
        assert len(api.open_data(config.cohorts_folder() / "ward").records) == 5
        assert api.status(run)["status"] == "done"
        assert reviewed(run, "ann")
        return 0
    assert not (config.runs_folder() / run).exists()
    assert not reviews_folder(run).exists()
    files = [path for path in config.cache_folder().rglob("*") if path.is_file()]
    assert [path for path in files if b"milligram" in path.read_bytes()] == []
    return 1


def _mark(cohort: Path) -> list[Callable[[], object]]:
    ids: list[str] = []
    parts: list[Callable[[], object]] = []
    for day in range(10):
        question = f"Which dose was taken on day {day}?"
        parts += [
            lambda question=question: ids.append(api.keep_question(cohort, "1", question, "ann")),
            lambda: api.answer_question(cohort, ids[-1], "10 milligram", True, "ann"),
            lambda: api.mark_evidence(cohort, ids[-1], [(0, 0, 7)], "ann"),
        ]
    return parts


def _marked(cohort: Path) -> int:
    lines = 0
    for question in api.own_questions(cohort):
        lines += 1
        for annotation in question.annotations.values():
            lines += (annotation.answer != "") + bool(annotation.spans)
    return lines


def operations(source: Path) -> list[Operation]:
    """The operations, on a cohort ``ward`` with a finished run, one review and caches."""
    api.import_cohort("ward", source)
    ward = config.cohorts_folder() / "ward"
    table = {"kind": "answers", "arms": ["bm25", "recency"], "readers": ["extractive"]}
    run = finished_run({**table, "judges": ["exact"], "data": str(ward), "name": "killed"})
    cards = list(distinct_answers(find_run(run)))
    api.add_review(run, "ann", cards[0], "correct")
    (config.cache_folder() / "old").mkdir(parents=True)
    (config.cache_folder() / "old" / "text").write_text("10 milligram")

    def review() -> list[Callable[[], object]]:
        return [partial(api.add_review, run, "ben", card, "incorrect", 1.5) for card in cards]

    return [
        Operation("import", lambda: [lambda: api.import_cohort("second", source)], _imported),
        Operation(
            "removal", lambda: [lambda: api.remove_cohort("ward", True)], lambda: _removed(run)
        ),
        Operation("marking", lambda: _mark(ward), lambda: _marked(ward)),
        Operation("review", review, lambda: len(reviewed(run, "ben"))),
    ]


@dataclass(frozen=True)
class Attempt:
    """How a child that did an operation ended."""

    status: int
    seconds: float
    changes: int
    returned: int
    there: int


@dataclass
class Workspace:
    """Data, cache and state, and a copy of them from which every attempt begins."""

    place: Path
    draw: random.Random
    clock: bool = False
    full: bool = False
    read_only: bool = False
    folders: list[Path] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Folders in which the last undisturbed attempt of an operation changed something, and the
    bytes of the files that it wrote."""

    def save(self) -> None:
        """Take the copy."""
        for name in PLACES:
            shutil.copytree(self.place / name, self.place / "saved" / name)

    def restore(self) -> None:
        """Begin again from the copy."""
        for name in PLACES:
            shutil.rmtree(self.place / name)
            shutil.copytree(self.place / "saved" / name, self.place / name)

    def states(self) -> dict[Path, os.stat_result]:
        """Every file and folder."""
        places = [self.place / name for name in PLACES]
        return {one: one.stat() for place in places for one in (place, *place.rglob("*"))}

    def note_changes(self, before: dict[Path, os.stat_result]) -> None:
        """Note which folders that were there an operation wrote to, and the sizes of its files."""
        now, folders, self.sizes = self.states(), set[Path](), []
        for one in {*before, *now}:
            old, new = before.get(one), now.get(one)
            if old is not None and new is not None and old.st_mtime_ns == new.st_mtime_ns:
                continue
            is_folder = stat.S_ISDIR((new or before[one]).st_mode)
            folders.add(one if is_folder else one.parent)
            self.sizes += [new.st_size] if new is not None and not is_folder else []
        self.folders = sorted(folders & before.keys())

    def disturb(self) -> None:
        """What disturbs a process other than its kill."""
        if self.clock:
            turn_back(self.draw)
        if self.full:
            refuse_beyond(self.draw.randrange(0, max(1, self.draw.choice(self.sizes))))
        if self.read_only:
            self.draw.choice(self.folders).chmod(0o500)
            obey_modes()

    def attempt(self, operation: Operation, kill_after_s: float | None, disturbed: bool) -> Attempt:
        """Do it in a child, killed at a moment or not, and look at what is there after a start."""
        self.restore()
        before = self.states()
        counts, (heard, begun) = Counts(), os.pipe()
        self.draw.random()

        def work() -> None:
            parts = operation.parts()
            if disturbed:
                self.disturb()
            counts.watch()
            os.write(begun, b"x")
            try:
                for part in parts:
                    part()
                    counts.returned()
            except MidchartError:
                os._exit(REFUSED)

        child = fork(work)
        os.read(heard, 1)
        start = time.monotonic()
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        status = ended(child)
        seconds = time.monotonic() - start
        if not disturbed:
            self.note_changes(before)
        os.close(begun)
        os.close(heard)
        changes, returned = counts.read()
        for name in PLACES:
            for one in (self.place / name, *(self.place / name).rglob("*")):
                if one.is_dir():
                    one.chmod(0o700)
        return Attempt(status, seconds, changes, returned, self.look(operation))

    def look(self, operation: Operation) -> int:
        """How many parts of the operation are there after a start."""
        heard, answer = os.pipe()

        def work() -> None:
            assert recover() == []
            left = [
                one.name
                for folder in (config.cohorts_folder(), config.runs_folder(), config.data_folder())
                for one in folder.glob(".*")
            ]
            assert left == []
            os.write(answer, str(operation.there()).encode())

        assert ended(fork(work)) == 0
        os.close(answer)
        with os.fdopen(heard) as file:
            return int(file.read())


def quarters(shares: list[float]) -> str:
    """How many shares are in each quarter."""
    counts = Counter(min(3, int(4 * share)) for share in shares)
    return " ".join(str(counts[quarter]) for quarter in range(4))


def attack_operation(workspace: Workspace, operation: Operation, kills: int) -> dict[str, Any]:
    """Disturb an operation so many times; gives a row, raises AssertionError."""
    killed = not workspace.full and not workspace.read_only
    lasted: list[float] = []
    moments: list[float] = []
    changes: list[float] = []
    outcomes: Counter[str] = Counter()
    early = measured = 0
    while len(moments) < kills:
        while measured < 3 + len(moments) // 10:
            measured += 1
            usual = workspace.attempt(operation, None, False)
            assert usual.status == 0 and usual.there == usual.returned > 0
            lasted.append(usual.seconds)
        share = workspace.draw.random()
        after = share * statistics.median(lasted[-5:]) if killed else None
        done = workspace.attempt(operation, after, True)
        assert done.status in (0, -signal.SIGKILL, REFUSED), done
        assert done.returned <= done.there <= done.returned + 1, done
        if done.status == 0 and done.there == done.returned:
            early += 1
            lasted.append(done.seconds)
            continue
        moments.append(share)
        changes.append(done.changes / usual.changes)
        part = "all" if done.there == usual.there else "part" if done.there else "none"
        outcomes[part] += 1
    row = {"operation": operation.name, "seconds": round(statistics.median(lasted), 3)}
    times = {"quarters of time": quarters(moments)} if killed else {}
    row |= {"changes": usual.changes, "disturbed": kills, "ended before": early, **times}
    row |= {"quarters of changes": quarters(changes)}
    return row | {f"{name} there": outcomes[name] for name in ("none", "part", "all")}


def attack_operations(kills: int, seed: int, clock: bool, full: bool, read_only: bool) -> None:
    """Attack every operation so many times, and print their rows."""
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        workspace_at(Path(name)) as place,
    ):
        workspace = Workspace(place, random.Random(seed), clock, full, read_only)
        for folder in PLACES:
            (place / folder).mkdir(exist_ok=True)
        all_operations = operations(write_cohort(place / "source", records=5))
        workspace.save()
        for operation in all_operations:
            workspace.restore()
            for part in operation.parts():  # imported, so that a child's time is its work
                part()
            operation.there()
            close()  # a fork has the database's memory and not its threads
            rows.append(attack_operation(workspace, operation, kills))
            print_table(rows[-1:], tuple(rows[-1]))


def main() -> None:
    """Run the attack in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=3.0, help="seconds before a kill at most")
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--read-only", action="store_true")
    call = parser.parse_args()
    if call.operations or call.read_only:
        attack_operations(call.kills, call.seed, call.clock, call.full, call.read_only)
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        members_place(Path(place), TEST_READER_DELAY_S=str(DELAY_S)),
    ):
        os.environ["MIDCHART_STATE"] = f"{place}/state"
        print(attack(call.kills, call.seed, call.longest, call.clock, call.full))


if __name__ == "__main__":
    main()
