"""Token overlap: enough of the reference's words stand in the answer.

The paper's secondary metric (Section 4, Stage 2 (a); Appendix, Token-overlap Secondary Metric):
the response contains at least 50 % of the expected answer's tokens. Tokens are the distinct
lower-cased ``\\w+`` words, stop words and all, as the paper says no more; it knowingly rewards
answers that repeat the question's vocabulary, and the paper reports how much.
"""

from __future__ import annotations

from core.judges import JUDGES
from core.judges.offline import OfflineJudge
from core.text import words
from core.types import Outcome

LEAST = 0.5
"""Share of the reference's distinct words from which on an answer is correct."""


@JUDGES.register("token_overlap")
class TokenOverlap(OfflineJudge):
    """Correct where at least half of the reference's distinct words are in the answer."""

    name, title = "token_overlap", "Token overlap (offline)"

    def compare(self, reference: str, answer: str) -> tuple[Outcome, str]:
        expected = set(words(reference))
        found = expected & set(words(answer))
        outcome: Outcome = "correct" if len(found) >= LEAST * len(expected) else "incorrect"
        return outcome, f"{len(found)} of {len(expected)} words"
