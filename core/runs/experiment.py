"""The seam of a run: what each kind of run takes, how it counts and does its work, what it tells.

Everything else about a run (its folder, worker, lock, resume, status, cancel) is the same for
every kind. To add one, add a folder with a file
``experiment.py`` to ``core/experiments``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from core.errors import SpecError
from core.protocol import Protocol
from core.registry import Registry
from core.runs.job import Job
from core.runs.plan import Plan, Spec
from core.storage.query import Schema
from core.storage.rows import RowStore
from core.types import Cohort, Instruction

Table = list[dict[str, Any]]
MADE = "made by the run"
"""What stands for a cohort in a spec and plan of a kind that makes its records itself."""


class Kind(ABC):
    """A kind of run.

    ``lists``: which of arms, readers and judges a spec may name, and whether it must;
    ``usual_arms`` are those of a spec that names none. ``fields``:
    the spec's fields of this kind's own. ``schemas``: the tables of its rows; ``main`` is the one
    with a row for each instruction and arm entry, where ``by_instruction`` says there is one.
    ``gpu``: the kind's own work, beside its members', uses a GPU where there is one. ``portion``:
    the column of every row that names the portion of the work it belongs to, where the work can
    be parted among workers; "" where it is one piece. ``makes_records``: it needs no cohort.
    ``compares``: its tables compare arms on the cohort's own questions. ``has_evidence``: its
    tables go by the position of evidence in a record.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    lists: ClassVar[Mapping[str, bool]] = {}
    usual_arms: ClassVar[tuple[str, ...]] = ()
    fields: ClassVar[tuple[str, ...]] = ()
    schemas: ClassVar[Mapping[str, Schema]]
    main: ClassVar[str]
    by_instruction: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    gpu: ClassVar[bool] = False
    portion: ClassVar[str] = ""
    makes_records: ClassVar[bool] = False
    has_evidence: ClassVar[bool] = True

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        """The kind's own fields of a spec, checked and complete, as JSON values.

        Raises SpecError, UnknownName or MissingModel.
        """
        return {}

    def cohort(self, cohort: Cohort, what: Spec | Plan) -> Cohort:
        """The cohort that the run works on, made from the one that was opened.

        Its instructions are what is asked, one for each prompt of an arm and reader. Raises
        SpecError where the opened one lacks what the kind needs.
        """
        return cohort

    def patients(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        """Of how many patients text is used; ``cohort`` is the run's own."""
        return len({instruction.record_id for instruction in asked})

    def found(self, cohort: Cohort) -> Mapping[str, Any]:
        """What planning found in the run's own cohort and its tables tell, as JSON values."""
        return {}

    @abstractmethod
    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        """How many items the run has; raises SpecError where the cohort lacks what it needs."""

    def portions(self, cohort: Cohort, plan: Plan) -> list[str]:
        """The names of all portions of the work, in the order in which it is done; ``cohort`` is
        the run's own. Only of a kind whose work can be parted."""
        return []

    @abstractmethod
    def execute(self, job: Job) -> None:
        """Do every item that is not there yet, each written down before the next is begun.

        Of a kind whose work can be parted, those of the portions that are the job's own.
        """

    @abstractmethod
    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        """The tables of the run's report, by name."""

    def warnings(self, plan: Plan) -> list[str]:
        """What a reader of the tables should know."""
        return []


def need_instructions(spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> None:
    """Raise SpecError for a cohort without questions, or without evidence for the oracle."""
    if not instructions:
        raise SpecError(f"{cohort.path} holds no instructions; a run asks a cohort's own questions")
    if any(entry.name == "oracle" for entry in spec.arms) and not cohort.gold:
        raise SpecError(
            f"the arm 'oracle' shows located evidence, and {cohort.path} holds no evidence"
        )


KINDS: Registry[Kind] = Registry("kind of run", "core.experiments", "experiment")
"""All kinds; the engine knows them by this registry alone."""
