"""The gate the plain way: one sentence at a time, and a DataLoader loop with PyTorch's AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from midchart.core.gate.examples import Pairs
from midchart.core.gate.ngrams import Hashing, gram_ids
from midchart.core.gate.training import GateModel


def bag(hashing: Hashing, text: str) -> tuple[Tensor, Tensor]:
    """One text as EmbeddingBag takes it; a text without n-grams is a single padding id."""
    return torch.tensor(gram_ids(hashing, text) or [0]), torch.tensor([0])


def scores(model: GateModel, question: str, sentences: Sequence[str]) -> list[float]:
    """Logit of each sentence, one forward pass each, hashed anew each time."""
    model.eval()
    hashing = model.config.hashing
    with torch.no_grad():
        return [float(model(bag(hashing, question), bag(hashing, text))) for text in sentences]


def scores_of_bags(
    model: GateModel, question: tuple[Tensor, Tensor], bags: Sequence[tuple[Tensor, Tensor]]
) -> list[float]:
    """The same where the texts are hashed already."""
    with torch.no_grad():
        return [float(model(question, one)) for one in bags]


class Rows(Dataset[tuple[list[int], list[int], float]]):
    """The pairs as a DataLoader takes them, their texts hashed once."""

    def __init__(self, pairs: Pairs, hashing: Hashing) -> None:
        self.pairs = pairs
        self.questions = [gram_ids(hashing, text) for text in pairs.questions]
        self.sentences = [gram_ids(hashing, text) for text in pairs.sentences]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> tuple[list[int], list[int], float]:
        question, sentence = int(self.pairs.question[i]), int(self.pairs.sentence[i])
        return self.questions[question], self.sentences[sentence], float(self.pairs.label[i])


def _flat(bags: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = [0, *(len(bag) for bag in bags[:-1])]
    return torch.tensor([i for bag in bags for i in bag]), torch.tensor(np.cumsum(lengths))


def _collate(rows: list[tuple[list[int], list[int], float]]):
    questions, sentences, labels = zip(*rows, strict=True)
    return _flat(questions), _flat(sentences), torch.tensor(labels)


def train(
    model: GateModel,
    rows: Rows,
    orders: Sequence[NDArray[np.int64]],
    batch: int = 32,
    rate: float = 1e-3,
    loss_of: Callable[[Tensor, Tensor], Tensor] = F.binary_cross_entropy_with_logits,
) -> list[float]:
    """Train over ``orders``, one order of ``rows`` an epoch; gives each epoch's mean loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    losses: list[float] = []
    for order in orders:
        total = 0.0
        loader = DataLoader(rows, batch_size=batch, sampler=order.tolist(), collate_fn=_collate)
        for questions, sentences, labels in loader:
            optimiser.zero_grad()
            loss = loss_of(model(questions, sentences), labels)
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(labels)
        losses.append(total / len(rows))
    return losses
