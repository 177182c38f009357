"""A run divided among worker processes, of this machine or of Ray.

The run's own process (:mod:`midchart.core.runs.worker`) holds the run's lock and writes all rows. A
worker is given a few shards and returns their rows; where it dies they are done again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from midchart.core import config as settings
from midchart.core.client.streams import Stopped
from midchart.core.egress import audit, require_cluster
from midchart.core.errors import WorkFailed, reason_of
from midchart.core.identity import resolve
from midchart.core.judges import JUDGES
from midchart.core.provenance import code_digest
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import EXPERIMENTS, Experiment
from midchart.core.runs.job import Job, chosen
from midchart.core.runs.plan import ComponentSpec, Plan
from midchart.core.runs.planner import (
    CORES,
    GPU,
    LOCAL,
    destinations,
    named_cluster,
    open_source,
    permit,
    tracks_budget,
    wanted,
)
from midchart.core.storage.rows import RowStore, Schema, literal

Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table → rows."""
Outcome: TypeAlias = tuple[list[tuple[str, Mapping[str, Any]]], str]
"""New rows of some shards with their tables, and why the rest has none, or ""."""
CALLS = "concurrency"


def for_workers(plan: Plan, workers: int) -> Plan:
    """The plan of each of so many workers: without judges that have a budget, which the run's own
    process asks, and with a share of every component's concurrent calls."""

    def share(registry: Registry[Any], entry: ComponentSpec) -> ComponentSpec:
        model = getattr(registry.get(entry.name), "options_model", None)
        if model is None or CALLS not in model.model_fields:
            return entry
        calls = entry.options.get(CALLS, model.model_fields[CALLS].default)
        return replace(entry, options={**entry.options, CALLS: max(1, calls // workers)})

    judges = [entry for entry in plan.judge_entries if not tracks_budget(JUDGES, entry)]
    return replace(
        plan,
        judge_entries=tuple(share(JUDGES, entry) for entry in judges),
        reader_entries=tuple(share(READERS, entry) for entry in plan.reader_entries),
    )


# A worker: it reads plan and cohort from the shared folder, makes the same egress check, and keeps
# its cohort and models between calls.


class MemoryRows(RowStore):
    """Tables in memory: the ``existing`` rows of some shards, and those ``added``."""

    def __init__(self, schemas: Mapping[str, Schema], existing: Rows) -> None:
        super().__init__(Path(), schemas)
        self._rows = {table: list(existing.get(table, ())) for table in schemas}
        self.added: list[tuple[str, Mapping[str, Any]]] = []

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """All rows of a table in order; plain columns only."""
        names = list(self.schemas[table]) if columns == "*" else columns.split(", ")
        return [{name: row[name] for name in names} for row in self._rows[table]]

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row."""
        self._rows[table].append(row)
        self.added.append((table, row))


@cache
def _opened(run: str, workers: int) -> tuple[Experiment, Job]:
    """A run in this process, in the name of who started it."""
    folder = find_run(run)
    started_by = folder.started_by()
    resolve(lambda: started_by)
    plan = for_workers(folder.plan(), workers)
    kind = EXPERIMENTS.build(plan.kind)
    cohort = kind.cohort(open_source(folder.cohort_path()), plan)
    leaving = destinations(plan, len(chosen(cohort, plan)))
    egress = permit(leaving, cohort, plan.allow_hosts, named_cluster(folder.cluster()))
    rows, cancel = MemoryRows(kind.schemas, {}), folder.cancel

    def goes_on(done: int, failed: int) -> bool:
        return not cancel.exists()

    return kind, Job(plan, cohort, rows, goes_on, folder.path, egress=egress)


def do_shards(run: str, workers: int, code: str, shards: Sequence[str], existing: Rows) -> Outcome:
    """Do what is not among the ``existing`` rows of some shards; ``code``: a hash of the code that
    wrote these. A run that is being cancelled ends after the item it is at."""
    added: list[tuple[str, Mapping[str, Any]]] = []
    try:
        if code != code_digest():
            raise WorkFailed("it has other code of Midchart than the run")
        kind, job = _opened(run, workers)
        rows = MemoryRows(kind.schemas, existing)
        added = rows.added
        job.restrict(shards, rows)
        kind.execute(job)
    except Stopped:
        pass
    except Exception as error:  # noqa: BLE001 - its text may quote a record: only its line is reported
        return added, reason_of(error)
    return added, ""


# Two places of workers. A call whose worker died raises one of ``deaths``.


def _begin() -> None:
    settings.one_thread()  # as every core has a worker
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Cores:
    """A process for each core that this one may use."""

    where, deaths = "this machine", (BrokenProcessPool,)

    def __init__(self) -> None:
        # Of the machine, where the system does not say (macOS).
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        self.room = len(cores) or os.cpu_count() or 1
        self._pool = ProcessPoolExecutor(self.room, multiprocessing.get_context("spawn"), _begin)

    def submit(self, *call: Any) -> Future[Outcome]:
        """Have a process call :func:`do_shards`."""
        return self._pool.submit(do_shards, *call)

    def close(self) -> None:
        """End all processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


SHARED = ("MIDCHART_DATA", "MIDCHART_CACHE", "MIDCHART_MODELS", "MIDCHART_STATE", "PYTHONPATH")
"""What a worker's environment on Ray has from the run's own process: folders that every machine
sees. Keys of services are read on its own machine."""
LOOPBACK = {
    "include_dashboard": False,
    "_node_ip_address": "127.0.0.1",
    "object_store_memory": 256 << 20,
}


class Ray:
    """Workers of a cluster, a GPU each where ``gpu`` and the cluster has one. Raises WorkFailed
    where none answers, EgressRefused for one that the installation's owner has not listed."""

    where = "the cluster"

    def __init__(self, cluster: str, gpu: bool) -> None:
        if named_cluster(cluster):
            require_cluster(cluster)  # what a cluster's head sends back is unpickled
        # Not by a statement: the checks of types and layers need no Ray.
        self._ray: Any = import_module("ray")
        self.deaths = (self._ray.exceptions.RayError,)
        environment = settings.worker_environment()
        shared = {name: environment[name] for name in SHARED if name in environment}
        shared["PYTHONPATH"] = ":".join((str(settings.ROOT), shared.get("PYTHONPATH", "")))
        try:
            self._ray.init(
                address="local" if cluster == LOCAL else cluster.removeprefix("ray://"),
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": shared},
                **(LOOPBACK if cluster == LOCAL else {}),
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise WorkFailed(
                f"no Ray cluster answers at {cluster} ({type(error).__name__}); start its first "
                "machine with: ray start --head, and this command on a machine of the cluster"
            ) from None
        self._unit = "GPU" if gpu and self._ray.cluster_resources().get("GPU") else "CPU"
        # A worker stays for further calls, with its models (``max_calls``).
        resources = {"num_cpus": 1, "num_gpus": int(self._unit == "GPU"), "max_calls": 0}
        self._task = self._ray.remote(max_retries=0, **resources)(do_shards)

    @property
    def room(self) -> int:
        """Number of workers on the machines that are up; one that comes later is waited for."""
        return max(1, int(self._ray.cluster_resources().get(self._unit, 0)))

    def submit(self, *call: Any) -> Future[Outcome]:
        """Have a worker call :func:`do_shards`."""
        return self._task.remote(*call).future()

    def close(self) -> None:
        """Leave the cluster, which ends the run's workers."""
        self._ray.shutdown()


# The pass over all shards.


LOOK_S = 0.2
ATTEMPTS = 3
"""Times that workers are started before this pass gives up the shards over which they die."""
DRAIN_S = 5.0
"""How long a cancelled run waits for the items that are being done."""
LONGEST, PIECES = 16, 8
"""Shards of a call at most; calls to a worker at least, where there are enough shards."""


def divide(job: Job, kind: Experiment, run: str, cluster: str) -> None:
    """Have the workers of a place do a run's shards; what cannot be divided is left to this
    process. Raises Stopped when the run is cancelled, WorkFailed where a shard cannot be done."""
    if not kind.shard:
        return
    if host := named_cluster(cluster):
        name, records = job.cohort.manifest.name, len(job.cohort.records)
        where = {"host": host, "encrypted": False, "purpose": "workers of the cluster"}
        audit.note("left", run=run, cohort=name, records=records, items=None, **where)
    todo = kind.shards(job.cohort, job.plan)
    for _ in range(ATTEMPTS):
        place = Cores() if cluster == CORES else Ray(cluster, wanted(job.plan) == GPU)
        job.watch(f"workers of {place.where} are at work, or being started")
        try:
            return _do(job, kind, run, place, todo)
        except place.deaths:
            continue
        finally:
            place.close()
    raise WorkFailed(
        f"workers died {ATTEMPTS} times (too little memory?), with {len(todo)} shards of the run "
        "to do; resume goes on with these"
    )


def _do(job: Job, kind: Experiment, run: str, place: Cores | Ray, todo: list[str]) -> None:
    """Do shards; each leaves ``todo`` with its rows. Raises one of the place's ``deaths``."""
    size = min(LONGEST, 1 + len(todo) // (PIECES * place.room))
    parts = iter([todo[at : at + size] for at in range(0, len(todo), size)])
    doing: dict[Future[Outcome], list[str]] = {}

    def submit(shards: list[str]) -> None:
        job.egress.ask_again()
        where = f"{kind.shard} IN ({', '.join(map(literal, shards))})"
        existing = {table: job.store.select(table, "*", where) for table in job.store.schemas}
        doing[place.submit(run, place.room, code_digest(), shards, existing)] = shards

    def take(patience_s: float, until: str = FIRST_COMPLETED) -> None:
        """Write what workers return."""
        for future in wait_for(doing, patience_s, until).done:
            shards = doing.pop(future)
            rows, problem = future.result()
            for table, row in rows:
                job.write(table, row)
            if problem:
                raise WorkFailed(f"a worker of {place.where} cannot go on: {problem}")
            todo[:] = [shard for shard in todo if shard not in shards]

    try:
        while todo:
            for shards in islice(parts, 2 * place.room - len(doing)):
                submit(shards)
            take(LOOK_S)
            job.notify()
    except Stopped:
        take(DRAIN_S, ALL_COMPLETED)
        raise
