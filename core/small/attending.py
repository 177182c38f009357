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


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    read: list[Tensor] = []
    time = query.shape[2]
    for begin in range(0, time, CHUNK):
        end = min(begin + CHUNK, time)
        scores = query[:, :, begin:end] @ key[:, :, :end].transpose(2, 3)
        ahead = torch.ones(end - begin, end, dtype=torch.bool).triu(begin + 1)
        weight = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        read.append(weight @ value[:, :, :end])
    return torch.cat(read, dim=2)


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
