"""Attention as lessons need it: a record read causally, and rows of questions after one record.

The same numbers as transformers' own attention up to rounding, in less time on a processor
(``bench small_lesson``): torch's kernel multiplies there without the processor's bfloat16, and does
not know that all rows see the same record.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

NAME = "lessons"
"""The name by which transformers knows it."""
CHUNK = 320
"""Queries of a record that are compared at once, with the keys up to the last of them."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """What is attended to [batch, time, heads, dim], for ``query`` [batch, heads, time, dim].

    ``key`` and ``value`` are [batch, heads, before + time, dim]. Without keys before, the one
    sequence is a record, read causally. With keys before, these are the same record in every row,
    and ``attention_mask`` [batch, 1, time, before + time] is added to the scores of what follows.
    """
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(half), key.to(half), value.to(half)
    query = query * scaling
    before = key.shape[2] - query.shape[2]
    # Weights stay as coarse as what they multiply: autocast would have them in float32.
    with torch.autocast("cpu", enabled=False):
        if before:
            read = _after(query, key, value, before, attention_mask)
        else:
            read = _causal(query, key, value)
    return read.transpose(1, 2), None


class _Causal(torch.autograd.Function):
    """A record read causally [sequences, time, dim], ``CHUNK`` queries at a time.

    Only the scores of keys among the chunk's own queries can lie ahead, so only they are masked;
    and gradients of keys and values are added up in place, which autograd would do in fresh tensors
    as long as the record, one a chunk.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights: list[Tensor] = []
        read = torch.empty_like(query)
        for begin, end in _parts(query.shape[1]):
            weight = query[:, begin:end] @ key[:, :end].transpose(1, 2)
            ahead = torch.ones(end - begin, end - begin, dtype=torch.bool).triu(1)
            weight[..., begin:].masked_fill_(ahead, -torch.inf)
            weights.append(weight.softmax(-1))
            torch.bmm(weights[-1], value[:, :end], out=read[:, begin:end])
        ctx.save_for_backward(query, key, value, *weights)
        return read

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, *weights = ctx.saved_tensors
        asked = torch.empty_like(query)
        keyed, valued = torch.zeros_like(key), torch.zeros_like(value)
        for (begin, end), weight in zip(_parts(query.shape[1]), weights, strict=True):
            given = gradients[0][:, begin:end]
            valued[:, :end].baddbmm_(weight.transpose(1, 2), given)
            score = torch.ops.aten._softmax_backward_data(
                given @ value[:, :end].transpose(1, 2), weight, -1, weight.dtype
            )
            torch.bmm(score, key[:, :end], out=asked[:, begin:end])
            keyed[:, :end].baddbmm_(score.transpose(1, 2), query[:, begin:end])
        return asked, keyed, valued


def _parts(time: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + CHUNK, time)) for begin in range(0, time, CHUNK)]


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    batch, heads, time, dim = query.shape
    flat = (x.reshape(batch * heads, -1, dim).contiguous() for x in (query, key, value))
    read: Tensor = _Causal.apply(*flat)
    return read.view(batch, heads, time, dim)


def _after(query: Tensor, key: Tensor, value: Tensor, before: int, mask: Tensor | None) -> Tensor:
    rows, heads, time, dim = query.shape
    # All rows' queries beside each other, for the record that they share.
    beside = query.transpose(0, 1).reshape(heads, rows * time, dim)
    record = beside @ key[0, :, :before].transpose(1, 2)
    record = record.view(heads, rows, time, before).transpose(0, 1)
    own = query @ key[:, :, before:].transpose(2, 3)
    if mask is not None:
        own = own + mask[..., before:].to(own.dtype)
    weight, rest = torch.cat([record, own], dim=-1).softmax(-1).split([before, time], dim=-1)
    seen = weight.transpose(0, 1).reshape(heads, rows * time, before)
    read = (seen @ value[0, :, :before]).view(heads, rows, time, dim).transpose(0, 1)
    return read + rest @ value[:, :, before:]


AttentionInterface.register(NAME, attend)
