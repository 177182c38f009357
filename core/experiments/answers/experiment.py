"""Runs of kind ``answers``: selections read by readers, answers judged by judges.

Items go by record and then by instruction, so that what is computed once a record (sentences,
indexes, vectors) serves every arm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core.arms.hits import Question, question_of
from midchart.core.cohorts.composed import composed, evidence_notes, moved
from midchart.core.cohorts.gold import LazyValues
from midchart.core.cohorts.kept_questions import asked_of_all, checked_questions
from midchart.core.errors import SpecError
from midchart.core.experiments.answers import conclusion
from midchart.core.experiments.answers.tables import stage2
from midchart.core.experiments.answers.views import ANSWERS_VIEWS
from midchart.core.experiments.selection import SCHEMAS as STAGE1_SCHEMAS
from midchart.core.experiments.selection import (
    SelectionOptions,
    stage1_tables,
    stage1_warnings,
    stages,
)
from midchart.core.options import Several, Words
from midchart.core.provenance import seeded
from midchart.core.results.reviews import review_tables, reviews_of, with_reviews
from midchart.core.runs.answering import Answering
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.directory import RunDirectory
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table, need_instructions
from midchart.core.runs.job import Job
from midchart.core.runs.plan import Plan, Spec
from midchart.core.runs.schemas import ANSWERS, VERDICTS
from midchart.core.runs.semantic import SemanticPass
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.types import Cohort, Event, Gold, Instruction, Record

TASK = ("task", "repeats", "others")
"""Fields of LongHealth's tasks."""


class AnswersOptions(SelectionOptions):
    """The fields of kind ``answers``."""

    questions: Several[Words] = ()
    """Asked of every patient instead of the cohort's own questions."""
    task: Annotated[int, Field(ge=0, le=3)] = 0
    """LongHealth's task 1, 2 or 3 with the cohort's multiple-choice questions; 0: none of them."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 5
    """Orders of the notes in which a task asks each question."""
    others: Annotated[int, Field(ge=1, le=1000)] = 10
    """Notes of other patients in tasks 2 and 3."""

    def plan(self) -> dict[str, Any]:
        """``questions`` is left out where there are none, and so are the fields of a task."""
        plan = super().plan()
        for name in ("questions", *(() if self.task else TASK)):
            plan.pop(name)
        return plan | (
            {"questions": list(checked_questions(self.questions))} if self.questions else {}
        )


@EXPERIMENTS.register("answers")
class AnswersRun(Experiment):
    """Arms × instructions × readers × judges (docs/methods.md, Stage 2)."""

    name, title = "answers", "What readers answer and judges say"
    views = ANSWERS_VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": True, "readers": True, "judges": False}
    options_model = AnswersOptions
    schemas: ClassVar[Mapping[str, Schema]] = {
        "answers": ANSWERS,
        "verdicts": VERDICTS,
        **STAGE1_SCHEMAS,
    }
    main, shard = "answers", "record"
    compares = True

    def cohort(self, cohort: Cohort, what: Spec) -> Cohort:
        questions = what.options.get("questions")
        if "task" in what.options:
            if questions:
                raise SpecError("'task' asks the cohort's own questions; leave 'questions' out")
            task, repeats, others = (what.options[name] for name in TASK)
            return task_cohort(cohort, task, repeats, others, what.protocol.seed)
        return asked_of_all(cohort, questions) if questions else cohort

    def cohort_facts(self, cohort: Cohort) -> Mapping[str, Any]:
        counts = Counter(len(one.options) for one in cohort.instructions if one.options)
        return {"options": [[size, n] for size, n in sorted(counts.items())]} if counts else {}

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        verdicts = sum(judge.repeats for judge in spec.judge_entries)
        each = len(spec.readers) * (1 + verdicts) + stages(spec.options)
        return len(instructions) * len(spec.arms) * each

    def execute(self, job: Job) -> None:
        def question(instruction: Instruction) -> Question:
            plain = question_of(job.cohort, instruction, job.protocol)
            if not job.cohort.patient:
                return plain
            return replace(plain, site={"record": job.cohort.patient_of(instruction)})

        Answering(job, question).run()
        SemanticPass(job, "answers").run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        wanted = {name: chosen[name] for name in ("reader", "judge", "baseline") if name in chosen}
        return conclusion.conclusion(report, **wanted)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        folder = RunDirectory(store.folder.parent)
        reviews = reviews_of(folder)
        return {
            **stage1_tables(store, plan),
            **stage2(store, plan, with_reviews(plan, reviews), reviews.rows()),
            **_chance(plan),
            **review_tables(folder, reviews),
        }

    def warnings(self, plan: Plan) -> list[str]:
        return stage1_warnings(plan)


def _chance(plan: Plan) -> dict[str, Table]:
    """Table ``chance`` of a run with multiple-choice questions: a row a number of options, with the
    share that guessing has correct, and a row of all (``options`` null)."""
    sizes: list[list[int]] = plan.raw.get("found", {}).get("options", [])
    if not sizes:
        return {}
    rows = [{"options": size, "questions": n, "chance": 1 / size} for size, n in sizes]
    questions = sum(n for _, n in sizes)
    mean = fsum(n / size / questions for size, n in sizes)
    return {"chance": [*rows, {"options": None, "questions": questions, "chance": mean}]}


# LongHealth's three tasks (arXiv 2401.14490), for any cohort of notes with multiple choice.


CANNOT = "Question cannot be answered with provided documents"


def task_cohort(cohort: Cohort, task: int, repeats: int, others: int, seed: int) -> Cohort:
    """A LongHealth task's cohort, one record each question and repeat.

    Task 1: the patient's own notes. Task 2: the notes that hold the evidence, among notes of other
    patients, with one more option, that the question cannot be answered. Task 3: other patients'
    notes alone, where that option is correct. Notes are shuffled in each repeat. Accuracy is
    over all repeats, as the authors count; their limit of 16,000 tokens is ``context_tokens``.

    Raises SpecError for a cohort without multiple-choice questions whose evidence is located, or
    with fewer notes of other patients than ``others``.
    """
    # Questions with located evidence, and enough notes of other patients.
    asked = {
        one.id: one
        for one in cohort.instructions
        if one.options and (gold := cohort.gold.get(one.id)) is not None and gold.spans
    }
    if not asked:
        raise SpecError(
            f"{cohort.path} holds no multiple-choice question with located evidence; "
            "'task' needs a cohort like LongHealth"
        )
    patients = {one.record_id for one in asked.values()}
    notes = (
        [(id, e.order) for id, record in cohort.records.items() for e in record.events]
        if task > 1
        else []
    )
    for patient in patients if task > 1 else ():
        available = sum(id != patient for id, _ in notes)
        if available < others:
            raise SpecError(
                f"task {task} shows {others} notes of other patients, and for a patient there are "
                f"{available}; ask for fewer ('others')"
            )
    # A record for each question and repeat, built when it is read.
    sites = {
        f"{one.id}/{task}/{repeat}": (one, repeat)
        for one in asked.values()
        for repeat in range(1, repeats + 1)
    }

    def build(id: str) -> tuple[Record, Gold]:
        one, repeat = sites[id]
        record, gold = cohort.records[one.record_id], cohort.gold[one.id]
        rng = seeded(seed, "notes", one.id, str(task), str(repeat))
        chosen: list[Event] = []
        if task == 1:
            chosen = list(record.events)
        if task == 2:
            chosen = [record.events[number] for number in evidence_notes(gold)]
        if task > 1:
            rest = [note for note in notes if note[0] != one.record_id]
            drawn = rng.choice(len(rest), others, replace=False).tolist()
            chosen += [cohort.records[rest[i][0]].events[rest[i][1]] for i in drawn]
        order: list[int] = rng.permutation(len(chosen)).tolist()
        shown, places = composed(id, record, [chosen[i] for i in order])
        if task == 3:
            return shown, Gold(id, CANNOT)
        return shown, moved(gold, id, shown, places)

    built = LazyValues(list(sites), build)
    more = (CANNOT,) if task > 1 else ()
    return replace(
        cohort,
        records=LazyValues(list(sites), lambda id: built[id][0]),
        instructions=tuple(
            replace(one, id=id, record_id=id, options=(*one.options, *more))
            for id, (one, _) in sites.items()
        ),
        gold=LazyValues(list(sites), lambda id: built[id][1]),
        responses=(),
        labels={},
        patient={id: one.record_id for id, (one, _) in sites.items()},
    )
