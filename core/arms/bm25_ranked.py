"""BM25 in rank order: the same sentences as ``bm25``, shown best first.

The paper's "DOS-RAG" equals its BM25 on 83 of 83 questions, because both were in time order;
this is the contrast it meant (docs/methods.md, Arms). Lines of the recency buffer alone come last.
"""

from __future__ import annotations

from midchart.core.arms import ARMS
from midchart.core.arms.base import BM25Arm


@ARMS.register("bm25_ranked")
class BM25Ranked(BM25Arm):
    """BM25, by relevance whatever the protocol's order is."""

    name, title = "bm25_ranked", "BM25, by relevance"
    by_relevance = True
