"""A language model as a judge: the protocol's prompt, the strict word, and what never is asked.

A failed answer and a question without evidence are failed verdicts; an empty answer is incorrect
without a call. The full question and the full response go into the prompt, the same for every arm
(or the first ``protocol.response_characters`` of the response).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing

from core.errors import MidchartError
from core.judges.model.engine import Engine, Request, Said
from core.judges.refusal import is_refusal
from core.protocol import Protocol
from core.text import words
from core.types import Answer, Gold, Instruction, Outcome, Usage, Verdict

# What a language model is asked as a judge, word for word (PROTOCOL, Stage 2: judging), and the
# one place where its YES or NO is read.


SIGHTED = """\
You are a medical expert evaluating whether a clinical AI response
correctly answers a question given the gold-standard evidence
extracted from the EHR.

Question: {question}
Gold evidence from EHR: {evidence}
AI response: {response}

Does the AI response CORRECTLY answer the question, given the gold
evidence? Consider the response correct if it conveys the same
factual answer as the evidence, even if phrased differently.
Consider it incorrect if it says "no information" when the evidence
provides a specific answer, or if it contradicts the evidence.

Answer with exactly one word: YES or NO"""
BLIND = (
    "Question: {question}. AI response: {response}. Does the AI response provide a specific, "
    "direct answer with concrete clinical information (YES) or does it hedge, refuse, or fail to "
    "address the question (NO)?"
)
ONE_WORD = SIGHTED.rsplit("\n", 1)[1]
"""The demand for one word, with which the sighted prompt ends and the paper's blind one does not.
"""
_JOIN = " ||| "
"""Between snippets, as the release joins them."""
_WORD = re.compile(r"[\s*_\"'“”‘’`.!]*(yes|no)[\s*_\"'“”‘’`.!]*", re.IGNORECASE)


def evidence_of(gold: Gold) -> str:
    """The evidence a judge is shown: every snippet; "" where there is none."""
    return _JOIN.join(snippet.strip() for snippet in gold.snippets if snippet.strip())


def fill(template: str, **parts: str) -> str:
    """A prompt with its parts put in once; braces inside a part stay what they are."""
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], template)


def read_yes_no(said: str) -> Outcome:
    """The verdict in what a judge said: "correct" for YES, "incorrect" for NO, else "unparsed".

    Strict: one word, in any case, with nothing but white space, quotes, emphasis or a full stop
    around it. "YES, because …" is unparsed: its denominators are told beside the tables.
    """
    match = _WORD.fullmatch(said)
    if match is None:
        return "unparsed"
    return "correct" if match[1].lower() == "yes" else "incorrect"


Item = tuple[Instruction, Gold, Answer]


class LanguageJudge:
    """A judge over an engine. ``sighted``: it is shown the evidence. ``one_word``: a blind prompt
    ends with the demand for one word, as the sighted one does."""

    def __init__(
        self, protocol: Protocol, engine: Engine, sighted: bool, one_word: bool = False
    ) -> None:
        self.protocol, self.engine, self.sighted = protocol, engine, sighted
        self.group = engine.group
        template = SIGHTED if sighted else BLIND + (f"\n\n{ONE_WORD}" if one_word else "")
        start, rest = template.split("{response}")
        self._start, self._rest = start, rest

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge one answer."""
        return next(iter(self.judge_many([(instruction, gold, answer)])))[1]

    def judge_many(self, items: Sequence[Item]) -> Iterator[tuple[int, Verdict]]:
        """Each item's index and verdict, as they come in."""
        asked: list[tuple[int, Request]] = []
        for index, item in enumerate(items):
            request = self.request(item)
            if isinstance(request, Verdict):
                yield index, request
            else:
                asked.append((index, request))
        if asked:
            with closing(self.engine.ask_many([request for _, request in asked])) as answers:
                for place, said in answers:
                    index = asked[place][0]
                    yield index, _verdict(said, items[index][2])

    def request(self, item: Item) -> Request | Verdict:
        """What the model is asked about an item, or the verdict on what it is not asked about."""
        instruction, gold, answer = item
        if answer.status == "failed":
            why = f" ({answer.reason})" if answer.reason else ""
            return Verdict("failed", reason=f"no answer{why}")
        parts = {"question": instruction.question}
        if self.sighted:
            parts["evidence"] = evidence_of(gold)
            if not parts["evidence"]:
                return Verdict("failed", reason="the question has no evidence")
        text = answer.text
        if self.protocol.response_characters:
            text = text[: self.protocol.response_characters]
        if not words(text):
            return Verdict("incorrect", raw="the answer is empty")
        return Request(fill(self._start, **parts), text + fill(self._rest, **parts))


def _verdict(said: Said | MidchartError, answer: Answer) -> Verdict:
    refusal = is_refusal(answer.text)
    if not isinstance(said, Said):
        # A call that came to no word may have to be paid all the same.
        used: Usage | None = getattr(said, "usage", None)
        return Verdict("failed", refusal, reason=str(said), usage=used)
    if said.declined:
        return Verdict("unparsed", refusal, "(the model's service declined)", usage=said.usage)
    return Verdict(read_yes_no(said.text), refusal, said.text, usage=said.usage)
