"""Statements: whether an answer states what the reference states; the default primary judge.

Its claims are compared by kind first (:mod:`midchart.core.judges.comparison`): an amount, date,
frequency, state, yes or no that the reference asks for decides. Elsewhere a logistic regression of
shared words, numbers and MiniLM cosines does, trained on people's verdicts;
``shipped/statements.json`` has its coefficients and its card. A question with options is judged by
:mod:`midchart.core.judges.choice`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import exp, log1p
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from midchart.core.judges import JUDGES
from midchart.core.judges.agreement import card
from midchart.core.judges.choice import ChoiceJudge
from midchart.core.judges.comparison import (
    adjacent,
    compare,
    content,
    core,
    current_words,
    expanded,
    of_patient,
    with_equivalents,
)
from midchart.core.judges.exact import reference_polarity
from midchart.core.judges.rules import texts_of
from midchart.core.judges.values import quantities
from midchart.core.options import Configurable, Options
from midchart.core.protocol import Protocol
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Gold, Instruction, Outcome, Verdict
from midchart.core.weights import MINILM, locate

FEATURES = ("overlap", "other_numbers", "cosine", "cosine_gain", "length")
"""Of an answer, in the order of the coefficients; :func:`features` says what they are."""
_SHORT_FORM = re.compile(r"(?<=\w )\(([A-Z][\w-]*[A-Z][\w-]*)\)")
_LEAST, _LEAST_OF_REFERENCE = 0.5, 0.25
"""Least shares of common words of a correct answer: of either text's, and of the reference's."""
_SIMILAR = 0.66
"""Ratio of two words' equal characters from which on one counts for the other, in part."""


def features(
    question: str, reference: str, answer: str, vectors: NDArray[np.float32]
) -> list[float]:
    """The features of an answer, as :data:`FEATURES` has them; words are stemmed; function
    words and the question's words are left out.

    The share of the reference's words that the answer has (also by similar spelling), or of the
    answer's that the reference has, whichever is larger; whether both have numbers and none in
    common; the cosine of answer and reference, and how far that of both after the question exceeds
    that of question and reference; the logarithm of the answer's words. ``vectors``: of
    :func:`texts`, float32 [5, dim].
    """
    numbers, others = (
        {word for word in content(text) if word[0].isdigit()} - {*content(question)}
        for text in (reference, answer)
    )
    return [
        max(shared_words(question, reference, answer)),
        float(bool(numbers and others) and not numbers & others),
        float(vectors[0] @ vectors[1]),
        float(vectors[2] @ vectors[3] - vectors[3] @ vectors[4]),
        log1p(len(content(answer))),
    ]


def alternatives(reference: str) -> Iterator[str]:
    """The references of which one is enough, joined by " | ", and short forms in brackets after
    the words whose letters they are (Schwartz and Hearst 2003): adenosine diphosphate (ADP)."""
    for one in filter(None, map(str.strip, re.split(r"\s\|\s", reference))):
        yield one
        for match in _SHORT_FORM.finditer(one):
            letters = iter(one[: match.start()].lower())
            if all(letter in letters for letter in match[1].lower()):
                yield match[1]


def texts(question: str, reference: str, answer: str) -> tuple[str, ...]:
    """The texts whose vectors :func:`features` takes."""
    asked = question.strip()
    return answer, reference, f"{asked} {answer}", f"{asked} {reference}", asked


def shared_words(question: str, reference: str, answer: str) -> tuple[float, float]:
    """The shares of the reference's and of the answer's words that the other has, without those of
    the question (unless the reference has no others); in the first, similar words count in part."""
    asked, expected = frozenset(content(question)), frozenset(content(reference))
    held, new = frozenset(content(answer)), expected - asked - {"no", "not"} or expected
    precision = len((held - asked) & expected) / max(1, len(held - asked))
    return sum(_similarity(word, held) for word in new) / max(1, len(new)), precision


def other_modifier(case: Case, answer: str) -> str:
    """The word that an answer, which has all else that a reference says, has in place of one of its
    modifiers: "lower" in "left lower lobe" for the left upper lobe; "" where there is none."""
    reference = case[1].partition(",")[0]
    asked, expected, held = content(case[0]), content(reference), content(case[2])
    missing = {w for w in expected if w not in asked and not _similarity(w, frozenset(held))}
    if len(missing) != 1 or not all(map(str.isalpha, missing)):
        return ""
    heads = {head for modifier, head in adjacent(reference) if modifier in missing}
    others = (word for word, head in adjacent(answer) if head in heads and word.isalpha())
    return next((word for word in others if word not in (*expected, *asked)), "")


def _similarity(word: str, words: frozenset[str]) -> float:
    """1 for a word that is among ``words``, else that of the most similar spelling, or 0."""
    if word in words:
        return 1.0
    if len(word) <= 4 or word[0].isdigit():
        return 0.0
    if any(len(other) > 4 and word.startswith(other) for other in words):
        return 1.0  # "staph"
    ratios = [
        SequenceMatcher(None, word, other, autojunk=False).ratio()
        for other in words
        if other[0] == word[0]
    ]
    best = max(ratios, default=0.0)
    return best if best >= _SIMILAR else 0.0


def probability(values: Sequence[float]) -> float:
    """The model's probability that people find an answer with these features correct."""
    model = card()["model"]
    scaled = (np.asarray(values) - model["mean"]) / model["scale"]
    return 1 / (1 + exp(-float(scaled @ np.asarray(model["coefficients"])) - model["intercept"]))


class StatementOptions(Options):
    """Options of the judge ``statements``."""

    margin: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Distance from a probability of one half within which the judge cannot say: such answers are
    unparsed."""


@JUDGES.register("statements")
class Statements(Configurable):
    """Correct where the answer states what the reference states.

    Raises SpecError for an invalid margin, MissingModel where MiniLM is not installed.
    """

    name, title, family = "statements", "Statements (offline)", "judge"
    needs, group = MINILM, 64
    options_model = StatementOptions

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.protocol, self.margin = protocol, self.read_options(options).margin
        self.choice = ChoiceJudge(protocol)

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options and missing weights, without loading them."""
        cls.read_options(options)
        locate(MINILM)

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``."""
        ((_, verdict),) = self.judge_many([(instruction, gold, answer)])
        return verdict

    def judge_many(
        self, items: Sequence[tuple[Instruction, Gold, Answer]]
    ) -> Iterator[tuple[int, Verdict]]:
        """Each item's index and verdict; the texts of all items are embedded together."""
        open_items: list[tuple[int, str, list[Case]]] = []
        for index, (instruction, gold, answer) in enumerate(items):
            if instruction.options:
                yield index, self.choice.judge(instruction, gold, answer)
                continue
            pair = texts_of(gold, answer, self.protocol)
            if isinstance(pair, Verdict):
                yield index, pair
                continue
            reference, text = pair
            verdict, undecided = by_claims(instruction.question, reference, text)
            if verdict is None:
                open_items.append((index, text, undecided))
            else:
                yield index, verdict
        cases = [case for _, _, undecided in open_items for case in undecided]
        scores = iter([probability(row) for row in feature_rows(cases)])
        for index, text, undecided in open_items:
            best = max(next(scores) for _ in undecided)
            outcome: Outcome = "correct" if best >= 0.5 else "incorrect"
            if abs(best - 0.5) < self.margin:
                outcome = "unparsed"
            yield index, Verdict(outcome, is_refusal(text), f"people would agree: {best:.2f}")


Case = tuple[str, str, str]
"""A question, a reference and an answer."""


def feature_rows(cases: Sequence[Case]) -> list[list[float]]:
    """The features of each case; raises MissingModel where MiniLM is not installed."""
    from midchart.core.embedding.embedder import shared

    if not cases:
        return []
    stated = [_stated(*case) for case in cases]
    lines = [line for case in stated for line in texts(*case)]
    vectors = shared(MINILM).embed(lines).reshape(len(cases), 5, -1)
    return [features(*case, rows) for case, rows in zip(stated, vectors, strict=True)]


def _stated(question: str, reference: str, answer: str) -> Case:
    """A case with what the reference and the answer state of now, without additions."""
    reference = expanded(reference, answer)
    short = core(reference, question)
    text = current_words(question, reference, expanded(answer, reference))
    return question, short, with_equivalents(short, text)


def same_statement(question: str, first: str, second: str) -> bool:
    """Whether two answers state the same: each of them is correct by the other, and both state as
    many numbers. Raises MissingModel where MiniLM is not installed."""

    def states(answer: str, reference: str) -> bool:
        verdict, undecided = by_claims(question, reference, answer)
        if verdict:
            return verdict.outcome == "correct"
        return any(probability(row) >= 0.5 for row in feature_rows(undecided))

    same = len(quantities(first)) == len(quantities(second))
    return same and states(first, second) and states(second, first)


def by_claims(question: str, reference: str, answer: str) -> tuple[Verdict | None, list[Case]]:
    """The verdict that claims alone give, else the cases that are for the model: of alternative
    references, those that no claim conflicts with."""
    declines = is_refusal(answer)
    if is_refusal(reference) or declines:
        correct = declines and is_refusal(reference)
        reason = "the answer declines" if declines else "the reference is a refusal"
        return Verdict("correct" if correct else "incorrect", declines, reason), []
    answer = of_patient(f"{question} {reference}", answer.removeprefix(question))
    undecided: list[Case] = []
    reason = "" if content(answer) else "states nothing of the patient"
    for one in alternatives(reference):
        comparison = compare(question, one, answer)
        if comparison.verdict:
            return Verdict("correct", False, comparison.reason), []
        reason = reason or comparison.reason
        if comparison.verdict is None and content(one) and content(one) == content(answer):
            return Verdict("correct", False, "the same words"), []
        shares = shared_words(*(case := _stated(question, one, answer)))
        enough = max(shares) >= _LEAST and shares[0] >= _LEAST_OF_REFERENCE
        if comparison.verdict is None and enough:
            if other := other_modifier(case, answer):
                reason = f"another modifier: {other}"
            else:
                undecided.append((question, one, answer))
    polarity = reference_polarity(reference)
    if not reason and polarity and core(reference, question).strip(" .").lower() == polarity:
        return Verdict("unparsed", False, f"{polarity} expected, neither yes nor no said"), []
    if not undecided:
        return Verdict("incorrect", False, reason or "shares too little with the reference"), []
    return None, undecided
