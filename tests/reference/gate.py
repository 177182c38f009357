"""The gate the plain way: one sentence at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
