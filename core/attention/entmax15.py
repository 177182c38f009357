"""1.5-entmax attention: softmax's place is taken by a map with exact zeros."""

from __future__ import annotations

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import SparseMap


@ATTENTIONS.register("entmax15")
class Entmax15(SparseMap):
    """α-entmax with α = 1.5: [(α − 1)·z − τ]₊^(1/(α − 1)), τ such that the sum is 1.

    Peters et al. 2019, equations 9–10 and algorithm 2; the paper's appendix (sparse_attn).
    """

    name = "entmax15"
    title = "Entmax 1.5"
    power = 2
