"""Dense scores the plain way: sentence-transformers encodes the whole record for each question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.weights import MINILM, locate


@cache
def _model() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(locate(MINILM).folder), local_files_only=True)


def encode(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors of ``texts``, float32 [n, 384]."""
    return _model().encode(list(texts), normalize_embeddings=True, show_progress_bar=False)


def scores(texts: Sequence[str], question: str) -> NDArray[np.float32]:
    """Cosine of each text with the question [n]."""
    return encode(texts) @ encode([question])[0]
