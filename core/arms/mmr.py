"""MMR: similar to the question, dissimilar to the sentences already selected.

Carbonell and Goldstein (1998), maximal marginal relevance, sequential, with λ = 0.5 over MiniLM
cosines (docs/methods.md, Arms): each pick has the highest λ·cos(s, q) − (1−λ)·max cos(s, picked),
the maximum over nothing being 0. The plain version is ``tests/reference/mmr.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, Positions, Scores
from midchart.core.arms.semantic import DECIMALS, SemanticArm, Vectors
from midchart.core.embedding.embedder import cosines
from midchart.core.types import Instruction

LAMBDA = 0.5


def greedy(
    relevance: Scores, vectors: Vectors, k: int, draw: Callable[[], Scores] | None = None
) -> tuple[Positions, Scores]:
    """The selected indices [k] in order, and the value of each when selected.

    ``relevance`` [n] is that of each sentence, ``vectors`` theirs. The highest cosine with any pick
    is carried along, so a pick costs one product of a matrix and a vector. Ties go to the lowest of
    ``draw()`` [n], without it to the earlier sentence.
    """
    k = max(0, min(k, len(vectors)))
    picks, values = np.zeros(k, dtype=np.intp), np.zeros(k)
    relevant = LAMBDA * relevance
    nearest = np.full(len(vectors), -np.inf, dtype=np.float32)
    value = np.round(relevant, DECIMALS)
    drawn: Scores | None = None
    for i in range(k):
        picks[i] = np.argmax(value)
        if draw is not None and np.count_nonzero(tied := value == value[picks[i]]) > 1:
            drawn = draw() if drawn is None else drawn
            picks[i] = np.argmin(np.where(tied, drawn, np.inf))
        values[i] = value[picks[i]]
        np.maximum(nearest, cosines(vectors, vectors[picks[i]]), out=nearest)
        value = np.round(relevant - (1 - LAMBDA) * nearest.astype(np.float64), DECIMALS)
        value[picks[: i + 1]] = -np.inf
    return picks, values


@ARMS.register("mmr")
class MMR(SemanticArm):
    """The greedy selection, each with its marginal relevance as its score."""

    name, title = "mmr", "MMR (MiniLM)"

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        """Relevance alone, λ·cos; the marginal value depends on the selection (:meth:`rank`)."""
        return LAMBDA * self.relevance(pool, instruction.question)

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        relevance = self.relevance(pool, instruction.question)
        near = np.arange(len(relevance))
        if self.protocol.unmatched == "dropped":
            near = np.flatnonzero(self.reasons(pool, instruction))
        draw = self.draw(pool, instruction)
        vectors = self.vectors(pool)[near]
        picks, values = greedy(relevance[near], vectors, k, draw and (lambda: draw()[near]))
        return near[picks], values
