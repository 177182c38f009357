"""Status of a run, read from its folder alone: running or cancelling while the lock is held; else
queued (``queued.json``), done (``done.json``), cancelled, or crashed."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from midchart.core.access import RunRef, needs
from midchart.core.config import runs_folder
from midchart.core.errors import DataError, MidchartError
from midchart.core.named_files import shown_path
from midchart.core.options import RunName, read_run_name
from midchart.core.parsing import read_document
from midchart.core.runs.directory import (
    RESTORE,
    RunDirectory,
    find_run,
    run_ids,
    waiting,
    write_json,
)
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.schemas import EVENT
from midchart.core.storage.files import writing
from midchart.core.storage.lock import is_locked
from midchart.core.storage.lru import LRU
from midchart.core.storage.rows import RowStore, literal

AT_WORK = ("running", "cancelling")
ACTIVE = (*AT_WORK, "queued")
TAIL = 1 << 16
"""Bytes of a log that are read."""


_COUNTS: LRU[tuple[int, int]] = LRU(4096)
FULL = 1 << 14
"""Free bytes below which a disk takes no more rows."""


def state_of(folder: RunDirectory) -> str:
    """queued, running, cancelling, cancelled, crashed or done."""
    alive = is_locked(folder.lock)
    if not alive and folder.queued.exists():
        return "queued"
    # After the lock: a worker writes done.json before it releases the lock.
    if folder.done.exists():
        return "done"
    if alive:
        return "cancelling" if folder.cancel.exists() else "running"
    return "cancelled" if folder.cancelled.exists() else "crashed"


def last_events(folder: RunDirectory, last: int = TAIL) -> list[dict[str, Any]]:
    """The complete events in the ``last`` bytes of the log of a run (0: in all), oldest first."""
    events: list[dict[str, Any]] = []
    for line in folder.text(folder.events, last).split("\n")[:-1]:
        with suppress(DataError):  # a damaged line, or the end of one
            events.append(read_document(line.encode(), folder.events.name, EVENT, RESTORE))
    return events


def seconds_at_work(folder: RunDirectory) -> float:
    """Seconds that a run was worked on from each of its starts on, as its log of events says."""
    passes = [0.0]
    for event in last_events(folder, 0):
        if event["event"] == "started":
            passes.append(0.0)
        passes[-1] = max(passes[-1], event.get("seconds") or 0.0)
    return sum(passes)


def _last(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The latest event of a name; empty where there is none."""
    return next((event for event in reversed(events) if event["event"] == name), {})


def counts(folder: RunDirectory, kind: str, state: str) -> tuple[int, int]:
    """Items done and items failed."""
    if state == "done":
        done = folder.finished()
        return done["done"], done["failed"]
    if state in AT_WORK:
        event = _last(last_events(folder), "progress")
        return event.get("done", 0), event.get("failed", 0)
    if not any(folder.items.iterdir()):  # not started yet
        return 0, 0
    store = RowStore(folder.items, EXPERIMENTS.build(kind).schemas)
    return _COUNTS.get(tuple(map(store.state, store.schemas)), partial(_counted, store))


def _counted(store: RowStore) -> tuple[int, int]:
    columns = "coalesce(sum((status = 'ok')::INT), 0)::BIGINT AS done, count(*) AS n"
    rows = [store.select(table, columns)[0] for table in store.schemas]
    done = sum(row["done"] for row in rows)
    return done, sum(row["n"] for row in rows) - done


def slot_of(folder: RunDirectory) -> str:
    """The slot where a run's worker is or last was: "cpu", "gpu 0"; "cpu" where none is noted."""
    return folder.text(folder.slot) or "cpu"


def _crash_reason(folder: RunDirectory, events: list[dict[str, Any]]) -> str:
    failure = _last(events, "failed")
    if failure:
        return failure.get("reason", "")
    if shutil.disk_usage(folder.path).free < FULL:
        return "the disk that holds the runs is full: make room, then resume"
    return "its process was ended from outside" if folder.log.exists() else ""


def _status(folder: RunDirectory) -> dict[str, Any]:
    """A run's status; raises DataError, naming the run, where its folder is damaged."""
    try:
        return _read_status(folder)
    except (MidchartError, OSError, TypeError, ValueError, LookupError) as error:
        if isinstance(error, DataError) and error.file.startswith(f"run {folder.id}"):
            raise
        unread = f"its files cannot be read ({type(error).__name__})"
        reason = str(error) if isinstance(error, MidchartError) else unread
        raise DataError(f"run {folder.id}", None, reason, RESTORE) from None


def plan_warnings(state: str, rows: int, planned: int) -> list[str]:
    """A finished run has the rows that it planned, or this says so."""
    if state != "done" or rows == planned:
        return []
    return [
        f"the run has {rows:,} rows where its plan has {planned:,}: its experiment counts others "
        "than it writes, or asks other questions"
    ]


def _read_status(folder: RunDirectory) -> dict[str, Any]:
    raw = folder.plan().raw
    state = state_of(folder)
    try:
        done, failed = counts(folder, raw["spec"]["kind"], state)
    except FileNotFoundError:  # done.json was removed meanwhile: the run was just resumed
        state = state_of(folder)
        done, failed = counts(folder, raw["spec"]["kind"], state)
    working = state in AT_WORK
    events = last_events(folder) if working or state == "crashed" else []
    queue = [other.id for other, _ in waiting()] if state == "queued" else []
    imported, path = folder.imported_facts(), raw["cohort"]["path"]
    return {
        "run": folder.id,
        "name": label_of(folder) or raw["spec"]["name"],
        "group": raw["spec"].get("group", ""),
        "kind": raw["spec"]["kind"],
        "status": state,
        "planned": raw["planned"],
        "done": done,
        "failed": failed,
        "folder": shown_path(folder.path),
        "data": imported.get("data") or (PurePath(path).name if imported else path),
        "created": raw["created"],
        "imported": bool(imported),
        "unreachable": folder.unreachable.exists(),
        "cohort_here": imported.get("cohort", ""),
        "reason": _crash_reason(folder, events) if state == "crashed" else "",
        "note": _last(events, "note").get("text", "") if working else "",
        "warnings": [] if imported else plan_warnings(state, done + failed, raw["planned"]),
        "queue_number": queue.index(folder.id) + 1 if folder.id in queue else None,
        "slot": slot_of(folder) if working else "",
        "seconds_left": _last(events, "progress").get("seconds_left") if working else None,
    }


def status(run: str | None = None) -> Any:
    """Status of a run, or of all runs, newest first, without those with a damaged folder
    (:func:`damaged_runs`); raises UnknownName, DataError.

    ``done`` and ``failed`` count rows; together they reach ``planned``. ``reason``: why a worker
    died; ``note``: what a running one waits for; ``name``: that of :func:`label_run`, else the
    spec's. ``queue_number``, from 1; ``slot`` of a running worker; ``seconds_left``: null before a
    tenth of the items. ``unreachable``: no process of the run could reach a network.
    ``cohort_here``: whether this installation's cohort of an imported run's name is the "same"
    (then ``data`` is that one), an "other", or "absent" (then ``data`` is a name, and no place).
    """
    if run is not None:
        return _status(find_run(run))
    rows: list[dict[str, Any]] = []
    for folder in newest_first():
        with suppress(DataError, PermissionError):  # damaged_runs() names it
            rows.append(_status(folder))
    return rows


def newest_first() -> list[RunDirectory]:
    """The folders of all runs, damaged ones too."""
    return [RunDirectory(runs_folder() / id) for id in reversed(run_ids())]


@needs("viewer")
def any_active() -> bool:
    """Whether a run is running or queued; looks at locks and notes alone."""
    for folder in newest_first():
        with suppress(PermissionError):  # another account's, which damaged_runs() names
            if state_of(folder) in ACTIVE:
                return True
    return False


@needs("viewer")
def damaged_runs() -> dict[str, str]:
    """Run → why its folder cannot be read, newest first."""
    damaged: dict[str, str] = {}
    for folder in newest_first():
        try:
            _status(folder)
        except DataError as error:
            damaged[folder.id] = str(error)
    return damaged


# Log viewer: the end of a run's log, and what failed.


FIELDS = ("instruction", "record", "label", "variant", "reader", "judge", "repeat", "value")
"""Columns that identify an item, where the table has them."""
LOG_LINES, MOST_FAILED = 40, 500


@needs("viewer")
def log_tail(run: RunRef) -> str:
    """The last lines of a run's log, which never holds text of a record; raises UnknownName."""
    folder = find_run(run)
    return "\n".join(folder.text(folder.log, TAIL).splitlines()[-LOG_LINES:])


@needs("viewer")
def failed_items(run: RunRef) -> list[dict[str, Any]]:
    """The items of a run that failed, each with its stage (the table), what names it there, and
    reason; the first 500 of each table. Raises UnknownName."""
    folder = find_run(run)
    store = folder.store(folder.plan())
    rows: list[dict[str, Any]] = []
    for table, schema in store.schemas.items():
        names = [name for name in FIELDS if name in schema]
        columns = ", ".join([literal(table) + " AS stage", *names, "reason"])
        where = f"status = 'failed' ORDER BY reason, key LIMIT {MOST_FAILED}"
        rows += store.select(table, columns, where)
    return rows


# Runs as lists show them: the runs of one group as one entry, every other run alone.


Row = dict[str, Any]
MOST_URGENT = ("running", "cancelling", "queued", "crashed", "cancelled", "done")
"""A group has the first of these statuses that one of its runs has."""
SUMMED = ("planned", "done", "failed")


def listed(rows: Iterable[Row]) -> list[Row]:
    """The entries of a list of runs, in the order of each one's first row: a status each with
    ``runs``, its ids, oldest first. The entry of a group of runs sums their counts on one cohort;
    ``run`` is the id of the oldest."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        alone = "" if row["group"] else row["run"]
        groups[row["group"], row["data"], row["imported"], alone].append(row)
    return [_entry(sorted(group, key=lambda row: row["run"])) for group in groups.values()]


def _entry(rows: Sequence[Row]) -> Row:
    first, runs = rows[0], [row["run"] for row in rows]
    if len(rows) == 1:
        return {**first, "runs": runs}
    status = next(name for name in MOST_URGENT if any(row["status"] == name for row in rows))
    at_work = next((row for row in rows if row["status"] == status), first)
    totals = {name: sum(row[name] for row in rows) for name in SUMMED}
    left = [(_missing(row), row["seconds_left"]) for row in rows if row["seconds_left"]]
    pace = sum(items / seconds for items, seconds in left)
    numbers = [row["queue_number"] for row in rows if row["queue_number"]]
    return {
        **at_work,
        **totals,
        "run": first["run"],
        "runs": runs,
        "name": f"{first['group']} ({len(rows)} runs)",
        "created": first["created"],
        "queue_number": min(numbers, default=None) if status == "queued" else None,
        "seconds_left": _missing(totals) / pace if pace else None,
    }


def _missing(row: Row) -> int:
    return row["planned"] - row["done"] - row["failed"]


def progress(rows: Iterable[Row]) -> Row:
    """Where the queue is, of the ``rows`` of all runs.

    ``active``: the entries that are running or queued, in the queue's order; ``running``: names of
    those at work, with ``planned``, ``done`` and ``failed`` items, and ``seconds_left`` (None:
    unknown) of these together; ``queued``: number of runs that wait.
    """
    rows = list(rows)
    entries = [entry for entry in listed(rows) if entry["status"] in ACTIVE]
    working = [entry for entry in entries if entry["status"] in AT_WORK]
    left = [entry["seconds_left"] for entry in working]
    return {
        "active": sorted(entries, key=lambda entry: (entry["queue_number"] or 0, entry["run"])),
        "running": [entry["name"] for entry in working],
        "queued": sum(row["status"] == "queued" for row in rows),
        **{name: sum(entry[name] for entry in working) for name in SUMMED},
        "seconds_left": max(left) if left and None not in left else None,
    }


# The name that people give a run, in ``labels.json``. Spec, rows and digests stay as they are, so
# imported runs can be named too; an export leaves the name out.


class _RunLabels(TypedDict):
    name: RunName | Literal[""]


_LABELS = TypeAdapter(_RunLabels)


def label_of(folder: RunDirectory) -> str:
    """A run's own name, "" for the spec's; raises DataError where it cannot be read."""
    try:
        return folder.document(folder.labels, _LABELS)["name"]
    except FileNotFoundError:
        return ""


@needs("researcher")
def label_run(run: RunRef, name: str) -> None:
    """Name a run; "" gives it the spec's name again. Noted in the audit log. Raises UnknownName,
    InputError."""
    folder = find_run(run)
    labels = {"name": read_run_name(name, f"run {run}")}
    if labels["name"] != label_of(folder):
        folder.note("labelled", fields=["name"])
        with writing(folder.path):
            write_json(folder.labels, labels)
