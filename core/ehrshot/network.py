"""An encoder and, where its attention takes one, the gate of its tokens, as one network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.attention import ATTENTIONS
from core.attention.parts.gate import CodeGate
from core.ehrshot.encoder import Encoder, EncoderConfig
from core.ehrshot.recipe import GateTraining

DRAWN_EVENTS = 8
"""Events of a sequence that the gate's own loss looks at in a step."""


class Network(nn.Module):
    """Tokens of a patient's last events → logit of the label.

    ``question`` and ``texts`` (of each token) are what a gate reads; others ignore them.
    """

    def __init__(
        self,
        config: EncoderConfig,
        question: str = "",
        texts: tuple[str, ...] = (),
        gate_training: GateTraining = "joint",
    ) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.gate: CodeGate | None = None
        if getattr(ATTENTIONS.get(config.attention), "gated", False):
            self.gate = CodeGate(question, texts, joint=True)
        self.gate_training: GateTraining = gate_training

    def forward(
        self, tokens: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch] of tokens int [batch, t], 0 where padded, and each layer's maps."""
        mask = tokens != 0
        gate = None if self.gate is None else self.gate(tokens)
        return self.encoder(tokens, mask, gate, need_weights=need_weights)

    def gate_logits(self, tokens: Tensor, counts: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The gate's logits of some events of each sequence, and which sequence each is of.

        ``counts`` [batch]: events a sequence; ``draws`` [batch, k] in [0, 1): which of them.
        Sequences without an event give none.
        """
        assert self.gate is not None
        back = (draws * counts[:, None]).long()
        found = tokens.gather(1, tokens.shape[1] - 1 - back)
        row = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(found)
        there = (counts > 0)[:, None].expand_as(found)
        distinct, places = found[there].unique(return_inverse=True)
        return self.gate.logits(distinct)[places], row[there]


def event_counts(tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """Events of each sequence [n]; they stand on the right."""
    return (tokens != 0).sum(axis=1)
