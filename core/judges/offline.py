"""What the offline judges share: what is failed, what is empty, what is cut, what is a refusal.

A judge of its own is one file with a subclass of :class:`OfflineJudge` and the one method
``compare``. A question without reference answer and evidence is failed, never judged on nothing
(PROTOCOL, Stage 2: judging).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from core.judges.refusal import is_hedged, is_refusal
from core.protocol import Protocol
from core.text import words
from core.types import Answer, Gold, Instruction, Outcome, Verdict


def reference_of(gold: Gold) -> str:
    """What an answer is compared with: the reference answer, or the evidence where it is blank."""
    return gold.answer if gold.answer.strip() else "\n".join(s for s in gold.snippets if s.strip())


def texts_of(gold: Gold, answer: Answer, protocol: Protocol) -> tuple[str, str] | Verdict:
    """The reference and the part of the answer that counts, or the verdict where there is nothing
    to compare.

    Failed: a failed answer, a reference that is missing or has no word. Incorrect: an empty
    answer, and one that hedges (:mod:`core.judges.refusal`; not a quoted line, and not where the
    reference hedges too). Of a long answer the first ``protocol.response_characters`` count (0:
    all).
    """
    if answer.status == "failed":
        why = f" ({answer.reason})" if answer.reason else ""
        return Verdict("failed", reason=f"no answer{why}")
    reference = reference_of(gold)
    if not reference.strip():
        return Verdict("failed", reason="the question has no reference answer or evidence")
    if not words(reference):
        return Verdict("failed", reason="the reference answer holds no word or number")
    text = answer.text
    if protocol.response_characters:
        text = text[: protocol.response_characters]
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
        """Outcome for an answer that has words, and what was compared, in a few words."""

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``; what cannot be compared as :func:`texts_of` says."""
        found = texts_of(gold, answer, self.protocol)
        if isinstance(found, Verdict):
            return found
        reference, text = found
        outcome, raw = self.compare(reference, text)
        return Verdict(outcome, is_refusal(text), raw)
