"""Runs of kind ``selection``: every arm's selection for every question, without a reader."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import ClassVar

from core.experiments.selection import tables as stage1
from core.provenance import digest, now
from core.results.tables import failures
from core.runs.answering import select
from core.runs.evidence import Question, buffer_claims, question_of, score_semantic
from core.runs.experiment import EXPERIMENTS, Experiment, Table, need_instructions
from core.runs.job import Job, Row, reason_of
from core.runs.plan import ArmConfig, Plan, Spec
from core.runs.planner import by_patient, chosen, own_patients
from core.runs.schemas import SELECTIONS, entry_text, item_of
from core.storage.query import Schema
from core.storage.rows import RowStore
from core.text.prompt import limited, limits
from core.types import Cohort, Instruction, Selection


def _limited(job: Job, entry: ArmConfig, question: Question, selection: Selection) -> Row:
    """Columns of a selection cut to the protocol's own limits; failed with its reason where they
    leave no room for the question."""
    try:
        prompt = limited(question.instruction.question, selection, job.protocol)
    except Exception as error:  # noqa: BLE001 - becomes the row's reason
        return {"status": "failed", "reason": reason_of(error), "selection": None}
    return question.prompted(prompt, selection, buffer_claims(job.protocol, entry.shown_k))


@EXPERIMENTS.register("selection")
class SelectionRun(Experiment):
    """Arms × instructions (PROTOCOL, Stage 1)."""

    name, title = "selection", "What each arm keeps"
    lists: ClassVar[Mapping[str, bool]] = {"arms": True, "readers": False, "judges": False}
    options_model = stage1.SelectionOptions
    schemas: ClassVar[Mapping[str, Schema]] = {"selections": SELECTIONS, **stage1.SCHEMAS}
    main, shard = "selections", "record"
    compares = True

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        return len(instructions) * len(spec.arms) * (1 + stage1.stages(spec.options))

    def shards(self, cohort: Cohort, plan: Plan) -> list[str]:
        return list(by_patient(cohort, chosen(cohort, plan)))

    def execute(self, job: Job) -> None:
        there = job.there("selections")
        has_limits = limits(job.protocol) or any(e.options.get("window") for e in job.plan.arms)
        for instruction in chain.from_iterable(own_patients(job).values()):
            todo = [e for e in job.plan.arms if item_of(e, instruction.id) not in there]
            if not todo:
                continue
            question = question_of(job.cohort, instruction, job.protocol)
            for entry in todo:
                selection, row = select(job, entry, question)
                if selection is not None and has_limits:
                    row |= _limited(job, entry, question, selection)
                lines = (selection.lines if selection else None) or ()
                shown = [entry.sentence.id for entry in selection.kept] if selection else []
                text = ",".join([*shown, *(line.text for line in lines)])
                key = digest(entry_text(entry), instruction.id, text, repr(job.protocol))
                row |= {"key": key, "item": item_of(entry, instruction.id), "time": now()}
                job.append("selections", row)
        score_semantic(job, "selections")

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return {**stage1.tables(store, plan), "failures": failures(store, plan)}

    def warnings(self, plan: Plan) -> list[str]:
        warnings = stage1.warnings(plan)
        if plan.readers or plan.judges:
            warnings.append("a run of kind selection calls no reader and no judge")
        return warnings
