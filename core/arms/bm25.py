"""BM25: the k sentences that share the rarest words with the question (docs/methods.md, Arms)."""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import BM25Arm


@ARMS.register("bm25")
class BM25(BM25Arm):
    """BM25 over all candidates."""

    name, title = "bm25", "BM25"
