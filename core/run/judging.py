"""An answer before its judge, with the evidence joined as the protocol says.

Missing evidence is a failed verdict. Only under ``evidence_join = "question_100"`` is the paper's
fault done again: evidence was looked up by the first 100 characters of the question, a longer
question found none, and its answer was judged against the text "nan" (PROTOCOL, Stage 2:
judging); such verdicts are marked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.protocol import Protocol
from core.run.evidence import Question
from core.run.rows import digest
from core.types import Answer, Gold, Judge, Verdict

JOINED_CHARACTERS = 100
NAN = "nan"


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, the hash of what the judge was given, and whether that was the text "nan"."""

    verdict: Verdict
    prompt_hash: str | None = None
    nan_evidence: bool = False


def joined(question: Question, protocol: Protocol) -> tuple[Gold | None, bool]:
    """The gold a judge is given, and whether it is the paper's "nan"."""
    if (
        protocol.evidence_join == "question_100"
        and len(question.instruction.question) > JOINED_CHARACTERS
    ):
        return Gold(question.instruction.id, NAN, (NAN,)), True
    return question.gold, False


def _failed(reason: str) -> Judged:
    return Judged(Verdict("failed", reason=reason))


def judge_answer(
    judge: Callable[[], Judge],
    question: Question,
    answer: Mapping[str, Any],
    protocol: Protocol,
    reason_of: Callable[[BaseException], str],
) -> Judged:
    """The verdict on an answers row.

    ``judge`` makes the judge; ``reason_of`` words a failure. A failed answer, a question without
    evidence and a judge that fails give a failed verdict with its reason.
    """
    if answer["status"] != "ok":
        return _failed("the answer failed")
    gold, nan = joined(question, protocol)
    if gold is None or not (gold.answer.strip() or any(s.strip() for s in gold.snippets)):
        return _failed(question.problem or "the question has no reference answer and no evidence")
    text = answer["answer"] or ""
    if protocol.response_characters:
        text = text[: protocol.response_characters]
    given = Answer(text, sources=tuple(answer["sources"] or ()))
    asked = question.instruction.question
    prompt_hash = digest(asked, gold.answer, "\n".join(gold.snippets), text)
    try:
        verdict = judge().judge(question.instruction, gold, given)
    except Exception as error:  # noqa: BLE001 - becomes the verdict's reason
        verdict = Verdict("failed", reason=reason_of(error))
    if verdict.outcome == "failed" and not verdict.reason:
        verdict = dataclasses.replace(verdict, reason="the judge failed without a reason")
    return Judged(verdict, prompt_hash, nan)
