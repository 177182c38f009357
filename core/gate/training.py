"""The gate's network and its training (loads torch).

Paper, QCCS; docs/methods.md, The QCCS gate: one ``EmbeddingBag(5000, 64, mean)`` for question and
sentence, concatenated (128), then 128 → 32 → 1 with ReLU and dropout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from midchart.core.gate.checkpoint import (
    FOCAL_GAMMA,
    GateConfig,
    GateEpoch,
    GateRecipe,
    widths,
)
from midchart.core.gate.examples import Pairs
from midchart.core.gate.ngrams import bags
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training import require_finite
from midchart.core.training.trainer import Trainer, epoch_order, forked_rng, one_thread, seed_of


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

    def head(self, pooled: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Logits [batch] of pooled pairs [batch, width].

        ``masks``: what multiplies each hidden layer [batch, width] in the place of dropout.
        """
        *hidden, last = self.layers
        for number, layer in enumerate(hidden):
            pooled = torch.relu(layer(pooled))
            pooled = pooled * masks[number] if masks else self.dropout(pooled)
        return last(pooled).squeeze(-1)

    def forward(self, questions: tuple[Tensor, Tensor], sentences: tuple[Tensor, Tensor]) -> Tensor:
        """Logits [batch] of pairs; each side is (ids, offsets) as EmbeddingBag takes them."""
        sides = [self.embedding(*sentences)]
        if self.config.query:
            sides.insert(0, self.embedding(*questions))
        return self.head(torch.cat(sides, dim=1))


_AHEAD = 64
"""Batches whose dropout is drawn at once: changes the draws."""


def loss_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Mean loss: binary cross-entropy, or focal with γ = 2 (Lin et al. 2017, equation 4)."""
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(logits, labels)
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return ((1 - torch.exp(-each)) ** FOCAL_GAMMA * each).mean()


class GateTrainer(Trainer[GateModel, GateEpoch]):
    """Trains a gate on ``pairs`` and measures it on ``validation`` after each epoch."""

    entry = GateEpoch

    def __init__(
        self, config: GateConfig, pairs: Pairs, validation: Pairs, recipe: GateRecipe
    ) -> None:
        with forked_rng(seed=seed_of(recipe.seed, 0)):
            network = GateModel(config)
        optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, fused=True)
        super().__init__(network, recipe.epochs, optimizer)
        self.config, self.recipe = config, recipe
        self.pairs, self.validation = pairs, validation
        self._sides = [
            (bags(config.hashing, texts), rows)
            for texts, rows in (
                (pairs.questions, pairs.question),
                (pairs.sentences, pairs.sentence),
            )
        ][0 if config.query else 1 :]

    def advance(self) -> GateEpoch:
        epoch = self.done + 1
        loss = require_finite(self.epoch(epoch), f"epoch {epoch}")
        return GateEpoch(epoch, loss, *self._validate())

    def epoch(self, number: int) -> float:
        """Epoch ``number`` (from 1): one pass over all pairs; the mean loss."""
        recipe = self.recipe
        draws = torch.Generator().manual_seed(seed_of(recipe.seed, number))
        order = epoch_order(recipe.seed, number, len(self.pairs))
        labels, total = torch.from_numpy(self.pairs.label[order]), 0.0
        masks: list[Tensor] = []
        self.network.train()
        for begin in range(0, len(order), recipe.batch):
            at = begin % (_AHEAD * recipe.batch)
            if not at:
                masks = self._dropout(min(_AHEAD * recipe.batch, len(order) - begin), draws)
            batch, rows = slice(begin, begin + recipe.batch), slice(at, at + recipe.batch)
            pooled = [self._pooled(bag[of[order[batch]]]) for bag, of in self._sides]
            logits = self.network.head(torch.cat(pooled, dim=1), [one[rows] for one in masks])
            loss = loss_of(logits, labels[batch], recipe.loss)
            self.optimizer.zero_grad()
            loss.backward()  # pyright: ignore[reportUnknownMemberType]
            self.optimizer.step()
            total += float(loss.detach()) * len(logits)
        return total / max(len(order), 1)

    def _pooled(self, bags: Any) -> Tensor:
        ids, starts = torch.from_numpy(bags.indices), torch.from_numpy(bags.indptr[:-1])
        return self.network.embedding(ids, starts)

    def _dropout(self, rows: int, draws: torch.Generator) -> list[Tensor]:
        """What dropout multiplies each hidden layer of some rows by: 0, or what makes up for it."""
        dropout = self.config.dropout
        return [
            (torch.rand(rows, width, generator=draws) >= dropout).float().div_(1 - dropout)
            for width in widths(self.config)[1:-1]
        ]

    def _validate(self) -> tuple[float, float]:
        if not len(self.validation):
            return math.nan, math.nan
        logits = self.logits(self.validation)
        labels = torch.from_numpy(self.validation.label)
        loss = float(loss_of(torch.from_numpy(logits), labels, self.recipe.loss))
        return loss, ranking_areas(logits, self.validation.label)[0]

    @one_thread()
    def logits(self, pairs: Pairs) -> NDArray[np.float32]:
        """Logits [n] of pairs, without dropout; one thread, since the last layer's matrix-vector
        product rounds differently with more."""
        self.network.eval()
        with torch.no_grad():
            hashing = self.config.hashing
            sides = [self._pooled(bags(hashing, one)) for one in (pairs.questions, pairs.sentences)]
            pooled = [sides[0][pairs.question], sides[1][pairs.sentence]]
            return self.network.head(torch.cat(pooled[0 if self.config.query else 1 :], 1)).numpy()

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The network's weights by name."""
        return {k: v.detach().numpy().copy() for k, v in self.network.state_dict().items()}

    def identity(self) -> Any:
        return [
            asdict(self.config),
            asdict(self.recipe),
            *map(_digest, (self.pairs, self.validation)),
        ]


def _digest(pairs: Pairs) -> str:
    total = blake2b(repr((pairs.questions, pairs.sentences)).encode(), digest_size=16)
    for array in (pairs.question, pairs.sentence, pairs.label):
        total.update(array.tobytes())
    return total.hexdigest()
