"""One pass over a plan: which rows exist, which are added, progress reports, cancellation.

Whatever fails becomes a row with a reason; the reason never holds text of a record.
"""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from midchart.core.arms import ARMS
from midchart.core.client.streams import Stopped
from midchart.core.cohorts.gold import gold_under
from midchart.core.egress import CLOSED, EgressCheck
from midchart.core.errors import MidchartError, reason_of
from midchart.core.gate.cohort_training import split_of
from midchart.core.interfaces import Arm, Judge, Reader
from midchart.core.judges import JUDGES
from midchart.core.provenance import digest, now
from midchart.core.readers import READERS
from midchart.core.readers.twice import as_protocol_reads
from midchart.core.registry import Registry
from midchart.core.runs.gate_checkpoints import arm_options, pin, pinned_option
from midchart.core.runs.plan import READER, ArmConfig, ComponentSpec, Plan, Spec
from midchart.core.runs.schemas import blank
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import Cohort, Instruction, Span

T = TypeVar("T")
Row = dict[str, Any]


Progress = Callable[[int, int], bool]
"""Called after each item with the numbers of rows done and failed; False stops the pass."""


@contextmanager
def outcome(row: Row) -> Generator[None]:
    """Set a row's ``status`` and ``reason`` by how the body ends; Stopped is raised on."""
    try:
        yield
        row["status"] = "ok"
    except Exception as error:  # noqa: BLE001 - becomes the row's reason
        row |= {"status": "failed", "reason": reason_of(error)}


def chosen(cohort: Cohort, what: Spec) -> tuple[Instruction, ...]:
    """The instructions that a spec or plan asks, in the cohort's order: the first ``limit`` of
    those about patients of ``part``. Raises InputError for a part of a cohort too small to be
    split."""
    asked = cohort.instructions
    if what.part:
        patients = getattr(split_of(cohort, what.protocol), what.part)
        asked = tuple(i for i in asked if i.record_id in patients)
    return asked[: what.limit]


def by_patient(cohort: Cohort, instructions: Sequence[Instruction]) -> dict[str, list[Instruction]]:
    """Instructions grouped by patient, so that a record is read and indexed once."""
    groups: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        groups.setdefault(cohort.patient_of(instruction), []).append(instruction)
    return groups


class Job:
    """One pass of a run. ``progress`` is called after every item and may stop the pass.

    ``folder``: the run's, for files other than rows (checkpoints). ``done``, ``failed``: numbers of
    rows. ``note`` is called with the state of a long wait, in words. ``egress`` decides what may
    leave this machine.
    """

    def __init__(
        self,
        plan: Plan,
        cohort: Cohort,
        store: RowStore,
        progress: Progress,
        folder: Path,
        note: Callable[[str], None] = lambda _: None,
        egress: EgressCheck = CLOSED,
    ) -> None:
        self.plan, self.store, self.folder = plan, store, folder
        self.protocol = plan.protocol
        self.cohort = gold_under(cohort, plan.protocol)
        self.done = self.failed = 0
        self._only: Set[str] | None = None
        self._names: dict[tuple[str, str], set[str]] = {}
        self._thread: int | None = None
        self._over = threading.Event()
        self._progress, self._note, self.egress = progress, note, egress
        self._built: dict[tuple[str, str], tuple[Any, str]] = {}

    @contextmanager
    def with_services(self) -> Generator[None]:
        """A part of the pass in which services work in threads (see :meth:`watch`)."""
        self._thread = threading.get_ident()
        self._over.clear()
        try:
            yield
        finally:
            self._over.set()

    def restrict(self, shards: Iterable[str], store: RowStore) -> None:
        """Do some shards alone, with their rows in another store."""
        self._only, self.store = frozenset(shards), store
        self._names.clear()

    def includes(self, shard: str) -> bool:
        """Whether a shard is part of this pass."""
        return self._only is None or shard in self._only

    def questions(self) -> list[Instruction]:
        """The questions that this pass asks, those of a patient one after another, of this pass's
        shards where the work is divided by patient."""
        groups = by_patient(self.cohort, chosen(self.cohort, self.plan))
        return [one for patient in groups if self.includes(patient) for one in groups[patient]]

    def todo(self, table: str, names: Iterable[str], by: str = "key") -> list[str]:
        """The ``names`` of rows that a table does not have yet, in order; ``by``: the column that
        names a row, "key", or "item" where the key depends on what the work gives."""
        if (table, by) not in self._names:
            rows = self.store.select(table, by)
            self._names[table, by] = {row[by] for row in rows}
        existing = self._names[table, by]
        return [name for name in names if name not in existing]

    def there(self, table: str, columns: str = "item") -> dict[str, Row]:
        """Rows of a table before this pass: item → ``columns``, item included."""
        return {row["item"]: row for row in self.store.select(table, columns)}

    def begin(self) -> None:
        """Count the existing rows and report progress."""
        for table in self.store.schemas:
            for row in self.store.select(table, "status, count(*) AS n", "true GROUP BY status"):
                self._count(row["status"], row["n"])
        self.notify()

    def notify(self) -> None:
        """Report progress; raises Stopped on a cancel."""
        if not self._progress(self.done, self.failed):
            raise Stopped

    def watch(self, text: str = "") -> None:
        """Report the state of a long wait (or nothing); raises Stopped on a cancel.

        In the thread of a service it raises Stopped once the part of the pass that began it is
        over, and reports nothing.
        """
        if self._thread not in (None, threading.get_ident()):
            if self._over.is_set():
                raise Stopped
            return
        if text:
            self._note(text)
        self.notify()

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Write a row and report progress; raises Stopped, WorkFailed for a full disk."""
        self.write(table, row)
        self.notify()

    def write(self, table: str, row: Mapping[str, Any]) -> None:
        """Write a row and count it; raises WorkFailed for a full disk."""
        self.store.append(table, row)
        for (of, column), names in self._names.items():
            if of == table:
                names.add(row[column])
        self._count(row["status"], 1)

    def _count(self, status: str, rows: int) -> None:
        self.done += rows * (status == "ok")
        self.failed += rows * (status != "ok")

    def member(self, family: str, name: str, make: Callable[[], T]) -> T:
        """A component, built once; one that cannot be built fails each of its items."""
        key = (family, name)
        if key not in self._built:
            try:
                self._built[key] = make(), ""
            except Exception as error:  # noqa: BLE001 - kept, and raised for each of its items
                self._built[key] = None, reason_of(error)
        component, problem = self._built[key]
        if problem:
            raise MidchartError(problem)
        return component

    def arm(self, entry: ArmConfig) -> Arm:
        """The arm of an entry; the oracle gets the located evidence, and an arm with a gate keeps
        that of its first use in the run."""

        def pinned(instruction: Instruction) -> tuple[Span, ...]:
            gold = self.cohort.gold.get(instruction.id)
            return gold.spans if gold is not None else ()

        def make() -> Arm:
            options = arm_options(entry.name, self.protocol, entry.options, self.cohort)
            if entry.name == "oracle":
                options["pinned"] = pinned
            if READER in options:
                options[READER] = self._reader(ComponentSpec(**options[READER]))
            arm = ARMS.build(entry.name, self.protocol, **options)
            if option := pinned_option(entry.name):
                pin(self.folder, entry, options[option], self.cohort, self.plan.digest)
            return arm

        return self.member("arm", entry.label, make)

    def reader(self, label: str) -> Reader:
        """The run's reader of that label, as the protocol has it read."""
        entry = next(e for e in self.plan.reader_entries if e.label == label)
        return as_protocol_reads(self._reader(entry), self.protocol)

    def _reader(self, entry: ComponentSpec) -> Reader:
        return self.member("reader", entry.label, lambda: self._make(READERS, entry))

    def judge(self, label: str) -> Judge:
        """The run's judge of that label."""
        entry = next(e for e in self.plan.judge_entries if e.label == label)
        return self.member("judge", label, lambda: self._make(JUDGES, entry))

    def _make(self, registry: Registry[T], entry: ComponentSpec) -> T:
        """A reader or judge with its options and the run's own constructor arguments."""
        asked = inspect.signature(registry.get(entry.name)).parameters
        of_run: dict[str, Any] = {"egress": self.egress, "folder": self.folder}
        of_run |= {"label": entry.label, "watch": self.watch}
        extra = {name: value for name, value in of_run.items() if name in asked}
        return registry.build(entry.name, self.protocol, **entry.options, **extra)


# Runs whose items are models trained one after another: forecasts, decoders, gates. Each model
# without a row is trained and its row appended. A training keeps a checkpoint in the run's folder
# until its row is written, so that a cancelled run resumes within a training.


TRAINED: Schema = dict.fromkeys(("key", "item", "status", "reason", "time"), "VARCHAR")
"""The first columns of a table with a row a model."""


class TrainingJob(Protocol):
    """A model to train; ``name`` identifies it among the run's items."""

    @property
    def name(self) -> str: ...


M = TypeVar("M", bound=TrainingJob)


class TrainingJobs(ABC, Generic[M]):
    """One pass over the models of a run, in the order given; ``table`` and ``schema``: where their
    rows are stored."""

    table: ClassVar[str]
    schema: ClassVar[Schema]

    def __init__(self, job: Job, models: Iterable[M]) -> None:
        self.job, self.options = job, dict(job.plan.options)
        assigned = {self.item(one): one for one in models if job.includes(one.name)}
        missing = job.todo(self.table, assigned, by="item")
        self.todo = [assigned[item] for item in missing]
        self._finished = [item for item in assigned if item not in missing]

    def run(self) -> None:
        """Train and evaluate what has no row yet."""
        for item in self._finished:  # a pass may have ended between a row and its checkpoint
            self._checkpoint(item).unlink(missing_ok=True)
        for at, one in enumerate(self.todo):
            self.job.append(self.table, self._row(one, self.todo[at + 1 :]))
            self._checkpoint(self.item(one)).unlink(missing_ok=True)

    def item(self, one: M) -> str:
        """A model's name in rows and files."""
        return one.name

    def key_text(self) -> str:
        """The options as text; a row's key depends on it, the model's name and the protocol."""
        return repr(sorted(self.options.items()))

    @abstractmethod
    def columns(self, one: M) -> Row:
        """The columns that identify a model."""

    @abstractmethod
    def train(self, one: M, row: Row, checkpoint: Path, later: Sequence[M]) -> None:
        """Train and evaluate one model and fill its ``row``; a failed one keeps what was filled.
        ``checkpoint``: the file the training resumes from. ``later``: the models that follow."""

    def _checkpoint(self, item: str) -> Path:
        return self.job.folder / "training" / f"{item}.pt"

    def _row(self, one: M, later: Sequence[M]) -> Row:
        row: Row = {
            **blank(self.schema),
            "key": digest(one.name, repr(self.job.protocol), self.key_text()),
            "item": self.item(one),
            **self.columns(one),
        }
        with outcome(row):
            self.train(one, row, self._checkpoint(row["item"]), later)
        return {**row, "time": now()}
