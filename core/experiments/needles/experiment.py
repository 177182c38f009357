"""Runs of kind ``needles``: one made-up fact at every depth of one record, so that only its
position changes (PROTOCOL, Experiment 1: controlled needle runs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from core.errors import SpecError
from core.experiments.needles.cohort import NeedleCohort, cut_rows, needle_cohort
from core.experiments.needles.tables import (
    NEEDLE_ANSWERS,
    NEEDLE_VERDICTS,
    needle_question,
    needle_tables,
)
from core.protocol import Protocol
from core.runs.answering import Answering
from core.runs.directory import RunDirectory
from core.runs.experiment import EXPERIMENTS, Experiment, Table
from core.runs.job import Job
from core.runs.plan import Plan, Spec
from core.runs.planner import chosen
from core.runs.reviews import review_tables, reviews_of, with_reviews
from core.storage.query import Schema
from core.storage.rows import RowStore
from core.types import Cohort, Instruction

USUAL: Mapping[str, Any] = {
    "lengths": [1000, 4000, 16000],
    "depths": list(range(0, 101, 10)),
    "distractors": [0],
    "needles": 4,
    "patients": 5,
}
MOST_DISTRACTORS = 20
MOST_NEEDLES = 24
LEAST_LENGTH = 100


@EXPERIMENTS.register("needles")
class NeedleRun(Experiment):
    """Records × needles × lengths × distractors × depths × arms × readers × judges."""

    name, title = "needles", "The same fact at every depth"
    lists: ClassVar[Mapping[str, bool]] = {"arms": False, "readers": True, "judges": True}
    usual_arms = ("full",)
    fields = tuple(USUAL)
    schemas: ClassVar[Mapping[str, Schema]] = {
        "answers": NEEDLE_ANSWERS,
        "verdicts": NEEDLE_VERDICTS,
    }
    main, portion = "answers", "record"

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        for name in ("limit", "part"):
            if name in table:
                raise SpecError(f"a run of kind 'needles' takes no {name}: say 'patients' instead")
        given = {**USUAL, **{name: table[name] for name in USUAL if name in table}}
        return {
            "lengths": _wholes(given, "lengths", LEAST_LENGTH, 10**7),
            "depths": _wholes(given, "depths", 0, 100),
            "distractors": _wholes(given, "distractors", 0, MOST_DISTRACTORS),
            "needles": _whole(given["needles"], "'needles' of the spec", 1, MOST_NEEDLES),
            "patients": _whole(given["patients"], "'patients' of the spec", 1, 10**7),
        }

    def cohort(self, cohort: Cohort, what: Spec | Plan) -> NeedleCohort:
        return needle_cohort(cohort, what.options, what.protocol)

    def patients(self, cohort: Cohort, asked: Sequence[Instruction]) -> int:
        own = cast(NeedleCohort, cohort)
        return len({own.site(instruction.id).record for instruction in asked})

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        return {"cuts": cut_rows(cast(NeedleCohort, cohort))}

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        verdicts = sum(judge.repeats for judge in spec.judges)
        return len(instructions) * len(spec.arms) * len(spec.readers) * (1 + verdicts)

    def portions(self, cohort: Cohort, plan: Plan) -> list[str]:
        return list(_by_source(cast(NeedleCohort, cohort), plan))

    def execute(self, job: Job) -> None:
        cohort = cast(NeedleCohort, job.cohort)
        groups = [
            group for record, group in _by_source(cohort, job.plan).items() if job.mine(record)
        ]
        Answering(job, lambda one: needle_question(cohort, one, job.protocol)).run(groups)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        folder = RunDirectory(store.folder.parent)
        reviews = reviews_of(folder)
        return {
            **needle_tables(store, with_reviews(plan, reviews), reviews.rows()),
            **review_tables(folder, reviews),
        }

    def warnings(self, plan: Plan) -> list[str]:
        cuts = plan.raw["found"]["cuts"]
        told = [
            "records are cut to whole events; what is left out is their beginning, and where a "
            "long note stands in the way some of their end (table cuts)"
        ]
        refused = [cut for cut in cuts if cut["reason"]]
        if refused:
            at = ", ".join(
                f"{sum(cut['length'] == length for cut in refused)} at {length} tokens"
                for length in sorted({cut["length"] for cut in refused})
            )
            told.append(f"of {len({c['record'] for c in cuts})} records refused: {at} (table cuts)")
        return told


def _by_source(cohort: NeedleCohort, plan: Plan) -> dict[str, list[Instruction]]:
    groups: dict[str, list[Instruction]] = {}
    for instruction in chosen(cohort, plan):
        groups.setdefault(cohort.site(instruction.id).record, []).append(instruction)
    return groups


def _whole(value: Any, where: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise SpecError(f"{where} is {value!r}; it takes a whole number from {least} to {most}")
    return value


def _wholes(table: Mapping[str, Any], name: str, least: int, most: int) -> list[int]:
    """A field's numbers, ascending."""
    given = table[name]
    if not isinstance(given, list | tuple) or not given:
        raise SpecError(f"{name!r} of the spec is {given!r}; it takes a list of whole numbers")
    values = cast("Sequence[Any]", given)
    found = {_whole(one, f"a value of {name!r} of the spec", least, most) for one in values}
    if len(found) < len(values):
        raise SpecError(f"{name!r} of the spec holds a number twice")
    return sorted(found)
