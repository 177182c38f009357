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


def softmax_map(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the unmasked keys; ``mask`` is [batch, time] or [batch, queries, time]."""
    allowed = per_query(mask)
    # The lowest finite number and not -inf, whose row of nothing else would be 0/0.
    filled = scores(q, k).masked_fill(~allowed, torch.finfo(q.dtype).min)
    return filled.softmax(-1) * allowed


def softmax_mix(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None = None
) -> Tensor:
    """``softmax_map(q, k, mask) @ v`` by PyTorch's fused kernel, without the map.

    ``scale`` stands for 1/√dim where q and k are longer than what is scored.
    """
    allowed = per_query(mask)
    some = allowed.any(-1, keepdim=True)
    # What a kernel makes of a row without keys is its own affair: give it all, then take 0.
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | ~some, scale=scale)
    return out.masked_fill(~some, 0.0)
