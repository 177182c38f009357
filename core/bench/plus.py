"""QCCS plus: a question of a 2,000-sentence record, the record made ready once."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.bench.retrieval import SENTENCES, some_texts
from core.gate.plus.features import FEATURES, PlusWeights, ready, scores
from core.gate.plus.words import HASHING


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
    texts, question = some_texts(), "w3 w17 w90 w400 w1200 w17"
    record = ready(weights, texts)
    plain = reference("plus").scores
    part = 200
    row = compare(
        "qccs_plus",
        f"one question, {SENTENCES:,} sentences (plain: {part}, scaled)",
        lambda: plain(weights, texts[:part], question),
        lambda: scores(weights, record, question),
        ask=300,
        rounds=2,
        fast_calls=20,
    )
    scale = SENTENCES / part
    ratio = round(row["ratio"] * scale, 1)
    return {
        **row,
        "reference_ms": row["reference_ms"] * scale,
        "ratio": ratio,
        "reached": ratio >= row["ask"],
    }
