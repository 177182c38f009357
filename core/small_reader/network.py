"""The small reader's network: transformers' Qwen2, and its initialisation.

Quoting the answering line needs a few circuits that a transformer learns only after a long plateau;
with ``start="copying"`` the weights are initialised near them. All weights are trained from there.

- The first layer copies the one, two and three preceding tokens, and averages recent tokens, rare
  ones above all.
- The second has induction heads (Olsson et al. 2022, arXiv 2209.11895); copies a line's first word
  and date to its later tokens, which identify the line; and copies the question to the answer.
- The third compares the question, or the text quoted so far, with the lines, and retrieves the
  first word and the date of the most similar line; or continues a line whose last tokens and words
  match those of the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AttentionInterface

from midchart.core.errors import InputError
from midchart.core.small_reader.recipe import Shape
from midchart.core.training.trainer import forked_rng

_ROTARY_BASE = 1_000_000.0
"""As Qwen2.5's: with slow rotations most of a head's dimensions can compare over a long record."""
_QUERY_KEY_SCALE = 3.0
"""Factor of queries and keys at initialisation over transformers' default."""
_EMBEDDING_STD = 0.1
"""Standard deviation of embeddings at initialisation."""
_SHARPNESS = 9.0
"""Preference, in logits, of a head that looks back for its token over that token's neighbours."""
_PAIRS = 4
"""Rotary pairs (the fastest) of such a head."""
_MATCH = 3.0
"""Squared strength of a head's comparison at initialisation."""
_RECENT_TURNS = (0.002, 0.09)
"""Slowest and fastest rotation, in radians a token, of the rotary pairs of an averaging head."""
_RECENT_STRENGTH = 1.4
"""Strength of each of these pairs: together they cover some twenty tokens."""
_RARITY_WEIGHT = 2.9
"""Weight of a token's rarity in that average: a standard deviation is about two logits."""
_NEAREST_TURNS = (0.009, 0.04)
"""Rotations of the pairs of a head that prefers the nearest token of a kind; their strength, and
that of the kind, in logits, are ``NEAR`` and ``KIND``."""
_NEAR, _KIND = 8.0, 26.0
_RARITY_DIMENSIONS = 1
"""Dimensions of the embedding that are initialised with a token's rarity."""
_DATE_SHARE = 0.4
"""Share of a date part's embedding in all dimensions of a token instead of a few."""
_AVERAGE_STRENGTH = 2.0
"""Factor of an average, which is smaller than its terms."""
_RETRIEVED_STRENGTH = 2.0
"""Factor of a retrieved word or date, which has fewer dimensions than a copied token."""
_RECENT_DIMENSIONS = 10
"""Dimensions of recent tokens in the comparison of a head that continues a line."""
_HEADS = 7
"""Heads, and parts of the width, that such an initialisation needs."""


@dataclass(frozen=True, slots=True)
class VocabularyStatistics:
    """Statistics of the vocabulary before training.

    ``rare`` [vocabulary]: rarity of each token in standard deviations; ``dates`` [vocabulary]:
    whether it is part of a date. ``bracket`` is the token that ends a line's date, ``turn`` the one
    that ends a question.
    """

    rare: NDArray[np.float64]
    dates: NDArray[np.bool_]
    bracket: int
    turn: int


def make_network(
    shape: Shape,
    vocabulary: int,
    end: int,
    pad: int,
    seed: int,
    known: VocabularyStatistics | None = None,
) -> Any:
    """A ``Qwen2ForCausalLM`` with initial weights in float32.

    ``vocabulary`` tokens, of which ``end`` ends an answer and ``pad`` is padding. With ``known``
    the weights are initialised near copying (see the module's docstring), else at random. Raises
    InputError for a shape that does not allow that.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.window,
        rope_parameters={"rope_type": "default", "rope_theta": _ROTARY_BASE},
        tie_word_embeddings=True,
        bos_token_id=pad,
        eos_token_id=end,
        pad_token_id=pad,
    )
    with forked_rng(seed=seed):
        model: Any = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for layer in model.model.layers:
                # The default is for wide networks: here all scores would be near 0.
                layer.self_attn.q_proj.weight *= _QUERY_KEY_SCALE
                layer.self_attn.k_proj.weight *= _QUERY_KEY_SCALE
            if known is not None:
                _initialise_copying(model, shape, known)
    return model


class _Directions:
    """Orthogonal directions of the hidden state in seven parts of ``wide`` dimensions: two of the
    token, one of the preceding tokens, two of recent tokens, one each of its line's first word and
    date."""

    def __init__(self, shape: Shape) -> None:
        if shape.heads != _HEADS or shape.width % (4 * _HEADS) or shape.layers < 3:
            raise InputError(
                f"a network initialised for copying has {_HEADS} heads, 3 layers or more and a "
                f"width that {4 * _HEADS} divides"
            )
        w = self.wide = shape.width // _HEADS
        axes = torch.eye(shape.width)
        self.before, self.recent, self.first, self.date = (
            axes[i * w : j * w] for i, j in ((2, 3), (3, 5), (5, 6), (6, 7))
        )
        # The token's first dimension is its rarity, not its identity.
        size = 2 * w - _RARITY_DIMENSIONS
        self.token = torch.zeros(size, shape.width)
        self.token[:, _RARITY_DIMENSIONS : 2 * w] = torch.linalg.qr(torch.randn(size, size))[0]


@torch.no_grad()
def _initialise_copying(model: Any, shape: Shape, known: VocabularyStatistics) -> None:
    """Set the heads of the first three layers so that they quote (see the module's docstring)."""
    directions = _Directions(shape)
    w, half, quarter = directions.wide, directions.wide // 2, directions.wide // 4
    embedding = model.model.embed_tokens.weight
    embedding.normal_(std=_EMBEDDING_STD)
    embedding[:, 2 * w :] = 0.0
    embedding[:, 0] = _EMBEDDING_STD * torch.from_numpy(known.rare).float()
    seen = directions.token
    dates = torch.from_numpy(known.dates)
    # Few dimensions hold the tokens two and three back: parts of dates must differ in these.
    apart = torch.randn(int(dates.sum()), quarter)
    apart *= math.sqrt(len(seen)) / apart.norm(dim=1, keepdim=True)
    embedding[dates, : 2 * w] *= _DATE_SHARE
    embedding[dates] += _EMBEDDING_STD * math.sqrt(1 - _DATE_SHARE**2) * apart @ seen[:quarter]
    first, second, third = (_Heads(model.model.layers[i].self_attn, w) for i in (0, 1, 2))
    # The preceding token gets more dimensions than the two before it.
    at = 0
    for head, tokens, rows in ((0, 1, half), (2, 2, quarter), (3, 3, quarter)):
        first.look_back(head, tokens)
        first.carry(head, seen[:rows], directions.before[at : at + rows], _EMBEDDING_STD)
        at += rows
    for head, part, to in (
        (1, seen[-w:], directions.recent[:w]),
        (4, seen[:w], directions.recent[w:]),
    ):
        first.average(head)
        first.carry(head, part, to, _AVERAGE_STRENGTH * _EMBEDDING_STD)
    for head, part in ((0, seen[:w]), (5, seen[-w:])):
        second.compare(head, seen[:half], directions.before[:half])
        second.carry(head, part, part, _EMBEDDING_STD)
    bracket = embedding[known.bracket]
    second.nearest(1, directions.before[:half].T @ (seen[:half] @ bracket))
    second.carry(1, seen[:w], directions.first, _EMBEDDING_STD)
    second.nearest(2, bracket)
    second.carry(2, directions.before, directions.date, _EMBEDDING_STD)
    for head, part in ((3, directions.recent[:w]), (4, directions.recent[w:])):
        second.nearest(head, embedding[known.turn])
        second.carry(head, part, part, _EMBEDDING_STD)
    days = torch.cat([seen[:half], seen[:quarter], seen[:quarter]])
    for head in range(4):
        part = directions.recent[head * half : (head + 1) * half]
        third.compare(head, part, part)
        what, to = (directions.date, days) if head >= 2 else (directions.first, seen[:w])
        third.carry(head, what, to, _RETRIEVED_STRENGTH * _EMBEDDING_STD)
    most = half - min(_RECENT_DIMENSIONS, half - 1)
    for head, part, read in ((4, seen[:w], 0), (5, seen[-w:], w)):
        words = directions.recent[read : read + half - most]
        third.compare(
            head, torch.cat([seen[:most], words]), torch.cat([directions.before[:most], words])
        )
        third.carry(head, part, part, _EMBEDDING_STD)
    third.compare(
        6,
        torch.cat([seen[:quarter], directions.before[:quarter]]),
        torch.cat([directions.before[:quarter], directions.before[half : half + quarter]]),
    )
    third.carry(6, seen[:w], seen[:w], _EMBEDDING_STD)


class _Heads:
    """Initialisation of a layer's heads, of ``wide`` dimensions each.

    Directions of the hidden state are [rows, width]. With constant query and key the score of a
    rotary pair depends on the distance alone: it adds strength · cos(turn · distance). The slow
    half of the pairs hardly rotates over a record: these compare contents.
    """

    def __init__(self, attention: Any, wide: int) -> None:
        self.attention, self.wide = attention, wide
        self.turns = [_ROTARY_BASE ** (-2 * i / wide) for i in range(wide // 2)]

    def _rows(self, head: int) -> slice:
        return slice(head * self.wide, (head + 1) * self.wide)

    def _quiet(self, head: int) -> None:
        rows = self._rows(head)
        self.attention.q_proj.weight[rows] *= 0.1
        self.attention.k_proj.weight[rows] *= 0.1

    def _distance(self, head: int, pair: int, logits: float, tokens: float = 0.0) -> None:
        """Let a pair prefer the token ``tokens`` back by ``logits``."""
        strength = math.sqrt(logits * math.sqrt(self.wide))
        row = head * self.wide + pair
        self.attention.k_proj.bias[row] = strength
        # Rotation by -tokens: the score is largest where the distance is ``tokens``.
        self.attention.q_proj.bias[row] = strength * math.cos(tokens * self.turns[pair])
        row += self.wide // 2
        self.attention.k_proj.bias[row] = 0.0
        self.attention.q_proj.bias[row] = -strength * math.sin(tokens * self.turns[pair])

    def look_back(self, head: int, tokens: int) -> None:
        """Attend to the token ``tokens`` back."""
        self._quiet(head)
        # The loss at one token off, for a strength of one a pair.
        lost = sum(1 - math.cos(turn) for turn in self.turns[:_PAIRS])
        for pair in range(_PAIRS):
            self._distance(head, pair, _SHARPNESS / lost, tokens)

    def _between(self, slowest: float, fastest: float) -> list[int]:
        return [i for i, turn in enumerate(self.turns) if slowest <= turn <= fastest]

    def average(self, head: int) -> None:
        """Attend to about the last twenty tokens, rare ones above all."""
        self._quiet(head)
        for pair in self._between(*_RECENT_TURNS):
            self._distance(head, pair, _RECENT_STRENGTH)
        self._by_key(head, {0: _RARITY_WEIGHT}, math.sqrt(_RECENT_STRENGTH * math.sqrt(self.wide)))

    def _by_key(self, head: int, key: dict[int, float], query: float) -> None:
        """A constant query in the slowest pair, and a key of single dimensions."""
        row = head * self.wide + self.wide // 2 - 1
        self.attention.q_proj.bias[row] = query
        self.attention.q_proj.weight[row] = 0.0
        self.attention.k_proj.weight[row] = 0.0
        for dimension, weight in key.items():
            self.attention.k_proj.weight[row, dimension] = weight

    def nearest(self, head: int, kind: Tensor) -> None:
        """Attend to the nearest token whose state has the direction ``kind`` [width]."""
        self._quiet(head)
        for pair in self._between(*_NEAREST_TURNS):
            self._distance(head, pair, _NEAR)
        row = head * self.wide + self.wide // 2 - 1
        strength = math.sqrt(_KIND * math.sqrt(self.wide))
        self.attention.q_proj.bias[row] = strength
        self.attention.q_proj.weight[row] = 0.0
        # One part has about a third of a state's norm.
        length = math.sqrt(kind.numel() / 3)
        self.attention.k_proj.weight[row] = kind / kind.norm() * strength / length

    def compare(self, head: int, asking: Tensor, asked: Tensor) -> None:
        """Let the score be the similarity of the directions ``asking`` of the query's state and
        ``asked`` of the key's, each [half the width of a head, width]."""
        w = self.wide
        at = [*range(w // 4, w // 2), *range(3 * w // 4, w)]
        rows = self._rows(head)
        for projection, what in (
            (self.attention.q_proj, asking),
            (self.attention.k_proj, asked),
        ):
            projection.weight[rows] = 0.0
            for row, line in zip(at, what, strict=True):
                projection.weight[head * w + row] = math.sqrt(_MATCH) * line

    def carry(self, head: int, what: Tensor, to: Tensor, strength: float) -> None:
        """Copy directions ``what`` [rows, width] of the attended state to directions ``to``."""
        rows = slice(head * self.wide, head * self.wide + len(what))
        self.attention.v_proj.weight[rows] = what
        self.attention.o_proj.weight[:, rows] = strength * to.T


# Attention for training examples: a record read causally, and rows of questions after one record.


NAME = "training_examples"
"""Its name in transformers."""
CHUNK = 320
"""Queries of a record that are processed at once."""


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention output [batch, time, heads, dim] for ``query`` [batch, heads, time, dim].

    ``key`` and ``value`` are [batch, heads, before + time, dim]. Without keys before, the one
    sequence is a record, read causally. With keys before, these are the same record in every row,
    and ``attention_mask`` [batch, 1, time, before + time] is added to the scores after the record.
    """
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(half), key.to(half), value.to(half)
    query = query * scaling
    before = key.shape[2] - query.shape[2]
    # Attention weights keep the precision of the values: autocast would make them float32.
    with torch.autocast("cpu", enabled=False):
        if before:
            output = _after(query, key, value, before, attention_mask)
        else:
            output = _causal(query, key, value)
    return output.transpose(1, 2), None


class _Causal(torch.autograd.Function):
    """Causal attention [sequences, time, dim], ``CHUNK`` queries at a time.

    Only keys of the chunk itself can be later, so only their scores are masked; gradients of keys
    and values are added in place, where autograd would allocate tensors of the record's length for
    every chunk.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights: list[Tensor] = []
        output = torch.empty_like(query)
        for begin, end in _parts(query.shape[1]):
            weight = query[:, begin:end] @ key[:, :end].transpose(1, 2)
            ahead = torch.ones(end - begin, end - begin, dtype=torch.bool).triu(1)
            weight[..., begin:].masked_fill_(ahead, -torch.inf)
            weights.append(weight.softmax(-1))
            torch.bmm(weights[-1], value[:, :end], out=output[:, begin:end])
        ctx.save_for_backward(query, key, value, *weights)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, *weights = ctx.saved_tensors
        asked = torch.empty_like(query)
        keyed, valued = torch.zeros_like(key), torch.zeros_like(value)
        for (begin, end), weight in zip(_parts(query.shape[1]), weights, strict=True):
            gradient = gradients[0][:, begin:end]
            valued[:, :end].baddbmm_(weight.transpose(1, 2), gradient)
            score = torch.ops.aten._softmax_backward_data(
                gradient @ value[:, :end].transpose(1, 2), weight, -1, weight.dtype
            )
            torch.bmm(score, key[:, :end], out=asked[:, begin:end])
            keyed[:, :end].baddbmm_(score.transpose(1, 2), query[:, begin:end])
        return asked, keyed, valued


def _parts(time: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + CHUNK, time)) for begin in range(0, time, CHUNK)]


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    batch, heads, time, dim = query.shape
    flat = (x.reshape(batch * heads, -1, dim).contiguous() for x in (query, key, value))
    output: Tensor = _Causal.apply(*flat)
    return output.view(batch, heads, time, dim)


def _after(query: Tensor, key: Tensor, value: Tensor, before: int, mask: Tensor | None) -> Tensor:
    rows, heads, time, dim = query.shape
    # All rows' queries in one matrix, for the record that they share.
    stacked = query.transpose(0, 1).reshape(heads, rows * time, dim)
    record = stacked @ key[0, :, :before].transpose(1, 2)
    record = record.view(heads, rows, time, before).transpose(0, 1)
    scores = query @ key[:, :, before:].transpose(2, 3)
    if mask is not None:
        scores = scores + mask[..., before:].to(scores.dtype)
    weight, rest = torch.cat([record, scores], dim=-1).softmax(-1).split([before, time], dim=-1)
    seen = weight.transpose(0, 1).reshape(heads, rows * time, before)
    output = (seen @ value[0, :, :before]).view(heads, rows, time, dim).transpose(0, 1)
    return output + rest @ value[:, :, before:]


AttentionInterface.register(NAME, _attend)
