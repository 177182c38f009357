"""Starting workers: slots of this machine, the queue of runs, and the worker's process.

A run takes a GPU's slot where it loads weights and this machine has a GPU, "ray" where Ray's
workers do its work, else the CPU's. A queued run is a complete run folder with ``queued.json``: its
place in the order and the kind of slot it wants. There is no scheduler process: every worker at its
end, and every status query, starts what may start (:func:`tick`) under one lock
(``data/runs/.queue.lock``). Places are counters, never times, so a changed clock changes nothing.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, overload

from core import config as settings
from core.arms import ARMS
from core.errors import InputError
from core.judges import JUDGES
from core.readers import READERS
from core.registry import Registry
from core.runs import status as state
from core.runs.cluster import LOCAL, named_cluster, on_loopback, read_place
from core.runs.directory import (
    RunDirectory,
    find_run,
    make_run,
    now,
    run_ids,
    waiting,
    write_json,
)  # fmt: skip
from core.runs.experiment import EXPERIMENTS
from core.runs.plan import READER, ComponentSpec, Plan
from core.runs.planner import plan
from core.runs.spec import read_spec
from core.storage.files import writing
from core.storage.lock import Lock, exclusive

BUSY = ("running", "cancelling")
CPU, GPU, RAY = "cpu", "gpu", "ray"
children: dict[str, subprocess.Popen[bytes]] = {}
"""Run → the worker that this process started and has not reaped yet."""


def slots() -> tuple[str, ...]:
    """The slots of this machine: "cpu", then "gpu 0" and so on by the GPUs' names."""
    return (CPU, *(f"{GPU} {name}" for name in settings.gpus()))


def wanted(plan: Plan) -> str:
    """ "gpu" for a run that trains or has a component that loads weights, else "cpu".

    A spec whose ``device`` is "cpu" keeps training off the GPUs.
    """
    trains = EXPERIMENTS.build(plan.kind).gpu and plan.options.get("device") != CPU
    if trains or plan.options.get("semantic"):
        return GPU
    for registry, name in _components(plan):
        factory = registry.get(name)
        if getattr(factory, "needs", None) or hasattr(factory, "mark"):
            return GPU
    return CPU


def _components(plan: Plan) -> Iterator[tuple[Registry[Any], str]]:
    for arm in plan.arms:
        yield ARMS, arm.name
        if READER in arm.options:
            yield READERS, ComponentSpec.read(arm.options[READER]).name
    yield from ((READERS, entry.name) for entry in plan.reader_entries)
    yield from ((JUDGES, entry.name) for entry in plan.judge_entries)


def _wanted_by(folder: RunDirectory) -> str:
    return RAY if folder.place() else wanted(folder.plan())


def fitting(wants: str) -> tuple[str, ...]:
    """The slots for a run that wants "cpu", "gpu" or "ray"."""
    if wants == RAY:
        return (RAY,)
    cpu, *gpus = slots()
    return tuple(gpus) if wants == GPU and gpus else (cpu,)


def launch(folder: RunDirectory, lock: Lock, slot: str = "") -> None:
    """Start a worker in a new session that inherits the lock; this process closes its copy.

    ``slot``: one of :func:`slots`, whose GPU alone the worker sees; without one it is the first
    that fits, and the worker sees this process's own GPUs. Raises InputError where the run's folder
    cannot be written.
    """
    where = slot or fitting(_wanted_by(folder))[0]
    gpu = None
    if slot and slot != RAY and len(slots()) > 1:
        gpu = slot.removeprefix(GPU).strip() if slot.startswith(GPU) else ""
    place = folder.place()
    token = secrets.token_hex(32) if place == LOCAL else ""
    ray = settings.ray_environment(on_loopback(place), token) if place else {}
    command = [sys.executable, "-m", "core.runs.worker", folder.id, "--lock-fd", str(lock.fd)]
    try:
        with writing(folder.path):
            folder.slot.write_text(where, encoding="utf-8")
            with folder.log.open("ab") as log:
                children[folder.id] = subprocess.Popen(
                    command,
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


def reap() -> None:
    """Collect ended workers of this process, so that none stays a zombie."""
    for run, child in list(children.items()):
        if child.poll() is not None:
            children.pop(run, None)


def enqueue(spec: str | Path | Mapping[str, Any], on: str = "") -> str:
    """Plan a spec and put it at the queue's end; gives the run's id.

    ``on``: where its work is done (:mod:`core.runs.cluster`). Raises as
    :func:`core.runs.process.start` does.
    """
    place = read_place(on)
    document = plan(read_spec(spec), named_cluster(place))
    runs = settings.runs_folder()
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with exclusive(_lock()):
            folder = make_run(document, queued=_place, place=place)
    tick()
    return folder.id


def put(folder: RunDirectory) -> None:
    """Put an existing run, whose lock the caller holds, at the queue's end."""
    with writing(folder.path), exclusive(_lock()):
        write_json(folder.queued, _place(folder))


def leave(run: str) -> bool:
    """Take a run out of the queue, as cancelled; False where it is not queued any more."""
    folder = find_run(run)
    with writing(folder.path), exclusive(_lock()):
        if state.state_of(folder) != "queued":
            return False
        folder.cancelled.touch()
        folder.queued.unlink(missing_ok=True)
    return True


def tick() -> str:
    """Start every queued run whose slot is free; gives why nothing could be started, or "".

    A run whose worker cannot be started stays queued.
    """
    reap()
    try:
        if not waiting():
            return ""
        with exclusive(_lock()):
            _start_queued()
    except (OSError, InputError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"nothing can be started from here: {settings.runs_folder()} ({why})"
    return ""


def _start_queued() -> None:
    folders = [RunDirectory(settings.runs_folder() / id) for id in run_ids()]
    busy = {state.slot_of(f) for f in folders if state.state_of(f) in BUSY}
    for folder, note in waiting():
        free = [slot for slot in fitting(note["wants"]) if slot not in busy]
        if not free or state.state_of(folder) != "queued":
            continue
        lock = Lock.take(folder.lock, patience_s=0.2)
        if lock is None:
            continue  # another process is resuming it
        busy.add(free[0])
        launch(folder, lock, free[0])
        # The worker removes the note as well: whichever is killed in between, it starts once.
        folder.queued.unlink(missing_ok=True)


def _lock() -> Path:
    return settings.runs_folder() / ".queue.lock"


def _place(folder: RunDirectory) -> dict[str, Any]:
    """The note of the run that is queued next; under the queue's lock."""
    last = max((note["place"] for _, note in waiting()), default=0)
    return {"place": last + 1, "wants": _wanted_by(folder), "since": now()}


@overload
def status(run: str) -> dict[str, Any]: ...
@overload
def status(run: None = None) -> list[dict[str, Any]]: ...


def status(run: str | None = None) -> dict[str, Any] | list[dict[str, Any]]:
    """:func:`core.runs.status.status`, after starting what may start.

    Where nothing can be started from here, the ``note`` of a queued run says why.
    """
    problem = tick()
    rows = state.status(run)
    for row in rows if isinstance(rows, list) else [rows]:
        if problem and row["status"] == "queued":
            row["note"] = problem
    return rows
