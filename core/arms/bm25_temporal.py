"""BM25 in time order, the paper's "DOS-RAG": the sentences of ``bm25``, shown as they happened.

Paper, appendix DOS-RAG: the top k by BM25, sorted by time, the latest events after them. Where the
protocol's own order is time, as in both presets, its prompts are those of ``bm25`` to the letter
(83 of 83 in the released prompts); ``bm25_ranked`` is the contrast.
"""

from __future__ import annotations

from dataclasses import replace

from midchart.core.arms import ARMS
from midchart.core.arms.base import BM25Arm
from midchart.core.protocol import Protocol


@ARMS.register("bm25_temporal")
class BM25Temporal(BM25Arm):
    """BM25, by time whatever the protocol's order is (paper, appendix DOS-RAG)."""

    name, title = "bm25_temporal", "BM25, by time (DOS-RAG)"

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(replace(protocol, order="time"))
