"""Maximal marginal relevance the plain way: each candidate compared with every pick, each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def greedy(
    relevance: NDArray[np.float64],
    vectors: NDArray[np.float32],
    k: int,
    balance: float = 0.5,
    drawn: NDArray[np.float64] | None = None,
) -> list[int]:
    """The picks in order; ``relevance`` [n] and unit ``vectors`` [n, dim] of each candidate.

    Each pick has the highest balance·relevance − (1 − balance)·(highest cosine with a pick),
    rounded to six decimals; ties go to the lower of ``drawn`` [n], without it to the earlier
    candidate.
    """
    remaining, picks = list(range(len(vectors))), list[int]()

    def value(i: int) -> float:
        nearest = float((vectors[picks] @ vectors[i]).max()) if picks else 0.0
        return round(balance * float(relevance[i]) - (1 - balance) * nearest, 6)

    while remaining and len(picks) < k:
        highest = max(map(value, remaining))
        equal = [i for i in remaining if value(i) == highest]
        best = equal[0] if drawn is None else min(equal, key=lambda i: drawn[i])
        remaining.remove(best)
        picks.append(best)
    return picks
