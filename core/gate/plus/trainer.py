"""Training QCCS plus: rank a question's true evidence above everything else in its record.

One question and its whole record are one example, every other sentence is a negative; the loss
is that of a softmax over the record, half for any evidence sentence, half for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.gate.config import PlusRecipe, PlusStep
from core.gate.plus.features import PlusWeights
from core.gate.plus.model import PlusModel
from core.gate.plus.words import HASHING, QuestionWords, RecordWords
from core.training import require_finite
from core.training.repeatable import epoch_order, forked_rng
from core.training.trainer import Trainer


@dataclass(frozen=True, eq=False, slots=True)
class Example:
    """A question, its record, and which sentences [g] are its evidence (at least one)."""

    record: RecordWords
    question: QuestionWords
    gold: NDArray[np.int64]


def loss_of(scores: Tensor, gold: Tensor) -> Tensor:
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
            loss = loss_of(self.network(one.record, one.question), torch.from_numpy(one.gold))
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
