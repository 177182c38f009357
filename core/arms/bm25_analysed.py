"""BM25 over analysed texts (midchart.core.text.analysis): "allergic" finds "Allergies".

BM25 as of the arm bm25, with a weight of words that is never negative.
"""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Mask, ScoredArm, Scores
from midchart.core.bm25 import AnalysedIndex
from midchart.core.storage.lru import LRU
from midchart.core.types import Instruction

_indexes: LRU[AnalysedIndex] = LRU(16, lambda one: one.index.size)


def analysed(pool: Candidates) -> AnalysedIndex:
    """The index of a set of candidates with their sections, cached between questions."""
    return _indexes.get(
        pool.key, lambda: AnalysedIndex.of([f"{s.section}\n{s.text}" for s in pool.sentences])
    )


@ARMS.register("bm25_analysed")
class BM25Analysed(ScoredArm):
    """The k sentences of highest BM25 score over analysed texts."""

    name, title = "bm25_analysed", "BM25, analysed texts"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return analysed(pool).scores(instruction.question)

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        return self.score(pool, instruction) > 0
