"""The decoder in which attentions are compared: Qwen2's architecture, except for the attention.

RMS norms before each part, rotary positions, biases on queries, keys and values only, a SwiGLU, and
tied embeddings. Weights have Qwen2's names; with softmax attention it equals Qwen2 (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.attention import ATTENTIONS
from core.attention.base import AttentionModule, Keys, Shape
from core.attention.differential import Differential
from core.experiments.inhibition.records import LINE, QUESTION, Batch, input_of
from core.experiments.inhibition.spec import DecoderConfig
from core.gate.checkpoint import GateConfig
from core.gate.ngrams import Hashing
from core.gate.training import GateModel, linear_layers

EPSILON = 1e-6
SPREAD = 0.02
"""Standard deviation of Qwen2's initial weights, from a width of 1024."""
GAIN = 0.64
"""Times 1/√width: the standard deviation for narrower decoders."""
ADDED = 0.25
"""Initial scale of what a part adds to the residual stream, so that embeddings dominate."""
PEAK = 16.0
"""Attention score of the target position of a head initialised to look back."""
QUIET = 0.2
"""Initial scale of such a head's content weights, so that the position dominates."""
FALL = 0.6
"""Ratio between rotary frequencies in that score: fast ones are sharp, slow ones distinguish the
target from positions a full turn away."""


def angles(positions: Tensor, width: int, theta: float) -> Tensor:
    """Angles [time, width/2] of rotary positions (Su et al. 2021, equation 15)."""
    steps = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    return positions.float()[:, None] * theta ** (-steps / width)


def rotate(x: Tensor, angle: Tensor, parts: int) -> Tensor:
    """Rotate queries or keys [batch, heads, time, dim], each of ``parts`` parts separately.

    Pairs are half a part's width apart, as in Qwen2.
    """
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    cut = x.unflatten(-1, (parts, 2, -1))
    first, second = cut[..., 0, :], cut[..., 1, :]
    cos, sin = cos[:, None], sin[:, None]
    rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-2)
    return rotated.flatten(-3)


class SelfAttention(nn.Module):
    """Projections, rotary positions and a variant of attention."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.theta = config.heads, config.theta
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.variant: AttentionModule

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, positions: Tensor, keys: Keys, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Mixed values [batch, time, dim], and the maps where needed."""
        q, k, v = (self._split(part(x)) for part in (self.q_proj, self.k_proj, self.v_proj))
        parts = self.variant.parts
        angle = angles(positions, q.shape[-1] // parts, self.theta)
        out, weights = self.variant(
            rotate(q, angle, parts), rotate(k, angle, parts), v,
            keys.mask, keys.gate, None, need_weights,
        )  # fmt: skip
        return self.o_proj(out.transpose(1, 2).flatten(2)), weights


class FeedForward(nn.Module):
    """SwiGLU (Shazeer 2020, equation 6)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        wide = config.feedforward
        self.gate_proj = nn.Linear(config.dim, wide, bias=False)
        self.up_proj = nn.Linear(config.dim, wide, bias=False)
        self.down_proj = nn.Linear(wide, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, dim] → the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each with a norm before it and a residual."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = SelfAttention(config), FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.dim, eps=EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(config.dim, eps=EPSILON)

    def forward(
        self, x: Tensor, positions: Tensor, keys: Keys, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The residual stream [batch, time, dim] after the layer, and the maps where needed."""
        mixed, weights = self.self_attn(self.input_layernorm(x), positions, keys, need_weights)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), weights


class Decoder(nn.Module):
    """Tokens → logits of the next token.

    Shared weights are initialised before those of the attentions, so decoders of one seed start
    with the same weights whatever their attention.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        if config.dim % config.heads:
            raise ValueError(f"a width of {config.dim} is not divisible by {config.heads} heads")
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.dim)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.dim, eps=EPSILON)
        self.apply(_start)
        with torch.no_grad():
            for layer in self.blocks:
                layer.self_attn.o_proj.weight.mul_(ADDED)
                layer.mlp.down_proj.weight.mul_(ADDED)
        for depth, layer in enumerate(self.blocks):
            shape = Shape(config.heads, config.dim // config.heads, depth)
            variant = ATTENTIONS.build(config.attention, shape, **config.options)
            layer.self_attn.variant = cast("AttentionModule", variant)
        if config.look_back and config.layers:
            look_back(self.blocks[0].self_attn)

    @property
    def blocks(self) -> list[Layer]:
        """The layers, first to last."""
        return [cast("Layer", layer) for layer in self.layers]

    @property
    def attention(self) -> AttentionModule:
        """The first layer's attention; all are gated or none."""
        return self.blocks[0].self_attn.variant

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        gate: Tensor | None = None,
        read: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch, read, vocabulary] and, where needed, each layer's maps.

        ``tokens`` int [batch, time], ``positions`` [time], ``mask`` bool [time, time] (queries ×
        keys) or [batch, time, time]; ``gate`` [batch, time, time] for a gated attention; ``read``:
        the indices whose logits are needed (None: all). Maps are [batch, heads, time, time].
        """
        if mask.dim() == 2:
            mask = mask.expand(len(tokens), *mask.shape)
        keys, maps = Keys(mask, gate), list[Tensor]()
        x = self.embed_tokens(tokens)
        for layer in self.blocks:
            x, weights = layer(x, positions, keys, need_weights)
            if weights is not None:
                maps.append(weights)
        x = self.norm(x if read is None else x[:, read])
        return x @ self.embed_tokens.weight.T, tuple(maps)


def _start(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=max(SPREAD, GAIN * module.in_features**-0.5))
        for name, values in module.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(values)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=max(SPREAD, GAIN * module.embedding_dim**-0.5))


@torch.no_grad()
def look_back(attention: SelfAttention) -> None:
    """Initialise head h = 0, 1, … to attend h + 1 tokens back, by biases of queries and keys.

    A key's bias is the query's, rotated back by h + 1 positions, so that rotary positions make
    their product largest there. Of a variant with two maps only the first looks back; the second
    starts uniform.
    """
    parts, heads = attention.variant.parts, attention.heads
    dim = attention.q_proj.out_features // heads
    width = dim // parts
    share = FALL ** torch.arange(width // 2).float()
    # q·k/√width is PEAK at the target: the shares of the pairs sum to PEAK·√width.
    size = (share / share.sum() * PEAK * width**0.5).sqrt()
    query = torch.zeros(heads, dim)
    query[:, : width // 2] = size
    back = torch.arange(1.0, heads + 1)
    angle = angles(back, width, attention.theta)
    key = torch.zeros(heads, dim)
    key[:, : width // 2] = size * angle.cos()
    key[:, width // 2 : width] = size * angle.sin()
    attention.q_proj.weight.mul_(QUIET)
    attention.k_proj.weight.mul_(QUIET)
    attention.q_proj.bias.copy_(query.flatten())
    attention.k_proj.bias.copy_(key.flatten())


def slow_parameters(decoder: Decoder) -> list[nn.Parameter]:
    """The parameters that :func:`look_back` initialised, if any."""
    if not decoder.config.look_back:
        return []
    first = decoder.blocks[0].self_attn
    return [*first.q_proj.parameters(), *first.k_proj.parameters()]


LINE_INPUT = 3
"""Tokens of a line that the gate reads: date, entity, value."""
QUESTION_INPUT = 2
"""Tokens of a question that the gate reads: date, entity."""


class LineGate(nn.Module):
    """Scores of all lines for all questions of a record; padding (token 0) is ignored."""

    def __init__(self, vocabulary: int, dim: int = 32) -> None:
        super().__init__()
        # Without dropout, as the decoder has none.
        self.model = GateModel(GateConfig(Hashing(buckets=vocabulary), dim=dim, dropout=0.0))

    def logits(self, tokens: Tensor, question: Tensor) -> Tensor:
        """Logits [batch, questions, lines] of ``tokens`` [batch, 1 + 4·lines], ``question`` [batch,
        questions, 3].

        The first layer is linear in question and line, so each passes through it once.
        """
        table = self.model.embedding.weight
        lines = table[tokens[:, 1:].unflatten(1, (-1, LINE))[..., :LINE_INPUT]].mean(2)
        questions = table[question[..., :QUESTION_INPUT]].mean(2)
        first, *rest = linear_layers(self.model)
        of_question, of_line = first.weight.chunk(2, dim=1)
        x = (questions @ of_question.T + first.bias)[:, :, None] + (lines @ of_line.T)[:, None]
        for layer in rest:
            x = layer(torch.relu(x))
        return x.squeeze(-1)


def gate_of_keys(scores: Tensor, time: int, neutral: float) -> Tensor:
    """The gate of every key for every query [batch, time, time] of ``scores`` in [0, 1].

    ``scores`` are [batch, questions, lines]. Every token of a line has the line's gate for every
    token of the question. All other pairs are ``neutral``: the first token of the record, the
    question's own tokens, and queries within the record.
    """
    batch, questions, lines = scores.shape
    record = 1 + lines * LINE
    full = scores.new_full((batch, time, time), neutral)
    by_token = scores.repeat_interleave(LINE, 2).repeat_interleave(QUESTION, 1)
    full[:, record : record + questions * QUESTION, 1:record] = by_token
    return full


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """A network's output: logits [batch, questions, vocabulary] of each answer, the gate's logits
    [batch, questions, lines] (None without one), each layer's maps where needed."""

    answers: Tensor
    gate: Tensor | None
    maps: tuple[Tensor, ...]


class Network(nn.Module):
    """A decoder and, where its attention is gated, the QCCS gate of lines."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.gate = LineGate(config.vocabulary) if self.decoder.attention.gated else None

    def forward(self, batch: Batch, need_weights: bool = False) -> Output:
        """Read records and answer their questions."""
        device = self.decoder.embed_tokens.weight.device
        tokens, positions, mask = (torch.from_numpy(x).to(device) for x in input_of(batch))
        record, time = batch.tokens.shape[1], tokens.shape[1]
        logits = gate = None
        if self.gate is not None:
            question = tokens[:, record:].unflatten(1, (-1, QUESTION))
            logits = self.gate.logits(tokens[:, :record], question)
            gate = gate_of_keys(logits.sigmoid(), time, self.decoder.attention.neutral_gate)
        read = torch.arange(record + QUESTION - 1, time, QUESTION, device=device)
        answers, maps = self.decoder(tokens, positions, mask, gate, read, need_weights)
        return Output(answers, logits, maps)


def own_parameters(network: Network) -> tuple[int, int]:
    """Parameters of the decoder, and those that the variant adds: λ, norms and the gate."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    added = sum(p.numel() for module in variants for p in module.parameters())
    decoder = sum(p.numel() for p in network.decoder.parameters()) - added
    return decoder, sum(p.numel() for p in network.parameters()) - decoder


def strengths(network: Network) -> list[float] | None:
    """λ of each layer, mean over heads; None where the attention subtracts nothing."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    if not all(isinstance(one, Differential) for one in variants):
        return None
    return [
        float(one.strength().detach().mean()) for one in variants if isinstance(one, Differential)
    ]
