"""Start, wait for, take up again and stop runs.

A worker is a process of its own in a session of its own: it outlives the page or the command
that started it. The launcher takes the run's lock and hands it over, so there is no moment in
which a started run looks dead.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core import settings
from core.errors import InputError, WorkFailed
from core.judges.model.options import book
from core.ledger import add_line
from core.run.folder import Plan, RunFolder, find_run, make_run, take_lock
from core.run.planning import plan
from core.run.provenance import content_digest, weights_used
from core.run.spec import read_spec
from core.run.state import state_of, status
from core.store import Lock

POLL_S = 0.1
STOP_PATIENCE_S = 30.0
_children: dict[str, subprocess.Popen[bytes]] = {}


def start(spec: str | Path | Mapping[str, Any]) -> str:
    """Plan a spec (a TOML file's path, or a mapping), start its worker, give the run's id.

    Returns at once; :func:`wait` waits. Raises InputErrors (SpecError, UnknownName, DataError,
    ProtocolError, MissingModel) before any folder is made.
    """
    folder = make_run(plan(read_spec(spec)))
    _launch(folder, take_lock(folder))
    return folder.id


def resume(run: str, budget_usd: float | None = None) -> str:
    """Go on with a run that crashed, was cancelled or has failed items; gives its id.

    Items that are there are skipped, failed ones are done again; a finished run without failed
    items is left as it is. ``budget_usd`` takes the place of the budget of every judge that has
    one: US dollars for the whole run, what it has spent already included. Raises InputError where
    it is running, or where the cohort's files or a reader's weights are not those it began with.
    """
    folder = find_run(run)
    lock = take_lock(folder)
    try:
        now = status(run)
        if folder.done.exists() and not now["failed"]:
            return run
        begun = folder.plan()
        if content_digest(begun.data) != begun.digest:
            raise InputError(
                f"run {run} began with other files than {begun.data} holds now; "
                "put them back, or start a new run"
            )
        used = begun.raw.get("weights", {})
        now_here = weights_used(begun.arms, begun.reader_entries) if used else {}
        changed = [label for label in used if now_here.get(label) != used[label]]
        if changed:
            raise InputError(
                f"run {run} began with other weights for its reader {changed[0]!r} than are here "
                "now; put them back, or start a new run"
            )
        if budget_usd is not None:
            _set_budget(folder, begun, budget_usd)
        for note in (folder.cancel, folder.cancelled, folder.done):
            note.unlink(missing_ok=True)
        _launch(folder, lock)
    finally:
        lock.release()
    return run


def _set_budget(folder: RunFolder, begun: Plan, budget_usd: float) -> None:
    if not 0 < budget_usd < 1e9:
        raise InputError("a budget is US dollars above 0")
    paid = [entry for entry in begun.judge_entries if entry.options.get("budget_usd")]
    if not paid:
        raise InputError(f"no judge of run {folder.id} has a budget; there is none to change")
    for entry in paid:
        file = book(folder.path, entry.label)
        if file is not None:
            add_line(file, {"event": "budget", "usd": budget_usd, "who": settings.user()})


def _launch(folder: RunFolder, lock: Lock) -> None:
    """Start a worker that inherits the lock; this process lets it go."""
    try:
        with folder.log.open("ab") as log:
            _children[folder.id] = subprocess.Popen(
                [sys.executable, "-m", "core.run.worker", folder.id, "--lock-fd", str(lock.fd)],
                cwd=settings.ROOT,
                env=settings.worker_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock.fd,),
                start_new_session=True,
            )
    finally:
        lock.release()


def _reap() -> None:
    """Collect workers of this process that have ended, so that none stays a zombie."""
    for run, child in list(_children.items()):
        if child.poll() is not None:
            del _children[run]


def cancel(run: str) -> None:
    """Ask a running worker to stop after the item in hand; raises InputError where none runs."""
    folder = find_run(run)
    state = state_of(folder)
    if state not in ("running", "cancelling"):
        raise InputError(f"run {run} is {state}; there is nothing to cancel")
    folder.cancel.touch()


def wait(run: str, progress: Callable[[int, int], None] | None = None) -> None:
    """Wait for a run's end, telling ``progress(items there, items planned)`` on the way.

    Raises WorkFailed when its worker died or it was cancelled. Ctrl-C cancels the run, waits for
    the item in hand, and goes on as KeyboardInterrupt.
    """
    try:
        while True:
            now = _told(run, progress)
            if now["status"] not in ("running", "cancelling"):
                break
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        _stop(run)
        raise
    if now["status"] == "done":
        return
    counted = f"after {now['done'] + now['failed']} of {now['planned']} items"
    if now["status"] == "cancelled":
        raise WorkFailed(f"run {run} was cancelled {counted}; resume it with: resume {run}")
    reason = f" ({now['reason']})" if now["reason"] else ""
    log = RunFolder(settings.runs_folder() / run).log
    raise WorkFailed(
        f"the worker of run {run} died {counted}{reason}; see {log}; go on with: resume {run}"
    )


def _told(run: str, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
    _reap()
    now = status(run)
    if progress is not None:
        progress(now["done"] + now["failed"], now["planned"])
    return now


def _stop(run: str) -> None:
    folder = find_run(run)
    if state_of(folder) != "running":
        return
    folder.cancel.touch()
    deadline = time.monotonic() + STOP_PATIENCE_S
    while state_of(folder) == "cancelling" and time.monotonic() < deadline:
        time.sleep(POLL_S)
