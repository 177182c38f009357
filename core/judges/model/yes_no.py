"""What a language model is asked as a judge, word for word (PROTOCOL, Stage 2: judging), and the
one place where its YES or NO is read.
"""

from __future__ import annotations

import re

from core.types import Gold, Outcome

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
