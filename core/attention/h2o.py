"""H2O adapted to classification: only the heaviest half of the positions is attended to.

Zhang et al. 2023 evict keys by their accumulated attention during generation. A classifier
generates nothing, so the paper uses the ℓ2 norm of a position's embedding (appendix, H2O
adaptation).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Keys, Shape, softmax_map, softmax_mix


@ATTENTIONS.register("h2o")
class HeavyHitters(AttentionModule):
    """Softmax over the ``share`` of the non-padding positions whose embeddings have largest norms.

    The first ``lead`` positions hold CLS: it is kept, and not counted. ``padding`` (published,
    off by default) keeps half of *all* positions, so that padding is attended to in every
    sequence that fills less than half the window.

    The choice is made on the embeddings and is the same in all layers, so what is dropped reaches
    no output. Without ``norms`` nothing is dropped.
    """

    name = "h2o"
    title = "H2O"

    def __init__(
        self, shape: Shape, *, share: float = 0.5, lead: int = 1, padding: bool = False
    ) -> None:
        super().__init__(shape)
        if not 0 < share <= 1:
            raise ValueError(f"{self.name}: share is {share}; it takes more than 0, at most 1")
        self.share, self.lead, self.padding = share, lead, padding

    def attended(self, keys: Keys) -> Tensor:
        """The mask of the positions that are kept; raises ValueError for a mask by query:
        positions are dropped for all queries."""
        if keys.norms is None:
            return keys.mask
        if keys.mask.dim() != 2:
            raise ValueError(f"{self.name}: keeps positions for all queries; the mask is by query")
        return heaviest(keys.norms, keys.mask, self.share, self.lead, self.padding)

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Every score is computed, then what is not kept is masked."""
        return softmax_map(q, k, self.attended(keys))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """PyTorch's fused kernel."""
        return softmax_mix(q, k, v, self.attended(keys))


_ROUNDING = 1e-9
"""Taken off before rounding up: .1 of 30 is 3, though the product is a little more."""


def heaviest(norms: Tensor, mask: Tensor, share: float, lead: int, padding: bool) -> Tensor:
    """Which positions are among the share with the largest norms, ties to the earlier, bool
    [batch, time].

    ``norms`` [batch, time] and ``mask`` as in :class:`midchart.core.attention.base.Keys`. The first
    ``lead`` positions (CLS) are kept where they are there, and not counted. Of the n others that
    are there ⌈share·n⌉ are kept. With ``padding`` (published) it is max(1, ⌊share·time⌋) of all
    of them, there or not: padding has norm 0, and is kept and attended to as an event is wherever
    there are not events enough.
    """
    rest = mask.shape[-1] - lead
    ranked = norms.detach()[:, lead:].masked_fill(~mask[:, lead:], 0.0 if padding else -math.inf)
    rank = ranked.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    if padding:
        return torch.cat([mask[:, :lead], rank < max(1, int(share * rest))], 1)
    there = mask[:, lead:].sum(-1, keepdim=True)
    counts = (share * there.double() - _ROUNDING).ceil()
    return torch.cat([mask[:, :lead], rank < counts], 1)
