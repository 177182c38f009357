"""Selecting sentences: BM25 and QCCS plus."""

from __future__ import annotations

from typing import Any

import numpy as np

from midchart.core.bm25 import BM25Index
from midchart.core.gate.plus import FEATURES, HASHING, PlusWeights, ready, scores
from midchart.core.text import words
from tests.bench import BENCHES, compare, reference

SENTENCES = 2000


def _texts() -> list[str]:
    """Sentences of about the length and word frequencies of a record's (Zipf, 12 words)."""
    rng = np.random.default_rng(0)
    return [
        " ".join(f"w{rank}" for rank in rng.zipf(1.3, rng.integers(4, 20)).clip(max=5000))
        for _ in range(SENTENCES)
    ]


@BENCHES.register("bm25")
def bm25() -> dict[str, Any]:
    """rank_bm25 built for each question, compared with one index per record."""
    texts = _texts()
    plain = reference("bm25")
    question = words("w3 w17 w90 w400 w1200 w17")
    asked = " ".join(question)
    index = BM25Index([words(text) for text in texts])
    return compare(
        "bm25",
        f"one question, {SENTENCES:,} sentences",
        lambda: plain.scores(texts, asked),
        lambda: index.scores(question),
        ask=50,
        fast_calls=50,
    )


@BENCHES.register("qccs_plus")
def qccs_plus() -> dict[str, Any]:
    """Sentence by sentence and word by word (on 200 of the sentences, scaled up), and by arrays."""
    rng = np.random.default_rng(0)
    weights = PlusWeights(
        rng.normal(0, 0.3, (HASHING.buckets, 32)).astype(np.float32),
        rng.normal(0, 0.3, HASHING.buckets).astype(np.float32),
        np.array([1.0, 0.0], dtype=np.float32),
        np.ones(len(FEATURES), dtype=np.float32),
    )
    texts, question = _texts(), "w3 w17 w90 w400 w1200 w17"
    cosine = rng.uniform(-1, 1, SENTENCES)
    record = ready(weights, texts)
    plain = reference("plus").scores
    part = 200
    return compare(
        "qccs_plus",
        f"one question, {SENTENCES:,} sentences (plain: {part}, scaled)",
        lambda: plain(weights, texts[:part], question, cosine[:part]),
        lambda: scores(weights, record, question, cosine),
        ask=300,
        rounds=2,
        fast_calls=20,
        scale=(SENTENCES / part, 1),
    )
