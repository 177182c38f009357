"""Start, queue, wait for, resume and cancel runs; slots of this machine; the worker's process.

A run takes a GPU's slot where it loads weights and this machine has a GPU, "ray" where Ray's
workers do its work, else the CPU's. A queued run is a complete run folder with ``queued.json``.
There is no scheduler process: every worker at its end, and every status query, starts what may
start (:func:`tick`) under one lock. Queue numbers are counters, so a changed clock changes nothing.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import RunRef, SpecRef, needs
from midchart.core.client.claude import Work, call_log
from midchart.core.errors import InputError, WorkFailed
from midchart.core.identity import person
from midchart.core.named_files import shown_path
from midchart.core.provenance import now
from midchart.core.runs import status as state
from midchart.core.runs.directory import (
    RunDirectory,
    find_run,
    make_run,
    take_lock,
    waiting,
    write_json,
)
from midchart.core.runs.gate_checkpoints import refuse_others
from midchart.core.runs.plan import ComponentSpec, Plan
from midchart.core.runs.planner import (
    CPU,
    GPU,
    digest_of,
    open_source,
    permit,
    plan,
    wanted,
    weights_used,
)
from midchart.core.runs.pool import LOCAL, named_cluster, read_cluster, require_divisible
from midchart.core.runs.spec import read_spec
from midchart.core.runs.status import ACTIVE, AT_WORK, slot_of, state_of
from midchart.core.storage.files import writing
from midchart.core.storage.jsonl import add_line
from midchart.core.storage.lock import Lock, exclusive

ON_LOOPBACK = (LOCAL, "ray://127.0.0.1:", "ray://localhost:")
"""Places that this machine's loopback reaches."""
RAY = LOCAL
children: dict[str, subprocess.Popen[bytes]] = {}
"""Run → the worker that this process started and has not reaped yet."""


def _wanted_by(folder: RunDirectory) -> str:
    return RAY if folder.cluster().startswith(RAY) else wanted(folder.plan())


def _fitting(wants: str) -> list[str]:
    """The slots for a run that wants "cpu", "gpu" or "ray": of GPUs by their names ("gpu 0")."""
    gpus = [f"{GPU} {name}" for name in settings.gpus()] if wants == GPU else []
    return gpus or [RAY if wants == RAY else CPU]


def launch(folder: RunDirectory, lock: Lock, slot: str = "") -> None:
    """Start a worker in a new session that inherits the lock; this process closes its copy.

    ``slot``: one of :func:`_fitting`, whose GPU alone the worker sees; without one it is the first
    that fits, and the worker sees this process's own GPUs. Raises InputError.
    """
    where = slot or _fitting(_wanted_by(folder))[0]
    gpu = None
    if slot and slot != RAY and settings.gpus():
        gpu = slot.removeprefix(GPU).strip() if slot.startswith(GPU) else ""
    cluster = folder.cluster()
    token = secrets.token_hex(32) if cluster == LOCAL else ""
    loopback = cluster.startswith(ON_LOOPBACK)
    ray = settings.ray_environment(loopback, token) if cluster.startswith(RAY) else {}
    worker = [sys.executable, "-m", "midchart.core.runs.worker"]
    try:
        with writing(folder.path):
            folder.slot.write_text(where, encoding="utf-8")
            with folder.log.open("ab") as log:
                children[folder.id] = subprocess.Popen(
                    [*worker, folder.id, str(lock.fd)],
                    cwd=settings.ROOT,
                    env={**settings.worker_environment(gpu), **ray},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock.fd,),
                    start_new_session=True,
                )
    finally:
        lock.release()


def _reap() -> None:
    """Collect ended workers of this process, so that none stays a zombie."""
    for run, child in list(children.items()):
        if child.poll() is not None:
            children.pop(run, None)


# The queue.


@needs("researcher")
def enqueue(spec: SpecRef, on: str = "") -> str:
    """As :func:`start`, but at the end of the queue."""
    return start(spec, on, at_once=False)


@needs("researcher")
def start(spec: SpecRef, on: str = "", at_once: bool = True) -> str:
    """Plan a spec (a TOML file's path, or a mapping), start its worker, give the run's id.

    ``on``: where its work is done, "" for here (:mod:`midchart.core.runs.planner`). Without
    ``at_once``
    it is queued. Raises InputErrors before any folder is made.
    """
    cluster, asked = read_cluster(on), read_spec(spec)
    require_divisible(asked, cluster)
    document = plan(asked, named_cluster(cluster))
    runs = settings.runs_folder()
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with exclusive(_lock()):
            folder = make_run(document, cluster, _queue)
            if at_once:
                launch(folder, take_lock(folder))
                folder.queued.unlink(missing_ok=True)
    tick()
    return folder.id


def tick() -> str:
    """Start every queued run whose slot is free; gives why nothing could be started, or "".

    A run whose worker cannot be started stays queued.
    """
    _reap()
    try:
        if waiting():
            with exclusive(_lock()):
                _start_queued()
    except (OSError, InputError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"nothing can be started from here: {shown_path(settings.runs_folder())} ({why})"
    return ""


def _start_queued() -> None:
    busy = {slot_of(f) for f in state.newest_first() if state_of(f) in AT_WORK}
    for folder, note in waiting():
        free = [slot for slot in _fitting(note["wants"]) if slot not in busy]
        if not free or state_of(folder) != "queued":
            continue
        if (lock := Lock.take(folder.lock, patience_s=0.2)) is None:
            continue  # another process is resuming it
        busy.add(free[0])
        launch(folder, lock, free[0])
        # The worker removes the note as well: whichever is killed in between, it starts once.
        folder.queued.unlink(missing_ok=True)


def _lock() -> Path:
    return settings.runs_folder() / ".queue.lock"


def _queue(folder: RunDirectory) -> None:
    """Put a run at the queue's end; under the queue's lock."""
    last = max((note["queue_number"] for _, note in waiting()), default=0)
    note = {"queue_number": last + 1, "wants": _wanted_by(folder), "since": now()}
    write_json(folder.queued, note)


@needs("viewer", paths=("data",))
def status(run: RunRef | None = None) -> Any:
    """:func:`midchart.core.runs.status.status`, after starting what may start; the ``note`` of a
    queued run says why nothing can be started from here."""
    problem = tick()
    rows = state.status(run)
    for row in rows if isinstance(rows, list) else [rows]:
        if problem and row["status"] == "queued":
            row["note"] = problem
    return rows


# Start, resume, cancel, wait.


POLL_S = 0.1
LOOK_S = 1.0
"""Seconds between two looks of a waiting command at the queue."""
STOP_PATIENCE_S = 30.0


@needs("researcher")
def resume(
    run: RunRef, budget_usd: float | None = None, queued: bool = False, on: str | None = None
) -> str:
    """Resume a run that crashed, was cancelled or has failed items; gives its id.

    At once, or with ``queued`` as soon as its slot is free; a finished run without failed items is
    left as it is. ``budget_usd``: a new budget of every judge and reader that has one, for the
    whole run. ``on``: another place for its work. Raises InputError where it is running, where
    cohort files, a reader's weights or an arm's gate have changed, or where the place cannot or may
    not do it.
    """
    # A run that can be resumed, under its lock.
    cluster = None if on is None else read_cluster(on)
    folder = find_run(run)
    if folder.imported.exists():
        raise InputError(
            f"run {run} was imported from another installation and is read-only; repeat it with "
            "the REPRODUCE.toml of its export"
        )
    lock = take_lock(folder)
    try:
        with exclusive(settings.imports_lock()):  # a removal that has begun ends, and any other
            find_run(run)  # sees that the run is at work
        if folder.queued.exists():
            raise InputError(f"run {run} is queued already; cancel it to remove it")
        now = state.status(run)
        if folder.done.exists() and not now["failed"]:
            return run
        # Refuse other data, other weights, a cluster or gates that are not permitted.
        started, data = folder.plan(), folder.cohort_path()
        if digest_of(data) != started.digest:
            raise InputError(
                f"run {run} started with other files than {data} contains now; "
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
        place = folder.cluster() if cluster is None else cluster
        require_divisible(started, place)
        receiver = named_cluster(place)
        if receiver:
            permit((), open_source(data), (), receiver)
        refuse_others(folder.path, started.arms, started.protocol)
        # Note it, and start the worker or queue the run.
        folder.note("resumed")
        if budget_usd is not None:
            _set_budget(folder, started, budget_usd)
        if cluster is not None:
            with writing(folder.path):
                folder.cluster_note.write_text(cluster, encoding="utf-8")
        if queued:
            with writing(folder.path), exclusive(_lock()):
                _queue(folder)
        with writing(folder.path):
            for note in (folder.cancel, folder.cancelled, folder.done):
                note.unlink(missing_ok=True)
        if not queued:
            launch(folder, lock)
    finally:
        lock.release()
    tick()
    return run


def _set_budget(folder: RunDirectory, started: Plan, budget_usd: float) -> None:
    if not 0 < budget_usd < 1e9:
        raise InputError("a budget is US dollars above 0")
    readers = (*started.reader_entries, *started.readers_of_arms)
    paid: list[tuple[Work, ComponentSpec]] = [
        *(("judging", one) for one in started.judge_entries if one.options.get("budget_usd")),
        *(("reading", one) for one in readers if one.options.get("budget_usd")),
    ]
    if not paid:
        raise InputError(
            f"no judge and no reader of run {folder.id} has a budget; there is none to change"
        )
    for file in {call_log(folder.path, entry.label, work) for work, entry in paid}:
        if file is not None:
            add_line(file, {"event": "budget", "usd": budget_usd, "who": person().name})


@needs("researcher")
def cancel(run: RunRef) -> None:
    """Stop a running worker after the current item, or take a run out of the queue.

    Raises InputError where it is neither running nor queued.
    """
    if not cancel_runs([run]):
        raise InputError(f"run {run} is {state_of(find_run(run))}; there is nothing to cancel")


@needs("researcher")
def cancel_runs(runs: Iterable[RunRef]) -> list[str]:
    """Cancel several runs, queued ones first, so that none of them starts meanwhile; gives those
    that were cancelled: a run that has ended stays as it is."""
    folders = sorted(map(find_run, runs), key=lambda folder: state_of(folder) != "queued")
    cancelled: list[str] = []
    for folder in folders:
        with writing(folder.path), exclusive(_lock()):
            state_now = state_of(folder)
            if state_now == "queued":
                folder.cancelled.touch()
                folder.queued.unlink(missing_ok=True)
            elif state_now in AT_WORK:
                folder.cancel.touch()
        if state_now in ACTIVE:
            folder.note("cancelled")
            cancelled.append(folder.id)
    return cancelled


@needs("researcher")
def wait(
    run: RunRef, progress: Callable[[int, int, int, float | None], None] | None = None
) -> None:
    """Wait for a run's end; ``progress`` is called with items done, planned, failed, seconds left.

    Raises WorkFailed when its worker died or it was cancelled. Ctrl-C cancels the run, waits for
    the current item, and is raised again.
    """
    looked = float("-inf")
    try:
        while True:
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                tick()
            _reap()
            now = state.status(run)
            if progress is not None:
                finished = now["done"] + now["failed"]
                progress(finished, now["planned"], now["failed"], now["seconds_left"])
            if now["status"] not in ACTIVE:
                break
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        cancel_runs([run])
        deadline = time.monotonic() + STOP_PATIENCE_S
        while state_of(find_run(run)) == "cancelling" and time.monotonic() < deadline:
            time.sleep(POLL_S)
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
