"""QCCS plus the plain way: sentence by sentence and word by word, as midchart.core.gate.plus
says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from midchart.core.gate.ngrams import hasher
from midchart.core.gate.plus import GATE_SCALE, HASHING, PlusWeights
from midchart.core.text import words
from tests.reference import bm25


def _grams(word: str) -> list[int]:
    marked, bucket = f"^{word}$", hasher(HASHING)
    grams = [f"={word}", *(marked[i : i + 3] for i in range(len(marked) - 2))]
    return [bucket(gram.encode("utf-8", "surrogatepass")) for gram in grams]


def _vector(weights: PlusWeights, word: str) -> np.ndarray:
    mean = weights.embedding[_grams(word)].astype(float).mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _weight(weights: PlusWeights, word: str, idf: float) -> float:
    trained = float(weights.weight[_grams(word)].mean())
    return math.log1p(math.exp(float(weights.idf[0]) * idf + float(weights.idf[1]) + trained))


def scores(
    weights: PlusWeights, texts: Sequence[str], question: str, cosine: Sequence[float]
) -> list[float]:
    """Score of each sentence for a question that has words."""
    corpus, asked = [words(text) for text in texts], words(question)
    n = len(corpus)

    def idf(word: str) -> float:
        frequency = sum(word in line for line in corpus)
        return math.log1p((n - frequency + 0.5) / (frequency + 0.5))

    lexical = [max(float(s), 0.0) for s in bm25.scores(list(texts), question)]
    largest = max(*lexical, 1e-6)
    share = [_weight(weights, word, idf(word)) for word in asked]
    share = [one / sum(share) for one in share]
    vectors = [_vector(weights, word) for word in asked]
    totals: list[float] = []
    for line, score, similarity in zip(corpus, lexical, cosine, strict=True):
        line_vectors = [_vector(weights, word) for word in line]
        near = [[max(0.0, float(v @ u)) ** 4 for u in line_vectors] for v in vectors]
        features = [
            score / largest,
            math.log1p(score),
            61 / (61 + sum(other > score for other in lexical)) if score > 0 else 0.0,
            61 / (61 + sum(other > similarity for other in cosine)),
            similarity,
            sum(a * max(row, default=0.0) for a, row in zip(share, near, strict=True)),
        ]
        totals.append(GATE_SCALE * sum(h * f for h, f in zip(weights.head, features, strict=True)))
    return totals
