"""The network of QCCS plus, for training. What it computes is told in :mod:`.features`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.gate.ngrams import Bags
from core.gate.plus.features import BENT, FEATURES, GATE_SCALE, START
from core.gate.plus.words import QuestionWords, RecordWords


class PlusModel(nn.Module):
    """Scores all sentences of a record for a question.

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

    def _weights(self, bags: Bags, idf: Tensor) -> Tensor:
        return F.softplus(self.idf[0] * idf + self.idf[1] + _mean(bags, self.weight.weight)[:, 0])

    def forward(self, record: RecordWords, question: QuestionWords) -> Tensor:
        """Score of each sentence [n]."""
        return GATE_SCALE * (self.features(record, question) @ self.head)

    def features(self, record: RecordWords, question: QuestionWords) -> Tensor:
        """The features of each sentence, [n, features]."""
        lengths = torch.from_numpy(record.offsets).diff()
        tokens = torch.from_numpy(record.tokens)
        words, asked = self._vectors(record.bags), self._vectors(question.bags)
        weight = self._weights(record.bags, torch.from_numpy(record.idf))
        share = self._weights(question.bags, torch.from_numpy(question.idf))
        share = share / share.sum()
        near = (words @ asked.T).clamp(min=0.0)
        nearest = torch.segment_reduce(near[tokens], "max", lengths=lengths, initial=0.0)

        def summed(values: Tensor) -> Tensor:
            return torch.segment_reduce(values, "sum", lengths=lengths, initial=0.0)

        total = summed(weight[tokens]).clamp(min=1e-6)
        pooled = F.normalize(summed((weight[:, None] * words)[tokens]), dim=1)
        question_pooled = F.normalize(share @ asked, dim=0)
        bm25 = torch.from_numpy(question.bm25).float()
        columns = [
            bm25 / bm25.max().clamp(min=1e-6),
            torch.log1p(bm25),
            nearest @ share,
            *((nearest**power) @ share for power in BENT),
            (nearest * share).amax(1),
            pooled @ question_pooled,
            summed((near.amax(1) * weight)[tokens]) / total,
            torch.log1p(lengths.float()),
        ]
        assert len(columns) == len(FEATURES)
        return torch.stack(columns, 1)


def _mean(bags: Bags, table: Tensor) -> Tensor:
    offsets = torch.from_numpy(bags.offsets[:-1])
    return F.embedding_bag(torch.from_numpy(bags.ids), table, offsets, mode="mean")
