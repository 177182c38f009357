"""Runs of kind ``answers``: selections read by readers, answers judged by judges.

Items go by record and then by instruction, so that what is worked out once a record (sentences,
indexes, vectors) serves every arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.protocol import Protocol
from core.run import semantic, stage1
from core.run.evidence import Question, question_of
from core.run.folder import Plan
from core.run.job import Job, Row, reason_of
from core.run.judging import Judging
from core.run.kind import Kind, Table, need_instructions
from core.run.kinds import KINDS
from core.run.planning import by_record, chosen
from core.run.reading import Asked, Reading
from core.run.rows import ANSWERS, VERDICTS, item_of
from core.run.selecting import select
from core.run.spec import ArmEntry, Spec
from core.run.tables_stage2 import stage2
from core.store import RowStore, Schema
from core.types import Cohort, Instruction, Selection


@KINDS.register("answers")
class AnswersRun(Kind):
    """Arms × instructions × readers × judges (PROTOCOL, Stage 2)."""

    name, title = "answers", "What readers answer and judges say"
    lists: ClassVar[Mapping[str, bool]] = {"arms": True, "readers": True, "judges": False}
    fields = stage1.FIELDS
    schemas: ClassVar[Mapping[str, Schema]] = {
        "answers": ANSWERS,
        "verdicts": VERDICTS,
        **stage1.SCHEMAS,
    }
    main, by_instruction = "answers", True

    def options(self, table: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        return stage1.options(table)

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        verdicts = sum(judge.repeats for judge in spec.judges)
        each = len(spec.readers) * (1 + verdicts) + stage1.stages(spec.options)
        return len(instructions) * len(spec.arms) * each

    def execute(self, job: Job) -> None:
        _Pass(job).run()
        semantic.score(job, "answers")

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return {
            **stage1.tables(store, plan),
            **stage2(store, plan),
        }

    def warnings(self, plan: Plan) -> list[str]:
        return stage1.warnings(plan)


class _Pass:
    """One pass over a run of answers."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answers = job.there("answers", "item, key, status, answer, sources")
        self.verdicts = job.there("verdicts")
        self.judging = Judging(job, self.verdicts)
        self.reading = Reading(job, self.judging.judge)

    def run(self) -> None:
        """Do what is not there yet."""
        job = self.job
        for instructions in by_record(chosen(job.cohort, job.plan)).values():
            for instruction in instructions:
                todo = [entry for entry in job.plan.arms if self._wanting(entry, instruction)]
                if todo:
                    question = question_of(job.cohort, instruction, job.protocol, reason_of)
                    for entry in todo:
                        self._entry(entry, question)
            self.reading.end_of_record()
        self.reading.finish()
        self.judging.finish()

    def _wanting(self, entry: ArmEntry, instruction: Instruction) -> bool:
        return any(
            item_of(entry, instruction.id, reader) not in self.answers
            or any(
                item_of(entry, instruction.id, reader, judge.label, repeat) not in self.verdicts
                for judge in self.job.plan.judge_entries
                for repeat in range(judge.repeats)
            )
            for reader in self.job.plan.readers
        )

    def _entry(self, entry: ArmEntry, question: Question) -> None:
        selected: tuple[Selection | None, Row] | None = None
        for reader in self.job.plan.readers:
            asked = Asked(entry, question, reader)
            row = self.answers.get(asked.item)
            if row is not None:
                self.judging.judge(asked, row)
                continue
            if selected is None:
                selected = select(self.job, entry, question)
            self.reading.ask(asked, *selected)
