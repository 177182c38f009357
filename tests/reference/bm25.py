"""BM25 the plain way: rank_bm25 built anew for each question, and with the other idf."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from midchart.core.text import words


def scores(texts: Sequence[str], question: str) -> NDArray[np.float64]:
    """BM25Okapi's scores of ``texts`` [n]; zeros where no text has a word (it divides by zero)."""
    corpus = [words(text) for text in texts]
    if not any(corpus):
        return np.zeros(len(corpus))
    return BM25Okapi(corpus).get_scores(words(question))


def non_negative(
    texts: Sequence[str], question: str, k1: float = 1.5, b: float = 0.75
) -> list[float]:
    """BM25 of ``texts`` with ln(1 + (N − n + 0.5) / (n + 0.5)) for a word in n of N of them
    (Robertson and Zaragoza 2009; Lucene), word by word."""
    corpus = [words(text) for text in texts]
    mean = sum(map(len, corpus)) / max(len(corpus), 1)
    totals: list[float] = []
    for line in corpus:
        total = 0.0
        for word in words(question):
            n, f = sum(word in other for other in corpus), line.count(word)
            if f:
                idf = math.log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
                total += idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(line) / mean))
        totals.append(total)
    return totals


def best(
    scores: Sequence[float] | NDArray[np.float64],
    k: int,
    reasons: Sequence[bool] | None = None,
    drawn: Sequence[float] | None = None,
) -> list[int]:
    """Indices of the k highest scores among those with a reason, best first, ties to the lower of
    ``drawn``, without it to the earlier."""
    allowed = [i for i in range(len(scores)) if reasons is None or reasons[i]]
    return sorted(allowed, key=lambda i: (-scores[i], i if drawn is None else drawn[i]))[:k]
