"""Text as vectors: the MiniLM encoder, and embeddings that are made once ever.

Importing this loads no model library; an :class:`Embedder` loads one only when it meets a text
whose vector is not on disk.
"""

from __future__ import annotations

from core.embedding.embedder import Embedder, cosines, shared
from core.storage.vectors import Progress
from core.weights import MINILM

__all__ = ["MINILM", "Embedder", "Progress", "cosines", "shared"]
