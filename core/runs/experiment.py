"""The interface of an experiment: its part of a spec, its work, its rows, its tables
(docs/architecture.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from midchart.core.errors import SpecError
from midchart.core.protocol import Protocol
from midchart.core.registry import Registry
from midchart.core.runs.declared import Conclusion, View
from midchart.core.runs.job import Job, by_patient, chosen
from midchart.core.runs.plan import Plan, Spec
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import Cohort, Instruction

if TYPE_CHECKING:
    from midchart.core.options import Options

Table = list[dict[str, Any]]
MADE = "made by the run"
"""``data`` in the spec and plan of an experiment that generates its own records."""


class Experiment(ABC):
    """One experiment: what ``kind`` names in a spec.

    A subclass must set ``name``, ``title``, ``schemas`` and ``main`` and write :meth:`planned`,
    :meth:`execute` and :meth:`tables`; the rest has defaults.

    - ``lists``: which of arms, readers and judges a spec may name, and whether it must.
    - ``usual_arms``: the arms of a spec that names none.
    - ``options_model``: the spec's fields of this experiment alone (:mod:`midchart.core.options`).
    - ``refuses``: fields of every spec that it does not take, and why.
    - ``schemas``: table of rows → its columns and DuckDB types; each has ``key`` (unique), ``item``
      (work item; skipped on resume where it is there), ``status`` ("ok", "failed") and ``reason``.
    - ``predictions``: end of the name of a file of predictions → its columns and DuckDB types.
    - ``main``: the table with one row per work item that the pages open first.
    - ``compares``: its tables compare arms on the cohort's own questions.
    - ``gpu``: :meth:`execute` itself uses a GPU where there is one.
    - ``shard``: the column by which work is divided among a cluster's workers; "": it is not.
    - ``makes_records``: it generates its records, so a spec names no cohort.
    - ``has_evidence``: its tables depend on the position of the evidence in a record.
    - ``cards``: questions of its runs are dealt to clinicians, who mark their evidence.
    - ``views``: the questions that its tables answer, in the order of tabs; without: its tables.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    lists: ClassVar[Mapping[str, bool]] = {}
    usual_arms: ClassVar[tuple[str, ...]] = ()
    options_model: ClassVar[type[Options] | None] = None
    refuses: ClassVar[Mapping[str, str]] = {}
    schemas: ClassVar[Mapping[str, Schema]]
    predictions: ClassVar[Mapping[str, Schema]] = {}
    main: ClassVar[str]
    compares: ClassVar[bool] = False
    gpu: ClassVar[bool] = False
    shard: ClassVar[str] = ""
    makes_records: ClassVar[bool] = False
    has_evidence: ClassVar[bool] = True
    cards: ClassVar[bool] = False
    views: ClassVar[tuple[View, ...]] = ()

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        """The values of ``fields`` in a spec, checked, with defaults filled in, as JSON values;
        raises SpecError, UnknownName or MissingModel."""
        if self.options_model is None:
            return {}
        # Imported with the first spec, so that importing the engine stays fast.
        from midchart.core.options import read_table

        written = {name: table[name] for name in self.fields if name in table}
        return read_table(self.options_model, written).plan()

    @property
    def fields(self) -> tuple[str, ...]:
        """The spec's fields of this experiment alone."""
        return tuple(self.options_model.model_fields) if self.options_model else ()

    def cohort(self, cohort: Cohort, what: Spec) -> Cohort:
        """The cohort that the run works on, derived from the one that was opened, whose
        instructions are the questions of the run; raises SpecError."""
        return cohort

    def patients(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        """Number of patients whose text is used; ``cohort`` is that of :meth:`cohort`."""
        return len({cohort.patient_of(instruction) for instruction in asked})

    def added_tokens(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        """Tokens that are added to the selections of an arm, over all prompts, for the estimate."""
        return 0

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        """Facts on the run's cohort for its tables, kept in ``spec.json`` as JSON values."""
        return {}

    @abstractmethod
    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        """Number of rows to be written; raises SpecError where the cohort lacks what it needs."""

    def shards(self, cohort: Cohort, plan: Plan) -> list[str]:
        """Names of all shards of the work, in execution order: the patients of the questions. An
        experiment that trains models names those."""
        return list(by_patient(cohort, chosen(cohort, plan)))

    @abstractmethod
    def execute(self, job: Job) -> None:
        """Write every row that is missing, those that ``job.todo`` gives, each (``job.append``)
        before the next is begun: for ``job.questions()``, or for the models whose ``shard`` is in
        ``job.includes``."""

    @abstractmethod
    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        """The tables of the run's report, by name."""

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        """What a report shows, in sentences; ``chosen``: values of columns that a reader chose
        (reader, judge, baseline, task), else the report's primary judge and its first ones."""
        return Conclusion()

    def warnings(self, plan: Plan) -> list[str]:
        """What to know before reading the tables, one sentence each."""
        return []


def need_instructions(spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> None:
    """Raise SpecError for a cohort without questions, or without evidence for the oracle."""
    if not instructions:
        raise SpecError(f"{cohort.path} holds no instructions; a run asks a cohort's own questions")
    if any(entry.name == "oracle" for entry in spec.arms) and not cohort.gold:
        raise SpecError(
            f"the arm 'oracle' shows located evidence, and {cohort.path} holds no evidence"
        )


EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    "midchart.core.experiments",
    "midchart.core.training_experiments",
)
"""All experiments, by ``kind``; the engine knows them by this registry alone."""
