"""A decoder and, where its attention takes one, the QCCS gate of lines, as one network.

The gate is the paper's network (equation (gate)) with the lab's words in place of hashed n-grams.
It learns by its own loss, with the line that holds the evidence as its one positive, and through
the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.attention.differential import Differential
from core.gate.config import GateConfig
from core.gate.model import GateModel, linear_layers
from core.gate.ngrams import Hashing
from core.inhibition.config import DecoderConfig
from core.inhibition.decoder import Decoder
from core.inhibition.records import LINE, QUESTION, Batch, seen_by

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


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """A network's output for a batch: logits [batch, questions, vocabulary] of each answer, the
    gate's logits [batch, questions, lines] (None without one), each layer's maps where asked for.
    """

    answers: Tensor
    gate: Tensor | None
    maps: tuple[Tensor, ...]


class Network(nn.Module):
    """Answers questions about records."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.gate = LineGate(config.vocabulary) if self.decoder.attention.gated else None

    def forward(self, batch: Batch, need_weights: bool = False) -> Output:
        """Read records and answer what is asked of them."""
        where = self.decoder.embed_tokens.weight.device
        tokens, positions, mask = (torch.from_numpy(x).to(where) for x in seen_by(batch))
        record, time = batch.tokens.shape[1], tokens.shape[1]
        logits = gate = None
        if self.gate is not None:
            asked = tokens[:, record:].unflatten(1, (-1, QUESTION))
            logits = self.gate.logits(tokens[:, :record], asked)
            gate = gate_of_places(logits.sigmoid(), time, self.decoder.attention.neutral_gate)
        read = torch.arange(record + QUESTION - 1, time, QUESTION, device=where)
        answers, maps = self.decoder(tokens, positions, mask, gate, read, need_weights)
        return Output(answers, logits, maps)


def own_parameters(network: Network) -> tuple[int, int]:
    """Parameters of the decoder, and what the variant adds: its own (λ, norms) and the gate's."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    added = sum(p.numel() for module in variants for p in module.parameters())
    every = sum(p.numel() for p in network.parameters())
    of_decoder = sum(p.numel() for p in network.decoder.parameters()) - added
    return of_decoder, every - of_decoder


def strengths(network: Network) -> list[float] | None:
    """λ of each layer, mean over heads; None where the attention subtracts nothing."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    if not all(isinstance(one, Differential) for one in variants):
        return None
    return [float(one.strength().mean()) for one in variants if isinstance(one, Differential)]
