"""Runs of kind ``needles``: one synthetic fact at every depth of one record, or the note with a
question's evidence at every depth among the others, so that only its position changes
(docs/methods.md, Experiment 1: controlled needle runs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import AfterValidator, Field, model_validator

from midchart.core.errors import SpecError
from midchart.core.experiments.needles import views
from midchart.core.experiments.needles.cohort import NeedleCohort, moved_cohort, needle_cohort
from midchart.core.experiments.needles.tables import (
    NEEDLE_ANSWERS,
    NEEDLE_VERDICTS,
    needle_question,
    needle_tables,
)
from midchart.core.options import Different, Options
from midchart.core.results.reviews import review_tables, reviews_of, with_reviews
from midchart.core.runs.answering import Answering
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.directory import RunDirectory
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table
from midchart.core.runs.job import Job
from midchart.core.runs.plan import Plan, Spec
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import Cohort, Instruction

T = TypeVar("T", bound=int)
Ascending = Annotated[Different[T], AfterValidator(lambda values: tuple(sorted(values)))]


NOTE_DEFAULTS: Mapping[str, Any] = {"depths": (0, 25, 50, 75, 100), "distractors": (8,)}


class NeedleOptions(Options):
    """The fields of kind ``needles``."""

    moved: Literal["fact", "note"] = "fact"
    """What is put at each depth: a synthetic fact in a record, or the note with the evidence of one
    of the record's own questions among other notes of it."""
    lengths: Ascending[Annotated[int, Field(ge=100, le=10**7)]] = (1000, 4000, 16000)
    """Lengths of the records, in tokens."""
    depths: Ascending[Annotated[int, Field(ge=0, le=100)]] = tuple(range(0, 101, 10))
    """Depths of the fact, in per cent of the record's tokens; of a moved note 0, 25, 50, 75 and 100
    unless given."""
    distractors: Ascending[Annotated[int, Field(ge=0, le=20)]] = (0,)
    """Numbers of similar facts inserted as distractors; of a moved note, of the other notes (from
    1, 8 unless given)."""
    needles: Annotated[int, Field(ge=1, le=24)] = 4
    """Synthetic facts per record, each with one question; of a moved note, questions."""
    patients: Annotated[int, Field(ge=1, le=10**7)] = 5
    """Records used."""

    @model_validator(mode="before")
    @classmethod
    def _of_notes(cls, table: Any) -> Any:
        return NOTE_DEFAULTS | table if table.get("moved") == "note" else table

    def plan(self) -> dict[str, Any]:
        """``moved`` is left out where it is a fact. Raises SpecError for a note among no other."""
        plan = super().plan()
        if self.moved == "fact":
            plan.pop("moved")
        elif 0 in self.distractors:
            raise SpecError("'distractors' of the spec holds 0; a note is moved among 1 or more")
        return plan


@EXPERIMENTS.register("needles")
class NeedleRun(Experiment):
    """Records × needles × lengths × distractors × depths × arms × readers × judges."""

    name, title = "needles", "The same fact at every depth"
    views = views.VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": False, "readers": True, "judges": True}
    usual_arms = ("full",)
    options_model = NeedleOptions
    refuses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("limit", "part"), "say 'patients' instead"
    )
    schemas: ClassVar[Mapping[str, Schema]] = {
        "answers": NEEDLE_ANSWERS,
        "verdicts": NEEDLE_VERDICTS,
    }
    main, shard = "answers", "record"

    def cohort(self, cohort: Cohort, what: Spec) -> NeedleCohort:
        if "moved" in what.options:
            return moved_cohort(cohort, what.options, what.protocol)
        return needle_cohort(cohort, what.options, what.protocol)

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        return {"cuts": cast(NeedleCohort, cohort).cuts}

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        verdicts = sum(judge.repeats for judge in spec.judge_entries)
        return len(instructions) * len(spec.arms) * len(spec.readers) * (1 + verdicts)

    def execute(self, job: Job) -> None:
        cohort = cast(NeedleCohort, job.cohort)
        question = partial(needle_question, cohort, protocol=job.protocol)
        Answering(job, question).run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        wanted = {name: chosen[name] for name in ("label", "reader", "judge") if name in chosen}
        return views.conclusion(report, **wanted)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        folder = RunDirectory(store.folder.parent)
        reviews = reviews_of(folder)
        return {
            **needle_tables(store, with_reviews(plan, reviews), reviews.rows()),
            **review_tables(folder, reviews),
        }

    def warnings(self, plan: Plan) -> list[str]:
        cuts = plan.raw["found"]["cuts"]
        if "moved" in plan.options:
            return _warnings_of_notes(cuts)
        warnings = [
            "records are cut to whole events; their beginning is left out, and some of their end "
            "where a long note does not fit (table cuts)"
        ]
        refused = [cut for cut in cuts if cut["reason"]]
        if refused:
            at = ", ".join(
                f"{sum(cut['length'] == length for cut in refused)} at {length} tokens"
                for length in sorted({cut["length"] for cut in refused})
            )
            records = len({cut["record"] for cut in cuts})
            warnings.append(f"of {records} records refused: {at} (table cuts)")
        return warnings


def _warnings_of_notes(cuts: Sequence[Mapping[str, Any]]) -> list[str]:
    warnings = [
        "notes keep their dates, so the date of the moved note is out of order; the longest of the "
        "other notes are shortened at a sentence's end (table cuts)"
    ]
    for length, count in sorted({(cut["length"], cut["distractors"]) for cut in cuts}):
        rows = [cut for cut in cuts if (cut["length"], cut["distractors"]) == (length, count)]
        refused, of = (sum(row[name] for row in rows) for name in ("refused", "questions"))
        if refused:
            warnings.append(
                f"at {length} tokens with {count} other notes {refused} of {of} questions cannot "
                "be used (table cuts)"
            )
    return warnings
