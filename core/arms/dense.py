"""Dense: the sentences whose MiniLM embedding is nearest to the question's.

docs/methods.md, Arms: all-MiniLM-L6-v2, cosine. Each sentence is embedded once ever
(midchart.core.embedding).
"""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Scores
from midchart.core.arms.semantic import SemanticArm
from midchart.core.types import Instruction


@ARMS.register("dense")
class Dense(SemanticArm):
    """The k sentences of highest cosine with the question."""

    name, title = "dense", "Dense (MiniLM)"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return self.cosines(pool, instruction.question)
