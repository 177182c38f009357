"""Masked maps and mixes that variants are made of; a sequence that is all padding gives 0."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Scaled dot products QKᵀ/√dim [batch, heads, queries, time] (Vaswani et al. 2017, eq. 1)."""
    return (q * q.shape[-1] ** -0.5) @ k.mT


def per_query(known: Tensor) -> Tensor:
    """What is known of keys, [batch, time] or [batch, queries, time], as it stands beside maps."""
    return known[:, None, None, :] if known.dim() == 2 else known[:, None]


def softmax_map(q: Tensor, k: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax over the unmasked keys; ``mask`` is [batch, time] or [batch, queries, time].

    ``bias`` is added to the scores, [batch, 1, 1 or queries, time].
    """
    allowed = per_query(mask)
    found = scores(q, k) if bias is None else scores(q, k) + bias
    # The lowest finite number and not -inf, whose row of nothing else would be 0/0.
    filled = found.masked_fill(~allowed, torch.finfo(q.dtype).min)
    return filled.softmax(-1) * allowed


def softmax_mix(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """``softmax_map(q, k, mask, bias) @ v`` by PyTorch's fused kernel, without the map.

    ``scale`` replaces 1/√dim where q and k are longer than what is scored.
    """
    allowed = per_query(mask)
    some = allowed.any(-1, keepdim=True)
    # What a kernel makes of a row without keys is its own affair: give it all, then take 0.
    seen = allowed | ~some
    if bias is not None:
        seen = bias.masked_fill(~seen, torch.finfo(q.dtype).min)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    return out.masked_fill(~some, 0.0)
