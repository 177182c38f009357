"""Where a run is done, and a run divided among worker processes, of this machine or of Ray.

As the command line says it: "" (here) is the run's own process; "cores" as many processes as this
machine has cores for it; "ray" a Ray that serves this run alone, listens on loopback and uses all
of this machine; "ray://HOST:PORT" the cluster whose first machine was started with ``ray start
--head --port=PORT``.

The run's own process (:mod:`midchart.core.runs.worker`) holds the run's lock and writes all rows. A
worker is given a few shards and returns their rows; where it dies they are done again.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import multiprocessing
import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from midchart.core import config as settings
from midchart.core.arms import ARMS
from midchart.core.egress import audit, require_cluster
from midchart.core.egress.owners_list import RAY_PORT
from midchart.core.errors import InputError, MissingModel, WorkFailed, reason_of
from midchart.core.identity import resolve
from midchart.core.judges import JUDGES
from midchart.core.provenance import code_digest
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import EXPERIMENTS, Experiment
from midchart.core.runs.job import Job, Stopped, chosen
from midchart.core.runs.plan import ComponentSpec, Plan, Spec
from midchart.core.runs.planner import destinations, open_source, permit
from midchart.core.storage.rows import RowStore, Schema, literal

HERE, CORES, LOCAL = "here", "cores", "ray"
CPU, GPU = "cpu", "gpu"
_ADDRESS = re.compile(r"ray://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?")


def read_cluster(text: str) -> str:
    """A place in its one spelling: "cores", "ray" or "ray://HOST:PORT", "" for here.

    Raises InputError, MissingModel where Ray is not installed.
    """
    if text in ("", HERE, CORES):
        return "" if text == HERE else text
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or RAY_PORT) if match else 0
    if text != LOCAL and (match is None or not 0 < port < 65536):
        raise InputError(
            f"a run is done on 'here', 'cores', 'ray' or 'ray://HOST:PORT', not on {text!r}"
        )
    if importlib.util.find_spec("ray") is None:
        raise MissingModel(
            "a run on Ray needs the package ray; get it with: pip install -r docs/optional/ray.txt"
        )
    return f"ray://{match['host']}:{port}" if match else LOCAL


def on_ray(cluster: str) -> bool:
    """Whether Ray starts the workers of a place."""
    return cluster == LOCAL or cluster.startswith("ray://")


def named_cluster(cluster: str) -> str:
    """The cluster whose machines would see records; "" here and on a Ray made for the run alone.

    One whose first machine is this one may have others, so its address does not decide.
    """
    return cluster if cluster.startswith("ray://") else ""


def wanted(plan: Spec) -> str:
    """ "gpu" for a run that trains or has a component that loads weights, else "cpu".

    A spec whose ``device`` is "cpu" keeps training off the GPUs.
    """
    trains = EXPERIMENTS.build(plan.kind).gpu and plan.options.get("device") != CPU
    components: list[tuple[Registry[Any], str]] = [
        *((ARMS, arm.name) for arm in plan.arms),
        *((READERS, entry.name) for entry in (*plan.reader_entries, *plan.readers_of_arms)),
        *((JUDGES, entry.name) for entry in plan.judge_entries),
    ]
    factories = [registry.get(name) for registry, name in components]
    loads = any(getattr(one, "needs", None) or hasattr(one, "mark") for one in factories)
    return GPU if trains or loads or plan.options.get("semantic") else CPU


def tracks_budget(registry: Registry[Any], entry: ComponentSpec) -> bool:
    """Whether a reader or judge has a budget, which one process tracks."""
    return "folder" in inspect.signature(registry.get(entry.name)).parameters


def require_divisible(plan: Spec, cluster: str) -> None:
    """Refuse a run that cannot be divided among the workers of a place; raises InputError."""
    readers = (*plan.reader_entries, *plan.readers_of_arms)
    paid = [entry.label for entry in readers if tracks_budget(READERS, entry)]
    if cluster and paid:
        raise InputError(
            f"the reader {paid[0]!r} keeps a budget, which one process tracks: do the run without "
            "workers (--on here)"
        )
    if cluster == CORES and wanted(plan) == GPU and settings.gpus():
        raise InputError(
            "this run uses a GPU, which processes would share: do it in one process (--on here), "
            "or with a worker for each GPU (--on ray)"
        )


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
    """Do what is not among the ``existing`` rows of some shards; a run that is being cancelled ends
    after the item it is at. ``code``: a hash of the code that wrote the existing rows."""
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
sees. Keys of services are read by a worker on its own machine."""
LOOPBACK = {
    "include_dashboard": False,
    "_node_ip_address": "127.0.0.1",
    "object_store_memory": 256 << 20,
}


class Ray:
    """Workers of a cluster, a GPU each where ``gpu`` and the cluster has one.

    Raises WorkFailed where no cluster answers, EgressRefused for one that the installation's owner
    has not listed.
    """

    where = "the cluster"

    def __init__(self, cluster: str, gpu: bool) -> None:
        if named_cluster(cluster):
            require_cluster(cluster)  # what a cluster's head sends back is unpickled
        # Not by a statement: the checks of types and layers need no Ray.
        self._ray: Any = importlib.import_module("ray")
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
    todo = deque(kind.shards(job.cohort, job.plan))
    for _ in range(ATTEMPTS):
        place = Cores() if cluster == CORES else Ray(cluster, wanted(job.plan) == GPU)
        job.watch(f"workers of {place.where} are at work, or being started")
        try:
            _do(job, kind, run, place, todo)
        finally:
            place.close()
        if not todo:
            return
    raise WorkFailed(
        f"workers died {ATTEMPTS} times (too little memory?), with {len(todo)} shards of the run "
        "to do; resume goes on with these"
    )


def _do(job: Job, kind: Experiment, run: str, place: Cores | Ray, todo: deque[str]) -> None:
    """Do shards and take them from ``todo``, until none is left or a worker has died."""
    call = run, place.room, code_digest()
    size = min(LONGEST, 1 + len(todo) // (PIECES * place.room))
    doing: dict[Future[Outcome], list[str]] = {}
    died = False

    def take(done: Iterable[Future[Outcome]]) -> None:
        """Write what workers returned."""
        nonlocal died
        for future in done:
            shards = doing.pop(future)
            try:
                rows, problem = future.result()
            except place.deaths:
                died = True
                todo.extend(shards)
                continue
            for table, row in rows:
                job.write(table, row)
            if problem:
                raise WorkFailed(f"a worker of {place.where} cannot go on: {problem}")

    try:
        while doing or (todo and not died):
            while todo and not died and len(doing) < 2 * place.room:
                job.egress.ask_again()
                shards = [todo.popleft() for _ in range(min(size, len(todo)))]
                where = f"{kind.shard} IN ({', '.join(map(literal, shards))})"
                tables = job.store.schemas
                existing = {table: job.store.select(table, "*", where) for table in tables}
                try:
                    doing[place.submit(*call, shards, existing)] = shards
                except place.deaths:
                    died = True
                    todo.extend(shards)
            take(wait_for(doing, LOOK_S, FIRST_COMPLETED).done)
            job.notify()
    except Stopped:
        take(wait_for(doing, DRAIN_S).done)
        raise
