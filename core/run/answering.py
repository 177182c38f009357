"""One pass over questions: each arm entry's selection, each reader's answer, each judge's verdict.

What is there already is skipped; the verdicts that an answer lacks are asked for without reading
anew. Questions come in groups, a patient's each, so that what is worked out once a record
(sentences, indexes, vectors, a common opening of prompts) serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from core.run.entries import ArmEntry
from core.run.evidence import Question
from core.run.job import Job, Row
from core.run.judging import Judging
from core.run.reading import Asked, Reading
from core.run.rows import item_of
from core.run.selecting import select
from core.types import Instruction, Selection


class Answering:
    """A pass of a run with tables ``answers`` and ``verdicts``.

    ``question`` makes an instruction's question; it is called once for each that has work left.
    """

    def __init__(self, job: Job, question: Callable[[Instruction], Question]) -> None:
        self.job, self.question = job, question
        self.answers = job.there("answers", "item, key, status, answer, sources")
        self.verdicts = job.there("verdicts")
        self.judging = Judging(job, self.verdicts)
        self.reading = Reading(job, self.judging.judge)

    def run(self, groups: Iterable[Sequence[Instruction]]) -> None:
        """Do what is not there yet."""
        for instructions in groups:
            for instruction in instructions:
                todo = [entry for entry in self.job.plan.arms if self._wanting(entry, instruction)]
                if todo:
                    question = self.question(instruction)
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
