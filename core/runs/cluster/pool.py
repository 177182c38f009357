"""The driver of a run on Ray: its connection, the work in batches, and a pool of workers.

Every row that a worker sends is written at once by this process, which holds the run's lock. A
worker that dies gives its batch back, with the rows that exist by then.
"""

from __future__ import annotations

import importlib
import logging
import platform
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from core import config as settings
from core.egress import audit
from core.errors import WorkFailed
from core.provenance import code_digest
from core.runs.cluster.place import LOCAL, address_of
from core.runs.cluster.remote import END, NOTE, ROW, Message, RayWorker
from core.runs.experiment import Experiment
from core.runs.job import Job, Stopped
from core.storage.query import literal

SHARED = ("MIDCHART_DATA", "MIDCHART_CACHE", "MIDCHART_MODELS", "PYTHONPATH", "PYTHONUNBUFFERED")
"""What a worker's environment has from the run's own process: places that every machine sees.

Keys of services are not among them: a worker reads them on its own machine, so that they pass
through nobody's logs."""
OBJECTS = 256 << 20
"""Bytes of memory for rows on their way, of a Ray of the run's own."""


class Session:
    """A connection to Ray; ``gpu``: workers get a GPU each where the cluster has one."""

    def __init__(self, ray: Any, gpu: bool) -> None:
        self.ray = ray
        self._wants_gpu, self._gpu = gpu, False

    def _offered(self, resource: str) -> int:
        return sum(
            int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"]
        )

    @property
    def gpu(self) -> bool:
        """Whether workers get a GPU each; stays true once the cluster had one."""
        self._gpu = self._gpu or (self._wants_gpu and self._offered("GPU") > 0)
        return self._gpu

    def room(self) -> int:
        """Number of workers that the machines now up have room for."""
        return self._offered("GPU" if self.gpu else "CPU")

    def worker(self, run: str) -> Any:
        """A new worker; Ray does not restart it: :class:`Pool` replaces what died."""
        resources = {"num_cpus": 1, "num_gpus": 1} if self.gpu else {"num_cpus": 1}
        actor = self.ray.remote(max_restarts=0, max_task_retries=0, **resources)(RayWorker)
        return actor.remote(run)


@contextmanager
def connected(place: str, gpu: bool) -> Generator[Session]:
    """A session at a place; raises WorkFailed where no cluster answers there."""
    # Not by a statement: the checks of types and layers need no Ray.
    ray: Any = importlib.import_module("ray")
    environment = settings.worker_environment()
    shared = {name: environment[name] for name in SHARED if name in environment}
    shared["PYTHONPATH"] = ":".join(
        part for part in (str(settings.ROOT), environment.get("PYTHONPATH", "")) if part
    )
    options: dict[str, Any] = {}
    if place == LOCAL:
        options = {
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "object_store_memory": OBJECTS,
        }
    try:
        ray.init(
            address=address_of(place),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": shared},
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise WorkFailed(
            f"no Ray cluster answers at {place} ({type(error).__name__}); start its first machine "
            "with: ray start --head, and this command on a machine of the cluster"
        ) from None
    try:
        yield Session(ray, gpu)
    finally:
        ray.shutdown()


BATCHES_EACH = 16
"""Batches for each worker: few enough to be cheap, enough for the last workers to end together."""
PIECES = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """Shards that a worker executes one after another; ``deaths``: workers that died over them."""

    shards: tuple[str, ...]
    deaths: int = 0

    def after_death(self) -> list[Batch]:
        """Smaller batches to retry, down to one shard each."""
        each = -(-len(self.shards) // PIECES)
        parts = [self.shards[i : i + each] for i in range(0, len(self.shards), each)]
        return [Batch(part, self.deaths + 1) for part in parts]


def batches(shards: Sequence[str], room: int) -> deque[Batch]:
    """All shards in batches, for so many workers."""
    each = max(1, -(-len(shards) // (BATCHES_EACH * max(1, room))))
    return deque(Batch(tuple(shards[i : i + each])) for i in range(0, len(shards), each))


class Started:
    """Which shards have rows, so that a batch without any needs no query."""

    def __init__(self, job: Job, kind: Experiment) -> None:
        self._job, self._column = job, kind.shard
        self._shards = {
            row["shard"]
            for table in job.store.schemas
            for row in job.store.select(table, f"DISTINCT {kind.shard} AS shard")
        }

    def add(self, row: Mapping[str, Any]) -> None:
        """Note a row that was written."""
        self._shards.add(row[self._column])

    def there(self, batch: Batch) -> dict[str, list[dict[str, Any]]]:
        """The rows of a batch's shards, by table."""
        known = [shard for shard in batch.shards if shard in self._shards]
        if not known:
            return {}
        where = f"{self._column} IN ({', '.join(map(literal, known))})"
        return {
            table: self._job.store.select(table, "*", where) for table in self._job.store.schemas
        }


LOOK_S = 0.2
ROOM_S = 2.0
"""How often the cluster is asked for its machines: some come, some go."""
MOST_DEATHS = 3
"""Workers that may die over one shard before this pass gives it up."""
MOST_REFUSALS = 3
"""Workers that may fail to start in a row before the run fails."""
DRAIN_S = 5.0
"""How long a cancelled run waits for the items that are being done."""


@dataclass
class _Worker:
    """Ray's handle of a worker, its pending call, its batch (None: starting)."""

    actor: Any
    asked: Any
    batch: Batch | None = None


class Pool:
    """One pass of a run's shards over a cluster."""

    def __init__(self, job: Job, kind: Experiment, run: str, session: Session) -> None:
        self.job, self.run, self.session, self.ray = job, run, session, session.ray
        self.started = Started(job, kind)
        self.todo = batches(kind.shards(job.cohort, job.plan), session.room())
        self.workers: list[_Worker] = []
        self.left: list[str] = []
        self.refusals = 0
        self.noted: set[str] = {platform.node()}
        self._room, self._asked_room = 0, float("-inf")
        self._note_text = ""

    def work(self) -> None:
        """Do every shard; raises Stopped, or WorkFailed for shards given up."""
        try:
            while self.todo or self.workers:
                self._spawn()
                self._poll(LOOK_S)
                self.job.notify()
        except Stopped:
            self._drain()
            raise
        finally:
            for worker in self.workers:
                self.ray.kill(worker.actor)
        if self.left:
            raise WorkFailed(
                f"the workers of {len(self.left)} shards of the run died "
                f"{MOST_DEATHS} times (too little memory?): {', '.join(self.left[:5])}; all others "
                "are done; resume repeats these"
            )

    def _spawn(self) -> None:
        """Start workers for the room and the work there is; release idle ones."""
        if not self.todo:
            for worker in [one for one in self.workers if one.batch is None]:
                self._release(worker)
            return
        if time.monotonic() - self._asked_room > ROOM_S:
            self._asked_room = time.monotonic()
            self._room = self.session.room()
        busy = sum(worker.batch is not None for worker in self.workers)
        note = "at work on the cluster"
        if not busy:
            note = "workers are being started on the cluster, or wait for room there"
        if not self._room:
            note = "no machine of the cluster is up; waiting for one"
        if note != self._note_text:
            self._note_text = note
            self.job.watch(note)
        while len(self.workers) < min(self._room, len(self.todo) + busy):
            actor = self.session.worker(self.run)
            self.workers.append(_Worker(actor, actor.ready.remote()))

    def _poll(self, patience_s: float) -> None:
        """Take what workers have sent and give batches to free ones."""
        if not self.workers:
            time.sleep(patience_s)
            return
        asked = {worker.asked: worker for worker in self.workers}
        refs = list(asked)
        # First what every worker has ready, so that none waits for the others.
        ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = self.ray.wait(refs, num_returns=1, timeout=patience_s, fetch_local=False)
        for ref in ready:
            worker = asked[ref]
            try:
                self._receive(worker)
            except self.ray.exceptions.RayError:
                self._died(worker)

    def _receive(self, worker: _Worker) -> None:
        if worker.batch is None:
            self._started(worker, self.ray.get(worker.asked))
            return
        try:
            messages: Sequence[Message] = self.ray.get(next(worker.asked))
        except StopIteration:
            self._next(worker)
            return
        # Rows are written before a note or the end may stop the pass.
        for what, name, row in messages:
            if what == ROW:
                self.job.write(name, row)
                self.started.add(row)
        for what, name, _ in messages:
            if what == NOTE:
                self.job.watch(name)
            elif what == END and name:
                raise WorkFailed(name)

    def _started(self, worker: _Worker, report: dict[str, str]) -> None:
        """Check the code of a started worker; note a machine that is not this one."""
        if report["code"] != code_digest():
            raise WorkFailed("a machine of the cluster has other code of Midchart than this one")
        if report["problem"]:
            raise WorkFailed(f"a machine of the cluster cannot take part: {report['problem']}")
        self.refusals = 0
        if report["host"] not in self.noted:
            self.noted.add(report["host"])
            audit.left(
                run=self.run,
                cohort=self.job.cohort.manifest.name,
                host=report["host"],
                encrypted=False,
                purpose="worker of the cluster",
                records=len(self.job.cohort.records),
                items=None,
            )
        self._next(worker)

    def _next(self, worker: _Worker) -> None:
        """Give a free worker its next batch, or let it go."""
        if not self.todo:
            self._release(worker)
            return
        batch = self.todo.popleft()
        rows = self.started.there(batch)
        worker.batch = batch
        worker.asked = worker.actor.work.options(num_returns="streaming").remote(batch.shards, rows)

    def _release(self, worker: _Worker) -> None:
        """Kill a worker, which may only be out of reach."""
        self.workers.remove(worker)
        self.ray.kill(worker.actor)

    def _died(self, worker: _Worker) -> None:
        """Requeue the batch of a dead worker, in smaller batches."""
        self._release(worker)
        self._asked_room = float("-inf")
        if worker.batch is None:
            self.refusals += 1
            if self.refusals >= MOST_REFUSALS * max(1, self._room):
                raise WorkFailed("no worker can be started on the cluster; see Ray's logs")
            return
        smaller = worker.batch.after_death()
        if len(smaller) == 1 and smaller[0].deaths >= MOST_DEATHS:
            self.left += worker.batch.shards
            return
        self.todo.extendleft(reversed(smaller))

    def _drain(self) -> None:
        """Write the items that workers still send after a cancel."""
        self.todo.clear()
        self._spawn()
        deadline = time.monotonic() + DRAIN_S
        while self.workers and time.monotonic() < deadline:
            try:
                self._poll(LOOK_S)
            except Stopped:
                continue


def work_on(place: str, job: Job, kind: Experiment, run: str, gpu: bool) -> None:
    """Execute a run's shards on Ray; what cannot be divided is left to the run's own process.

    ``gpu``: each worker gets one GPU where the cluster has any. Raises Stopped when the run is
    cancelled, WorkFailed where no cluster answers or a shard cannot be done.
    """
    if kind.shard:
        with connected(place, gpu) as session:
            Pool(job, kind, run, session).work()
