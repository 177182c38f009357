"""Cross-encoder: BM25's best sentences, re-ranked by a model that reads question and sentence
together (docs/methods.md, Arms: BM25 top 50, ms-marco-MiniLM-L-6-v2, 20 kept).

What BM25 does not bring up is never seen by the model, so k beyond the shortlist keeps no more. A
word that is shared with the question is the reason to keep a sentence.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Mask, ScoredArm, Scores, Trace
from midchart.core.arms.bm25 import BM25
from midchart.core.embedding.pairs import relevance, shared
from midchart.core.protocol import Protocol
from midchart.core.types import Instruction
from midchart.core.weights import RELEVANCE

SHORTLIST = 50
"""Sentences of BM25 that are re-ranked."""


@ARMS.register("cross_encoder")
class CrossEncoder(ScoredArm):
    """The k sentences of highest logit among BM25's ``shortlist`` best.

    Raises MissingModel when the weights are not here, ValueError for an empty shortlist.
    """

    name, title = "cross_encoder", "Cross-encoder (of BM25's 50)"
    needs: ClassVar[str] = RELEVANCE

    def __init__(self, protocol: Protocol, shortlist: int = SHORTLIST) -> None:
        super().__init__(protocol)
        if type(shortlist) is not int or shortlist < 1:
            raise ValueError(f"'shortlist' is {shortlist!r}; it takes a whole number from 1")
        self.shortlist, self.first = shortlist, BM25(self.protocol)
        self.scorer = shared(self.needs)

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        """The model's logit of each sentence of the shortlist, −∞ for the others."""
        read, _ = self.first.rank(pool, instruction, self.shortlist)
        scores = np.full(len(pool.sentences), -np.inf)
        texts = [pool.sentences[i].scored_text for i in read.tolist()]
        scores[read] = relevance(self.scorer, instruction.question, texts)
        return scores

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        return self.first.reasons(pool, instruction)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        read = min(self.shortlist, len(pool.sentences))
        return (("model", self.scorer.id), ("read by the model", str(read)))
