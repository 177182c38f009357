"""BM25 the plain way: rank_bm25 built anew for each question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from core.text import words


def scores(texts: Sequence[str], question: str) -> NDArray[np.float64]:
    """BM25Okapi's scores of ``texts`` [n]; zeros where no text has a word (it divides by zero)."""
    corpus = [words(text) for text in texts]
    if not any(corpus):
        return np.zeros(len(corpus))
    return BM25Okapi(corpus).get_scores(words(question))


def best(scores: NDArray[np.float64], k: int) -> list[int]:
    """Indices of the k highest scores, best first, ties to the earlier."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
