"""Where a run stands, read from its folder alone.

done: ``done.json`` is there. running, cancelling: the lock is held. cancelled: nobody holds it
and the worker left a note that it obeyed. crashed: nobody holds it and nothing else explains it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, overload

from core.run.folder import RunFolder, find_run, run_ids
from core.settings import runs_folder
from core.store import held

TAIL = 1 << 16


def state_of(folder: RunFolder) -> str:
    """done, running, cancelling, cancelled or crashed."""
    alive = held(folder.lock)
    # Looked at after the lock: a worker writes its last word before it lets the lock go.
    if folder.done.exists():
        return "done"
    if alive:
        return "cancelling" if folder.cancel.exists() else "running"
    return "cancelled" if folder.cancelled.exists() else "crashed"


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The last whole events, oldest first."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL))
        text = file.read()
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in (lines[1:] if size > TAIL else lines)]


def last_event(folder: RunFolder, *names: str) -> dict[str, Any] | None:
    """The latest event with one of these names."""
    found = [event for event in _whole_lines(folder.events) if event["event"] in names]
    return found[-1] if found else None


def counts(folder: RunFolder, kind: str, state: str) -> tuple[int, int]:
    """Items done without fault, and items failed."""
    if state == "done":
        done = json.loads(folder.done.read_text(encoding="utf-8"))
        return done["done"], done["failed"]
    if state in ("running", "cancelling"):
        event = last_event(folder, "progress")
        return (event["done"], event["failed"]) if event else (0, 0)
    store = folder.store(kind)
    rows = [
        store.select(
            table,
            "count(*) FILTER (status = 'ok') AS done, "
            "count(*) FILTER (status = 'failed') AS failed",
        )[0]
        for table in store.schemas
    ]
    return sum(row["done"] for row in rows), sum(row["failed"] for row in rows)


def _status(folder: RunFolder) -> dict[str, Any]:
    raw = json.loads(folder.spec.read_text(encoding="utf-8"))
    state = state_of(folder)
    try:
        done, failed = counts(folder, raw["spec"]["kind"], state)
    except FileNotFoundError:
        # done.json went between two looks: the run was just taken up again.
        state = state_of(folder)
        done, failed = counts(folder, raw["spec"]["kind"], state)
    failure = last_event(folder, "failed") if state == "crashed" else None
    note = last_event(folder, "note") if state in ("running", "cancelling") else None
    return {
        "run": folder.id,
        "name": raw["spec"]["name"],
        "kind": raw["spec"]["kind"],
        "status": state,
        "planned": raw["planned"],
        "done": done,
        "failed": failed,
        "folder": str(folder.path),
        "data": raw["cohort"]["path"],
        "created": raw["created"],
        "reason": failure["reason"] if failure else "",
        "note": note["text"] if note else "",
    }


@overload
def status(run: str) -> dict[str, Any]: ...
@overload
def status(run: None = None) -> list[dict[str, Any]]: ...


def status(run: str | None = None) -> dict[str, Any] | list[dict[str, Any]]:
    """Where a run stands, or all runs, newest first; raises UnknownName.

    ``done`` counts answers and verdicts (or selections) that are there without fault, ``failed``
    those with a reason; together they reach ``planned``. ``reason``: why a worker died; ``note``:
    what a running one waits for, in words.
    """
    if run is not None:
        return _status(find_run(run))
    folders = [RunFolder(runs_folder() / id) for id in reversed(run_ids())]
    return [_status(folder) for folder in folders]
