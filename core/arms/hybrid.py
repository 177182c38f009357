"""Hybrid: reciprocal rank fusion of BM25 and MiniLM embeddings (midchart.core.stats.ranking).

A sentence that shares no word with the question is not in BM25's ranking and gets nothing from it.
Equal scores have equal ranks. A shared word or a cosine above 0 is a reason to keep a sentence.
"""

from __future__ import annotations

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Scores
from midchart.core.arms.semantic import LexicalArm
from midchart.core.stats.ranking import reciprocal_ranks
from midchart.core.types import Instruction


@ARMS.register("hybrid")
class Hybrid(LexicalArm):
    """The k sentences of highest fused rank."""

    name, title = "hybrid", "Hybrid (BM25 and MiniLM)"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        lexical = self.lexical(pool, instruction.question)
        return np.add(*reciprocal_ranks(lexical, self.cosines(pool, instruction.question)))
