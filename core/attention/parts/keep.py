"""Which positions H2O keeps: the heaviest, by the norm of their embedding."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from core.attention.parts.base import Kept

ROUNDING = 1e-9
"""Taken off before rounding up: .1 of 30 is 3, though the product is a little more."""


def heaviest(norms: Tensor, mask: Tensor, share: float, lead: int, padding: bool) -> Kept:
    """The share of positions with the largest norms, ties to the earlier, in time order.

    ``norms`` [batch, time] and ``mask`` as in :class:`core.attention.parts.base.Keys`. The first
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
        most = math.ceil(share * rest - ROUNDING)
        there = mask[:, lead:].sum(-1, keepdim=True)
        counts = (share * there.double() - ROUNDING).ceil().long()
    places = torch.arange(rest, device=mask.device).expand(len(mask), rest)
    rank = torch.zeros_like(heaviest_first).scatter(1, heaviest_first, places)
    chosen = rank < counts
    # Stable, so the chosen come first and in time order.
    index = (~chosen).long().argsort(dim=-1, stable=True)[:, :most]
    filled = torch.arange(most, device=mask.device) < counts
    leading = torch.arange(lead, device=mask.device).expand(len(mask), lead)
    return Kept(torch.cat([leading, index + lead], 1), torch.cat([mask[:, :lead], filled], 1))
