"""Small inputs for attentions, every variant with its options, and one way to call them all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Shape

NAMES = (
    "softmax", "differential", "gated_differential", "gated_softmax",
    "h2o", "entmax15", "sparsemax",
)  # fmt: skip
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in NAMES},
    "differential published": (
        "differential",
        {"lambda_init": 0.8, "norm": False, "per_head": True},
    ),
    "gated_differential 1-g": ("gated_differential", {"sign": "1-g"}),
}


def build_module(variant: str, dtype: torch.dtype = torch.float64) -> AttentionModule:
    """A variant of 2 heads of 8 in the second layer, its own parameters drawn from one seed."""
    name, options = VARIANTS[variant]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = ATTENTIONS.build(name, Shape(2, 8, 1), **options).to(dtype)
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, 0.5, 0.5)
    return module


def inputs(
    lengths: tuple[int, ...] = (7, 4, 2),
    time: int = 7,
    queries: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """Random q, k, v [batch, 2, time, 8], mask, gate and norms [batch, time] of given lengths."""
    draw = torch.Generator().manual_seed(1)
    batch = len(lengths)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=draw, dtype=dtype)

    return {
        "q": random(batch, 2, queries or time, 8),
        "k": random(batch, 2, time, 8),
        "v": random(batch, 2, time, 8),
        "mask": torch.arange(time) < torch.tensor(lengths)[:, None],
        "gate": torch.rand(batch, time, generator=draw, dtype=dtype),
        "norms": torch.rand(batch, time, generator=draw, dtype=dtype),
    }


def call(module: AttentionModule, tensors: dict[str, Tensor], **more: Any):
    """Call with what the module takes of ``given``."""
    gate = {"gate": tensors["gate"]} if module.gated else {}
    q, k, v, mask = (tensors[name] for name in ("q", "k", "v", "mask"))
    return module(q, k, v, mask, norms=tensors["norms"], **gate, **more)


def gradients(
    module: AttentionModule, tensors: dict[str, Tensor], **more: Any
) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed mix of it by inputs, gate and parameters."""
    names = ["q", "k", "v"] + (["gate"] if module.gated else [])
    leaves = {name: tensors[name].clone().requires_grad_() for name in names}
    out, _ = call(module, tensors | leaves, **more)
    mix = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=out.dtype)
    wanted = leaves | dict(module.named_parameters())
    gradient = torch.autograd.grad((out * mix).sum(), list(wanted.values()))
    return {"out": out.detach(), **dict(zip(wanted, gradient, strict=True))}
