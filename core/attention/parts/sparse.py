"""Maps with exact zeros: entmax by its exact, sorted solution (Peters et al. 2019)."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from core.attention.parts.base import AttentionModule, Keys
from core.attention.parts.maps import scores

OUT_OF_REACH = -4.0
"""Below the maximum by more than any key with weight is: 2 for α = 1.5 (whose threshold is on
half the score), 1 for sparsemax. What lies deeper is set here, so that squares stay small."""


class SparseMap(AttentionModule):
    """Attention by a map onto the simplex that gives exact zeros."""

    @abstractmethod
    def simplex(self, rows: Tensor) -> Tensor:
        """Map each row of scores to weights ≥ 0 with sum 1."""

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Exact weights; keys out of reach and padding get 0, and so do their gradients."""
        allowed = keys.mask[:, None, None, :]
        rows = scores(q, k).masked_fill(~allowed, torch.finfo(q.dtype).min)
        top = rows.detach().amax(-1, keepdim=True)
        rows = (rows - top).clamp_min(OUT_OF_REACH).masked_fill(~allowed, OUT_OF_REACH)
        return self.simplex(rows) * allowed

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """The threshold takes all of a row's scores, so the map is made here too."""
        return self.maps(q, k, keys) @ v
