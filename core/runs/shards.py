"""A run divided among worker processes: shards, what a worker does, and the pool of a pass.

The run's own process (:mod:`midchart.core.runs.worker`) holds the run's lock and writes all rows,
so resume, cancel, status and tables work as without workers. A shard whose worker died goes to
another worker with the rows that exist: nothing is lost or done twice. What starts and reaches the
workers (:class:`Starter`) is Ray (:mod:`midchart.core.runs.cluster`) or this machine's own
processes (:mod:`midchart.core.runs.cores`).
"""

from __future__ import annotations

import inspect
import platform
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from midchart.core.egress import audit
from midchart.core.errors import WorkFailed, reason_of
from midchart.core.identity import resolve
from midchart.core.judges import JUDGES
from midchart.core.provenance import code_digest
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import EXPERIMENTS, Experiment
from midchart.core.runs.job import Job, Stopped
from midchart.core.runs.places import named_cluster
from midchart.core.runs.plan import ComponentSpec, Plan
from midchart.core.runs.planner import chosen, destinations, open_source, permit
from midchart.core.storage.rows import Schema, literal

# A worker: it reads plan and cohort from the shared folder, makes the same egress check, keeps its
# models between shards, and writes no row: rows and notes are yielded to the run's own process.
# Judges with a budget are asked by the run's own process, so that only one process tracks the
# budget.


GATHER_S = 0.05
"""Rows that come within this time travel together."""
ROW, NOTE, END = "row", "note", "end"
Message: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""(row, its table, the row), (note, words, {}), or (end, why it failed or nothing, {})."""
Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


def for_workers(plan: Plan, sharing: int = 1) -> Plan:
    """A plan without the judges that the run's own process calls: those with a budget.

    ``sharing``: workers among which the concurrent calls of each reader and judge are divided.
    """
    keeps = {
        entry.label
        for entry in plan.judge_entries
        if "folder" in inspect.signature(JUDGES.get(entry.name)).parameters
    }
    left = (entry for entry in plan.judge_entries if entry.label not in keeps)
    return replace(
        plan,
        judge_entries=tuple(_shared(JUDGES, entry, sharing) for entry in left),
        reader_entries=tuple(_shared(READERS, entry, sharing) for entry in plan.reader_entries),
    )


def _calls(registry: Registry[Any], entry: ComponentSpec) -> int | None:
    """Concurrent calls of a reader or judge; None for one that calls nobody."""
    model = getattr(registry.get(entry.name), "options_model", None)
    if model is None or CONCURRENCY not in model.model_fields:
        return None
    return int(entry.options.get(CONCURRENCY, model.model_fields[CONCURRENCY].default))


def _shared(registry: Registry[Any], entry: ComponentSpec, sharing: int) -> ComponentSpec:
    """An entry with its share of the concurrent calls."""
    calls = _calls(registry, entry)
    if sharing == 1 or calls is None:
        return entry
    return replace(entry, options={**entry.options, CONCURRENCY: max(1, calls // sharing)})


def most_workers(plan: Plan) -> int | None:
    """Workers among which each reader's and judge's concurrent calls can be divided; None: any."""
    calls = [_calls(READERS, entry) for entry in plan.reader_entries]
    calls += [_calls(JUDGES, entry) for entry in plan.judge_entries]
    return min((number for number in calls if number is not None), default=None)


CONCURRENCY = "concurrency"


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


class ShardWorker:
    """One process of a run, on whatever machine has room, in the name of who started it.

    ``sharing``: as of :func:`for_workers`.
    """

    def __init__(self, run: str, sharing: int = 1) -> None:
        self.run, self.sharing = run, sharing
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
        started_by = folder.started_by()
        resolve(lambda: started_by)
        plan = for_workers(folder.plan(), self.sharing)
        self._kind = EXPERIMENTS.build(plan.kind)
        cohort = self._kind.cohort(open_source(folder.cohort_path()), plan)
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
            permit(leaving, cohort, plan.allow_hosts, named_cluster(folder.cluster())),
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


# The run's own process: the work in batches, and a pool of workers. Every row that a worker sends
# is written at once; a worker that dies gives its batch back, with the rows that exist by then.


class WorkerDied(Exception):
    """A worker ended, or is out of reach."""


class Handle(Protocol):
    """A worker that was started, as the run's own process sees it."""

    def begin(self, shards: Sequence[str], there: Rows) -> None:
        """Give it shards to do, and the rows of them that exist."""

    def receive(self) -> Mapping[str, str] | Sequence[Message] | None:
        """What it sent: first its report (:meth:`ShardWorker.ready`), then messages of its batch,
        None at the batch's end. Raises WorkerDied."""

    def kill(self) -> None:
        """End it."""


H = TypeVar("H", bound=Handle)


class Starter(Protocol[H]):
    """What starts workers and waits for them; ``where`` names the place in messages."""

    @property
    def where(self) -> str: ...

    def room(self) -> int:
        """Number of workers that there is room for now."""
        ...

    def worker(self, run: str) -> H:
        """A new worker of a run."""
        ...

    def ready(self, workers: Sequence[H], patience_s: float) -> list[H]:
        """Workers that have sent something or died, awaited for so long."""
        ...


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
    """All shards in batches, for so many workers, each batch half of a worker's share of what is
    left: few ends at which a service waits, and the last workers end together.

    Source: Polychronopoulos and Kuck, IEEE Transactions on Computers 36 (1987), guided
    self-scheduling.
    """
    cut: deque[ShardBatch] = deque()
    at = 0
    while at < len(shards):
        size = max(1, (len(shards) - at) // (2 * max(1, room)))
        cut.append(ShardBatch(tuple(shards[at : at + size])))
        at += size
    return cut


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


@dataclass(eq=False)
class _PoolWorker(Generic[H]):
    """A worker of a pool and its batch (None: starting)."""

    handle: H
    batch: ShardBatch | None = None


class Pool(Generic[H]):
    """One pass of a run's shards over the workers of a place."""

    def __init__(self, job: Job, kind: Experiment, run: str, starter: Starter[H]) -> None:
        self.job, self.run, self.starter = job, run, starter
        self.started = Started(job, kind)
        self.todo = batches(kind.shards(job.cohort, job.plan), starter.room())
        self.workers: list[_PoolWorker[H]] = []
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
                worker.handle.kill()
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
            self._room = self.starter.room()
        busy = sum(worker.batch is not None for worker in self.workers)
        note = f"workers of {self.starter.where} are at work"
        if not busy:
            note = f"workers of {self.starter.where} are being started, or wait for room"
        if not self._room:
            note = f"no machine of {self.starter.where} is up; waiting for one"
        if note != self._note_text:
            self._note_text = note
            self.job.watch(note)
        while len(self.workers) < min(self._room, len(self.todo) + busy):
            self.workers.append(_PoolWorker(self.starter.worker(self.run)))

    def _poll(self, patience_s: float) -> None:
        """Take what workers have sent and give batches to free ones."""
        if not self.workers:
            time.sleep(patience_s)
            return
        by_handle = {id(worker.handle): worker for worker in self.workers}
        for handle in self.starter.ready([worker.handle for worker in self.workers], patience_s):
            worker = by_handle[id(handle)]
            try:
                self._receive(worker)
            except WorkerDied:
                self._died(worker)

    def _receive(self, worker: _PoolWorker[H]) -> None:
        sent: Any = worker.handle.receive()
        if worker.batch is None:
            self._started(worker, sent)
            return
        if sent is None:
            self._next(worker)
            return
        # Rows are written before a note or the end may stop the pass.
        for what, name, row in sent:
            if what == ROW:
                self.job.write(name, row)
                self.started.add(row)
        for what, name, _ in sent:
            if what == NOTE:
                self.job.watch(name)
            elif what == END and name:
                raise WorkFailed(name)

    def _started(self, worker: _PoolWorker[H], report: dict[str, str]) -> None:
        """Check the code of a started worker; note a machine that is not this one."""
        if report["code"] != code_digest():
            raise WorkFailed(
                f"a worker of {self.starter.where} has other code of Midchart than the run"
            )
        if report["problem"]:
            raise WorkFailed(
                f"a worker of {self.starter.where} cannot take part: {report['problem']}"
            )
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

    def _next(self, worker: _PoolWorker[H]) -> None:
        """Give a free worker its next batch, or let it go."""
        if not self.todo:
            self._release(worker)
            return
        self.job.egress.ask_again()
        batch = self.todo.popleft()
        rows = self.started.there(batch)
        worker.batch = batch
        worker.handle.begin(batch.shards, rows)

    def _release(self, worker: _PoolWorker[H]) -> None:
        """Kill a worker, which may only be out of reach."""
        self.workers.remove(worker)
        worker.handle.kill()

    def _died(self, worker: _PoolWorker[H]) -> None:
        """Requeue the batch of a dead worker, in smaller batches."""
        self._release(worker)
        self._asked_room = float("-inf")
        if worker.batch is None:
            self.refusals += 1
            if self.refusals >= MOST_REFUSALS * max(1, self._room):
                raise WorkFailed(f"no worker of {self.starter.where} can be started; see its logs")
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
