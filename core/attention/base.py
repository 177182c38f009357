"""What all attentions share: base class, masked maps, maps with exact zeros.

A variant implements two methods that must agree: ``maps``, readable, the explicit weights of every
query on every key; and ``mix``, fast, the weighted values without them.

A sequence that is all padding gives 0.

Sparsemax and 1.5-entmax of rows have their exact gradients. Each row's threshold τ is found by a
sort, which asks nothing of the host, so that a GPU is not waited for.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of an attention: ``heads`` of ``dim`` each, in layer ``depth`` (the first is 0)."""

    heads: int = 4
    dim: int = 16
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Keys:
    """Properties of the positions that are attended to.

    mask: bool [batch, time], True where there is an event (or CLS), False where padding; or
        [batch, queries, time], where it depends on the query (a decoder).
    gate: [batch, time] in [0, 1], or None; only gated attentions take it. It too may be
        [batch, queries, time].
    norms: ℓ2 norm of each position's embedding [batch, time], or None.
    """

    mask: Tensor
    gate: Tensor | None = None
    norms: Tensor | None = None


class AttentionModule(nn.Module):
    """Base of all attentions.

    ``gated``: whether it takes a gate, and ``neutral_gate`` the value of it that leaves a
    position as an ungated attention would. ``parts``: how many maps are made of equal parts of a
    head's queries and keys; rotary positions turn each part by itself.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    gated: ClassVar[bool] = False
    parts: ClassVar[int] = 1

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.neutral_gate = 1.0

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor,
        gate: Tensor | None = None,
        norms: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend: out [batch, heads, queries, dim], and weights where they are asked for.

        ``q`` is [batch, heads, queries, dim], ``k`` and ``v`` [batch, heads, time, dim]; queries
        may be fewer than time. ``mask``, ``gate`` and ``norms`` are as in :class:`Keys`. Weights
        are [batch, heads, queries, time], 0 on padding; without them no such matrix is made where
        the variant can do without. A sequence that is all padding gives 0.

        Raises ValueError where a gate is missing or not taken.
        """
        if (gate is not None) != self.gated:
            raise ValueError(f"{self.name}: a gate is {'needed' if self.gated else 'not taken'}")
        keys = Keys(mask, gate, norms)
        if need_weights:
            weights = self.maps(q, k, keys)
            return self.finish(weights @ v), weights
        return self.finish(self.mix(q, k, v, keys)), None

    @abstractmethod
    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Weights [batch, heads, queries, time], the readable way."""

    @abstractmethod
    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """``maps(q, k, keys) @ v``, the fast way."""

    def finish(self, out: Tensor) -> Tensor:
        """Transforms the mixed values [batch, heads, queries, dim]; the identity by default."""
        return out


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Scaled dot products QKᵀ/√dim [batch, heads, queries, time] (Vaswani et al. 2017, eq. 1)."""
    return (q * q.shape[-1] ** -0.5) @ k.mT


def per_query(values: Tensor) -> Tensor:
    """A property of keys, [batch, time] or [batch, queries, time], broadcast to maps."""
    return values[:, None, None, :] if values.dim() == 2 else values[:, None]


def softmax_map(q: Tensor, k: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax over the unmasked keys; ``mask`` is [batch, time] or [batch, queries, time].

    ``bias`` is added to the scores, [batch, 1, 1 or queries, time].
    """
    allowed = per_query(mask)
    logits = scores(q, k) if bias is None else scores(q, k) + bias
    # The lowest finite number and not -inf, whose row of nothing else would be 0/0.
    filled = logits.masked_fill(~allowed, torch.finfo(q.dtype).min)
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
    # The kernel's result for a row without keys is undefined: attend to all, then set it to 0.
    visible = allowed | ~some
    if bias is not None:
        visible = bias.masked_fill(~visible, torch.finfo(q.dtype).min)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)
    return out.masked_fill(~some, 0.0)


_OUT_OF_REACH = -4.0
"""Further below a row's maximum than any key with weight is: that is 2 for entmax (whose threshold
is on half the score) and 1 for sparsemax. Lower scores are raised to it to keep squares small.
"""
LEAST = 1e-30
"""In place of 0 under a mean over no keys at all."""


def threshold(rows: Tensor, power: int) -> Tensor:
    """τ [..., 1] such that Σ[z − τ]₊^power is 1, by the sorted row: Martins and Astudillo 2016,
    algorithm 1 (power 1), Peters et al. 2019, algorithm 2 (power 2)."""
    largest = rows.sort(dim=-1, descending=True).values
    counts = torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)
    mean = largest.cumsum(-1) / counts
    if power == 1:
        taus = mean - 1 / counts
        inside = largest > taus
    else:
        spread = largest.square().cumsum(-1) / counts - mean.square()
        taus = mean - (1 / counts - spread).clamp_min(0).sqrt()
        inside = taus <= largest
    return taus.gather(-1, inside.sum(-1, keepdim=True) - 1)


class _RowWeights(torch.autograd.Function):
    """Scores [..., n], a mask that broadcasts to them, a power → weights [z/power − τ]₊^power ≥ 0
    with sum 1 in each row: sparsemax (1; Martins and Astudillo 2016, equation 14) or 1.5-entmax (2;
    Peters et al. 2019, equation 14). A row of padding gets none."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor, power: int) -> Tensor:
        """Weights from scores; they alone are saved for the gradient."""
        rows = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        rows = rows.sub_(rows.amax(-1, keepdim=True)).clamp_min_(_OUT_OF_REACH).div_(power)
        weights = rows.sub_(threshold(rows, power)).clamp_min_(0).pow_(power).mul_(mask)
        ctx.save_for_backward(weights)
        ctx.power = power
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """s ⊙ (∂ − its mean weighted by s): s is 1 within the support, or the weight's root."""
        (weights,) = ctx.saved_tensors
        scale = weights.sign() if ctx.power == 1 else weights.sqrt()
        pulled = gradients[0] * scale
        mean = pulled.sum(-1, keepdim=True) / scale.sum(-1, keepdim=True).clamp_min(LEAST)
        return pulled - scale * mean, None, None


class SparseMap(AttentionModule):
    """Attention by a map onto the simplex that gives exact zeros; ``power`` is α's 1/(α − 1)."""

    power: ClassVar[int]

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Exact weights; keys out of reach and padding get 0, and so do their gradients."""
        logits = scores(q, k)
        # Sums over hundreds of keys need more digits than a half-precision number has.
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        weights: Tensor = _RowWeights.apply(exact, per_query(keys.mask), self.power)
        return weights.to(logits.dtype)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """The threshold takes all of a row's scores, so the map is made here too."""
        return self.maps(q, k, keys) @ v
