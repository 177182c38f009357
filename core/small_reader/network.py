"""The small reader's network: transformers' own Qwen2, and where its weights begin.

Quoting the line that answers needs a few circuits that a transformer finds by itself only after a
long plateau; it may begin near them instead (``start="copying"``). All is trained from there on.

- The first layer tells each token what stood one, two and three tokens before it, and averages what
  was read lately, rare tokens above all.
- The second completes what was read before ("what followed this, elsewhere?": induction heads,
  Olsson et al. 2022, arXiv 2209.11895); lets each token of a line know the line's first word and
  date, which stand before all that tells the line apart; and lets an answer know the question.
- The third compares the question, or what is already quoted, with what the lines say, and brings
  the first word and the date of the line that is most alike; or goes on with a line whose last
  tokens and words are the answer's.
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

from core.errors import InputError
from core.small_reader.recipe import Shape
from core.training.repeatable import forked_rng

ROTARY_BASE = 1_000_000.0
"""As Qwen2.5's: with fewer turns, most of a head's dimensions can compare over a long record."""
LOOKING = 3.0
"""How much larger queries and keys begin than transformers' usual."""
SPREAD = 0.1
"""Standard deviation of embeddings at the start."""
SHARPNESS = 9.0
"""By how much, in logits, a head that looks back prefers its token to that token's neighbours."""
PAIRS = 4
"""Rotary pairs (the fastest) that such a head uses."""
MATCH = 3.0
"""Squared strength with which a head compares at the start."""
REACH = (0.002, 0.09)
"""Slowest and fastest turn, in radians a token, of the rotary pairs by which a head averages."""
LATELY = 1.4
"""Strength of each of these: together they reach over some twenty tokens."""
RARE = 2.9
"""Weight of a token's rarity in that average: a standard deviation is some two logits."""
NEAREST = (0.009, 0.04)
"""The same of the pairs by which a head prefers the nearest of tokens of a kind, and their strength
and that of the kind, in logits."""
NEAR, KIND = 8.0, 26.0
TOLD = 1
"""Dimensions in which the embedding begins with what is known of a token: how rare it is."""
DATED = 0.4
"""How much of a date's part is told by all dimensions of a token, and not by the few."""
AVERAGED = 2.0
"""How much stronger an average is written: it is smaller than what it is of."""
BROUGHT = 2.0
"""How much stronger what is brought is written than a copy, as fewer dimensions tell it."""
LOCAL = 10
"""Of the dimensions by which a head goes on with a line, how many compare what was read lately."""
HEADS = 7
"""Heads that a network which begins so must have, and parts of its width."""


@dataclass(frozen=True, slots=True)
class VocabularyStatistics:
    """What is known of the vocabulary before training.

    ``rare`` [vocabulary]: how rare each token is, in standard deviations; ``dates`` [vocabulary]:
    whether it is a part of a date. ``bracket`` is the token that ends a line's date, ``turn`` the
    one that ends a question.
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
    """A ``Qwen2ForCausalLM`` with fresh weights in float32.

    ``vocabulary`` tokens, of which ``end`` ends an answer and ``pad`` fills. Where ``known`` is
    given the weights begin near copying (see the file's opening words), else plainly at random.
    Raises InputError for a shape that cannot begin so.
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
        rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE},
        tie_word_embeddings=True,
        bos_token_id=pad,
        eos_token_id=end,
        pad_token_id=pad,
    )
    with forked_rng(seed=seed):
        model: Any = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for layer in model.model.layers:
                # The usual spread is for wide networks: scores of this one would begin at naught.
                layer.self_attn.q_proj.weight *= LOOKING
                layer.self_attn.k_proj.weight *= LOOKING
            if known is not None:
                _begin_copying(model, shape, known)
    return model


class _Room:
    """How the width is divided into seven parts: two of the token, one of what stood before it,
    two of what was read lately, one each of its line's first word and date. ``wide``: of one
    part."""

    def __init__(self, shape: Shape) -> None:
        if shape.heads != HEADS or shape.width % (4 * HEADS) or shape.layers < 3:
            raise InputError(
                f"a network that begins with copying has {HEADS} heads, 3 layers or more and a "
                f"width that {4 * HEADS} divides"
            )
        w = self.wide = shape.width // HEADS
        places = torch.eye(shape.width)
        self.before, self.lately, self.first, self.date = (
            places[i * w : j * w] for i, j in ((2, 3), (3, 5), (5, 6), (6, 7))
        )
        # The token's first dimension says how rare it is: no part of which one it is.
        own = 2 * w - TOLD
        self.token = torch.zeros(own, shape.width)
        self.token[:, TOLD : 2 * w] = torch.linalg.qr(torch.randn(own, own))[0]


@torch.no_grad()
def _begin_copying(model: Any, shape: Shape, known: VocabularyStatistics) -> None:
    """Set the heads of the first three layers so that they quote (the file's opening words)."""
    room = _Room(shape)
    w, half, quarter = room.wide, room.wide // 2, room.wide // 4
    embedding = model.model.embed_tokens.weight
    embedding.normal_(std=SPREAD)
    embedding[:, 2 * w :] = 0.0
    embedding[:, 0] = SPREAD * torch.from_numpy(known.rare).float()
    seen = room.token
    dates = torch.from_numpy(known.dates)
    # Few dimensions tell what stood two and three tokens before: parts of dates differ in these.
    apart = torch.randn(int(dates.sum()), quarter)
    apart *= math.sqrt(len(seen)) / apart.norm(dim=1, keepdim=True)
    embedding[dates, : 2 * w] *= DATED
    embedding[dates] += SPREAD * math.sqrt(1 - DATED**2) * apart @ seen[:quarter]
    first, second, third = (_Heads(model.model.layers[i].self_attn, w) for i in (0, 1, 2))
    # Of what stood one token before more is told than of what stood two and three before.
    at = 0
    for head, tokens, rows in ((0, 1, half), (2, 2, quarter), (3, 3, quarter)):
        first.look_back(head, tokens)
        first.carry(head, seen[:rows], room.before[at : at + rows], SPREAD)
        at += rows
    for head, part, to in ((1, seen[-w:], room.lately[:w]), (4, seen[:w], room.lately[w:])):
        first.average(head)
        first.carry(head, part, to, AVERAGED * SPREAD)
    for head, part in ((0, seen[:w]), (5, seen[-w:])):
        second.compare(head, seen[:half], room.before[:half])
        second.carry(head, part, part, SPREAD)
    bracket = embedding[known.bracket]
    second.nearest(1, room.before[:half].T @ (seen[:half] @ bracket))
    second.carry(1, seen[:w], room.first, SPREAD)
    second.nearest(2, bracket)
    second.carry(2, room.before, room.date, SPREAD)
    for head, part in ((3, room.lately[:w]), (4, room.lately[w:])):
        second.nearest(head, embedding[known.turn])
        second.carry(head, part, part, SPREAD)
    days = torch.cat([seen[:half], seen[:quarter], seen[:quarter]])
    for head in range(4):
        part = room.lately[head * half : (head + 1) * half]
        third.compare(head, part, part)
        what, to = (room.date, days) if head >= 2 else (room.first, seen[:w])
        third.carry(head, what, to, BROUGHT * SPREAD)
    most = half - min(LOCAL, half - 1)
    for head, part, read in ((4, seen[:w], 0), (5, seen[-w:], w)):
        words = room.lately[read : read + half - most]
        third.compare(head, torch.cat([seen[:most], words]), torch.cat([room.before[:most], words]))
        third.carry(head, part, part, SPREAD)
    third.compare(
        6,
        torch.cat([seen[:quarter], room.before[:quarter]]),
        torch.cat([room.before[:quarter], room.before[half : half + quarter]]),
    )
    third.carry(6, seen[:w], seen[:w], SPREAD)


class _Heads:
    """The heads of a layer, ``wide`` each, and what they may begin with.

    A row of a part is a direction of the hidden state [rows, width]. With constant query and key
    the score of a rotary pair depends on the distance alone: it adds strength · cos(turn ·
    distance). The slow half of the pairs hardly turns over a record: they compare.
    """

    def __init__(self, attention: Any, wide: int) -> None:
        self.attention, self.wide = attention, wide
        self.turns = [ROTARY_BASE ** (-2 * i / wide) for i in range(wide // 2)]

    def _rows(self, head: int) -> slice:
        return slice(head * self.wide, (head + 1) * self.wide)

    def _quiet(self, head: int) -> None:
        rows = self._rows(head)
        self.attention.q_proj.weight[rows] *= 0.1
        self.attention.k_proj.weight[rows] *= 0.1

    def _distance(self, head: int, pair: int, logits: float, tokens: float = 0.0) -> None:
        """Let a pair prefer what stands ``tokens`` back by ``logits``."""
        strength = math.sqrt(logits * math.sqrt(self.wide))
        row = head * self.wide + pair
        self.attention.k_proj.bias[row] = strength
        # Rotation by -tokens: the score is largest where the distance is ``tokens``.
        self.attention.q_proj.bias[row] = strength * math.cos(tokens * self.turns[pair])
        row += self.wide // 2
        self.attention.k_proj.bias[row] = 0.0
        self.attention.q_proj.bias[row] = -strength * math.sin(tokens * self.turns[pair])

    def look_back(self, head: int, tokens: int) -> None:
        """Attend ``tokens`` back, whatever the tokens are."""
        self._quiet(head)
        # What is lost one token off the mark, for a strength of one a pair.
        lost = sum(1 - math.cos(turn) for turn in self.turns[:PAIRS])
        for pair in range(PAIRS):
            self._distance(head, pair, SHARPNESS / lost, tokens)

    def _between(self, slowest: float, fastest: float) -> list[int]:
        return [i for i, turn in enumerate(self.turns) if slowest <= turn <= fastest]

    def average(self, head: int) -> None:
        """Attend the last some twenty tokens, rare ones above all."""
        self._quiet(head)
        for pair in self._between(*REACH):
            self._distance(head, pair, LATELY)
        self._by_key(head, {0: RARE}, math.sqrt(LATELY * math.sqrt(self.wide)))

    def _by_key(self, head: int, key: dict[int, float], query: float) -> None:
        """A constant query in the slowest pair, and a key of single dimensions."""
        row = head * self.wide + self.wide // 2 - 1
        self.attention.q_proj.bias[row] = query
        self.attention.q_proj.weight[row] = 0.0
        self.attention.k_proj.weight[row] = 0.0
        for dimension, weight in key.items():
            self.attention.k_proj.weight[row, dimension] = weight

    def nearest(self, head: int, kind: Tensor) -> None:
        """Attend the nearest token whose state has the direction ``kind`` [width]."""
        self._quiet(head)
        for pair in self._between(*NEAREST):
            self._distance(head, pair, NEAR)
        row = head * self.wide + self.wide // 2 - 1
        strength = math.sqrt(KIND * math.sqrt(self.wide))
        self.attention.q_proj.bias[row] = strength
        self.attention.q_proj.weight[row] = 0.0
        # A third of a state's length is told by one part of it.
        length = math.sqrt(kind.numel() / 3)
        self.attention.k_proj.weight[row] = kind / kind.norm() * strength / length

    def compare(self, head: int, asking: Tensor, asked: Tensor) -> None:
        """Let the score be how alike ``asking`` [rows, width] of here and ``asked`` of there are.

        ``rows`` is half the width of a head.
        """
        w = self.wide
        at = [*range(w // 4, w // 2), *range(3 * w // 4, w)]
        rows = self._rows(head)
        for projection, what in (
            (self.attention.q_proj, asking),
            (self.attention.k_proj, asked),
        ):
            projection.weight[rows] = 0.0
            for row, line in zip(at, what, strict=True):
                projection.weight[head * w + row] = math.sqrt(MATCH) * line

    def carry(self, head: int, what: Tensor, to: Tensor, strength: float) -> None:
        """Let what is attended bring its directions ``what`` [rows, width] to ``to``, row by
        row."""
        rows = slice(head * self.wide, head * self.wide + len(what))
        self.attention.v_proj.weight[rows] = what
        self.attention.o_proj.weight[:, rows] = strength * to.T


# Attention as lessons need it: a record read causally, and rows of questions after one record.


NAME = "lessons"
"""The name by which transformers knows it."""
CHUNK = 320
"""Queries of a record that are compared at once, with the keys up to the last of them."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """What is attended to [batch, time, heads, dim], for ``query`` [batch, heads, time, dim].

    ``key`` and ``value`` are [batch, heads, before + time, dim]. Without keys before, the one
    sequence is a record, read causally. With keys before, these are the same record in every row,
    and ``attention_mask`` [batch, 1, time, before + time] is added to the scores of what follows.
    """
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(half), key.to(half), value.to(half)
    query = query * scaling
    before = key.shape[2] - query.shape[2]
    # Weights stay as coarse as what they multiply: autocast would have them in float32.
    with torch.autocast("cpu", enabled=False):
        if before:
            read = _after(query, key, value, before, attention_mask)
        else:
            read = _causal(query, key, value)
    return read.transpose(1, 2), None


class _Causal(torch.autograd.Function):
    """A record read causally [sequences, time, dim], ``CHUNK`` queries at a time.

    Only the scores of keys among the chunk's own queries can lie ahead, so only they are masked;
    and gradients of keys and values are added up in place, which autograd would do in fresh tensors
    as long as the record, one a chunk.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights: list[Tensor] = []
        read = torch.empty_like(query)
        for begin, end in _parts(query.shape[1]):
            weight = query[:, begin:end] @ key[:, :end].transpose(1, 2)
            ahead = torch.ones(end - begin, end - begin, dtype=torch.bool).triu(1)
            weight[..., begin:].masked_fill_(ahead, -torch.inf)
            weights.append(weight.softmax(-1))
            torch.bmm(weights[-1], value[:, :end], out=read[:, begin:end])
        ctx.save_for_backward(query, key, value, *weights)
        return read

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, *weights = ctx.saved_tensors
        asked = torch.empty_like(query)
        keyed, valued = torch.zeros_like(key), torch.zeros_like(value)
        for (begin, end), weight in zip(_parts(query.shape[1]), weights, strict=True):
            given = gradients[0][:, begin:end]
            valued[:, :end].baddbmm_(weight.transpose(1, 2), given)
            score = torch.ops.aten._softmax_backward_data(
                given @ value[:, :end].transpose(1, 2), weight, -1, weight.dtype
            )
            torch.bmm(score, key[:, :end], out=asked[:, begin:end])
            keyed[:, :end].baddbmm_(score.transpose(1, 2), query[:, begin:end])
        return asked, keyed, valued


def _parts(time: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + CHUNK, time)) for begin in range(0, time, CHUNK)]


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    batch, heads, time, dim = query.shape
    flat = (x.reshape(batch * heads, -1, dim).contiguous() for x in (query, key, value))
    read: Tensor = _Causal.apply(*flat)
    return read.view(batch, heads, time, dim)


def _after(query: Tensor, key: Tensor, value: Tensor, before: int, mask: Tensor | None) -> Tensor:
    rows, heads, time, dim = query.shape
    # All rows' queries beside each other, for the record that they share.
    beside = query.transpose(0, 1).reshape(heads, rows * time, dim)
    record = beside @ key[0, :, :before].transpose(1, 2)
    record = record.view(heads, rows, time, before).transpose(0, 1)
    own = query @ key[:, :, before:].transpose(2, 3)
    if mask is not None:
        own = own + mask[..., before:].to(own.dtype)
    weight, rest = torch.cat([record, own], dim=-1).softmax(-1).split([before, time], dim=-1)
    seen = weight.transpose(0, 1).reshape(heads, rows * time, before)
    read = (seen @ value[0, :, :before]).view(heads, rows, time, dim).transpose(0, 1)
    return read + rest @ value[:, :, before:]


AttentionInterface.register(NAME, attend)
