"""Hybrid: BM25 over analysed texts and MiniLM embeddings, their standardised scores added
(midchart.core.stats.ranking). Of a line and its coded entry the line has the higher score. A cosine
above 0 is the reason to keep a sentence, or a word that it shares with the question or its
equivalents.
"""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Mask, Scores
from midchart.core.arms.bm25_analysed import analysed
from midchart.core.arms.semantic import SemanticArm
from midchart.core.stats.ranking import standardised_sum
from midchart.core.text.prompt import CODED
from midchart.core.types import Instruction


@ARMS.register("hybrid")
class Hybrid(SemanticArm):
    """The k sentences of highest fused score."""

    name, title = "hybrid", "Hybrid (BM25 and MiniLM)"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        lexical = analysed(pool).scores(instruction.question)
        total = standardised_sum(lexical, self.cosines(pool, instruction.question))
        written: dict[int, int] = {}
        for i, sentence in enumerate(pool.sentences):
            if not CODED.match(sentence.text):
                written[sentence.span.event] = i
            elif total[i] > total[line := written.get(sentence.span.event, i)]:
                total[[i, line]] = total[[line, i]]
        return total

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        shared_term = analysed(pool).scores(instruction.question) > 0
        return shared_term | super().reasons(pool, instruction)
