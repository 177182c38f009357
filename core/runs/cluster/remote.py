"""A worker on Ray: a process on a machine of a cluster that executes shards of one run.

It reads plan and cohort from the shared folder, makes the same egress check, keeps its models
between shards, and writes no row: rows and notes are yielded to the run's own process. Judges
with a budget are asked by the run's own process, so that only one process tracks the budget.
"""

from __future__ import annotations

import inspect
import platform
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from core.judges import JUDGES
from core.provenance import code_digest
from core.runs.cluster.place import named_cluster
from core.runs.directory import find_run
from core.runs.experiment import EXPERIMENTS
from core.runs.job import Job, Stopped, reason_of
from core.runs.plan import Plan
from core.runs.planner import chosen, destinations, open_source, permit
from core.storage.files import protect_new_files
from core.storage.query import Schema

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
        except Exception as error:  # noqa: BLE001 - its text may quote a record: only its place is reported
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
            permit(leaving, cohort.manifest, plan.allow_hosts, named_cluster(folder.place())),
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
        except Exception as error:  # noqa: BLE001 - its text may quote a record: only its place is reported
            problem = reason_of(error)
        self._box.put((END, problem, {}))
