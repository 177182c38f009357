"""What a model made of a text or of a pair of texts, kept on disk and never made again."""

from __future__ import annotations

from core.vectors.once import Make, Once, Progress
from core.vectors.store import KEY_BYTES, Vectors

__all__ = ["KEY_BYTES", "Make", "Once", "Progress", "Vectors"]
