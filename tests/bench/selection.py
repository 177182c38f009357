"""Selecting sentences: BM25, dense retrieval, MMR, QCCS plus, entailment, and locating evidence."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from midchart.core.arms.mmr import greedy
from midchart.core.arms.semantic import SentenceVectors
from midchart.core.bm25 import BM25Index
from midchart.core.embedding.embedder import Embedder
from midchart.core.gate.plus import FEATURES, HASHING, PlusWeights, ready, scores
from midchart.core.protocol import Protocol
from midchart.core.text import words
from midchart.core.text.evidence import locate
from midchart.core.types import Event, Record
from tests.bench import BENCHES, compare, reference

SENTENCES = 2000


def _texts(count: int = SENTENCES) -> list[str]:
    """Sentences of about the length and word frequencies of a record's (Zipf, 12 words)."""
    rng = np.random.default_rng(0)
    return [
        " ".join(f"w{rank}" for rank in rng.zipf(1.3, rng.integers(4, 20)).clip(max=5000))
        for _ in range(count)
    ]


def _record(texts: list[str], name: str, kind: str) -> Record:
    """A record of one event a day."""
    begin = datetime(2010, 1, 1)
    events = tuple(
        Event(i, begin + timedelta(days=i), kind, text=text) for i, text in enumerate(texts)
    )
    return Record("bench", events, f"bench-{name}")


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


@BENCHES.register("mmr")
def mmr() -> dict[str, Any]:
    """Each pick against every other, and the nearest pick carried along."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((SENTENCES, 384), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = (vectors @ vectors[7]).astype(np.float64)
    held = SentenceVectors(vectors, np.arange(SENTENCES))
    plain = reference("mmr").greedy
    return compare(
        "mmr",
        f"k = 20 of {SENTENCES:,}",
        lambda: plain(relevance, vectors, 20),
        lambda: greedy(relevance, held, 20),
        ask=15,
        rounds=3,
        fast_calls=5,
    )


@BENCHES.register("dense")
def dense() -> dict[str, Any]:
    """The record encoded again for each question, and each sentence encoded once ever.

    400 sentences, so that the plain side takes seconds; the ratio grows with the record.
    """
    texts = _texts(400)
    plain = reference("dense")
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder(cache=Path(folder))
        embedder.embed([*texts, "w3 w17 w90"])
        return compare(
            "dense",
            "one question, 400 sentences, vectors on disk",
            lambda: plain.scores(texts, "w3 w17 w90"),
            lambda: embedder.embed(texts) @ embedder.embed(["w3 w17 w90"])[0],
            ask=50,
            rounds=2,
            fast_calls=5,
        )


@BENCHES.register("locate")
def located() -> dict[str, Any]:
    """Every event compared with every snippet, and only those that can still win."""
    texts = _texts(600)
    record = _record(texts, "locate", "note")
    plain = reference("evidence").locate
    snippets = (texts[431], texts[17][:40])
    return compare(
        "locate",
        "2 snippets, 600 events",
        lambda: plain(record, snippets, Protocol()),
        lambda: locate(record, snippets),
        ask=10,
        rounds=3,
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
