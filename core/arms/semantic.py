"""Base of the embedding arms: the vectors of a record's sentences, cached in memory.

Equal texts share one row, so copies of a line have exactly equal scores. Scores are rounded to six
decimals: beyond that, float32 encoders differ between batches and machines, and a selection must
not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.arms.base import Candidates, Mask, Positions, ScoredArm, Scores, Trace
from midchart.core.embedding.embedder import Embedder, cosines, shared
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.storage.vectors import Progress
from midchart.core.types import Instruction
from midchart.core.weights import MINILM

DECIMALS = 6


@dataclass(frozen=True, eq=False, slots=True)
class SentenceVectors:
    """Unit vectors of distinct texts, float32 [m, dim], in order of first appearance, and the
    row of each candidate [n]."""

    rows: NDArray[np.float32]
    row_of: Positions


_vectors: LRU[SentenceVectors] = LRU(8, lambda vectors: len(vectors.row_of))


class SemanticArm(ScoredArm):
    """An arm that scores by MiniLM embeddings; a cosine above 0 is its reason to keep a sentence.

    ``progress`` hears of a record's sentences while they are first encoded. Raises MissingModel
    when the weights are not here.
    """

    needs: ClassVar[str] = MINILM

    def __init__(
        self,
        protocol: Protocol,
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(protocol)
        self.embedder = embedder if embedder is not None else shared(self.needs)
        self._progress = progress

    def vectors(self, pool: Candidates) -> SentenceVectors:
        """Vectors of the candidates, cached between questions."""

        def make() -> SentenceVectors:
            place: dict[str, int] = {}
            rows = [place.setdefault(s.scored_text, len(place)) for s in pool.sentences]
            vectors = self.embedder.embed(list(place), self._progress)
            return SentenceVectors(vectors, np.array(rows, dtype=np.intp))

        return _vectors.get((self.embedder.id, *pool.key), make)

    def relevance(self, vectors: SentenceVectors, question: str) -> Scores:
        """Cosine of each distinct text with the question, float64 [m], not rounded."""
        return cosines(vectors.rows, self.embedder.embed([question])[0]).astype(np.float64)

    def cosines(self, pool: Candidates, question: str) -> Scores:
        """Cosine of each candidate with the question, float64 [n], rounded."""
        vectors = self.vectors(pool)
        return np.round(self.relevance(vectors, question), DECIMALS)[vectors.row_of]

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        return self.cosines(pool, instruction.question) > 0

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        return (("model", self.embedder.id),)
