"""A decoder and, where its attention takes one, the gate of lines, as one network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.attention.differential import Differential
from core.inhibition.decoder import Decoder
from core.inhibition.gate import LineGate, gate_of_places
from core.inhibition.records import Batch, seen_by
from core.inhibition.shape import DecoderConfig
from core.inhibition.words import QUESTION


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """What a network says to a batch: logits [batch, questions, vocabulary] of each answer, the
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

    def forward(self, batch: Batch, need_weights: bool = False) -> Told:
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
        return Told(answers, logits, maps)


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
