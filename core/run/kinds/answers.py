"""Runs of kind ``answers``: selections read by readers, answers judged by judges.

Items go by record and then by instruction, so that what is worked out once a record (sentences,
indexes, vectors) serves every arm.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from core.packing import build_prompt
from core.run.evidence import Question, question_of
from core.run.folder import Plan, now
from core.run.job import Job, Row, reason_of
from core.run.judging import judge_answer
from core.run.kind import Kind, Table, need_instructions
from core.run.kinds import KINDS
from core.run.planning import by_record, chosen
from core.run.rows import ANSWERS, VERDICTS, blank, digest, entry_text, item_of
from core.run.selecting import select
from core.run.spec import ArmEntry, Spec
from core.run.tables import accuracy, agreement, failures, hit_miss, paired, unlocated
from core.run.tables_recall import recall, tokens
from core.store import RowStore, Schema
from core.types import Answer, Cohort, Instruction, Selection


@KINDS.register("answers")
class AnswersRun(Kind):
    """Arms × instructions × readers × judges (PROTOCOL, Stage 2)."""

    name, title = "answers", "What readers answer and judges say"
    lists: ClassVar[Mapping[str, bool]] = {"arms": True, "readers": True, "judges": False}
    schemas: ClassVar[Mapping[str, Schema]] = {"answers": ANSWERS, "verdicts": VERDICTS}
    main, by_instruction = "answers", True

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        return len(instructions) * len(spec.arms) * len(spec.readers) * (1 + len(spec.judges))

    def execute(self, job: Job) -> None:
        _Pass(job).run()

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return {
            "recall": recall(store, plan),
            "accuracy": accuracy(store, plan),
            "tokens": tokens(store, plan),
            "hit_miss": hit_miss(store, plan),
            "paired": paired(store, plan),
            "agreement": agreement(store, plan),
            "unlocated": unlocated(store, plan),
            "failures": failures(store, plan),
        }


class _Pass:
    """One pass over a run of answers."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answers = job.there("answers", "item, key, status, answer, sources")
        self.verdicts = job.there("verdicts")

    def run(self) -> None:
        """Do what is not there yet."""
        job = self.job
        for instructions in by_record(chosen(job.cohort, job.plan.limit)).values():
            for instruction in instructions:
                todo = [entry for entry in job.plan.arms if self._wanting(entry, instruction)]
                if todo:
                    question = question_of(job.cohort, instruction, job.protocol, reason_of)
                    for entry in todo:
                        self._entry(entry, question)

    def _wanting(self, entry: ArmEntry, instruction: Instruction) -> bool:
        return any(
            item_of(entry, instruction.id, reader) not in self.answers
            or any(
                item_of(entry, instruction.id, reader, judge) not in self.verdicts
                for judge in self.job.plan.judges
            )
            for reader in self.job.plan.readers
        )

    def _entry(self, entry: ArmEntry, question: Question) -> None:
        selected: tuple[Selection | None, Row] | None = None
        for reader in self.job.plan.readers:
            item = item_of(entry, question.instruction.id, reader)
            row = self.answers.get(item)
            if row is None:
                if selected is None:
                    selected = select(self.job, entry, question)
                row = self._answer(entry, question, reader, *selected)
                row |= {"item": item, "time": now()}
                self.job.append("answers", row)
            self._verdicts(entry, question, reader, row)

    def _answer(
        self,
        entry: ArmEntry,
        question: Question,
        reader: str,
        selection: Selection | None,
        selected: Mapping[str, Any],
    ) -> Row:
        row: Row = {**blank(ANSWERS), **selected, "reader": reader}
        protocol = self.job.protocol
        prompt = None
        if selection is not None:
            begun = time.perf_counter()
            try:
                built = self.job.reader(reader)
                prompt = build_prompt(
                    question.instruction.question,
                    selection,
                    protocol,
                    built.window,
                    built.count_tokens,
                )
                answer = built.read(prompt)
            except Exception as error:  # noqa: BLE001 - becomes the row's reason
                answer = Answer("", "failed", reason_of(error))
            row |= {
                "status": answer.status,
                "reason": answer.reason or None,
                "answer": answer.text if answer.status == "ok" else None,
                "sources": list(answer.sources),
                "read_tokens": answer.prompt_tokens,
                "output_tokens": answer.output_tokens,
                "seconds": answer.seconds or time.perf_counter() - begun,
            }
        if prompt is not None:
            row |= {
                "prompt": prompt.text,
                "prompt_hash": digest(prompt.text),
                "prompt_tokens": prompt.tokens,
                "cut": list(prompt.cut),
                "question_survived": prompt.question_survived,
                "evidence_in_prompt": question.holds_evidence(
                    line.sentence_id for line in prompt.context
                ),
            }
        text = prompt.text if prompt is not None else ""
        identity = (entry_text(entry), reader, question.instruction.id, text, repr(protocol))
        return {**row, "key": digest(*identity)}

    def _verdicts(
        self, entry: ArmEntry, question: Question, reader: str, answer: Mapping[str, Any]
    ) -> None:
        for name in self.job.plan.judges:
            item = item_of(entry, question.instruction.id, reader, name)
            if item in self.verdicts:
                continue
            begun = time.perf_counter()
            judged = judge_answer(
                lambda name=name: self.job.judge(name),
                question,
                answer,
                self.job.protocol,
                reason_of,
            )
            verdict = judged.verdict
            row: Row = {
                **blank(VERDICTS),
                **question.columns(),
                "key": digest(answer["key"], name, item),
                "item": item,
                "status": "failed" if verdict.outcome == "failed" else "ok",
                "reason": verdict.reason or None,
                "label": entry.label,
                "arm": entry.name,
                "k": entry.k,
                "reader": reader,
                "judge": name,
                "answer_key": answer["key"],
                **{k: v for k, v in dataclasses.asdict(verdict).items() if k != "reason"},
                "prompt_hash": judged.prompt_hash,
                "nan_evidence": judged.nan_evidence,
                "seconds": time.perf_counter() - begun,
                "time": now(),
            }
            self.job.append("verdicts", row)
