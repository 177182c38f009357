"""Differential attention: a second map is subtracted, so that what both attend to cancels.

Ye et al. 2025 (arXiv 2410.05258), equations 1–3; the paper's equation (diffattn).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import (
    AttentionModule,
    Keys,
    Shape,
    per_query,
    softmax_map,
    softmax_mix,
)

START_SPREAD = 0.1
"""Standard deviation of λ's vectors at the start (Ye et al. 2025)."""
EPSILON = 1e-5


def start_of(depth: int) -> float:
    """λ_init = .8 − .6·e^(−.3·depth); the first layer has depth 0, hence .2."""
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


@ATTENTIONS.register("differential")
class Differential(AttentionModule):
    """(softmax(Q₁K₁ᵀ/√d) − λ·softmax(Q₂K₂ᵀ/√d))·V, RMS norm of each head, times 1 − λ_init.

    Q₁ and Q₂ are the halves of a head's queries, d their width. λ = exp(λq₁·λk₁) −
    exp(λq₂·λk₂) + λ_init, one for all heads of a layer, may be negative.

    The published run differs in three ways, each an option that is off by default:
    ``lambda_init`` is .8 in every layer; ``norm`` is False (then without 1 − λ_init as well); and
    ``per_head`` gives each head its λ.
    """

    name = "differential"
    title = "Differential"
    parts = 2

    def __init__(
        self,
        shape: Shape,
        *,
        lambda_init: float | None = None,
        norm: bool = True,
        per_head: bool = False,
    ) -> None:
        super().__init__(shape)
        if shape.dim % 2:
            raise ValueError(f"{self.name}: heads of an odd width, {shape.dim}, have no halves")
        half = shape.dim // 2
        self.lambda_init = start_of(shape.depth) if lambda_init is None else lambda_init
        # [q₁, k₁, q₂, k₂], heads or one for all, half
        vectors = torch.randn(4, shape.heads if per_head else 1, half) * START_SPREAD
        self.lambda_vectors = nn.Parameter(vectors)
        self.norm = nn.RMSNorm(shape.dim, eps=EPSILON) if norm else None
        self.first: Tensor
        self.second: Tensor
        first = torch.arange(shape.dim) < half
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("second", ~first, persistent=False)

    def strength(self) -> Tensor:
        """λ, [heads, 1, 1], or [1, 1, 1] where the heads share it."""
        q1, k1, q2, k2 = self.lambda_vectors
        added = (q1 * k1).sum(-1).exp() - (q2 * k2).sum(-1).exp() + self.lambda_init
        return added[:, None, None]

    def inhibition(self, keys: Keys) -> Tensor | None:
        """By how much each key's part of the second map counts, of a gate's shape; None is 1."""
        return None

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """The first map less λ times the second, whose columns may be weighed."""
        q1, q2 = q.chunk(2, dim=-1)
        k1, k2 = k.chunk(2, dim=-1)
        second = softmax_map(q2, k2, keys.mask)
        by = self.inhibition(keys)
        if by is not None:
            second = second * per_query(by)
        return softmax_map(q1, k1, keys.mask) - self.strength() * second

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """A₁·V − λ·A₂·(g⊙V): two fused calls, no map.

        The kernels want q, k and v of one width, so a half is taken by setting the other half of
        the queries to 0. A gate that depends on who looks cannot be put on the values: its maps
        are made.
        """
        scale = (self.shape.dim // 2) ** -0.5
        by = self.inhibition(keys)
        if by is not None and by.dim() == 3:
            return self.maps(q, k, keys) @ v
        weighed = v if by is None else v * by[:, None, :, None]
        taken = softmax_mix(q * self.first, k, v, keys.mask, scale)
        return taken - self.strength() * softmax_mix(q * self.second, k, weighed, keys.mask, scale)

    def finish(self, out: Tensor) -> Tensor:
        """RMS norm of each head's values, times 1 − λ_init (Ye et al. 2025, equation 3)."""
        return out if self.norm is None else self.norm(out) * (1 - self.lambda_init)
