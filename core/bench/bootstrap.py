"""Clustered bootstrap of the position curve: 2,196 rows, 10 deciles, 5,000 resamples (SPEED)."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.stats.clustered import clustered_bootstrap


@BENCHES.register("clustered_bootstrap")
def clustered() -> dict[str, Any]:
    """Rows as in the paper: six models answer each of 366 labelled questions of 270 pairs."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.integers(0, 270, 366), 6)
    deciles = np.repeat(rng.integers(0, 10, 366), 6)
    correct = rng.integers(0, 2, pairs.size).astype(float)
    plain = reference("bootstrap").clustered_bootstrap
    rows = (correct, pairs, deciles, 5000)
    return compare(
        "clustered_bootstrap",
        "2,196 rows × 10 deciles × 5,000 resamples",
        lambda: plain(*rows, np.random.default_rng(42)),
        lambda: clustered_bootstrap(*rows, np.random.default_rng(42)),
        ask=70,
        rounds=2,
        fast_calls=3,
    )
