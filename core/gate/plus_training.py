"""Training of QCCS plus: rank a question's evidence above all other sentences of its record.

A question with its record is one example, every other sentence a negative. The loss is that of a
softmax over the record, half for any evidence sentence, half for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from core.gate.checkpoint import PlusRecipe, PlusStep
from core.gate.ngrams import Bags
from core.gate.plus import (
    GATE_SCALE,
    HASHING,
    POWER,
    START,
    PlusWeights,
    QuestionWords,
    RecordWords,
)
from core.training import require_finite
from core.training.trainer import Trainer, epoch_order, forked_rng


class PlusModel(nn.Module):
    """Scores all sentences of a record for a question (see :mod:`core.gate.plus`).

    ``embedding`` [buckets, dim] of n-grams; ``weight`` [buckets, 1], how much a word with this
    n-gram counts; ``idf`` [2], slope and level of a word's weight; ``head`` [features].
    """

    def __init__(self, buckets: int, dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(buckets, dim)
        nn.init.normal_(self.embedding.weight, 0.0, 0.3)
        self.weight = nn.Embedding(buckets, 1)
        nn.init.zeros_(self.weight.weight)
        self.idf = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.head = nn.Parameter(torch.tensor(START))

    def _vectors(self, bags: Bags) -> Tensor:
        return F.normalize(_mean(bags, self.embedding.weight), dim=1)

    def forward(self, record: RecordWords, question: QuestionWords) -> Tensor:
        """Score of each sentence [n]."""
        level = self.idf[0] * torch.from_numpy(question.idf) + self.idf[1]
        share = F.softplus(level + _mean(question.bags, self.weight.weight)[:, 0])
        words, asked = self._vectors(record.bags), self._vectors(question.bags)
        near = (words @ asked.T).clamp(min=0.0) ** POWER
        nearest = torch.segment_reduce(
            near[torch.from_numpy(record.tokens)],
            "max",
            lengths=torch.from_numpy(record.offsets).diff(),
            initial=0.0,
        )
        learned = nearest @ (share / share.sum())
        features = torch.cat([torch.from_numpy(question.fixed), learned[:, None]], 1)
        return GATE_SCALE * (features @ self.head)


def _mean(bags: Bags, table: Tensor) -> Tensor:
    offsets = torch.from_numpy(bags.offsets[:-1])
    return F.embedding_bag(torch.from_numpy(bags.ids), table, offsets, mode="mean")


@dataclass(frozen=True, eq=False, slots=True)
class Example:
    """A question, its record, and which sentences [g] are its evidence (at least one)."""

    record: RecordWords
    question: QuestionWords
    gold: NDArray[np.int64]


def _loss_of(scores: Tensor, gold: Tensor) -> Tensor:
    """Negative log of the softmax over the record [n]: half of the evidence together, half of
    each of its sentences."""
    likely = F.log_softmax(scores, dim=0)[gold]
    return -0.5 * torch.logsumexp(likely, 0) - 0.5 * likely.mean()


class PlusTrainer(Trainer[PlusModel, PlusStep]):
    """Trains QCCS plus step by step; raises WorkFailed for a loss that is not finite."""

    entry = PlusStep

    def __init__(self, examples: Sequence[Example], recipe: PlusRecipe) -> None:
        with forked_rng(seed=recipe.seed):
            network = PlusModel(HASHING.buckets, recipe.dim)
        self.examples, self.recipe = examples, recipe
        self.epoch_steps = math.ceil(len(examples) / recipe.batch)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=True
        )
        super().__init__(network, recipe.epochs * self.epoch_steps, optimizer)
        self._sum = 0.0

    def advance(self) -> PlusStep:
        r, step = self.recipe, self.done
        epoch, number = divmod(step, self.epoch_steps)
        seen = number * r.batch
        rows = epoch_order(r.seed, epoch, len(self.examples))[seen : seen + r.batch]
        warm_up = min(1.0, (step + 1) / r.warm)
        cosine = max(0.02, 0.5 * (1 + math.cos(math.pi * step / self.total)))
        self.optimizer.param_groups[0]["lr"] = r.rate * warm_up * cosine
        self.optimizer.zero_grad()
        if number == 0:
            self._sum = 0.0
        for i in rows:
            one = self.examples[i]
            loss = _loss_of(self.network(one.record, one.question), torch.from_numpy(one.gold))
            (loss / r.batch).backward()  # pyright: ignore[reportUnknownMemberType]
            self._sum += float(loss.detach())
        self.optimizer.step()
        mean = require_finite(self._sum / (seen + len(rows)), f"epoch {epoch + 1}")
        return PlusStep(step + 1, mean)

    def epoch_losses(self) -> list[float]:
        """The mean loss of each epoch."""
        return [last.loss for last in self.history[self.epoch_steps - 1 :: self.epoch_steps]]

    def weights(self) -> PlusWeights:
        """The learned weights as plain arrays."""
        model = self.network
        tables = (model.embedding.weight, model.weight.weight[:, 0], model.idf, model.head)
        return PlusWeights(*(tensor.detach().numpy().copy() for tensor in tables))
