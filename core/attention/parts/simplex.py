"""Sparsemax and 1.5-entmax of rows, exactly, by sorting, with their exact gradients.

The package entmax solves the same; its functions refuse ``torch.func`` (several seeds as one
batch) and pass over the matrix about twice as often. Rows must have maximum 0 and no entry so low
that its square would drown the others': see :data:`core.attention.parts.sparse.OUT_OF_REACH`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _counts(rows: Tensor) -> Tensor:
    return torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)


def _threshold(taus: Tensor, inside: Tensor) -> Tensor:
    """Of the thresholds [..., n] that each number of largest entries calls for, the right one."""
    return taus.gather(-1, inside.sum(-1, keepdim=True) - 1)


class Entmax15Rows(torch.autograd.Function):
    """1.5-entmax of each row [..., n] (Peters et al. 2019, algorithm 2 and equation 14)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        """[z/2 − τ]₊² with τ such that a row's sum is 1."""
        half = rows / 2
        largest = half.sort(dim=-1, descending=True).values
        counts = _counts(rows)
        mean = largest.cumsum(-1) / counts
        spread = largest.square().cumsum(-1) / counts - mean.square()
        taus = mean - (1 / counts - spread).clamp_min(0).sqrt()
        return (half - _threshold(taus, taus <= largest)).clamp_min(0).square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep the weights: the gradient needs nothing else."""
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """√p ⊙ (∂ − its mean weighed by √p)."""
        (weights,) = ctx.saved_tensors
        roots = weights.sqrt()
        pulled = gradients[0] * roots
        return pulled - roots * (pulled.sum(-1, keepdim=True) / roots.sum(-1, keepdim=True))


class SparsemaxRows(torch.autograd.Function):
    """Sparsemax of each row [..., n] (Martins and Astudillo 2016, algorithm 1, equation 14)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        """[z − τ]₊ with τ such that a row's sum is 1."""
        largest = rows.sort(dim=-1, descending=True).values
        taus = (largest.cumsum(-1) - 1) / _counts(rows)
        return (rows - _threshold(taus, largest > taus)).clamp_min(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep where weight is: the gradient needs nothing else."""
        ctx.save_for_backward(output > 0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """The gradient less its mean, within the support."""
        (support,) = ctx.saved_tensors
        pulled = gradients[0] * support
        mean = pulled.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return (pulled - mean) * support
