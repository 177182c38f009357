"""The gate's network: mean-pooled n-gram embeddings of question and sentence, then a small MLP.

Paper, QCCS; PROTOCOL, The QCCS gate: one ``EmbeddingBag(5000, 64, mean)`` for both, concatenated
(128), then 128 → 32 → 1 with ReLU and dropout. Importing this loads torch; what only scores
(:mod:`core.gate.scorer`) does not.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from core.gate.config import GateConfig, widths


class GateModel(nn.Module):
    """Scores (question, sentence) pairs.

    ``embedding``: EmbeddingBag [buckets, dim] without gradient on row 0. ``layers``: Linear
    layers, ReLU and dropout between them.
    """

    def __init__(self, config: GateConfig) -> None:
        super().__init__()
        self.config = config
        buckets, steps = config.hashing.buckets, widths(config)
        self.embedding = nn.EmbeddingBag(buckets, config.dim, mode="mean", padding_idx=0)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(steps))
        self.dropout = nn.Dropout(config.dropout)

    def head(self, pooled: Tensor) -> Tensor:
        """Logits [batch] of pooled pairs [batch, width]."""
        *hidden, last = linear_layers(self)
        for layer in hidden:
            pooled = self.dropout(torch.relu(layer(pooled)))
        return last(pooled).squeeze(-1)

    def forward(self, questions: tuple[Tensor, Tensor], sentences: tuple[Tensor, Tensor]) -> Tensor:
        """Logits [batch] of pairs; each side is (ids, offsets) as EmbeddingBag takes them."""
        sides = [self.embedding(*sentences)]
        if self.config.query:
            sides.insert(0, self.embedding(*questions))
        return self.head(torch.cat(sides, dim=1))


def linear_layers(model: GateModel) -> list[nn.Linear]:
    """The head's layers, first to last."""
    return [layer for layer in model.layers if isinstance(layer, nn.Linear)]
