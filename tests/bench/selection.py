"""Selecting sentences: BM25."""

from __future__ import annotations

from typing import Any

import numpy as np

from midchart.core.bm25 import BM25Index
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
