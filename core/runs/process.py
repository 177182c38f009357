"""Start, wait for, resume and cancel runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError, WorkFailed
from core.identity import person
from core.judges.model_options import judge_log
from core.runs import queue
from core.runs.cluster import named_cluster, read_place
from core.runs.directory import RunDirectory, find_run, make_run, take_lock
from core.runs.gate_checkpoints import refuse_others
from core.runs.plan import Plan
from core.runs.planner import digest_of, open_source, permit, plan, weights_used
from core.runs.queue import children, launch, reap
from core.runs.spec import read_spec
from core.runs.status import state_of, status
from core.storage.files import writing
from core.storage.jsonl import add_line

POLL_S = 0.1
LOOK_S = 1.0
"""Seconds between two looks of a waiting command at the queue."""
STOP_PATIENCE_S = 30.0
__all__ = ["cancel", "cancel_runs", "children", "resume", "start", "wait"]


def start(spec: str | Path | Mapping[str, Any], on: str = "") -> str:
    """Plan a spec (a TOML file's path, or a mapping), start its worker, give the run's id.

    ``on``: where its work is done, "" for here (:mod:`core.runs.cluster`). Raises InputErrors
    before any folder is made. :func:`core.runs.queue.enqueue` queues it instead.
    """
    place = read_place(on)
    folder = make_run(plan(read_spec(spec), named_cluster(place)), place=place)
    launch(folder, take_lock(folder))
    queue.tick()
    return folder.id


def resume(
    run: str, budget_usd: float | None = None, queued: bool = False, on: str | None = None
) -> str:
    """Resume a run that crashed, was cancelled or has failed items; gives its id.

    At once, or with ``queued`` as soon as its slot is free. Done items are skipped; a finished run
    without failed items is left as it is. ``budget_usd``: a new budget of every judge that has one,
    in US dollars for the whole run. ``on``: another place for its work ("here", "ray",
    "ray://HOST:PORT"). Raises InputError where it is running, where cohort files, a reader's
    weights or an arm's gate have changed, or where the data-use tag forbids the cluster.
    """
    place = None if on is None else read_place(on)
    folder = find_run(run)
    if folder.imported.exists():
        raise InputError(
            f"run {run} was imported from another installation and is read-only; repeat it with "
            "the REPRODUCE.toml of its export"
        )
    lock = take_lock(folder)
    try:
        if folder.queued.exists():
            raise InputError(f"run {run} is queued already; cancel it to remove it")
        now = status(run)
        if folder.done.exists() and not now["failed"]:
            return run
        started = folder.plan()
        if digest_of(started.data) != started.digest:
            raise InputError(
                f"run {run} started with other files than {started.data} contains now; "
                "restore them, or start a new run"
            )
        used = started.raw.get("weights", {})
        now_here = weights_used(started) if used else {}
        changed = [label for label in used if now_here.get(label) != used[label]]
        if changed:
            raise InputError(
                f"run {run} started with other weights for its reader {changed[0]!r}: hash "
                "mismatch; restore them, or start a new run"
            )
        cluster = named_cluster(folder.place() if place is None else place)
        if cluster:
            permit((), open_source(started.data).manifest, (), cluster)
        refuse_others(folder.path, started.arms, started.protocol)
        folder.note("resumed")
        if budget_usd is not None:
            _set_budget(folder, started, budget_usd)
        if place is not None:
            with writing(folder.path):
                folder.set_place(place)
        if queued:
            queue.put(folder)
        with writing(folder.path):
            for note in (folder.cancel, folder.cancelled, folder.done):
                note.unlink(missing_ok=True)
        if not queued:
            launch(folder, lock)
    finally:
        lock.release()
    queue.tick()
    return run


def _set_budget(folder: RunDirectory, started: Plan, budget_usd: float) -> None:
    if not 0 < budget_usd < 1e9:
        raise InputError("a budget is US dollars above 0")
    paid = [entry for entry in started.judge_entries if entry.options.get("budget_usd")]
    if not paid:
        raise InputError(f"no judge of run {folder.id} has a budget; there is none to change")
    for entry in paid:
        file = judge_log(folder.path, entry.label)
        if file is not None:
            add_line(file, {"event": "budget", "usd": budget_usd, "who": person().name})


def cancel(run: str) -> None:
    """Stop a running worker after the current item, or take a run out of the queue.

    Raises InputError where it is neither running nor queued.
    """
    folder = find_run(run)
    if not queue.leave(run):
        state = state_of(folder)
        if state not in ("running", "cancelling"):
            raise InputError(f"run {run} is {state}; there is nothing to cancel")
        with writing(folder.path):
            folder.cancel.touch()
    folder.note("cancelled")


def cancel_runs(runs: Iterable[str]) -> list[str]:
    """Cancel several runs, queued ones first, so that none of them starts meanwhile; gives those
    that were cancelled: a run that has ended stays as it is."""
    folders = sorted(map(find_run, runs), key=lambda folder: state_of(folder) != "queued")
    active = ("queued", "running")
    cancelled: list[str] = []
    for folder in folders:
        if state_of(folder) not in active:
            continue
        try:
            cancel(folder.id)
        except InputError:
            if state_of(folder) in active:
                raise
        else:
            cancelled.append(folder.id)
    return cancelled


def wait(run: str, progress: Callable[[int, int, int], None] | None = None) -> None:
    """Wait for a run's end; calls ``progress(items done, items planned, items failed)``.

    Raises WorkFailed when its worker died or it was cancelled. Ctrl-C cancels the run, waits for
    the current item, and is raised again.
    """
    looked = float("-inf")
    try:
        while True:
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                queue.tick()
            reap()
            now = status(run)
            if progress is not None:
                progress(now["done"] + now["failed"], now["planned"], now["failed"])
            if now["status"] not in ("queued", "running", "cancelling"):
                break
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        _stop(run)
        raise
    counted = f"after {now['done'] + now['failed']} of {now['planned']} items"
    if now["status"] == "cancelled":
        raise WorkFailed(f"run {run} was cancelled {counted}; resume it with: resume {run}")
    if now["status"] != "done":
        reason = f" ({now['reason']})" if now["reason"] else ""
        raise WorkFailed(
            f"the worker of run {run} died {counted}{reason}; see {find_run(run).log}; continue "
            f"with: resume {run}"
        )


def _stop(run: str) -> None:
    folder = find_run(run)
    if queue.leave(run) or state_of(folder) != "running":
        return
    folder.cancel.touch()
    folder.note("cancelled")
    deadline = time.monotonic() + STOP_PATIENCE_S
    while state_of(folder) == "cancelling" and time.monotonic() < deadline:
        time.sleep(POLL_S)
