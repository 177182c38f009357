"""Pairs of texts scored by a model that reads both at once: relevance and entailment.

Each pair is scored once ever and kept on disk by the hash of the weights and of both texts.
Importing this loads no model library; a :class:`PairScorer` loads one when it meets a pair whose
score is not on disk.
"""

from __future__ import annotations

from core.pairs.entailment import Entailment
from core.pairs.relevance import relevance
from core.pairs.scorer import DECIMALS, PairScorer, shared
from core.weights import NLI, RELEVANCE

__all__ = ["DECIMALS", "NLI", "RELEVANCE", "Entailment", "PairScorer", "relevance", "shared"]
