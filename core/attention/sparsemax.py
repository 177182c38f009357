"""Sparsemax attention: the scores are projected onto the simplex."""

from __future__ import annotations

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import SparseMap


@ATTENTIONS.register("sparsemax")
class Sparsemax(SparseMap):
    """Sparsemax: the point of the simplex nearest to the scores, [z − τ]₊; entmax with α = 2.

    Martins and Astudillo 2016, algorithm 1; the paper's appendix (sparse_attn).
    """

    name = "sparsemax"
    title = "Sparsemax"
    power = 1
