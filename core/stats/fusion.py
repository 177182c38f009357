"""Reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009, Reciprocal rank fusion)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFFSET = 60
"""Constant added to a rank (Cormack et al.); a larger one weighs the first ranks less."""

Floats = NDArray[np.float64]


def ranks(scores: Floats) -> Floats:
    """1 + the number of better scores, float64 [n]; scipy's ``rankdata`` with method "min", whose
    import takes longer than the selection of a first question."""
    return (1 + np.searchsorted(np.sort(-scores), -scores)).astype(np.float64)


def reciprocal_ranks(lexical: Floats, semantic: Floats) -> tuple[Floats, Floats]:
    """1 / (60 + rank) by two scores of the same sentences, each float64 [n]; 0 for a sentence whose
    lexical score is not above 0, which shares no word with the question and has no such rank."""
    by_word = np.where(lexical > 0, 1 / (OFFSET + ranks(lexical)), 0)
    return by_word, 1 / (OFFSET + ranks(semantic))
