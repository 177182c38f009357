"""Hybrid: reciprocal rank fusion of BM25 and MiniLM embeddings (core.stats.ranking).

A sentence that shares no word with the question is not in BM25's ranking and gets nothing from it.
Equal scores have equal ranks.
"""

from __future__ import annotations

import numpy as np

from core.arms import ARMS
from core.arms.base import Candidates, Scores, index_of
from core.arms.semantic import SemanticArm
from core.stats.ranking import reciprocal_ranks
from core.text import words
from core.types import Instruction


@ARMS.register("hybrid")
class Hybrid(SemanticArm):
    """The k sentences of highest fused rank."""

    name, title = "hybrid", "Hybrid (BM25 and MiniLM)"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        lexical = index_of(pool).scores(words(instruction.question))
        return np.add(*reciprocal_ranks(lexical, self.cosines(pool, instruction.question)))
