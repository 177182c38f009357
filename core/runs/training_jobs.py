"""Runs whose items are models trained one after another: forecasts, decoders, gates.

Each model without a row is trained and its row appended. A training keeps a checkpoint in the run's
folder until its row is written, so that a cancelled run resumes within a training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from core.provenance import digest, now
from core.runs.job import Job, Row, outcome
from core.runs.schemas import blank
from core.storage.query import Schema

TRAINED: Schema = dict.fromkeys(("key", "item", "status", "reason", "time"), "VARCHAR")
"""The first columns of a table with a row a model."""


class TrainingJob(Protocol):
    """A model to train; ``name`` identifies it among the run's items."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=TrainingJob)


class TrainingJobs(ABC, Generic[T]):
    """One pass over the models of a run, in the order given.

    ``table`` and ``schema``: where their rows are stored. A subclass names the columns that
    identify a model, and trains it.
    """

    table: ClassVar[str]
    schema: ClassVar[Schema]

    def __init__(self, job: Job, models: Iterable[T]) -> None:
        self.job, self.options = job, dict(job.plan.options)
        there = job.there(self.table)
        assigned = [one for one in models if job.includes(one.name)]
        self.there = [one for one in assigned if self.item(one) in there]
        self.todo = [one for one in assigned if self.item(one) not in there]

    def run(self) -> None:
        """Train and evaluate what has no row yet."""
        for one in self.there:  # a pass may have ended between a row and its checkpoint
            self._checkpoint(one).unlink(missing_ok=True)
        for at, one in enumerate(self.todo):
            self.job.append(self.table, self._row(one, self.todo[at + 1 :]))
            self._checkpoint(one).unlink(missing_ok=True)

    def item(self, one: T) -> str:
        """A model's name in rows and files."""
        return one.name

    def key_text(self) -> str:
        """What a row's key depends on besides its model and the protocol."""
        return repr(sorted(self.options.items()))

    @abstractmethod
    def columns(self, one: T) -> Row:
        """The columns that identify a model."""

    @abstractmethod
    def train(self, one: T, row: Row, checkpoint: Path, later: Sequence[T]) -> None:
        """Train and evaluate one model and fill its ``row``; a failed one keeps what was filled.

        ``checkpoint``: the file the training resumes from. ``later``: the models that follow.
        """

    def _checkpoint(self, one: T) -> Path:
        return self.job.folder / "training" / f"{self.item(one)}.safetensors"

    def _row(self, one: T, later: Sequence[T]) -> Row:
        row: Row = {
            **blank(self.schema),
            "key": digest(one.name, repr(self.job.protocol), self.key_text()),
            "item": self.item(one),
            **self.columns(one),
        }
        with outcome(row):
            self.train(one, row, self._checkpoint(one), later)
        return {**row, "time": now()}
