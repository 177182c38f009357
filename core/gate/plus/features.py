"""Scores of all sentences of a record for a question, with plain arrays and no torch.

Words have unit vectors v (mean of their n-grams' embeddings) and weights w (softplus of idf and a
learned part), normalised over the question to shares a. near(q, u) = max(0, v_q · v_u). Features
of a sentence s:

====================  ============================================================
bm25_share, bm25_log  BM25 over its largest value in the record; log(1 + BM25)
nearest               Σ_q a_q · max_{u in s} near(q, u)
nearest_4, _16        the same with near to the 4th and 16th power: near-exact words
strongest             max_q a_q · max_{u in s} near(q, u)
pooled                cosine of the weighted mean vectors of question and sentence
covered               share of the sentence's weight that some word of the question is near to
length                log(1 + words)
====================  ============================================================

No feature says where in a record, or in what kind of entry, evidence tends to lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.gate.ngrams import Bags
from core.gate.plus.words import Floats, QuestionWords, RecordWords, question_words, record_words
from core.gate.scorer import DECIMALS, pooled

FEATURES = (
    "bm25_share", "bm25_log", "nearest", "nearest_4", "nearest_16", "strongest", "pooled",
    "covered", "length",
)  # fmt: skip
BENT = (4, 16)
GATE_SCALE = 4.0
"""Scale of the score, so that the head's weights are of the size that AdamW moves them by."""
START = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""The head before training: BM25, and how near the nearest words are."""


@dataclass(frozen=True, eq=False, slots=True)
class PlusWeights:
    """What training learns: ``embedding`` [buckets, dim], ``weight`` [buckets], ``idf`` [2],
    ``head`` [features]; all float32."""

    embedding: Floats
    weight: Floats
    idf: Floats
    head: Floats


@dataclass(frozen=True, eq=False, slots=True)
class PlusRecord:
    """A record made ready: unit ``vectors`` [v, dim] and ``weights`` [v] of its words, weighted
    mean ``pooled`` [n, dim] and total weight ``totals`` [n] of its sentences."""

    words: RecordWords
    vectors: Floats
    weights: Floats
    pooled: Floats
    totals: Floats


def _unit(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def word_vectors(weights: PlusWeights, bags: Bags) -> Floats:
    """Unit vectors of words, [m, dim]."""
    return _unit(pooled(bags, weights.embedding))


def word_weights(weights: PlusWeights, bags: Bags, idf: Floats) -> Floats:
    """Weights of words, [m], above zero."""
    own = pooled(bags, weights.weight[:, None])[:, 0]
    return np.logaddexp(0.0, weights.idf[0] * idf + weights.idf[1] + own).astype(np.float32)


def segments(values: Floats, offsets: NDArray[np.int64], how: np.ufunc) -> Floats:
    """``how`` (add or maximum) over each sentence's rows of ``values`` [t, …]; 0 for a sentence
    without words."""
    out = np.zeros((len(offsets) - 1, *values.shape[1:]), dtype=np.float32)
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        out[full] = how.reduceat(values, offsets[:-1][full], axis=0)
    return out


def ready(weights: PlusWeights, texts: list[str]) -> PlusRecord:
    """What no question changes, from the texts [n] of a record's sentences."""
    record = record_words(texts)
    vectors = word_vectors(weights, record.bags)
    own = word_weights(weights, record.bags, record.idf)
    means = _unit(segments((own[:, None] * vectors)[record.tokens], record.offsets, np.add))
    totals = np.maximum(segments(own[record.tokens], record.offsets, np.add), 1e-6)
    return PlusRecord(record, vectors, own, means, totals)


def nearness(
    weights: PlusWeights, record: PlusRecord, question: QuestionWords
) -> tuple[Floats, Floats, Floats]:
    """near [v, q], the shares a [q] of the question's words, and their weighted mean [dim]."""
    asked = word_vectors(weights, question.bags)
    share = word_weights(weights, question.bags, question.idf)
    share = share / share.sum()
    return np.maximum(record.vectors @ asked.T, 0.0), share, _unit(share @ asked)


def features(weights: PlusWeights, record: PlusRecord, question: QuestionWords) -> Floats:
    """The features of each sentence, [n, features]."""
    tokens, offsets = record.words.tokens, record.words.offsets
    near, share, mean = nearness(weights, record, question)
    nearest = segments(near[tokens], offsets, np.maximum)
    covered = segments((near.max(axis=1) * record.weights)[tokens], offsets, np.add)
    bm25 = question.bm25.astype(np.float32)
    columns = [
        bm25 / max(float(bm25.max()), 1e-6),
        np.log1p(bm25),
        nearest @ share,
        *((nearest**power) @ share for power in BENT),
        (nearest * share).max(axis=1),
        record.pooled @ mean,
        covered / record.totals,
        np.log1p(np.diff(offsets)),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def scores(weights: PlusWeights, record: PlusRecord, question: str) -> NDArray[np.float64]:
    """Score of each sentence, float64 [n], rounded to six decimals; all 0 for a question without
    words."""
    asked = question_words(question, record.words)
    if not asked.words or not record.words.vocabulary:
        return np.zeros(record.words.sentences)
    found = features(weights, record, asked).astype(np.float64) @ weights.head.astype(np.float64)
    return np.round(GATE_SCALE * found, DECIMALS)
