"""The gate of event codes: how relevant each code of a vocabulary is to a task's question.

The same network as the QCCS gate (paper, equation (gate)), on a task's question and the text of a
code. The score depends on the code alone, so each distinct code is scored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midchart.core.gate.checkpoint import FOCAL_GAMMA, GateConfig
from midchart.core.gate.ngrams import bags
from midchart.core.gate.training import GateModel

_GREATEST_WEIGHT = 20.0
"""Upper limit of the focal loss's weight of positives (paper, equation (focal))."""


class CodeGate(nn.Module):
    """Scores codes for one question.

    ``texts[i]`` is the text of code i; code 0 is padding, and its gate is 0. ``joint``: scores
    are computed with gradients at each call, so that the forecast's loss trains the gate too, until
    :meth:`freeze` puts them into a table. ``every``: a joint gate scores
    every code at each call, and not the distinct ones of the call, so that no size depends on the
    data.
    """

    def __init__(self, question: str, texts: Sequence[str]) -> None:
        super().__init__()
        config = GateConfig()
        self.model = GateModel(config)
        self.joint, self.every = True, False
        # One row of n-gram ids a text, 0 where it has no more; row 0 is the question.
        texts_bags = bags(config.hashing, [question, *texts])
        counts = torch.from_numpy(texts_bags.indptr).diff()
        columns = torch.arange(max(1, int(counts.max())))
        filled = columns < counts[:, None]
        grams = torch.zeros(filled.shape, dtype=torch.int32)
        grams[filled] = torch.from_numpy(texts_bags.indices).int()
        self.grams: Tensor
        self.table: Tensor
        self.register_buffer("grams", grams, persistent=False)
        self.register_buffer("table", torch.full((len(texts),), torch.nan))

    def logits(self, codes: Tensor) -> Tensor:
        """Logits [n] of codes [n], without de-duplication."""
        query, embedding = self.model.config.query, self.model.embedding
        sides = [embedding(self.grams[codes.long() + 1])]
        if query:
            sides.insert(0, embedding(self.grams[:1]).expand_as(sides[0]))
        return self.model.head(torch.cat(sides, dim=1))

    @torch.no_grad()
    def freeze(self) -> None:
        """Score every code once, without dropout, and exclude the gate from training."""
        training = self.training
        self.eval()
        every = torch.arange(len(self.table), device=self.table.device)
        parts = [self.logits(part).sigmoid() for part in every.split(8192)]
        self.table.copy_(torch.cat(parts))
        self.train(training)
        self.joint = False
        self.requires_grad_(False)

    def forward(self, codes: Tensor) -> Tensor:
        """Gates in [0, 1] of codes of any shape; 0 for padding."""
        if self.joint and self.every:
            every = torch.arange(len(self.table), device=codes.device)
            gates = self.logits(every).sigmoid()[codes.long()]
        elif self.joint:
            distinct, places = codes.unique(return_inverse=True)
            gates = self.logits(distinct).sigmoid()[places]
        else:
            gates = self.table[codes.long()]
        return gates.masked_fill(codes == 0, 0.0)


def gate_loss(
    logits: Tensor, labels: Tensor, kind: Literal["bce", "focal"], real: Tensor | None = None
) -> Tensor:
    """Mean loss of the gate [ ]: plain cross-entropy, or focal with γ = 2 and weighed positives.

    −α_t·(1 − p_t)^γ·log p_t (paper, equation (focal); Lin et al. 2017): α of a positive is
    negatives per positive, at most 20, of a negative 1. ``labels`` are 0 or 1, [n]; ``real``, bool
    [n], says which of them count (None: all).
    """
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    count: Tensor | int = len(labels)
    if real is not None:
        each, labels, count = each * real, labels * real, real.sum().clamp_min(1)
    if kind == "bce":
        return each.sum() / count
    positives = labels.sum()
    weight = ((count - positives) / positives.clamp_min(1)).clamp_max(_GREATEST_WEIGHT)
    # each is −log p_t, so e^−each is p_t; it is 0 where nothing is real
    focal = (1 - torch.exp(-each)) ** FOCAL_GAMMA * each
    return (torch.where(labels > 0, weight, 1.0) * focal).sum() / count
