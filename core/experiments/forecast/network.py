"""The network of every attention variant: one encoder, and a gate of its tokens where gated.

Paper, Experiment 2: 2 layers, dim 64, 4 heads, feed-forward 256, a CLS token, head 64 → 32 → 1.
Norm, residual and dropout are the same for all variants, unlike in the published run. Only CLS's
row of the last layer is computed, since nothing else is read, and positions that an attention
drops for all layers are dropped before the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from core.attention import ATTENTIONS
from core.attention.base import AttentionModule, Kept, Keys, Shape
from core.attention.code_gate import CodeGate


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The shape of an encoder.

    vocabulary: number of codes, padding (0) included. positions: events in a sequence.
    attention, options: a name of ATTENTIONS and its options. norm: before each part and once
    before the head ("pre"), or after each residual sum ("post", as PyTorch's encoder, the published
    baseline). cls_gate: the gate of CLS's own key: "neutral", as in an ungated attention, or
    "zero", as in the published run.
    """

    vocabulary: int
    attention: str = "softmax"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    positions: int = 256
    dim: int = 64
    heads: int = 4
    layers: int = 2
    feedforward: int = 256
    head: int = 32
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"
    cls_gate: Literal["neutral", "zero"] = "neutral"


class Layer(nn.Module):
    """Attention and feed-forward, each with its residual and norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.pre = config.heads, config.norm == "pre"
        self.query, self.key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, config.feedforward), nn.Linear(config.feedforward, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dropout = nn.Dropout(config.dropout)
        self.attention: AttentionModule

    def _split(self, x: Tensor) -> Tensor:
        batch, time, dim = x.shape
        return x.view(batch, time, self.heads, dim // self.heads).transpose(1, 2)

    def forward(
        self, x: Tensor, keys: Keys, rows: int | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x [batch, rows, dim] of the first ``rows`` positions (None: all), and the maps."""
        read = self.norm1(x) if self.pre else x
        x = x[:, :rows]
        k, v = self.key_value(read).chunk(2, dim=-1)
        mixed, weights = self.attention(
            self._split(self.query(read[:, :rows])),
            self._split(k),
            self._split(v),
            keys.mask,
            keys.gate,
            keys.norms,
            need_weights,
        )
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.out(mixed))
        if not self.pre:
            x = self.norm1(x)
        read = self.norm2(x) if self.pre else x
        x = x + self.dropout(self.down(self.dropout(F.gelu(self.up(read)))))
        return (x if self.pre else self.norm2(x)), weights


class Encoder(nn.Module):
    """Codes of a patient's last events → logit of the label.

    Shared weights are initialised before those of the attentions, so encoders of one seed start
    with the same weights whatever their attention.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.dim
        self.codes = nn.Embedding(config.vocabulary, dim, padding_idx=0)
        self.places = nn.Parameter(torch.randn(config.positions, dim))
        self.cls = nn.Parameter(torch.randn(dim))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.last_norm = nn.LayerNorm(dim) if config.norm == "pre" else nn.Identity()
        self.head = nn.Sequential(
            nn.Linear(dim, config.head),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.head, 1),
        )
        for depth, layer in enumerate(self.layers):
            shape = Shape(config.heads, dim // config.heads, depth)
            attention = ATTENTIONS.build(config.attention, shape, **config.options)
            layer.attention = cast("AttentionModule", attention)

    @property
    def attention(self) -> AttentionModule:
        """The first layer's attention; gates and dropped positions are the same for all."""
        return cast("AttentionModule", self.layers[0].attention)

    def _keys(self, embedded: Tensor, mask: Tensor, gate: Tensor | None) -> Keys:
        """Mask, gate and norms with CLS in front."""
        if gate is not None:
            neutral = self.config.cls_gate == "neutral"
            gate = F.pad(gate, (1, 0), value=self.attention.neutral_gate if neutral else 0.0)
        norms = embedded.detach().norm(dim=-1)
        return Keys(F.pad(mask, (1, 0), value=True), gate, F.pad(norms, (1, 0)))

    def forward(
        self,
        codes: Tensor,
        mask: Tensor,
        gate: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch] and, where needed, each layer's maps [batch, heads, 1 + t, 1 + t].

        ``codes`` int [batch, t], ``mask`` bool [batch, t], True at events; ``gate`` [batch, t] for
        a gated attention. CLS is position 0 of the maps. The last position is the latest event, so
        t may be less than ``positions``.
        """
        embedded = self.codes(codes)
        keys = self._keys(embedded, mask, gate)
        x = embedded + self.places[self.config.positions - codes.shape[1] :]
        x = torch.cat([self.cls.expand(len(x), 1, -1), x], 1)
        # Maps cover all positions, also those that could be dropped beforehand.
        pruned = None if need_weights else self.attention.prune(keys)
        if pruned is not None:
            x, keys = _taken(x, keys, pruned)
        maps: list[Tensor] = []
        last = len(self.layers) - 1
        for depth, layer in enumerate(self.layers):
            rows = 1 if depth == last and not need_weights else None
            x, weights = layer(x, keys, rows, need_weights)
            if weights is not None:
                maps.append(weights)
        return self.head(self.last_norm(x[:, 0])).squeeze(-1), tuple(maps)


def _taken(x: Tensor, keys: Keys, pruned: Kept) -> tuple[Tensor, Keys]:
    """Only the kept positions; without norms, since nothing more is dropped."""
    gate = None if keys.gate is None else keys.gate.gather(1, pruned.index)
    index = pruned.index[:, :, None].expand(-1, -1, x.shape[-1])
    return x.gather(1, index), Keys(pruned.mask, gate)


DRAWN_EVENTS = 8
"""Events of a sequence in the gate's own loss of a step."""


class Network(nn.Module):
    """Tokens of a patient's last events → logit of the label.

    ``question`` and ``texts`` (of each token) are inputs of a gate; others ignore them.
    """

    def __init__(
        self,
        config: EncoderConfig,
        question: str = "",
        texts: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.gate: CodeGate | None = None
        if getattr(ATTENTIONS.get(config.attention), "gated", False):
            self.gate = CodeGate(question, texts, joint=True)

    def forward(
        self, tokens: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch] of tokens int [batch, t], 0 where padded, and each layer's maps."""
        mask = tokens != 0
        gate = None if self.gate is None else self.gate(tokens)
        return self.encoder(tokens, mask, gate, need_weights=need_weights)

    def gate_logits(self, tokens: Tensor, counts: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The gate's logits of some events of each sequence, and the sequence of each.

        ``counts`` [batch]: events a sequence; ``draws`` [batch, k] in [0, 1): which of them.
        Sequences without an event give none.
        """
        assert self.gate is not None
        back = (draws * counts[:, None]).long()
        events = tokens.gather(1, tokens.shape[1] - 1 - back)
        row = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(events)
        real = (counts > 0)[:, None].expand_as(events)
        distinct, positions = events[real].unique(return_inverse=True)
        return self.gate.logits(distinct)[positions], row[real]


def event_counts(tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """Events of each sequence [n] of tokens [n, t], 0 where padded."""
    return (tokens != 0).sum(axis=1)
