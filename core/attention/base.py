"""What all attentions share: base class, masked maps, maps with exact zeros.

A variant implements two methods that must agree: ``maps``, readable, the explicit weights of every
query on every key; and ``mix``, fast, the weighted values without them.

A sequence that is all padding gives 0.

Sparsemax and 1.5-entmax of rows have their exact gradients. Each row's threshold τ is found to the
last bits of its type. On a processor by Newton's steps from below, which take about eight passes
where a sort takes thirty; elsewhere by the sort, which asks nothing of the host, so that a GPU is
not waited for. The package entmax solves the same by the sort; its functions refuse ``torch.func``
(several seeds as one batch).
"""

from __future__ import annotations

import math
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


@dataclass(frozen=True, slots=True)
class KeptPositions:
    """Positions that are kept.

    index: int64 [batch, kept], in time order; mask: bool [batch, kept], False where a sequence
    keeps fewer than the longest may.
    """

    index: Tensor
    mask: Tensor


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

        Raises ValueError where shapes do not fit or a gate is missing or not taken.
        """
        self._check(q, k, v, mask, gate)
        keys = Keys(mask, gate, norms)
        if need_weights:
            weights = self.maps(q, k, keys)
            return self.finish(weights @ v), weights
        return self.finish(self.mix(q, k, v, keys)), None

    def _check(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, gate: Tensor | None) -> None:
        batch, heads, time, dim = k.shape
        if (heads, dim) != (self.shape.heads, self.shape.dim) or v.shape != k.shape:
            raise ValueError(f"{self.name}: keys {tuple(k.shape)} do not fit {self.shape}")
        if q.shape[:2] != k.shape[:2] or q.shape[-1] != dim:
            raise ValueError(f"{self.name}: queries {tuple(q.shape)}, keys {tuple(k.shape)}")
        known = ((batch, time), (batch, q.shape[2], time))
        if tuple(mask.shape) not in known or mask.dtype != torch.bool:
            raise ValueError(f"{self.name}: the mask is {tuple(mask.shape)} of {mask.dtype}")
        if (gate is not None) != self.gated:
            raise ValueError(f"{self.name}: a gate is {'needed' if self.gated else 'not taken'}")
        if gate is not None and tuple(gate.shape) not in known:
            raise ValueError(f"{self.name}: the gate is {tuple(gate.shape)}")

    @abstractmethod
    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Weights [batch, heads, queries, time], the readable way."""

    @abstractmethod
    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """``maps(q, k, keys) @ v``, the fast way."""

    def finish(self, out: Tensor) -> Tensor:
        """Transforms the mixed values [batch, heads, queries, dim]; the identity by default."""
        return out

    def prune(self, keys: Keys) -> KeptPositions | None:
        """Positions that alone can reach any output, where an encoder may drop the others first.

        None means that all can.
        """
        return None


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
MOST_STEPS = 50
"""Newton's steps converge in about eight; rows of nan never do, and must not hang."""

LEAST = 1e-30
"""In place of 0 under a mean over no keys at all."""


def threshold_by_steps(rows: Tensor, power: int) -> Tensor:
    """τ [..., 1] such that Σ[z − τ]₊^power is 1, by Newton's steps; rows have maximum 0.

    The sum is convex and falls with τ, so from below, τ = max − 1, no step goes too far.
    """
    tau = rows.new_full((*rows.shape[:-1], 1), -1.0)
    close = 4 * torch.finfo(rows.dtype).eps
    for _ in range(MOST_STEPS):
        above = (rows - tau).clamp_min_(0)
        if power == 1:
            missing = above.sum(-1, keepdim=True) - 1
            # Signs add up several times as fast as truths do.
            step = missing / above.sign_().sum(-1, keepdim=True)
        else:
            slope = 2 * above.sum(-1, keepdim=True)
            step = (above.square_().sum(-1, keepdim=True) - 1) / slope
        tau += step
        if float(step.abs().max()) <= close:
            break
    return tau


def threshold_by_sort(rows: Tensor, power: int) -> Tensor:
    """The same from the sorted row: Martins and Astudillo 2016, algorithm 1 (power 1), Peters et
    al. 2019, algorithm 2 (power 2)."""
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


def _threshold(rows: Tensor, power: int) -> Tensor:
    on_host = rows.device.type == "cpu"
    return (threshold_by_steps if on_host else threshold_by_sort)(rows, power)


def _rows(scores: Tensor, mask: Tensor) -> Tensor:
    """A copy of the scores with maximum 0 in each row and padding out of reach."""
    rows = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return rows.sub_(rows.amax(-1, keepdim=True)).clamp_min_(_OUT_OF_REACH)


def _more_rows(in_dims: tuple[int | None, ...], inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Rows are independent, so a batch of them is more rows: the batch goes in front."""
    pairs = zip(inputs, in_dims, strict=True)
    return [x if at is None else x.movedim(at, 0) for x, at in pairs]


class _RowWeights(torch.autograd.Function):
    """Scores [..., n] and a mask that broadcasts to them → weights ≥ 0 with sum 1 in each row.

    A row of padding gets none. Only the weights are saved for the gradient.
    """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)


def _centred(gradient: Tensor, scale: Tensor) -> Tensor:
    """scale ⊙ (∂ − its mean weighted by scale), with ∂ the ``gradient``."""
    pulled = gradient * scale
    mean = pulled.sum(-1, keepdim=True) / scale.sum(-1, keepdim=True).clamp_min(LEAST)
    return pulled - scale * mean


class Entmax15Rows(_RowWeights):
    """1.5-entmax of each row: [z/2 − τ]₊² (Peters et al. 2019, equation 14)."""

    @staticmethod
    def forward(scores: Tensor, mask: Tensor) -> Tensor:
        """Weights from scores."""
        half = _rows(scores, mask).div_(2)
        return half.sub_(_threshold(half, 2)).clamp_min_(0).square_().mul_(mask)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """√p ⊙ (∂ − its mean weighted by √p)."""
        return _centred(gradients[0], ctx.saved_tensors[0].sqrt()), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, int]:
        """Several seeds as one batch."""
        return Entmax15Rows.apply(*_more_rows(in_dims, inputs)), 0


class SparsemaxRows(_RowWeights):
    """Sparsemax of each row: [z − τ]₊ (Martins and Astudillo 2016, equation 14)."""

    @staticmethod
    def forward(scores: Tensor, mask: Tensor) -> Tensor:
        """Weights from scores."""
        rows = _rows(scores, mask)
        return rows.sub_(_threshold(rows, 1)).clamp_min_(0).mul_(mask)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient less its mean, within the support."""
        return _centred(gradients[0], ctx.saved_tensors[0].sign()), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, int]:
        """Several seeds as one batch."""
        return SparsemaxRows.apply(*_more_rows(in_dims, inputs)), 0


class SparseMap(AttentionModule):
    """Attention by a map onto the simplex that gives exact zeros."""

    @abstractmethod
    def simplex(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Map each row of scores to weights ≥ 0 with sum 1, over the keys that are there."""

    def maps(self, q: Tensor, k: Tensor, keys: Keys) -> Tensor:
        """Exact weights; keys out of reach and padding get 0, and so do their gradients."""
        logits = scores(q, k)
        # Sums over hundreds of keys need more digits than a half-precision number has.
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return self.simplex(exact, per_query(keys.mask)).to(logits.dtype)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, keys: Keys) -> Tensor:
        """The threshold takes all of a row's scores, so the map is made here too."""
        return self.maps(q, k, keys) @ v


_ROUNDING = 1e-9
"""Taken off before rounding up: .1 of 30 is 3, though the product is a little more."""


def heaviest(norms: Tensor, mask: Tensor, share: float, lead: int, padding: bool) -> KeptPositions:
    """The share of positions with the largest norms, ties to the earlier, in time order.

    ``norms`` [batch, time] and ``mask`` as in :class:`midchart.core.attention.base.Keys`. The first
    ``lead`` positions (CLS) are kept where they are there, and not counted. Of the n others that
    are there ⌈share·n⌉ are kept. With ``padding`` (published) it is max(1, ⌊share·time⌋) of all
    of them, there or not: padding has norm 0, and is kept and attended to as an event is wherever
    there are not events enough. How many columns come back depends on ``time`` alone.
    """
    rest = mask.shape[-1] - lead
    ranked = norms.detach()[:, lead:].masked_fill(~mask[:, lead:], 0.0 if padding else -math.inf)
    heaviest_first = ranked.argsort(dim=-1, descending=True, stable=True)
    if padding:
        most = max(1, int(share * rest))
        counts = mask.new_full((len(mask), 1), most, dtype=torch.int64)
    else:
        most = math.ceil(share * rest - _ROUNDING)
        there = mask[:, lead:].sum(-1, keepdim=True)
        counts = (share * there.double() - _ROUNDING).ceil().long()
    places = torch.arange(rest, device=mask.device).expand(len(mask), rest)
    rank = torch.zeros_like(heaviest_first).scatter(1, heaviest_first, places)
    chosen = rank < counts
    # Stable, so the chosen come first and in time order.
    index = (~chosen).long().argsort(dim=-1, stable=True)[:, :most]
    filled = torch.arange(most, device=mask.device) < counts
    leading = torch.arange(lead, device=mask.device).expand(len(mask), lead)
    return KeptPositions(
        torch.cat([leading, index + lead], 1), torch.cat([mask[:, :lead], filled], 1)
    )
