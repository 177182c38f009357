"""Token overlap: the share of the reference's words that are in the answer.

The paper's secondary metric (Section 4, Stage 2 (a); Appendix, Token-overlap Secondary Metric):
the response contains at least 50 % of the expected answer's tokens. Tokens are the distinct
lower-cased ``\\w+`` words, stop words included, as the paper names no exception; it rewards
answers that repeat the question's vocabulary, as the paper reports.
"""

from __future__ import annotations

from midchart.core.judges import JUDGES
from midchart.core.judges.rules import OfflineJudge
from midchart.core.text import words
from midchart.core.types import Outcome

LEAST = 0.5
"""Share of the reference's distinct words from which on an answer is correct."""


@JUDGES.register("token_overlap")
class TokenOverlap(OfflineJudge):
    """Correct where at least half of the reference's distinct words are in the answer."""

    name, title = "token_overlap", "Token overlap (offline)"

    def compare(self, reference: str, answer: str) -> tuple[Outcome, str]:
        expected = set(words(reference))
        shared = expected & set(words(answer))
        outcome: Outcome = "correct" if len(shared) >= LEAST * len(expected) else "incorrect"
        return outcome, f"{len(shared)} of {len(expected)} words"
