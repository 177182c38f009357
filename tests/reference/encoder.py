"""The encoder the plain way: every row of every layer, explicit maps, nothing dropped before.

It takes the weights of an :class:`midchart.core.training_experiments.forecast.training.Encoder` and
no code of it; without dropout.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference import attention as plain


def attend(
    attention: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, g: Tensor | None
) -> Tensor:
    """The plain form of an attention with its own parameters; H2O's mask is in ``mask``."""
    if attention.name in ("entmax15", "sparsemax"):
        return getattr(plain, attention.name)(q, k, v, mask)
    if attention.name in ("softmax", "h2o"):
        return plain.softmax(q, k, v, mask)
    if attention.name == "gated_softmax":
        assert g is not None
        return plain.gated_softmax(q, k, v, mask, g)
    return plain.differential_at_once(
        q, k, v, mask, attention.lambda_vectors, attention.lambda_init, attention.norm.weight, g
    )


def logits(model: Any, codes: Tensor, mask: Tensor, g: Tensor | None = None) -> Tensor:
    """Logits [batch]; ``g`` [batch, t] is what the second map's columns count for."""
    config, first = model.config, model.layers[0].attention
    embedded = model.codes(codes)
    x = embedded + model.places[-codes.shape[1] :]
    x = torch.cat([model.cls.expand(len(x), 1, -1), x], 1)
    mask = F.pad(mask, (1, 0), value=True)
    g = None if g is None else F.pad(g, (1, 0), value=1.0)
    if first.name == "h2o":
        norms = F.pad(embedded.norm(dim=-1), (1, 0)).tolist()
        rows = zip(norms, mask.tolist(), strict=True)
        mask = torch.tensor([plain.h2o_mask(n, m, first.share) for n, m in rows])
    return from_first(model, config, x, mask, g)


def from_first(model: Any, config: Any, x: Tensor, mask: Tensor, g: Tensor | None) -> Tensor:
    """The same from the first layer on, for timing: a sort of Python's is no part of it."""
    batch, time, dim = x.shape
    pre = config.norm == "pre"
    for layer in model.layers:
        read = layer.norm1(x) if pre else x
        projected = torch.cat([layer.query(read), layer.key_value(read)], -1)
        q, k, v = projected.view(batch, time, 3, config.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = attend(layer.attention, q, k, v, mask, g)
        x = x + layer.out(mixed.transpose(1, 2).reshape(batch, time, dim))
        x = x if pre else layer.norm1(x)
        read = layer.norm2(x) if pre else x
        x = x + layer.down(F.gelu(layer.up(read)))
        x = x if pre else layer.norm2(x)
    return model.head(model.last_norm(x)[:, 0]).squeeze(-1)
