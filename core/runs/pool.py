"""A run divided among worker processes, of this machine or of Ray.

The run's own process (:mod:`midchart.core.runs.worker`) holds the run's lock and writes all rows. A
worker is given a few shards and returns their rows; where it dies they are done again.

A place, as the command line says it: "" (here) is the run's own process; "cores" as many processes
as this machine has cores for it; "ray" a Ray that serves this run alone on loopback; and
"ray://HOST:PORT" the cluster whose first machine was started with ``ray start --head --port=PORT``.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from midchart.core import config as settings
from midchart.core.client.streams import Stopped
from midchart.core.egress import require_cluster
from midchart.core.egress.owners_list import RAY_PORT
from midchart.core.errors import InputError, MissingModel, WorkFailed, reason_of
from midchart.core.identity import resolve
from midchart.core.judges import JUDGES
from midchart.core.options import Options
from midchart.core.provenance import code_digest
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Experiment
from midchart.core.runs.job import Job
from midchart.core.runs.plan import ComponentSpec, Plan, Spec
from midchart.core.runs.planner import GPU, Destination, audit_destinations, open_permitted, wanted
from midchart.core.storage.rows import RowStore, Schema, literal

HERE, CORES, LOCAL = "here", "cores", "ray"
CALLS = "concurrency"
Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table → rows."""
Outcome: TypeAlias = tuple[list[tuple[str, Mapping[str, Any]]], str]
"""New rows of some shards with their tables, and why the rest has none, or ""."""
_ADDRESS = re.compile(
    r"ray://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[1-9]\d{0,4}))?/?"
)


def read_cluster(text: str) -> str:
    """A place in its one spelling, "" for here; raises InputError, MissingModel without Ray."""
    if text in ("", HERE):
        return ""
    match = _ADDRESS.fullmatch(text)
    if match is None and text not in (CORES, LOCAL):
        raise InputError(
            f"a run is done on 'here', 'cores', 'ray' or 'ray://HOST:PORT', not on {text!r}"
        )
    if text != CORES and importlib.util.find_spec("ray") is None:
        raise MissingModel(
            "a run on Ray needs the package ray; get it with: pip install -r docs/optional/ray.txt"
        )
    return f"ray://{match['host']}:{match['port'] or RAY_PORT}" if match else text


def named_cluster(cluster: str) -> str:
    """The cluster whose machines would see records; "" here and on a Ray made for the run alone.
    One whose first machine is this one may have others."""
    return cluster if cluster.startswith("ray://") else ""


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


def for_workers(plan: Plan, workers: int) -> Plan:
    """The plan of each of so many workers: without judges that have a budget, which the run's own
    process asks, and with a share of every component's concurrent calls."""

    def share(registry: Registry[Any], entry: ComponentSpec) -> ComponentSpec:
        field = getattr(registry.get(entry.name), "options_model", Options).model_fields.get(CALLS)
        if field is None:
            return entry
        calls = entry.options.get(CALLS, field.default)
        return replace(entry, options={**entry.options, CALLS: max(1, calls // workers)})

    judges = (share(JUDGES, one) for one in plan.judge_entries if not tracks_budget(JUDGES, one))
    readers = (share(READERS, one) for one in plan.reader_entries)
    return replace(plan, judge_entries=tuple(judges), reader_entries=tuple(readers))


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
    """A run as a worker opens it from the shared folder, in the name of who started it, with the
    same egress check; kept between calls, with its models."""
    folder = find_run(run)
    started_by = folder.started_by()
    resolve(lambda: started_by)
    plan, cluster = for_workers(folder.plan(), workers), named_cluster(folder.cluster())
    kind, cohort, _, egress = open_permitted(plan, folder.cohort_path(), cluster)
    rows, cancel = MemoryRows(kind.schemas, {}), folder.cancel
    return kind, Job(
        plan, cohort, rows, lambda _done, _failed: not cancel.exists(), folder.path, egress=egress
    )


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


class Workers(NamedTuple):
    """What a call of :func:`do_shards` raises whose worker died, how many workers there
    are now, and what submits such a call to one."""

    deaths: tuple[type[Exception], ...]
    room: Callable[[], int]
    submit: Callable[..., Future[Outcome]]


def _begin() -> None:
    """A worker of a core has one thread, and ends with the run's own process."""
    settings.one_thread()
    end = partial(_end_with, multiprocessing.parent_process())
    threading.Thread(target=end, daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def core_workers() -> Generator[Workers]:
    """A process for each core that this one may use."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()  # macOS has none
    room = len(cores) or os.cpu_count() or 1
    pool = ProcessPoolExecutor(room, multiprocessing.get_context("spawn"), _begin)
    try:
        yield Workers((BrokenProcessPool,), lambda: room, partial(pool.submit, do_shards))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


OWN = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "object_store_memory": 1 << 28}
"""Of a Ray that serves one run."""


@contextmanager
def ray_workers(cluster: str, gpu: bool) -> Generator[Workers]:
    """Workers of a cluster's machines that are up, a GPU each where ``gpu`` and it has one. Raises
    WorkFailed where none answers, EgressRefused where the installation's owner lists it not."""
    if named_cluster(cluster):
        require_cluster(cluster)  # what a cluster's head sends back is unpickled
    ray: Any = importlib.import_module("ray")  # by name: checks of types and layers need no Ray
    try:
        ray.init(
            address="local" if cluster == LOCAL else cluster.removeprefix("ray://"),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": settings.shared_environment()},
            **(OWN if cluster == LOCAL else {}),
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise WorkFailed(
            f"no Ray cluster answers at {cluster} ({type(error).__name__}); start its first "
            "machine with: ray start --head, and this command on a machine of the cluster"
        ) from None
    try:
        unit = "GPU" if gpu and ray.cluster_resources().get("GPU") else "CPU"
        # A worker stays for further calls, with its models (``max_calls``).
        resources = {"num_cpus": 1, "num_gpus": int(unit == "GPU"), "max_calls": 0}
        task = ray.remote(max_retries=0, **resources)(do_shards)
        yield Workers(
            (ray.exceptions.RayError,),
            lambda: max(1, int(ray.cluster_resources().get(unit, 0))),
            lambda *call: task.remote(*call).future(),  # pyright: ignore[reportUnknownLambdaType]
        )
    finally:
        ray.shutdown()  # ends the run's workers


LOOK_S, DRAIN_S = 0.2, 5.0
"""Between looks at the workers; for what is being done when the run is cancelled."""
ATTEMPTS, LONGEST, PIECES = 3, 16, 8
"""Times that workers are started before the shards over which they die are given up; shards of a
call at most; calls to a worker at least, where there are enough shards."""


def divide(job: Job, kind: Experiment, run: str, cluster: str) -> None:
    """Have the workers of a place do a run's shards; what cannot be divided is left to this
    process. Raises Stopped when the run is cancelled, WorkFailed where a shard cannot be done."""
    if host := named_cluster(cluster):
        machines = Destination("workers of the cluster", host, False, False, None, host)
        audit_destinations(run, job.cohort.manifest.name, [machines], len(job.cohort.records))
    todo = kind.shards(job.cohort, job.plan)
    for _ in range(ATTEMPTS):
        gpu = wanted(job.plan) == GPU
        with core_workers() if cluster == CORES else ray_workers(cluster, gpu) as place:
            job.watch("workers are at work, or being started")
            with suppress(*place.deaths):
                return _do(job, kind, run, place, todo)
    raise WorkFailed(
        f"workers died {ATTEMPTS} times (too little memory?), with {len(todo)} shards of the run "
        "to do; resume goes on with these"
    )


def _do(job: Job, kind: Experiment, run: str, place: Workers, todo: list[str]) -> None:
    """Do shards; each leaves ``todo`` with its rows. Raises one of the place's ``deaths``."""
    size = min(LONGEST, 1 + len(todo) // (PIECES * place.room()))
    parts = iter([todo[at : at + size] for at in range(0, len(todo), size)])
    doing: dict[Future[Outcome], list[str]] = {}

    def take(patience_s: float, until: str = FIRST_COMPLETED) -> None:
        """Write what workers return."""
        for future in wait_for(doing, patience_s, until).done:
            shards = doing.pop(future)
            rows, problem = future.result()
            for table, row in rows:
                job.write(table, row)
            if problem:
                raise WorkFailed(f"a worker cannot go on: {problem}")
            todo[:] = [shard for shard in todo if shard not in shards]

    try:
        while todo:
            for shards in islice(parts, 2 * place.room() - len(doing)):
                job.egress.ask_again()
                where = f"{kind.shard} IN ({', '.join(map(literal, shards))})"
                existing = {table: job.store.select(table, "*", where) for table in kind.schemas}
                doing[place.submit(run, place.room(), code_digest(), shards, existing)] = shards
            take(LOOK_S)
            job.notify()
    except Stopped:
        take(DRAIN_S, ALL_COMPLETED)
        raise
