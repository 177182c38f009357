"""H2O adapted to classification: only the heaviest half of the positions is attended to.

Zhang et al. 2023 evict keys by their accumulated attention during generation. A classifier
generates nothing, so the paper uses the ℓ2 norm of a position's embedding (appendix, H2O
adaptation).
"""

from __future__ import annotations

import torch
from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import (
    AttentionModule,
    KeptPositions,
    Keys,
    Shape,
    heaviest,
    softmax_map,
    softmax_mix,
)


@ATTENTIONS.register("h2o")
class HeavyHitters(AttentionModule):
    """Softmax over the ``share`` of the non-padding positions whose embeddings have largest norms.

    The first ``lead`` positions hold CLS: it is kept, and not counted. ``padding`` (published,
    off by default) keeps half of *all* positions, so that padding is attended to in every
    sequence that fills less than half the window.

    The choice is made on the embeddings, once for all layers, so what is dropped reaches no
    output: an encoder drops it before its first layer (``prune``) and calls without ``norms``,
    which means that nothing more is to be dropped.
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

    def prune(self, keys: Keys) -> KeptPositions | None:
        """The positions that are kept; None where ``norms`` are not given.

        Raises ValueError for a mask by query: positions are dropped for all queries.
        """
        if keys.norms is None:
            return None
        if keys.mask.dim() != 2:
            raise ValueError(f"{self.name}: keeps positions for all queries; the mask is by query")
        return heaviest(keys.norms, keys.mask, self.share, self.lead, self.padding)

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Every score is computed, then what is not pruned is masked."""
        pruned = self.prune(keys)
        if pruned is None:
            return softmax_map(q, k, keys.mask)
        mask = torch.zeros_like(keys.mask).scatter(1, pruned.index, pruned.mask)
        return softmax_map(q, k, mask)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """Only the keys and values that are kept are gathered and attended to."""
        pruned = self.prune(keys)
        if pruned is None:
            return softmax_mix(q, k, v, keys.mask)
        index = pruned.index[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[3])
        return softmax_mix(q, k.gather(2, index), v.gather(2, index), pruned.mask)
