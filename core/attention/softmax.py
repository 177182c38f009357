"""Softmax attention: the baseline of every other variant."""

from __future__ import annotations

from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Keys, softmax_map, softmax_mix


@ATTENTIONS.register("softmax")
class Softmax(AttentionModule):
    """softmax(QKᵀ/√d)·V (Vaswani et al. 2017, equation 1; the paper's standard transformer)."""

    name = "softmax"
    title = "Softmax"

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Softmax of the scores over the keys that are there."""
        return softmax_map(q, k, keys.mask)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """PyTorch's fused kernel."""
        return softmax_mix(q, k, v, keys.mask)
