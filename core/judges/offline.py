"""Base class of rule-based judges: failed and empty answers, truncation, refusals.

A judge is a subclass of :class:`OfflineJudge` with one method, ``compare``. A question without
reference answer and evidence is a failed verdict (PROTOCOL, Stage 2: judging).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from core.judges.refusal import is_hedged, is_refusal
from core.protocol import Protocol
from core.text import words
from core.types import Answer, Gold, Instruction, Outcome, Verdict


def reference_of(gold: Gold) -> str:
    """The text an answer is compared with: the reference, or the evidence where it is blank."""
    return gold.answer if gold.answer.strip() else "\n".join(s for s in gold.snippets if s.strip())


def no_answer(answer: Answer) -> Verdict:
    """The verdict on a failed answer."""
    why = f" ({answer.reason})" if answer.reason else ""
    return Verdict("failed", reason=f"no answer{why}")


def texts_of(gold: Gold, answer: Answer, protocol: Protocol) -> tuple[str, str] | Verdict:
    """The reference and the judged part of the answer, or a verdict without a comparison.

    Failed: a failed answer, a reference that is missing or has no word. Incorrect: an empty
    answer, and one that hedges (:mod:`core.judges.refusal`; not a quoted line, and not where the
    reference hedges too). Of a long answer the first ``protocol.response_characters`` count (0:
    all).
    """
    if answer.status == "failed":
        return no_answer(answer)
    reference = reference_of(gold)
    if not reference.strip():
        return Verdict("failed", reason="the question has no reference answer or evidence")
    if not words(reference):
        return Verdict("failed", reason="the reference answer holds no word or number")
    text = answer.text[: protocol.response_characters or None]
    if not words(text):
        return Verdict("incorrect", raw="the answer is empty")
    quoted = answer.quotes or bool(answer.sources)
    if not quoted and is_hedged(text) and not is_hedged(reference):
        return Verdict("incorrect", is_refusal(text), "the answer hedges")
    return reference, text


class OfflineJudge(ABC):
    """A judge that is a rule. Subclasses set ``name`` and ``title``, write :meth:`compare`."""

    name: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    @abstractmethod
    def compare(self, reference: str, answer: str) -> tuple[Outcome, str]:
        """Outcome for an answer that has words, and the comparison in a few words."""

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``; see :func:`texts_of` for verdicts without comparison."""
        texts = texts_of(gold, answer, self.protocol)
        if isinstance(texts, Verdict):
            return texts
        reference, text = texts
        outcome, raw = self.compare(reference, text)
        return Verdict(outcome, is_refusal(text), raw)
