"""A lesson as a network reads it: the record once, then all its questions beside each other.

Each question sees the record and itself, at the places it would have alone; so one pass over the
record serves twenty questions, and every question is read exactly as a reader will be asked it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.small.tokens import Ids, answer_ids, ids
from core.synthetic.lessons import Lesson

GUIDED = 2
"""The layer whose first head may be guided to the line that answers."""
ROWS = 4
"""Rows that a lesson's questions lie in, side by side: fewer keys that nobody may see."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A lesson in tokens.

    ``opening`` [p]. Of the questions, in rows of like length: ``tokens`` [r, t], ``block`` [r, t]
    (which question; -1 fills) and ``place`` [r, t] (tokens since the record's begin). ``asked``
    [a] are the places in the rows, counted through, from which ``wanted`` [a] are to be foretold,
    and ``of`` [a] the questions they belong to. ``line`` [p] is the line of the record that a token
    of the opening stands in (-1: none), ``evidence`` [q] the line that answers (-1: none does).
    """

    opening: Ids
    tokens: Ids
    block: Ids
    place: Ids
    asked: Ids
    wanted: Ids
    of: Ids
    line: Ids
    evidence: Ids

    @property
    def size(self) -> int:
        """All tokens."""
        return len(self.opening) + int((self.block >= 0).sum())


def encode(tokenizer: Any, lesson: Lesson) -> Encoded:
    """A lesson in tokens."""
    opening, line = _opening(tokenizer, lesson)
    both: list[tuple[Ids, Ids]] = [
        (ids(tokenizer, lesson.ending(one.question)), answer_ids(tokenizer, one.answer))
        for one in lesson.asked
    ]
    rows: list[list[int]] = [[] for _ in range(min(ROWS, len(both)))]
    long = [0] * len(rows)
    # The longest first, each to the row that is shortest.
    for number in sorted(range(len(both)), key=lambda i: -sum(map(len, both[i]))):
        row = min(range(len(rows)), key=long.__getitem__)
        rows[row].append(number)
        long[row] += len(both[number][0]) + len(both[number][1]) - 1
    shape = (len(rows), max(long))
    tokens, block = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    place = np.zeros(shape, np.int64)
    asked: list[Ids] = []
    wanted: list[Ids] = []
    of: list[Ids] = []
    for row, numbers in enumerate(rows):
        at = 0
        for number in numbers:
            ending, answer = both[number]
            # The end itself is foretold, never read.
            read = np.concatenate([ending, answer[:-1]])
            here = slice(at, at + len(read))
            tokens[row, here], block[row, here] = read, number
            place[row, here] = len(opening) + np.arange(len(read))
            asked.append(row * shape[1] + at + len(ending) - 1 + np.arange(len(answer)))
            wanted.append(answer)
            of.append(np.full(len(answer), number))
            at += len(read)
    foretold = (np.concatenate(asked), np.concatenate(wanted), np.concatenate(of))
    evidence = np.array([-1 if one.line is None else one.line for one in lesson.asked])
    return Encoded(opening, tokens, block, place, *foretold, line, evidence)


def _opening(tokenizer: Any, lesson: Lesson) -> tuple[Ids, Ids]:
    """A lesson's opening in tokens, and of each the line it stands in."""
    found = tokenizer.encode(lesson.opening, add_special_tokens=False)
    ends = np.cumsum([len(line) + 1 for line in lesson.lines])
    begins = len(lesson.opening) - (ends[-1] - 1)
    at = np.array([end for _, end in found.offsets]) - begins
    line = np.where(at > 0, np.searchsorted(ends, at), -1)
    return np.array(found.ids, dtype=np.int64), line.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Foretold:
    """``logits`` [a, vocabulary] at the places asked; ``found`` [2 q], the log of the attention
    that the guided head gives, at each answer's first two tokens (answers in the order of their
    rows), to the line that answers, of all the record: or to what stands before the record, where
    no line does."""

    logits: Tensor
    found: Tensor


def foretell(model: Any, lesson: Encoded) -> Foretold:
    """What a network foretells of the answers' tokens, and where its guided head looks."""
    from transformers import DynamicCache

    cache: Any = DynamicCache(config=model.config)
    inner = model.model
    inner(torch.from_numpy(lesson.opening)[None], past_key_values=cache, use_cache=True)
    block = torch.from_numpy(lesson.block)
    (r, t), p = block.shape, len(lesson.opening)
    for layer in cache.layers:
        # Every row reads after the same record.
        layer.keys, layer.values = (x.expand(r, -1, -1, -1) for x in (layer.keys, layer.values))
    own = (block[:, :, None] == block[:, None]) & torch.ones(t, t, dtype=torch.bool).tril()
    seen = torch.cat([torch.ones(r, t, p, dtype=torch.bool), own], dim=2)[:, None]
    mask = torch.zeros(r, 1, t, p + t).masked_fill(~seen, torch.finfo(torch.float32).min)
    attention = inner.layers[GUIDED].self_attn
    given: dict[str, Any] = {}

    def keep(_: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        given.update(options)

    handle = attention.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        hidden = inner(
            torch.from_numpy(lesson.tokens),
            attention_mask=mask,
            position_ids=torch.from_numpy(lesson.place),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
    finally:
        handle.remove()
    logits = model.lm_head(hidden.flatten(0, 1)[torch.from_numpy(lesson.asked)])
    keys = cache.layers[GUIDED].keys[0, 0, :p]
    return Foretold(logits, _found(attention, given, keys, lesson))


def _found(attention: Any, given: dict[str, Any], keys: Tensor, lesson: Encoded) -> Tensor:
    """Log attention of the guided layer's first head to the answering lines [2 q]."""
    # Later tokens of an answer follow from the ones before.
    begins = np.flatnonzero(np.diff(lesson.of, prepend=-1))
    early = np.concatenate([begins, begins + 1])
    asked = torch.from_numpy(lesson.asked[early])
    width = keys.shape[-1]
    states = given["hidden_states"].flatten(0, 1)[asked]
    cos, sin = (x.flatten(0, 1)[asked] for x in given["position_embeddings"])
    query = F.linear(states, attention.q_proj.weight[:width], attention.q_proj.bias[:width])
    turned = torch.cat([-query[:, width // 2 :], query[:, : width // 2]], dim=1)
    scores = F.log_softmax((query * cos + turned * sin) @ keys.T / math.sqrt(width), dim=1)
    line = torch.from_numpy(lesson.line)
    wanted = torch.from_numpy(lesson.evidence[lesson.of[early]])
    return scores.masked_fill(line[None] != wanted[:, None], -math.inf).logsumexp(1)


def right_answers(logits: Tensor, lesson: Encoded) -> list[bool]:
    """For each question whether the likeliest token is the wanted one at every place."""
    hit = logits.argmax(-1).numpy() == lesson.wanted
    return [bool(hit[lesson.of == question].all()) for question in np.unique(lesson.of)]
