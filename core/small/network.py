"""The small reader's network: transformers' own Qwen2, and where its weights begin.

Looking a fact up needs "what followed this, elsewhere?": a head of a first layer tells each token
what stood before it, a head of a second finds the place where that is what is being read now, and
copies (induction heads: Olsson et al. 2022, arXiv 2209.11895). A transformer finds this by itself
only after a long plateau; it may begin near it instead. Everything is trained from there on.

A head of the first layer also begins by averaging what was read lately, rare tokens above all, so
that the end of a question and the end of a line each know their words, and heads of the next
layers compare these; those of the third look at numbers above all, and copy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.small.recipe import Shape

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
"""Squared strength with which a head of the second layer compares at the start."""
LATELY = 1.6
"""Strength of each slow rotary pair by which a head averages over some twenty tokens."""
RARE = 2.9
"""Weight of a token's rarity in that average: a standard deviation is some two logits."""
LOUD = 2.0
"""How much stronger a number is copied than another token."""
NUMBER = 4.7
"""Strength of query and of key by which a head prefers numbers."""
TOLD = 2
"""Dimensions in which the embedding begins with what is known of a token."""
AVERAGED = 2.0
"""How much stronger an average is written: it is smaller than what it is of."""


def make_network(
    shape: Shape,
    vocabulary: int,
    end: int,
    pad: int,
    seed: int,
    start: str = "copying",
    told: NDArray[np.float64] | None = None,
) -> Any:
    """A ``Qwen2ForCausalLM`` with fresh weights in float32.

    ``vocabulary`` tokens, of which ``end`` ends an answer and ``pad`` fills; ``start`` is
    "plain" or "copying" (see the file's opening words), for which ``told`` [vocabulary, 2] says of
    each token how rare it is, in standard deviations, and whether it is a number (1 or 0).
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for layer in model.model.layers:
                # The usual spread is for wide networks: scores of this one would begin at naught.
                layer.self_attn.q_proj.weight *= LOOKING
                layer.self_attn.k_proj.weight *= LOOKING
        if start == "copying":
            known = np.zeros((vocabulary, 2)) if told is None else told
            _begin_copying(model, shape, torch.from_numpy(known).float())
    return model


@torch.no_grad()
def _begin_copying(model: Any, shape: Shape, told: Tensor) -> None:
    """Set the first heads of two layers so that they copy what followed before.

    The embedding leaves the last dimensions free: there the first layer writes what stood one
    token back, and an average of the tokens before. Heads of the second compare these.
    """
    width = shape.width // shape.heads
    taken = shape.width - 2 * width
    embedding = model.model.embed_tokens.weight
    embedding.normal_(std=SPREAD)
    embedding[:, taken:] = 0.0
    embedding[:, :TOLD] = SPREAD * told
    first, second, third = (model.model.layers[i].self_attn for i in (0, 1, 2))
    seen = _orthonormal(width, taken, shape.width)
    for head, tokens in ((0, 1), (2, 2), (3, 3)):
        _look_back(first, head, tokens, width)
    _average(first, 1, width)
    for head, strength in ((0, SPREAD), (1, AVERAGED * SPREAD)):
        rows = slice(head * width, (head + 1) * width)
        first.v_proj.weight[rows] = seen
        first.o_proj.weight[:, rows] = 0.0
        free = taken + head * width
        first.o_proj.weight[free : free + width, rows] = strength * torch.eye(width)
    places = torch.eye(shape.width)
    before, lately = places[taken : taken + width], places[taken + width :]
    half = width // 2
    _compare(second, 0, seen[:half], before[:half], width)
    _compare(second, 1, seen[half:], before[half:], width)
    _compare(second, 2, seen[:half], before[:half], width)
    _compare(second, 3, lately[:half], lately[:half], width)
    _compare(second, 4, lately[half:], lately[half:], width)
    _compare(third, 0, lately[:half], lately[:half], width)
    _compare(third, 1, lately[half:], lately[half:], width)
    for head, part in ((2, lately[:half]), (3, lately[half:]), (4, lately[:half])):
        _compare(third, head, part, part, width)
        _prefer_numbers(third, head, width)
    # Three heads of a third of the embedding each copy all of it.
    parts = torch.zeros(3 * width, shape.width)
    parts[: taken - TOLD] = _orthonormal(taken - TOLD, taken, shape.width)
    for part in range(3):
        what = parts[part * width : (part + 1) * width]
        for attention, head, loud in ((second, part, 1.0), (third, part + 2, LOUD)):
            rows = slice(head * width, (head + 1) * width)
            attention.v_proj.weight[rows] = what
            attention.o_proj.weight[:, rows] = loud * SPREAD * what.T


def _orthonormal(rows: int, taken: int, width: int) -> Tensor:
    """Orthonormal rows [rows, width] that see the first ``taken`` dimensions alone."""
    made = torch.zeros(rows, width)
    # The first dimensions say how rare a token is, or a number: no part of which one it is.
    own = taken - TOLD
    made[:, TOLD:taken] = torch.linalg.qr(torch.randn(own, own))[0][:rows]
    return made


def _compare(attention: Any, head: int, asking: Tensor, asked: Tensor, width: int) -> None:
    """Let a head's score be how alike ``asking`` [half, …] of here and ``asked`` of there are.

    Only the slow half of the rotary pairs compares: the others turn with the distance.
    """
    half, slow = width // 2, width // 4
    at = [*range(half - slow, half), *range(width - slow, width)]
    rows = slice(head * width, (head + 1) * width)
    for projection, what in ((attention.q_proj, asking), (attention.k_proj, asked)):
        projection.weight[rows] = 0.0
        for row, line in zip(at, what, strict=True):
            projection.weight[head * width + row] = math.sqrt(MATCH) * line


def _prefer_numbers(attention: Any, head: int, width: int) -> None:
    """Let a head that compares prefer numbers, by the slowest of its rotary pairs."""
    row = head * width + width // 2 - 1
    attention.q_proj.weight[row] = 0.0
    attention.k_proj.weight[row] = 0.0
    attention.q_proj.bias[row] = NUMBER
    attention.k_proj.weight[row, 1] = NUMBER


def _look_back(attention: Any, head: int, tokens: int, width: int) -> None:
    """Let a head begin by attending ``tokens`` back, whatever the tokens are.

    With constant query and key, a rotary score depends on the distance alone: each pair of
    dimensions adds cos(f·(distance - tokens)), which all agree at that distance only.
    """
    half = width // 2
    rows = slice(head * width, (head + 1) * width)
    attention.q_proj.weight[rows] *= 0.1
    attention.k_proj.weight[rows] *= 0.1
    speeds = [ROTARY_BASE ** (-2 * i / width) for i in range(PAIRS)]
    # What is lost one token off the mark, for a strength of one a pair.
    lost = sum(1 - math.cos(speed) for speed in speeds)
    strength = math.sqrt(SHARPNESS * math.sqrt(width) / lost)
    for i, speed in enumerate(speeds):
        attention.k_proj.bias[head * width + i] = strength
        attention.k_proj.bias[head * width + half + i] = 0.0
        # Rotation by -tokens: the score is largest where the distance is ``tokens``.
        attention.q_proj.bias[head * width + i] = strength * math.cos(tokens * speed)
        attention.q_proj.bias[head * width + half + i] = -strength * math.sin(tokens * speed)


def _average(attention: Any, head: int, width: int) -> None:
    """Let a head begin by averaging over the last some twenty tokens, whatever they are."""
    half = width // 2
    rows = slice(head * width, (head + 1) * width)
    attention.q_proj.weight[rows] *= 0.1
    attention.k_proj.weight[rows] *= 0.1
    for i in range(PAIRS - 1, half // 2):
        for projection in (attention.q_proj, attention.k_proj):
            projection.bias[head * width + i] = math.sqrt(LATELY * math.sqrt(width))
            projection.bias[head * width + half + i] = 0.0
    attention.k_proj.weight[head * width + half - 1, 0] = RARE
    attention.q_proj.bias[head * width + half - 1] = math.sqrt(LATELY * math.sqrt(width))
