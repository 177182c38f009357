"""The QCCS gate over lines: how relevant each line of a record is to a question.

The paper's network (equation (gate)) with the lab's words in place of hashed n-grams. It learns by
its own loss, with the line that holds the evidence as its one positive, and through the decoder.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.gate.model import GateModel, linear_layers
from core.gate.ngrams import Hashing
from core.gate.shape import GateConfig
from core.inhibition.words import LINE, QUESTION

SAID = 3
"""Tokens of a line that the gate reads: date, entity, value."""
ASKED = 2
"""Tokens of a question that it reads: date, entity."""


class LineGate(nn.Module):
    """Scores of all lines for all questions of a record; padding (token 0) counts for nothing."""

    def __init__(self, vocabulary: int, dim: int = 32) -> None:
        super().__init__()
        # Without dropout, as the decoder has none.
        self.model = GateModel(GateConfig(Hashing(buckets=vocabulary), dim=dim, dropout=0.0))

    def logits(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Logits [batch, questions, lines] of ``tokens`` [batch, 1 + 4·lines], ``asked`` [batch,
        questions, 3].

        The first layer is linear in question and line, so each is put through it once.
        """
        table = self.model.embedding.weight
        lines = table[tokens[:, 1:].unflatten(1, (-1, LINE))[..., :SAID]].mean(2)
        questions = table[asked[..., :ASKED]].mean(2)
        first, *rest = linear_layers(self.model)
        of_question, of_line = first.weight.chunk(2, dim=1)
        x = (questions @ of_question.T + first.bias)[:, :, None] + (lines @ of_line.T)[:, None]
        for layer in rest:
            x = layer(torch.relu(x))
        return x.squeeze(-1)


def gate_of_places(scores: Tensor, time: int, neutral: float) -> Tensor:
    """The gate of every key for every query [batch, time, time] of ``scores`` in [0, 1].

    ``scores`` are [batch, questions, lines]. Every token of a line has the line's gate, seen from
    every token of the question; what a question's gate does not speak of is ``neutral``: the
    record's beginning, the question's own tokens, and whatever the record's own tokens see, which
    were there before anybody asked.
    """
    batch, questions, lines = scores.shape
    record = 1 + lines * LINE
    full = scores.new_full((batch, time, time), neutral)
    by_token = scores.repeat_interleave(LINE, 2).repeat_interleave(QUESTION, 1)
    full[:, record : record + questions * QUESTION, 1:record] = by_token
    return full
