"""Base of the embedding arms: the vectors of a record's sentences, cached in memory.

Equal texts have equal vectors, so copies of a line have exactly equal scores. Scores are rounded to
six decimals: beyond that, float32 encoders differ between batches and machines, and a selection
must not.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.arms.base import Candidates, Mask, ScoredArm, Scores, Trace
from midchart.core.embedding.embedder import Embedder, cosines, shared
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.storage.vectors import Progress
from midchart.core.types import Instruction
from midchart.core.weights import MINILM

DECIMALS = 6


Vectors = NDArray[np.float32]
"""Unit vectors of the candidates, [n, dim]."""
_vectors: LRU[Vectors] = LRU(8, len)


class SemanticArm(ScoredArm):
    """An arm that scores by embeddings, of MiniLM or what it ``needs``; a cosine above 0 is its
    reason to keep a sentence.

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

    def vectors(self, pool: Candidates) -> Vectors:
        """Vectors of the candidates, cached between questions."""
        texts = [sentence.scored_text for sentence in pool.sentences]
        key = (self.embedder.id, *pool.key)
        return _vectors.get(key, lambda: self.embedder.embed(texts, self._progress))

    def relevance(self, pool: Candidates, question: str) -> Scores:
        """Cosine of each candidate with the question, float64 [n], not rounded."""
        (vector,) = self.embedder.embed([question], question=True)
        return cosines(self.vectors(pool), vector).astype(np.float64)

    def cosines(self, pool: Candidates, question: str) -> Scores:
        """Cosine of each candidate with the question, float64 [n], rounded."""
        return np.round(self.relevance(pool, question), DECIMALS)

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        return self.cosines(pool, instruction.question) > 0

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        return (("model", self.embedder.id),)
