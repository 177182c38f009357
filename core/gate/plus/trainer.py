"""Training QCCS plus: rank a question's true evidence above everything else in its record.

One question and its whole record are one example, every other sentence is a negative; the loss
is that of a softmax over the record, half for any evidence sentence, half for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.errors import WorkFailed
from core.gate.plus.features import PlusWeights
from core.gate.plus.model import PlusModel
from core.gate.plus.words import HASHING, QuestionWords, RecordWords
from core.gate.recipe import Aborted, PlusRecipe
from core.gate.threads import one_thread


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


def train_plus(
    examples: Sequence[Example],
    recipe: PlusRecipe,
    progress: Callable[[int, int], bool] | None = None,
) -> tuple[PlusWeights, list[float]]:
    """Learned weights, and the mean loss of each epoch.

    ``progress(steps done, steps)`` answers whether to go on; raises Aborted where it does not,
    WorkFailed for a loss that is no number.
    """
    with one_thread():
        return _train(examples, recipe, progress)


def _train(
    examples: Sequence[Example],
    recipe: PlusRecipe,
    progress: Callable[[int, int], bool] | None,
) -> tuple[PlusWeights, list[float]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = PlusModel(HASHING.buckets, recipe.dim)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=True
    )
    steps = recipe.epochs * math.ceil(len(examples) / recipe.batch)
    done, losses = 0, list[float]()
    for epoch in range(recipe.epochs):
        order = np.random.default_rng([recipe.seed, epoch]).permutation(len(examples))
        total = 0.0
        for start in range(0, len(order), recipe.batch):
            warm = min(1.0, (done + 1) / recipe.warm)
            cosine = max(0.02, 0.5 * (1 + math.cos(math.pi * done / steps)))
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * warm * cosine
            optimiser.zero_grad()
            for i in order[start : start + recipe.batch]:
                one = examples[i]
                loss = loss_of(model(one.record, one.question), torch.from_numpy(one.gold))
                (loss / recipe.batch).backward()  # pyright: ignore[reportUnknownMemberType]
                total += float(loss.detach())
            optimiser.step()
            done += 1
            if progress is not None and not progress(done, steps):
                raise Aborted
        losses.append(total / len(examples))
        if not math.isfinite(losses[-1]):
            raise WorkFailed(f"training came to a loss that is no number in epoch {epoch + 1}")
    return _weights(model), losses


def _weights(model: PlusModel) -> PlusWeights:
    def array(tensor: Tensor) -> NDArray[np.float32]:
        return tensor.detach().numpy().copy()

    return PlusWeights(
        array(model.embedding.weight),
        array(model.weight.weight)[:, 0],
        array(model.idf),
        array(model.head),
    )
