"""Abstaining: the extractive reader that says "Not documented." where no line is clearly nearest.

A line's score is the mean of two numbers: its MiniLM cosine with the question, and the share of
the question's words that it holds, rarer words of the context counting more. A heading that only
repeats words of the question scores 0. The best line is the answer where it is far enough above
the mean of its context. The threshold was chosen on the training documents of COVID-QA.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from midchart.core.embedding.embedder import Embedder
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.extractive import Embed, Extractive, bare
from midchart.core.text import words
from midchart.core.text.prompt import is_heading
from midchart.core.types import ContextLine, Prompt

THRESHOLD = 1.5
"""Standard deviations above the mean of the context."""
LEAST_SPREAD = 0.05
"""Added to the standard deviation, so that small differences of like lines do not count."""
STEM = 5
"""Characters of a word that are compared, so that "treated" and "treatment" are one word."""
# fmt: off
UNINFORMATIVE = frozenset(
    (
        "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "could", "did", "do",
        "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "in", "is",
        "it", "its", "of", "on", "or", "patient", "she", "that", "the", "their", "there",
        "they", "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom",
        "whose", "why", "will", "with", "would", "you", "your",
    )
)
# fmt: on
"""Words of a question that say nothing of what is asked."""


def stems(text: str) -> frozenset[str]:
    """First characters of the informative words of a text."""
    return frozenset(word[:STEM] for word in words(text) if word not in UNINFORMATIVE)


def coverage(question: str, lines: list[str]) -> NDArray[np.float64]:
    """Share of the question's words in each line, weighted by their rarity among the lines.

    float64 [n] in [0, 1]; all 0 for a question without an informative word.
    """
    asked, held = stems(question), [stems(line) for line in lines]
    frequency = Counter(stem for line in held for stem in line & asked)
    weight = {stem: math.log1p(len(lines) / (1 + frequency[stem])) for stem in sorted(asked)}
    total = math.fsum(weight.values())
    shares = [math.fsum(weight[stem] for stem in line & asked) for line in held]
    return np.array(shares) / total if total else np.zeros(len(lines))


def prominence(scores: NDArray[np.float64], at: int | None = None) -> float:
    """How many standard deviations one of ``scores`` [n ≥ 1] is above their mean: that ``at`` an
    index, else the highest.

    Absolute scores differ between corpora and kinds of question; how far the best line is
    above the rest of its context is comparable.
    """
    score = scores.max() if at is None else scores[at]
    return float((score - scores.mean()) / (scores.std() + LEAST_SPREAD))


@READERS.register("abstaining")
class Abstaining(Extractive):
    """The context line of the highest score, or "Not documented." where its :func:`prominence` is
    below ``threshold``.

    Raises as :class:`midchart.core.readers.extractive.Extractive`, and InputError for a threshold
    below 0.
    """

    name: str = "abstaining"
    title: str = "Extractive with abstention (non-generative)"

    def __init__(
        self,
        protocol: Protocol,
        window: int = 32_768,
        embedder: Embedder | None = None,
        threshold: float = THRESHOLD,
    ) -> None:
        super().__init__(protocol, window, embedder)
        if type(threshold) not in (int, float) or not 0 <= threshold < math.inf:
            raise InputError("'threshold' of the reader 'abstaining' is a number from 0")
        self.threshold = threshold

    def score(self, prompt: Prompt, embed: Embed | None = None) -> NDArray[np.float64]:
        """Mean of cosine and :func:`coverage` of each line, float64 [n]; 0 for a heading that only
        repeats words of the question."""
        lines = [bare(line.text) for line in prompt.context]
        asked = stems(prompt.question)
        empty = np.array([is_heading(line) and stems(line) <= asked for line in lines])
        scores = (self.cosines(prompt, embed) + coverage(prompt.question, lines)) / 2
        return np.round(np.where(empty, np.float64(0), scores), 6).astype(np.float64)

    def text_of(self, line: ContextLine) -> str:
        return bare(line.text)

    def answer_lines(
        self, prompt: Prompt, embed: Embed | None = None
    ) -> tuple[list[ContextLine], str]:
        scores = self.score(prompt, embed)
        value, doubt = prominence(scores), ""
        if value < self.threshold:
            doubt = (
                f"the best line is {value:.2f} standard deviations above the mean of its context, "
                f"below the threshold {self.threshold:g}"
            )
        return [prompt.context[int(np.argmax(scores))]], doubt
