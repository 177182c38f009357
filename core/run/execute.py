"""Do a plan's items, one after another, each written down before the next is begun.

Items go by record and then by instruction, so that what is worked out once a record (sentences,
indexes, vectors) serves every arm. Whatever fails becomes a row with a reason; the reason never
holds text of a record.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from core import settings
from core.arms import ARMS
from core.errors import MidchartError
from core.judges import JUDGES
from core.packing import build_prompt
from core.readers import READERS
from core.run.evidence import Question, question_of
from core.run.folder import Plan, now
from core.run.judging import judge_answer
from core.run.planning import by_record, chosen
from core.run.rows import (
    ANSWERS,
    SELECTIONS,
    VERDICTS,
    blank,
    digest,
    entry_text,
    item_of,
    kept_rows,
)
from core.run.spec import ArmEntry
from core.store import RowStore
from core.types import Answer, Arm, Cohort, Instruction, Judge, Reader, Selection, Span

T = TypeVar("T")
Row = dict[str, Any]


class Progress(Protocol):
    """Told after each item; answers whether to go on."""

    def __call__(self, done: int, failed: int) -> bool: ...


class Stopped(Exception):
    """Somebody asked the run to stop."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Broken:
    """A member that could not be made."""

    reason: str


def reason_of(error: BaseException) -> str:
    """Why something failed, safe to store: Midchart's own words, or a type and its place.

    Texts of other errors are left out, as they may quote a record.
    """
    if isinstance(error, MidchartError):
        return str(error)
    place = ""
    step = error.__traceback__
    while step is not None:
        path = Path(step.tb_frame.f_code.co_filename)
        if path.is_relative_to(settings.ROOT):
            place = f" at {path.relative_to(settings.ROOT)}:{step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__}{place}"


class Executor:
    """One pass over a plan. ``progress`` is called after every item and may stop the pass."""

    def __init__(self, plan: Plan, cohort: Cohort, store: RowStore, progress: Progress) -> None:
        self.plan, self.cohort, self.store, self.progress = plan, cohort, store, progress
        self.protocol = plan.protocol
        self.done = self.failed = 0
        self._built: dict[tuple[str, str], Any] = {}
        self._there: dict[str, dict[str, Row]] = {}

    def run(self) -> None:
        """Do what is not there yet; raises Stopped when told to, WorkFailed for a full disk."""
        for table in self.store.schemas:
            columns = "item, key, status" + (", answer, sources" if table == "answers" else "")
            rows = self.store.select(table, columns)
            self._there[table] = {row["item"]: row for row in rows}
            self.done += sum(row["status"] == "ok" for row in rows)
            self.failed += sum(row["status"] != "ok" for row in rows)
        self._tell()
        groups = by_record(chosen(self.cohort, self.plan.limit))
        for instructions in groups.values():
            for instruction in instructions:
                self._instruction(instruction)

    def _tell(self) -> None:
        if not self.progress(self.done, self.failed):
            raise Stopped

    def _append(self, table: str, row: Row) -> None:
        self.store.append(table, row)
        if row["status"] == "ok":
            self.done += 1
        else:
            self.failed += 1

    def _member(self, family: str, name: str, make: Callable[[], T]) -> T:
        """A member, made once; one that cannot be made fails every item of its own."""
        key = (family, name)
        if key not in self._built:
            try:
                self._built[key] = make()
            except Exception as error:  # noqa: BLE001 - kept, and raised for each of its items
                self._built[key] = _Broken(reason_of(error))
        found = self._built[key]
        if isinstance(found, _Broken):
            raise MidchartError(found.reason)
        return found

    def _arm(self, entry: ArmEntry) -> Arm:
        def pinned(instruction: Instruction) -> tuple[Span, ...]:
            gold = self.cohort.gold.get(instruction.id)
            return gold.spans if gold is not None else ()

        def make() -> Arm:
            options: dict[str, Any] = dict(entry.options)
            if entry.name == "oracle":
                options["pinned"] = pinned
            return ARMS.build(entry.name, self.protocol, **options)

        return self._member("arm", entry.label, make)

    def _reader(self, name: str) -> Reader:
        return self._member("reader", name, lambda: READERS.build(name, self.protocol))

    def _judge(self, name: str) -> Judge:
        return self._member("judge", name, lambda: JUDGES.build(name, self.protocol))

    def _instruction(self, instruction: Instruction) -> None:
        if self.plan.kind == "selection":
            todo = [
                entry
                for entry in self.plan.arms
                if item_of(entry, instruction.id) not in self._there["selections"]
            ]
        else:
            todo = [entry for entry in self.plan.arms if self._wanting(entry, instruction)]
        if not todo:
            return
        question = question_of(self.cohort, instruction, self.protocol, reason_of)
        for entry in todo:
            if self.plan.kind == "selection":
                self._selection(entry, question)
            else:
                self._answers(entry, question)

    def _wanting(self, entry: ArmEntry, instruction: Instruction) -> bool:
        return any(
            item_of(entry, instruction.id, reader) not in self._there["answers"]
            or any(
                item_of(entry, instruction.id, reader, judge) not in self._there["verdicts"]
                for judge in self.plan.judges
            )
            for reader in self.plan.readers
        )

    def _select(self, entry: ArmEntry, question: Question) -> tuple[Selection | None, Row]:
        """A selection and the columns that tell of it; None and a reason where it failed."""
        row: Row = {
            **blank(SELECTIONS),
            "label": entry.label,
            "arm": entry.name,
            "k": entry.k,
            **question.columns(),
        }
        begun = time.perf_counter()
        try:
            record = question.record()
            selection = self._arm(entry).select(record, question.instruction, entry.budget)
        except Exception as error:  # noqa: BLE001 - becomes the row's reason
            row |= {"status": "failed", "reason": reason_of(error)}
            return None, row
        row |= {
            "status": "ok",
            "selection": kept_rows(selection),
            "selection_tokens": selection.tokens,
            "selection_cut": selection.cut,
            "selection_seconds": time.perf_counter() - begun,
            "trace": [{"name": name, "value": value} for name, value in selection.trace],
            **question.hits(selection),
        }
        return selection, row

    def _selection(self, entry: ArmEntry, question: Question) -> None:
        selection, row = self._select(entry, question)
        kept = ",".join(k.sentence.id for k in selection.kept) if selection else ""
        item = item_of(entry, question.instruction.id)
        key = digest(entry_text(entry), question.instruction.id, kept, repr(self.protocol))
        self._append("selections", {**row, "key": key, "item": item, "time": now()})
        self._tell()

    def _answers(self, entry: ArmEntry, question: Question) -> None:
        selected: tuple[Selection | None, Row] | None = None
        for reader in self.plan.readers:
            item = item_of(entry, question.instruction.id, reader)
            row = self._there["answers"].get(item)
            if row is None:
                if selected is None:
                    selected = self._select(entry, question)
                row = self._answer(entry, question, reader, *selected)
                row |= {"item": item, "time": now()}
                self._append("answers", row)
                self._tell()
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
        prompt = None
        if selection is not None:
            begun = time.perf_counter()
            try:
                built = self._reader(reader)
                prompt = build_prompt(
                    question.instruction.question,
                    selection,
                    self.protocol,
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
        identity = (entry_text(entry), reader, question.instruction.id, text, repr(self.protocol))
        return {**row, "key": digest(*identity)}

    def _verdicts(
        self, entry: ArmEntry, question: Question, reader: str, answer: Mapping[str, Any]
    ) -> None:
        for name in self.plan.judges:
            item = item_of(entry, question.instruction.id, reader, name)
            if item in self._there["verdicts"]:
                continue
            begun = time.perf_counter()
            judged = judge_answer(
                lambda name=name: self._judge(name), question, answer, self.protocol, reason_of
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
            self._append("verdicts", row)
            self._tell()
