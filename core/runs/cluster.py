"""A run on Ray: workers execute its shards, and the run's own process writes all rows.

That process (:mod:`midchart.core.runs.worker`; to Ray, the driver) holds the run's lock, so resume,
cancel, status and tables work as without a cluster. A shard whose worker died goes to another
worker with the rows that exist: nothing is lost or done twice. Ray is imported only for such a run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import platform
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from midchart.core import config as settings
from midchart.core.egress import audit, require_cluster
from midchart.core.egress.owners_list import RAY_PORT
from midchart.core.errors import InputError, MissingModel, WorkFailed, reason_of
from midchart.core.judges import JUDGES
from midchart.core.provenance import code_digest
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import EXPERIMENTS, Experiment
from midchart.core.runs.job import Job, Stopped
from midchart.core.runs.plan import Plan
from midchart.core.runs.planner import chosen, destinations, open_source, permit
from midchart.core.storage.files import protect_new_files
from midchart.core.storage.rows import Schema, literal

# Where a run is done, as the command line says it: "" is here, by the run's own worker. "ray"
# starts a Ray that serves this run alone, listens on loopback and uses all of this machine.
# "ray://HOST:PORT" joins the cluster whose first machine was started with `ray start --head
# --port=PORT`.


HERE, LOCAL = "here", "ray"
PORT = RAY_PORT
"""Where ``ray start --head`` listens by default."""
INSTALL = "pip install -r docs/optional/ray.txt"
_ADDRESS = re.compile(r"ray://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?")


def read_cluster(text: str) -> str:
    """A cluster as :func:`spelled` spells it; raises MissingModel where Ray is not installed."""
    cluster = spelled(text)
    if cluster and importlib.util.find_spec("ray") is None:
        raise MissingModel(f"a run on Ray needs the package ray; get it with: {INSTALL}")
    return cluster


def spelled(text: str) -> str:
    """A cluster in its one spelling: "ray" or "ray://HOST:PORT", "" for none; raises InputError."""
    if text in ("", HERE):
        return ""
    cluster = text
    if text != LOCAL:
        match = _ADDRESS.fullmatch(text)
        port = int(match["port"] or PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise InputError(
                f"a run is done on 'here', 'ray' or 'ray://HOST:PORT', not on {text!r}"
            )
        cluster = f"ray://{match['host']}:{port}"
    return cluster


def named_cluster(cluster: str) -> str:
    """The cluster whose machines would see records; "" here and on a Ray made for the run alone.

    One whose first machine is this one may have others, so its address does not decide.
    """
    return "" if cluster in ("", LOCAL) else cluster


def on_loopback(cluster: str) -> bool:
    """Whether this machine's loopback is all that is needed to reach a cluster."""
    return cluster == LOCAL or cluster.startswith(("ray://127.0.0.1:", "ray://localhost:"))


# A worker on a machine of the cluster: it reads plan and cohort from the shared folder, makes the
# same egress check, keeps its models between shards, and writes no row: rows and notes are yielded
# to the run's own process. Judges with a budget are asked by the run's own process, so that only
# one process tracks the budget.


GATHER_S = 0.05
"""Rows that come within this time travel together."""
ROW, NOTE, END = "row", "note", "end"
Message: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""(row, its table, the row), (note, words, {}), or (end, why it failed or nothing, {})."""
Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


def for_workers(plan: Plan) -> Plan:
    """A plan without the judges that the run's own process calls: those with a budget."""
    keeps = {
        entry.label
        for entry in plan.judge_entries
        if "folder" in inspect.signature(JUDGES.get(entry.name)).parameters
    }
    left = tuple(entry for entry in plan.judge_entries if entry.label not in keeps)
    return replace(plan, judge_entries=left)


class ShardRows:
    """Tables in memory; ``added`` is called with every row that is appended."""

    def __init__(
        self, schemas: Mapping[str, Schema], added: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self._schemas, self._added = schemas, added
        self._rows: dict[str, list[Mapping[str, Any]]] = {}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The tables' columns."""
        return self._schemas

    def begin(self, there: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Replace all rows by those that the next shard has."""
        self._rows = {table: list(there.get(table, ())) for table in self._schemas}

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table in order; plain columns only. Raises ValueError for other queries."""
        names = list(self._schemas[table]) if columns == "*" else columns.split(", ")
        if where != "true" or not set(names) <= self._schemas[table].keys():
            raise ValueError(
                f"rows in memory are asked by plain columns, not {columns!r} {where!r}"
            )
        return [{name: row.get(name) for name in names} for row in self._rows[table]]

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row and send it; raises ValueError for an undeclared column."""
        if row.keys() != self._schemas[table].keys():
            wrong = ", ".join(sorted(row.keys() ^ self._schemas[table].keys()))
            raise ValueError(f"a row of {table} has its declared columns; these differ: {wrong}")
        self._rows[table].append(row)
        self._added(table, row)


class RayWorker:
    """One process of a run; made by Ray, on whatever machine has room."""

    def __init__(self, run: str) -> None:
        protect_new_files()
        self.run = run
        self._box: queue.Queue[Message] = queue.Queue()
        self._job: Job | None = None

    def ready(self) -> dict[str, str]:
        """Open plan and cohort; returns ``code`` (a hash), ``host`` (a name) and ``problem``."""
        problem = ""
        try:
            self._open()
        except Exception as error:  # noqa: BLE001 - its text may quote a record: only its line is reported
            problem = reason_of(error)
        return {"code": code_digest(), "host": platform.node(), "problem": problem}

    def _open(self) -> None:
        folder = find_run(self.run)
        plan = for_workers(folder.plan())
        self._kind = EXPERIMENTS.build(plan.kind)
        cohort = self._kind.cohort(open_source(plan.data), plan)
        leaving = destinations(plan, len(chosen(cohort, plan)))
        self._rows = ShardRows(
            self._kind.schemas, lambda table, row: self._box.put((ROW, table, row))
        )
        self._job = Job(
            plan,
            cohort,
            self._rows,
            lambda done, failed: not folder.cancel.exists(),
            folder.path,
            lambda text: self._box.put((NOTE, text, {})),
            permit(leaving, cohort.manifest, plan.allow_hosts, named_cluster(folder.cluster())),
        )

    def work(self, shards: Sequence[str], there: Rows) -> Generator[list[Message]]:
        """Do what is not ``there`` yet of some shards; yields rows and notes, and last the end.

        A run that is being cancelled ends after the item it is at.
        """
        job = self._job
        if job is None:
            raise RuntimeError("a worker opens its cohort before it works")
        job.only = frozenset(shards)
        self._rows.begin(there)
        thread = threading.Thread(target=self._do, args=(job,), daemon=True)
        thread.start()
        ended = False
        while not ended:
            messages = [self._box.get()]
            if messages[0][0] != END:
                time.sleep(GATHER_S)
            while not self._box.empty():
                messages.append(self._box.get())
            ended = messages[-1][0] == END
            yield messages
        thread.join()

    def _do(self, job: Job) -> None:
        problem = ""
        try:
            self._kind.execute(job)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - its text may quote a record: only its line is reported
            problem = reason_of(error)
        self._box.put((END, problem, {}))


# The driver: its connection, the work in batches, and a pool of workers. Every row that a worker
# sends is written at once; a worker that dies gives its batch back, with the rows that exist by
# then.


SHARED = (
    "MIDCHART_DATA", "MIDCHART_CACHE", "MIDCHART_MODELS", "MIDCHART_STATE", "PYTHONPATH",
    "PYTHONUNBUFFERED",
)  # fmt: skip
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
def connected(cluster: str, gpu: bool) -> Generator[Session]:
    """A session on a cluster; raises WorkFailed where no cluster answers there, EgressRefused for
    one that the installation's owner has not listed."""
    if named_cluster(cluster):
        require_cluster(cluster)  # what a cluster's head sends back is unpickled
    # Not by a statement: the checks of types and layers need no Ray.
    ray: Any = importlib.import_module("ray")
    environment = settings.worker_environment()
    shared = {name: environment[name] for name in SHARED if name in environment}
    shared["PYTHONPATH"] = ":".join(
        part for part in (str(settings.ROOT), environment.get("PYTHONPATH", "")) if part
    )
    options: dict[str, Any] = {}
    if cluster == LOCAL:
        options = {
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "object_store_memory": OBJECTS,
        }
    try:
        ray.init(
            address="local" if cluster == LOCAL else cluster.removeprefix("ray://"),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": shared},
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise WorkFailed(
            f"no Ray cluster answers at {cluster} ({type(error).__name__}); start its first "
            "machine with: ray start --head, and this command on a machine of the cluster"
        ) from None
    try:
        yield Session(ray, gpu)
    finally:
        ray.shutdown()


BATCHES_EACH = 16
"""Batches for each worker: few enough to be cheap, enough for the last workers to end together."""
PIECES = 4


@dataclass(frozen=True, slots=True)
class ShardBatch:
    """Shards that a worker executes one after another; ``deaths``: workers that died over them."""

    shards: tuple[str, ...]
    deaths: int = 0

    def after_death(self) -> list[ShardBatch]:
        """Smaller batches to retry, down to one shard each."""
        each = -(-len(self.shards) // PIECES)
        parts = [self.shards[i : i + each] for i in range(0, len(self.shards), each)]
        return [ShardBatch(part, self.deaths + 1) for part in parts]


def batches(shards: Sequence[str], room: int) -> deque[ShardBatch]:
    """All shards in batches, for so many workers."""
    each = max(1, -(-len(shards) // (BATCHES_EACH * max(1, room))))
    return deque(ShardBatch(tuple(shards[i : i + each])) for i in range(0, len(shards), each))


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

    def there(self, batch: ShardBatch) -> dict[str, list[dict[str, Any]]]:
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
    batch: ShardBatch | None = None


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


def work_on(cluster: str, job: Job, kind: Experiment, run: str, gpu: bool) -> None:
    """Execute a run's shards on Ray; what cannot be divided is left to the run's own process.

    ``gpu``: each worker gets one GPU where the cluster has any. Raises Stopped when the run is
    cancelled, WorkFailed where no cluster answers or a shard cannot be done.
    """
    if kind.shard:
        with connected(cluster, gpu) as session:
            Pool(job, kind, run, session).work()
