"""The process that does a run: ``python -m midchart.core.runs.worker RUN [--lock-fd N]``.

It holds the run's lock while it lives. Standard output and error go to the run's log, which never
holds text of a record: an error is named by its type and line.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from midchart.core.client.streams import Stopped
from midchart.core.confinement import give_up_network
from midchart.core.errors import InputError, reason_of
from midchart.core.format import time_left
from midchart.core.identity import resolve
from midchart.core.provenance import now, versions
from midchart.core.runs.directory import (
    DIGESTS,
    RunDirectory,
    find_run,
    row_digests,
    take_lock,
    write_json,
)
from midchart.core.runs.job import Job, chosen
from midchart.core.runs.planner import (
    audit_destinations,
    calls_nobody,
    open_permitted,
    preflight,
)
from midchart.core.runs.pool import LOCAL, divide, named_cluster
from midchart.core.runs.process import tick
from midchart.core.runs.status import plan_warnings
from midchart.core.storage.lock import Lock
from midchart.core.storage.rows import LineWriter

NOTIFY_S, UNCHANGED_S = 0.3, 5.0
"""Seconds between progress events, with and without new rows."""


def do_run(folder: RunDirectory) -> str:
    """Finish a run whose lock this process holds; "done" or "cancelled"."""
    # Events of the run: state, progress at intervals.
    plan = folder.plan()
    store = folder.store(plan)
    events = LineWriter(folder.events)
    start = time.monotonic()
    notified = [float("-inf"), -1.0]  # time and number of rows of the last progress event
    cancel = str(folder.cancel)
    begun: list[tuple[float, int]] = []  # the same of the first progress

    def notify(event: str, **facts: Any) -> None:
        events.append({"time": now(), "event": event, **facts})

    def counts(done: int, failed: int) -> dict[str, int]:
        return {"done": done, "failed": failed, "planned": plan.planned}

    def progress(done: int, failed: int) -> bool:
        moment, total = time.monotonic(), done + failed
        patience = NOTIFY_S if total != notified[1] else UNCHANGED_S
        if moment - notified[0] > patience or plan.planned == total != notified[1]:
            notified[:] = moment, total
            since, before = begun[0] if begun else (moment, total)
            begun[:] = [(since, before)]
            left = time_left(total - before, moment - since, plan.planned - total)
            seconds = round(moment - start, 2)
            notify("progress", **counts(done, failed), seconds=seconds, seconds_left=left)
        return not os.path.exists(cancel)  # noqa: PTH110 - called after each item, and cheaper

    try:
        folder.queued.unlink(missing_ok=True)
        notify("started", versions=versions())
        for warning in store.reopen():
            print(f"{now()} warning: {warning}", flush=True)
        # The cohort, and a check of where text would be sent.
        cluster = folder.cluster()
        receiver = named_cluster(cluster)
        kind, cohort, listed, egress = open_permitted(plan, folder.cohort_path(), receiver)
        patients = kind.patients(cohort, chosen(cohort, plan))
        audit_destinations(folder.id, cohort.manifest.name, listed, patients)

        def note(text: str) -> None:
            notify("note", text=text)

        # The items: here, or on a cluster.
        job = Job(plan, cohort, store, progress, folder.path, note, egress)
        try:
            job.begin()
            if not receiver and not job.done + job.failed:  # it may have been queued for long
                preflight(plan, egress)
            if cluster and kind.shard:
                divide(job, kind, folder.id, cluster)
            kind.execute(job)
        except Stopped:
            if job.done + job.failed < plan.planned:
                store.close()
                seconds = round(time.monotonic() - start, 2)
                notify("progress", **counts(job.done, job.failed), seconds=seconds)
                notify("cancelled")
                folder.cancelled.touch()
                return "cancelled"
        # Rows as Parquet, and the note that the run is done.
        store.compact()
        finished: Mapping[str, Any] = {
            "run": folder.id,
            "finished": now(),
            "seconds": round(time.monotonic() - start, 3),
            "planned": plan.planned,
            "done": job.done,
            "failed": job.failed,
        }
        notify("finished", **finished)
        for warning in plan_warnings("done", job.done + job.failed, plan.planned):
            print(f"{now()} warning: {warning}", flush=True)
        write_json(folder.done, {**finished, DIGESTS: row_digests(folder)})
        return "done"
    except Exception as error:
        notify("failed", reason=reason_of(error))
        raise
    finally:
        store.close()
        events.close()


def _follow(folder: RunDirectory, lock: Lock) -> None:
    """Leave the start of the next run to a fork, which waits for the end of this process and keeps
    its network."""
    if os.fork():
        return
    lock.release()
    with folder.lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    tick()
    os._exit(0)


def _without_network(folder: RunDirectory) -> None:
    """Give up the network where the run needs none, and note it if no part of it had one."""
    first = folder.unreachable.exists() or not any(folder.items.iterdir())
    folder.unreachable.unlink(missing_ok=True)
    on_ray = folder.cluster().startswith(LOCAL)
    if not on_ray and calls_nobody(folder.plan()) and give_up_network() and first:
        folder.unreachable.touch()


def main(arguments: list[str] | None = None) -> int:
    """Do a run (RUN [FD], its lock's descriptor); exit status 0 done or cancelled, 1 failed, 2
    already running."""
    run, *lock_fd = sys.argv[1:] if arguments is None else arguments
    try:
        folder = find_run(run)
        lock = Lock.inherited(int(lock_fd[0])) if lock_fd else take_lock(folder)
    except InputError as error:
        print(f"{now()} refused: {error}", file=sys.stderr)
        return error.exit_status
    print(f"{now()} started", flush=True)
    _follow(folder, lock)
    try:
        _without_network(folder)
        started_by = folder.started_by()
        resolve(lambda: started_by)
        outcome = do_run(folder)
        print(f"{now()} {outcome}", flush=True)
        return 0
    except Exception as error:  # noqa: BLE001 - its text may quote a record
        print(f"{now()} failed: {reason_of(error)}", flush=True)
        return 1
    finally:
        lock.release()


if __name__ == "__main__":
    sys.exit(main())
