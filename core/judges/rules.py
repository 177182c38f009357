"""Rules of words about answers: hedging, kind of failure; base class of rule-based judges.

A judge that is a rule is a subclass of :class:`OfflineJudge` with one method, ``compare``. A
question without reference answer and evidence is a failed verdict (docs/methods.md, Stage 2:
judging).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from midchart.core.protocol import Protocol
from midchart.core.text import one_line, words
from midchart.core.text.prompt import LINE_DATE, undated
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Gold, Instruction, Outcome, Verdict

_OPENING = re.compile(
    r"(?:(?:yes|no|well|so)\b[,;: ]*)?(?:"
    r"(?:it|this|that)(?:'s| is| was| may be| might be| could be| seems| appears) "
    r"(?:also |certainly |quite |very |just )?"
    r"(?:possible|conceivable|plausible|unclear|uncertain|not clear|not certain"
    r"|(?:hard|difficult) to (?:say|tell))\b"
    r"|(?:possibly|perhaps|maybe|conceivably)\b"
    r"|i(?:'m| am) (?:not (?:\w+ )?(?:sure|certain)|unsure|uncertain)\b"
    r"|there(?:'s| is| was| may be| might be) (?:a|some) "
    r"(?:\w+ )?(?:chance|possibility|likelihood)\b)"
)
_MODAL = re.compile(
    r"(?:[\w'-]+ ){1,4}(?:may|might|could)(?: not)?(?: also| well| possibly| perhaps)? "
    r"(?:have|be|also be)\b"
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


def _is_hedged(text: str) -> bool:
    """Whether every sentence of ``text`` names a possibility without committing to it."""
    plain = one_line(text.lower().replace("’", "'"))
    sentences = [part.strip(" \"'*-–—") for part in _SENTENCES.split(plain)]
    statements = [part for part in sentences if any(character.isalnum() for character in part)]
    return bool(statements) and all(
        _OPENING.match(part) or _MODAL.match(part) for part in statements
    )


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
    answer, and one that hedges (not a quoted line, and not where the
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
    if not quoted and _is_hedged(text) and not _is_hedged(reference):
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


FAILURE_KINDS = (
    "empty",
    "refusal",
    "hedged",
    "continuation",
    "wrong value",
    "unsupported",
    "wrong entity",
    "omission",
    "other",
)

_STAMP = re.compile(rf"\s*(?:[-*•]\s*)?\[{LINE_DATE}\]\s*")
_HEADING = re.compile(r"\s*(?:PATIENT RECORD|QUESTION)\s*:", re.IGNORECASE)
_SPECIFIC = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]{3,}")
_DATE = re.compile(
    r"\b\d{4}-\d{1,2}(?:-\d{1,2}(?:t\d\d:\d\d(?::\d\d)?)?)?\b"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b(?:19|20)\d\d\b"
)
_FUNCTION_WORDS = (
    "the and was were has had have for with from this that these those his her she him their its "
    "are not but who which what when where why how any all been being did does done can may will "
    "would should could into onto over than then there here about also per our out your you they "
    "them after before during while because both each other such only own same more most some "
    "patient record records answer yes none"
)
_FUNCTION = frozenset(_FUNCTION_WORDS.split())


def _specifics(text: str, question: frozenset[str]) -> frozenset[str]:
    matches = (m.group().replace(",", ".") for m in _SPECIFIC.finditer(text.lower()))
    return frozenset(w for w in matches if w not in _FUNCTION and w not in question)


def _bare(text: str) -> str:
    """A text without the date stamps at the beginning and end of its lines."""
    return "\n".join(undated(_STAMP.sub("", line, count=1)) for line in text.splitlines())


def _values(text: str) -> frozenset[str]:
    """Numbers of a text that are no dates."""
    plain = _DATE.sub(" ", text.lower())
    matches = (m.group().replace(",", ".") for m in _SPECIFIC.finditer(plain))
    return frozenset(value for value in matches if value[0].isdigit())


def _continues(answer: str) -> bool:
    lines = [line for line in answer.splitlines() if line.strip()]
    carried = [bool(_STAMP.match(line) or _HEADING.match(line)) for line in lines]
    return carried[0] or 2 * sum(carried) >= len(carried)


def failure_kind(
    question: str,
    answer: str,
    reference: str,
    context: Iterable[str],
    question_survived: bool = True,
    quotes: bool = False,
) -> str:
    """The kind of failure that ``answer`` is if it is wrong: one of :data:`FAILURE_KINDS`, the
    first that fits, by words alone (docs/methods.md, Stage 2: failure taxonomy; the paper's own
    were assigned by hand).

    ``reference`` is the reference answer (the evidence where there is none), ``context`` the
    lines that the reader was given, ``question_survived`` whether its prompt still held the
    question, ``quotes`` whether the reader meant to quote a line: it then neither hedges nor
    continues the record. *Specifics* of a text are its numbers and its words of three letters or
    more, without function words, the question's words, and the date stamp of a context line.
    """
    if not words(answer):
        return "empty"
    if is_refusal(answer):
        return "refusal"
    if not quotes and _is_hedged(answer) and not _is_hedged(reference):
        return "hedged"
    asked = frozenset(words(question))
    # A continuation has date stamps or headings of the prompt, or lost the question.
    if not quotes and _continues(answer):
        return "continuation"
    answer_text = _bare(answer)
    if not question_survived and not (
        _specifics(question, frozenset()) & frozenset(words(answer_text))
    ):
        return "continuation"
    expected_values, answer_values = _values(reference) - asked, _values(answer_text) - asked
    if expected_values and answer_values and not expected_values & answer_values:
        return "wrong value"
    expected, answered = _specifics(reference, asked), _specifics(answer_text, asked)
    matching, foreign = expected & answered, answered - expected
    if len(foreign) > len(matching) and (not matching or 2 * len(matching) < len(expected)):
        # More that is foreign to the reference than not: from nowhere, or from other lines.
        lines = "\n".join(context).lower()
        held = {m.group().replace(",", ".") for m in _SPECIFIC.finditer(lines)}
        return "unsupported" if 2 * len(foreign - held) > len(foreign) else "wrong entity"
    return "omission" if matching < expected and answered else "other"
