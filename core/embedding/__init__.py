"""Text as vectors: where weights lie, the MiniLM encoder, and vectors that are made once ever.

Importing this loads no model library; an :class:`Embedder` loads one only when it meets a text
whose vector is not on disk.
"""

from __future__ import annotations

from core.embedding import models
from core.embedding.embedder import Embedder, Progress, cosines, shared
from core.embedding.models import MINILM

__all__ = ["MINILM", "Embedder", "Progress", "cosines", "models", "shared"]
