"""An answer before its judge, with the evidence joined as the protocol says.

Answers for a judge that judges many at a time (:class:`core.seams.GroupJudge`) wait in a pile of
their own; other judges judge each answer at once.

Missing evidence is a failed verdict. Only under ``evidence_join = "question_100"`` is the paper's
fault done again: evidence was looked up by the first 100 characters of the question, a longer
question found none, and its answer was judged against the text "nan" (PROTOCOL, Stage 2:
judging); such verdicts are marked.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, get_args

from core.errors import MidchartError
from core.protocol import Protocol
from core.run.evidence import Question
from core.run.folder import now
from core.run.groups import outcomes
from core.run.job import Job, Row
from core.run.reading import Asked
from core.run.rows import VERDICTS, blank, digest, item_of
from core.seams import GroupJudge, Judge
from core.text import words
from core.types import Answer, Gold, Instruction, Outcome, Usage, Verdict

JOINED_CHARACTERS = 100
NAN = "nan"


def joined(question: Question, protocol: Protocol) -> tuple[Gold | None, bool]:
    """The gold a judge is given, and whether it is the paper's "nan"."""
    if (
        protocol.evidence_join == "question_100"
        and len(question.instruction.question) > JOINED_CHARACTERS
    ):
        return Gold(question.instruction.id, NAN, (NAN,)), True
    return question.gold, False


def _checked(verdict: object) -> Verdict:
    """A judge's verdict, or a failed one where it is no verdict: a judge is anyone's code."""
    if not isinstance(verdict, Verdict):
        return _failed(f"the judge gave a {type(verdict).__name__} instead of a verdict")
    if verdict.outcome not in get_args(Outcome):
        return _failed(f"the judge gave the outcome {verdict.outcome!r:.60}")
    texts: tuple[Any, ...] = (verdict.raw, verdict.reason)
    if not all(isinstance(text, str) for text in texts) or type(verdict.refusal) is not bool:
        return _failed("the judge gave a verdict whose texts are no texts")
    if verdict.usage is not None and not _is_usage(verdict.usage):
        return _failed("the judge gave a usage whose counts or costs are no such numbers")
    return verdict


def _is_usage(usage: object) -> bool:
    """Whether a usage has texts, counts from 0 on, and a finite cost or none."""
    if not isinstance(usage, Usage):
        return False
    texts: tuple[Any, ...] = (usage.model, usage.how)
    counts: tuple[Any, ...] = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    cost: Any = 0.0 if usage.cost_usd is None else usage.cost_usd
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(count) is int and count >= 0 for count in counts)
        and type(cost) in (int, float)
        and isfinite(cost)
        and cost >= 0
    )


def _failed(reason: str) -> Verdict:
    return Verdict("failed", reason=reason)


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge is given of an answers row."""

    gold: Gold
    answer: Answer
    prompt_hash: str
    nan: bool


def case_of(question: Question, answer: Mapping[str, Any], protocol: Protocol) -> Case | Verdict:
    """What a judge is given, or the verdict on what no judge is asked about.

    Failed: a failed answer, and a question without evidence. Incorrect: an answer without a word.
    """
    if answer["status"] != "ok":
        return _failed("the answer failed")
    gold, nan = joined(question, protocol)
    if gold is None or not (gold.answer.strip() or any(s.strip() for s in gold.snippets)):
        return _failed(question.problem or "the question has no reference answer and no evidence")
    text = answer["answer"] or ""
    if protocol.response_characters:
        text = text[: protocol.response_characters]
    if not words(text):
        return Verdict("incorrect", raw="the answer is empty")
    asked = question.instruction.question
    prompt_hash = digest(asked, gold.answer, "\n".join(gold.snippets), text)
    return Case(gold, Answer(text, sources=tuple(answer["sources"] or ())), prompt_hash, nan)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A verdict to get: on which answer, of which judge (its label), for the how manieth time."""

    asked: Asked
    answer_key: str
    judge: str
    repeat: int


class Judging:
    """All judging of a pass. ``there`` holds the items of verdicts that are there already."""

    def __init__(self, job: Job, there: Container[str]) -> None:
        self.job, self.there = job, there
        self._piles: dict[str, list[tuple[Wanted, Case]]] = {}

    def judge(self, asked: Asked, answer: Mapping[str, Any]) -> None:
        """Have an answers row judged by every judge that has not judged it."""
        for entry in self.job.plan.judge_entries:
            for repeat in range(entry.repeats):
                if self._item(asked, entry.label, repeat) not in self.there:
                    self._pile(Wanted(asked, answer["key"], entry.label, repeat), answer)

    def _pile(self, wanted: Wanted, answer: Mapping[str, Any]) -> None:
        case = case_of(wanted.asked.question, answer, self.job.protocol)
        if isinstance(case, Verdict):
            self._write(wanted, case, None, 0.0)
            return
        pile = self._piles.setdefault(wanted.judge, [])
        pile.append((wanted, case))
        if len(pile) >= self._group(wanted.judge):
            self._judge(wanted.judge)

    def finish(self) -> None:
        """Judge what is left."""
        for label, pile in self._piles.items():
            if pile:
                self._judge(label)

    def _group(self, label: str) -> int:
        try:
            judge = self.job.judge(label)
        except MidchartError:
            return 1  # a judge that cannot be made fails each item with its reason
        return judge.group if isinstance(judge, GroupJudge) else 1

    def _judge(self, label: str) -> None:
        pile, self._piles[label] = self._piles[label], []
        items = [(w.asked.question.instruction, case.gold, case.answer) for w, case in pile]
        verdicts = outcomes(lambda: _judge_all(self.job.judge(label), items), len(pile), _failed)
        begun = time.perf_counter()
        with closing(verdicts):
            for index, given in verdicts:
                wanted, case = pile[index]
                verdict = _checked(given)
                if verdict.outcome == "failed" and not verdict.reason:
                    verdict = replace(verdict, reason="the judge failed without a reason")
                self._write(wanted, verdict, case, time.perf_counter() - begun)
                begun = time.perf_counter()

    @staticmethod
    def _item(asked: Asked, label: str, repeat: int) -> str:
        return item_of(asked.entry, asked.question.instruction.id, asked.reader, label, repeat)

    def _write(self, wanted: Wanted, verdict: Verdict, case: Case | None, seconds: float) -> None:
        asked, used = wanted.asked, verdict.usage
        item = self._item(asked, wanted.judge, wanted.repeat)
        row: Row = {
            **blank(VERDICTS),
            **asked.question.columns(),
            "key": digest(wanted.answer_key, wanted.judge, item),
            "item": item,
            "status": "failed" if verdict.outcome == "failed" else "ok",
            "reason": verdict.reason or None,
            "label": asked.entry.label,
            "arm": asked.entry.name,
            "k": asked.entry.shown_k,
            "reader": asked.reader,
            "judge": wanted.judge,
            "answer_key": wanted.answer_key,
            "outcome": verdict.outcome,
            "refusal": verdict.refusal,
            "raw": verdict.raw,
            "prompt_hash": case.prompt_hash if case is not None else None,
            "nan_evidence": case.nan if case is not None else False,
            "seconds": seconds,
            "repeat": wanted.repeat,
            "time": now(),
        }
        if used is not None:
            row |= {
                "model": used.model,
                "read_tokens": used.input_tokens,
                "reused_tokens": used.cached_tokens,
                "output_tokens": used.output_tokens,
                "cost_usd": used.cost_usd,
                "how": used.how,
            }
        self.job.append("verdicts", row)


def _judge_all(
    judge: Judge, items: Sequence[tuple[Instruction, Gold, Answer]]
) -> Iterator[tuple[int, Verdict]]:
    if isinstance(judge, GroupJudge):
        yield from judge.judge_many(items)
        return
    for index, item in enumerate(items):
        yield index, judge.judge(*item)
