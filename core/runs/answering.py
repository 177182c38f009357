"""One pass over questions: each arm's selection, each reader's answer, each judge's verdict.

Questions come in groups by patient, so that what is derived of a record is computed once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Annotated, Any, Generic, Optional, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from midchart.core.arms.base import ScoredArm
from midchart.core.arms.hits import Question, buffer_claims
from midchart.core.client.streams import ServiceStream, outcomes
from midchart.core.errors import MidchartError, WorkFailed, reason_of
from midchart.core.interfaces import GroupJudge, Judge, Reader, read_each, streams
from midchart.core.judges.exact import IN_ORDER
from midchart.core.judges.rules import failure_kind, reference_of
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now
from midchart.core.runs.job import Job, Row, by_patient
from midchart.core.runs.plan import EXACT, ArmConfig
from midchart.core.runs.schemas import (
    ANSWERS,
    LARGEST,
    SELECTIONS,
    VERDICTS,
    blank,
    entry_text,
    item_of,
    kept_rows,
    line_rows,
    wording,
)
from midchart.core.text import words
from midchart.core.text.prompt import build_prompt, frame_of, was_cut
from midchart.core.types import Answer, Gold, Instruction, Prompt, Selection, Usage, Verdict

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

# Selections.


def select(job: Job, entry: ArmConfig, question: Question) -> tuple[Selection | None, Row]:
    """A selection and its columns; None and a reason where it failed.

    The caller sets ``key``, ``item`` and ``time``. Raises Stopped.
    """
    row: Row = {
        **blank(SELECTIONS),
        "label": entry.label,
        "arm": entry.name,
        "k": entry.shown_k,
        **question.columns(),
    }
    start = time.perf_counter()
    try:
        arm, record = job.arm(entry), question.record()
        selection = arm.select(record, question.instruction, entry.budget)
    except Exception as error:  # noqa: BLE001 - becomes the row's reason
        row |= {"status": "failed", "reason": reason_of(error)}
        return None, row
    row |= {
        "status": "ok",
        "selection": kept_rows(selection),
        "wording": wording(selection),
        "lines": line_rows(selection),
        "selection_tokens": selection.tokens,
        "selection_cut": selection.cut,
        "selection_seconds": time.perf_counter() - start,
        "trace": [{"name": name, "value": value} for name, value in selection.trace],
        **question.hits(selection, buffer_claims(job.protocol, entry.shown_k)),
    }
    if isinstance(arm, ScoredArm):
        row["unmatched"] = arm.unmatched(record, question.instruction, selection)
    return selection, row


# Items that readers and judges work on: a batch at a time, or as a service does.


STREAMED = 2
"""Groups that a service may have without an outcome: the next is made while one is at work."""


class Stage(ABC, Generic[A, R, T]):
    """Work items of readers or judges, grouped by label. Each item carries a ticket: the further
    values that its row is written with."""

    groups = 1
    """Groups that a batch may hold before it is done in the middle of a patient."""
    failed: Callable[[str], R]
    """The result of an item without an outcome, for a reason."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._batches: dict[str, list[tuple[A, T]]] = {}
        self._streams: dict[str, ServiceStream[A, R, T]] = {}

    @abstractmethod
    def member(self, label: str) -> object:
        """The reader or judge; raises MidchartError where it cannot be built."""

    @abstractmethod
    def work(self, label: str, items: Iterable[A]) -> Iterator[tuple[int, R]]:
        """Each item's index and result, in any order."""

    @abstractmethod
    def write(self, ticket: T, result: Any, seconds: float) -> None:
        """Write an item's row."""

    def put(self, label: str, item: A, ticket: T) -> None:
        """Have an item worked on."""
        group, is_stream = self._group(label)
        if is_stream:
            if label not in self._streams:
                self._streams[label] = ServiceStream(
                    partial(self.work, label), STREAMED * group, self.failed, self.job.notify
                )
            self._write_all(self._streams[label].put(item, ticket))
        else:
            batch = self._batches.setdefault(label, [])
            batch.append((item, ticket))
            if group <= 1 or len(batch) >= self.groups * group:
                self._do(label)
        self.job.notify()

    def _group(self, label: str) -> tuple[int, bool]:
        """How many items are worth collecting, and whether a service takes them as they come."""
        try:
            member = self.member(label)
        except MidchartError:
            return 1, False  # one that cannot be built fails each item with its reason
        return getattr(member, "group", 1), streams(member)

    def _do(self, label: str) -> None:
        batch, self._batches[label] = self._batches[label], []
        items = [item for item, _ in batch]
        start = time.perf_counter()
        missing = set(range(len(batch)))
        results = outcomes(partial(self.work, label), items, missing, self.failed)
        with closing(results):
            for index, result in results:
                self.write(batch[index][1], result, time.perf_counter() - start)
                start = time.perf_counter()

    def _write_all(self, outcomes: Iterable[tuple[T, R, float]]) -> None:
        for outcome in outcomes:
            self.write(*outcome)

    def collect(self) -> None:
        """Write the outcomes that services have given meanwhile."""
        for stream in self._streams.values():
            self._write_all(stream.ready())

    def end_of_record(self) -> None:
        """Do every batch of at least a group, as a patient's items are complete."""
        for label, batch in self._batches.items():
            if batch and len(batch) >= self._group(label)[0]:
                self._do(label)

    def finish(self) -> None:
        """Do what is left, and await all."""
        for label, batch in self._batches.items():
            if batch:
                self._do(label)
        for stream in self._streams.values():
            self._write_all(stream.finish())

    def stop(self) -> None:
        """Await nothing that services have not given."""
        for stream in self._streams.values():
            stream.stop()


# Answers: a prompt is built, read and written as a row.


@dataclass(frozen=True, slots=True)
class ReaderQuestion:
    """A question put to a reader (its label) over an arm's selection."""

    entry: ArmConfig
    question: Question
    reader: str

    @property
    def item(self) -> str:
        """The name of this piece of work in the run."""
        return item_of(self.entry, self.question.instruction.id, self.reader)


_Asked = tuple[ReaderQuestion, Row, Prompt]
AS_ANSWERED = ("status", "output_tokens", "reused_tokens", "reasoning_tokens", "cost_usd")
NULL_WHERE_EMPTY = ("reason", "peak_mb", "how", "reasoning", "endpoint", "model")
"""Columns of an answer that are null where the reader says nothing."""


def _failed(reason: str) -> Answer:
    return Answer("", "failed", reason)


class ReadingPass(Stage[Prompt, Answer, _Asked]):
    """All reading of a pass. ``answered`` is called with every row once it is written.

    ``complete``: a question whose prompt cannot hold all of its selection fails.
    """

    groups = 4
    failed = staticmethod(_failed)

    def __init__(
        self, job: Job, answered: Callable[[ReaderQuestion, Row], None], complete: bool = False
    ) -> None:
        super().__init__(job)
        self.answered, self.complete = answered, complete

    def ask(self, asked: ReaderQuestion, selection: Selection | None, selected: Row) -> None:
        """Read a question; ``selected`` are the columns of its selection."""
        row: Row = {**blank(ANSWERS), **selected, "reader": asked.reader}
        if selection is None:
            self._write(asked, row, None)
            return
        try:
            reader = self.job.reader(asked.reader)
            prompt = build_prompt(
                asked.question.instruction.question,
                selection,
                self.job.protocol,
                reader.window,
                reader.count_tokens,
                frame_of(reader),
                asked.question.instruction.options,
            )
            if self.complete and was_cut(prompt):
                raise WorkFailed(
                    f"the context is longer than the {reader.window} tokens that the reader takes "
                    "or than the protocol allows; keep fewer lines or add less"
                )
        except Exception as error:  # noqa: BLE001 - becomes the row's reason
            row |= {"status": "failed", "reason": reason_of(error)}
            self._write(asked, row, None)
            return
        claims = buffer_claims(self.job.protocol, asked.entry.shown_k)
        row |= asked.question.prompted(prompt, selection, claims)
        self.put(asked.reader, prompt, (asked, row, prompt))

    def member(self, label: str) -> Reader:
        return self.job.reader(label)

    def work(self, label: str, items: Iterable[Prompt]) -> Iterator[tuple[int, Answer]]:
        return read_each(self.job.reader(label), items)

    def write(self, ticket: _Asked, result: Any, seconds: float) -> None:
        """Write an answer's row; ``seconds``: those of an answer that states none."""
        asked, row, prompt = ticket
        answer = _checked(result)
        row |= {
            "answer": answer.text if answer.status == "ok" else None,
            "sources": list(answer.sources),
            "evidence_quoted": asked.question.quoted(answer.sources),
            "read_tokens": answer.prompt_tokens,
            "seconds": answer.seconds or seconds,
            "ended": answer.ended if answer.status == "ok" else None,
            **{name: getattr(answer, name) for name in AS_ANSWERED},
            **{name: getattr(answer, name) or None for name in NULL_WHERE_EMPTY},
        }
        self._write(asked, row, prompt, answer.quotes)

    def _write(
        self, asked: ReaderQuestion, row: Row, prompt: Prompt | None, quotes: bool = False
    ) -> None:
        if prompt is not None:
            row |= {
                "prompt": prompt.text,
                "prompt_hash": digest(prompt.text),
                "template": prompt.template or None,
                "question_survived": prompt.question_survived,
            }
        gold, question = asked.question.gold, asked.question.instruction.question
        if prompt is not None and row["answer"] is not None and gold is not None:
            shown = (line.text for line in prompt.context)
            survived, reference = prompt.question_survived, reference_of(gold)
            row["failure_kind"] = failure_kind(
                question, row["answer"], reference, shown, survived, quotes
            )
        identity = (
            entry_text(asked.entry),
            asked.reader,
            asked.question.instruction.id,
            prompt.text if prompt is not None else "",
            repr(self.job.protocol),
        )
        row |= {"key": digest(*identity), "item": asked.item, "time": now()}
        self.job.append("answers", row)
        self.answered(asked, row)


def _checked(answer: object) -> Answer:
    """A reader's answer, or a failed one where it is malformed."""
    if isinstance(answer, Answer) and isinstance(answer.sources, list):
        answer = replace(answer, sources=tuple(answer.sources))
    try:
        answer = validated(answer, Answer)
    except WorkFailed as error:
        return _failed(f"the reader gave {error}")
    if answer.status == "failed" and not answer.reason:
        return _failed("the reader failed without a reason")
    return answer


@cache
def _model(of: type[Any]) -> type[BaseModel]:
    """The model of a dataclass: strict types, and numbers that a table of rows takes."""
    size: Any = Annotated[float, Field(ge=0)]
    least: dict[Any, Any] = {
        int: Annotated[int, Field(ge=0, le=LARGEST)],
        float: size,
        float | None: Optional[size],  # noqa: UP045 - the type is a value here
    }
    fields: dict[str, Any] = {n: (least.get(t, t), ...) for n, t in get_type_hints(of).items()}
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    return create_model(of.__name__, __config__=strict, **fields)


def validated(value: object, of: type[T]) -> T:
    """A value of external code (readers and judges are), its fields held to their types.

    Raises WorkFailed with what it is instead.
    """
    name = of.__name__.lower()
    if not isinstance(value, of):
        raise WorkFailed(f"a {type(value).__name__} instead of its {name}")
    try:
        model = _model(of)
        fields = model.model_validate({n: getattr(value, n) for n in model.model_fields})
    except ValidationError as error:
        field = error.errors(include_input=False, include_url=False)[0]["loc"][0]
        raise WorkFailed(f"a malformed {name}: its field {field!r}") from None
    return of(**dict(fields))


# Verdicts, with the evidence joined as the protocol says.


JOINED_CHARACTERS = 100
NAN = "nan"


def joined(question: Question, protocol: Protocol) -> tuple[Gold | None, bool]:
    """The gold a judge is given, and whether it is the paper's "nan"."""
    asked = question.instruction
    if protocol.evidence_join == "question_100" and len(asked.question) > JOINED_CHARACTERS:
        return Gold(asked.id, NAN, (NAN,)), True
    return question.gold, False


def _checked_verdict(verdict: object) -> Verdict:
    """A judge's verdict, or a failed one where it is malformed."""
    try:
        verdict = validated(verdict, Verdict)
        if verdict.usage is not None:
            verdict = replace(verdict, usage=validated(verdict.usage, Usage))
    except WorkFailed as error:
        return _failed_verdict(f"the judge gave {error}")
    if verdict.outcome == "failed" and not verdict.reason:
        return replace(verdict, reason="the judge failed without a reason")
    return verdict


def _failed_verdict(reason: str) -> Verdict:
    return Verdict("failed", reason=reason)


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """What a judge is given of an answers row."""

    gold: Gold
    answer: Answer
    prompt_hash: str
    nan: bool


def case_of(
    question: Question, answer: Mapping[str, Any], protocol: Protocol
) -> JudgedCase | Verdict:
    """What a judge is given, or the verdict where none is needed: failed for a failed answer, or a
    question without evidence; unparsed for one that its model did not finish, or did not begin;
    incorrect for one without a word."""
    if answer["status"] != "ok":
        return _failed_verdict("the answer failed")
    gold, nan = joined(question, protocol)
    if gold is None or not (gold.answer.strip() or any(s.strip() for s in gold.snippets)):
        return _failed_verdict(
            question.problem or "the question has no reference answer and no evidence"
        )
    if why := unfinished(answer, protocol):
        return Verdict("unparsed", raw=why)
    text = answer["answer"] or ""
    if protocol.response_characters:
        text = text[: protocol.response_characters]
    if not words(text):
        return Verdict("incorrect", answer["ended"] == "refusal", "the answer is empty")
    asked = question.instruction.question
    prompt_hash = digest(asked, gold.answer, "\n".join(gold.snippets), text)
    return JudgedCase(gold, Answer(text, sources=tuple(answer["sources"] or ())), prompt_hash, nan)


def unfinished(answer: Mapping[str, Any], protocol: Protocol) -> str:
    """Why an answers row is neither right nor wrong; "" where a judge can say.

    Under the preset "published" every answer is judged, as the paper's were.
    """
    if protocol.preset == "published":
        return ""
    why = {
        "length": "the answer was cut off at its largest number of tokens",
        "filter": "the answer was cut off by a filter of the service",
        "empty": "the model gave no text",
    }
    if answer["ended"] == "tool" and not words(answer["answer"] or ""):
        return "the model called a tool instead of answering"
    return why.get(answer["ended"], "")


_Judged = tuple[Instruction, Gold, Answer]


class Judging(Stage[_Judged, Verdict, Row]):
    """All judging of a pass."""

    failed = staticmethod(_failed_verdict)

    def judge(self, asked: ReaderQuestion, answer: Mapping[str, Any]) -> None:
        """Judge an answers row by every judge that has not judged it, as often as it is to."""
        question, entry = asked.question, asked.entry
        for judge, repeat in self.job.plan.verdicts:
            item = item_of(entry, question.instruction.id, asked.reader, judge, repeat)
            if not self.job.todo("verdicts", [item], by="item"):
                continue
            row: Row = {
                **blank(VERDICTS),
                **question.columns(),
                "key": digest(answer["key"], judge, item),
                "item": item,
                "label": entry.label,
                "arm": entry.name,
                "k": entry.shown_k,
                "reader": asked.reader,
                "judge": judge,
                "answer_key": answer["key"],
                "repeat": repeat,
                "nan_evidence": False,
            }
            case = case_of(question, answer, self.job.protocol)
            if isinstance(case, Verdict):
                self._write(row, case, 0.0)
                continue
            row |= {"prompt_hash": case.prompt_hash, "nan_evidence": case.nan}
            self.put(judge, (question.instruction, case.gold, case.answer), row)

    def member(self, label: str) -> Judge:
        return self.job.judge(label)

    def work(self, label: str, items: Iterable[_Judged]) -> Iterator[tuple[int, Verdict]]:
        judge = self.job.judge(label)
        if isinstance(judge, GroupJudge):
            taken: Any = items if streams(judge) else list(items)
            return judge.judge_many(taken)
        return ((index, judge.judge(*item)) for index, item in enumerate(items))

    def write(self, ticket: Row, result: Any, seconds: float) -> None:
        self._write(ticket, _checked_verdict(result), seconds)

    def _write(self, row: Row, verdict: Verdict, seconds: float) -> None:
        row |= {
            "status": "failed" if verdict.outcome == "failed" else "ok",
            "reason": verdict.reason or None,
            "outcome": verdict.outcome,
            "refusal": verdict.refusal,
            "raw": verdict.raw,
            "seconds": seconds,
            "time": now(),
            "without_value": verdict.raw == IN_ORDER if row["judge"] == EXACT else None,
        }
        if (used := verdict.usage) is not None:
            row |= {
                "model": used.model,
                "read_tokens": used.input_tokens,
                "reused_tokens": used.cached_tokens,
                "output_tokens": used.output_tokens,
                "cost_usd": used.cost_usd,
                "how": used.how,
            }
        self.job.append("verdicts", row)


Select = Callable[[Job, ArmConfig, Question], tuple[Selection | None, Row]]


class Answering:
    """A pass of a run with tables ``answers`` and ``verdicts``. ``question`` makes an instruction's
    question, ``select`` an arm's selection for it; ``complete``: as of :class:`ReadingPass`."""

    def __init__(
        self,
        job: Job,
        question: Callable[[Instruction], Question],
        select: Select = select,
        complete: bool = False,
    ) -> None:
        self.job, self.question, self.select = job, question, select
        self.answers = job.there("answers", "item, key, status, answer, sources, ended")
        self.judging = Judging(job)
        self.reading = ReadingPass(job, self.judging.judge, complete)

    def run(self) -> None:
        """Write the missing rows of every question of the pass."""
        with self.job.with_services():
            try:
                self._run()
            finally:
                self.reading.stop()
                self.judging.stop()

    def _run(self) -> None:
        for instructions in by_patient(self.job.cohort, self.job.questions()).values():
            for instruction in instructions:
                todo = [
                    entry for entry in self.job.plan.arms if self._incomplete(entry, instruction)
                ]
                if todo:
                    question = self.question(instruction)
                    for entry in todo:
                        self._entry(entry, question)
                        self.reading.collect()
                        self.judging.collect()
            self.reading.end_of_record()
        self.reading.finish()
        self.judging.finish()

    def _incomplete(self, entry: ArmConfig, instruction: Instruction) -> bool:
        """Whether an answer or a verdict on an arm's selection has no row yet."""
        plan = self.job.plan
        answers = [item_of(entry, instruction.id, reader) for reader in plan.readers]
        verdicts = [
            item_of(entry, instruction.id, reader, *verdict)
            for reader, verdict in product(plan.readers, plan.verdicts)
        ]
        todo = self.job.todo
        return bool(todo("answers", answers, by="item") or todo("verdicts", verdicts, by="item"))

    def _entry(self, entry: ArmConfig, question: Question) -> None:
        selected: tuple[Selection | None, Row] | None = None
        for reader in self.job.plan.readers:
            asked = ReaderQuestion(entry, question, reader)
            row = self.answers.get(asked.item)
            if row is not None:
                self.judging.judge(asked, row)
                continue
            if selected is None:
                selected = self.select(self.job, entry, question)
            self.reading.ask(asked, *selected)
