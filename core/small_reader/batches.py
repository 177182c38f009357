"""A lesson as a network reads it: the record once, then all its questions beside each other.

Each question sees the record and itself, at the places it would have alone; so one pass over the
record serves twenty questions, and every question is read exactly as a reader will be asked it.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from core.small_reader.tokens import Ids, answer_ids, ids
from core.synthetic.training_examples import TrainingExample

GUIDED = 2
"""The layer whose first heads may be guided to the line that answers."""
TELLING = 1
"""The layer of which two heads, the second and the third, may be guided to how a token's line
begins: its first word, and the end of its date."""
FINDING, TOLD = 4, 2
"""How many heads of the one and of the other."""
SAMPLED = 192
"""Most tokens of a record at which the telling heads are looked at."""
DATE = 5
"""Tokens of a line up to the end of its date."""
BEGINNING = DATE + 3
"""First tokens of an answer, by which its line is told. The others follow from these."""
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


def encode(tokenizer: Any, lesson: TrainingExample, whole: int | None = None) -> Encoded:
    """A lesson in tokens.

    Of the questions from number ``whole`` on (default: of none) only an answer's beginning is
    foretold: finding the line takes more practice than going on with it.
    """
    opening, line = _opening(tokenizer, lesson)
    both: list[tuple[Ids, Ids]] = []
    for number, one in enumerate(lesson.asked):
        answer = answer_ids(tokenizer, lesson.written(number))
        if whole is not None and number >= whole:
            answer = answer[: BEGINNING + 1]
        both.append((ids(tokenizer, lesson.ending(one.question)), answer))
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


def _opening(tokenizer: Any, lesson: TrainingExample) -> tuple[Ids, Ids]:
    """A lesson's opening in tokens, and of each the line it stands in."""
    found = tokenizer.encode(lesson.opening, add_special_tokens=False)
    ends = np.cumsum([len(line) + 1 for line in lesson.lines])
    begins = len(lesson.opening) - (ends[-1] - 1)
    at = np.array([end for _, end in found.offsets]) - begins
    line = np.where(at > 0, np.searchsorted(ends, at), -1)
    return np.array(found.ids, dtype=np.int64), line.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Predicted:
    """``logits`` [a, vocabulary] at the places asked; ``found`` [heads, a], the log of the
    attention that the finding heads give there to the line that answers, of all the record, or to
    what stands before the record, where no line does; ``told`` [heads, s], the log of the attention
    that the telling heads give, at some tokens of the record's lines, to the line's first word and
    to the end of its date."""

    logits: Tensor
    found: Tensor
    told: Tensor


class _Seen:
    """What two layers' attentions were last given, in each thread of its own."""

    def __init__(self, model: Any) -> None:
        self._here = threading.local()
        for layer in (TELLING, GUIDED):
            attention = model.model.layers[layer].self_attn
            attention.register_forward_pre_hook(self._keeper(layer), with_kwargs=True)

    def _keeper(self, layer: int) -> Any:
        def keep(_: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            setattr(self._here, str(layer), options)

        return keep

    def of(self, layer: int) -> dict[str, Any]:
        return getattr(self._here, str(layer))


_SEEN: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()
_ONE = threading.Lock()


def predict(model: Any, lesson: Encoded) -> Predicted:
    """What a network foretells of the answers' tokens, and where its guided heads look."""
    from transformers import DynamicCache

    with _ONE:
        if model not in _SEEN:
            _SEEN[model] = _Seen(model)
    seen_by = _SEEN[model]
    cache: Any = DynamicCache(config=model.config)
    inner = model.model
    _read(inner, torch.from_numpy(lesson.opening)[None], cache)
    told = _told(inner.layers[TELLING].self_attn, seen_by.of(TELLING), cache, lesson)
    block = torch.from_numpy(lesson.block)
    (r, t), p = block.shape, len(lesson.opening)
    for layer in cache.layers:
        # Every row reads after the same record.
        layer.keys, layer.values = (x.expand(r, -1, -1, -1) for x in (layer.keys, layer.values))
    own = (block[:, :, None] == block[:, None]) & torch.ones(t, t, dtype=torch.bool).tril()
    seen = torch.cat([torch.ones(r, t, p, dtype=torch.bool), own], dim=2)[:, None]
    mask = torch.zeros(r, 1, t, p + t).masked_fill(~seen, torch.finfo(torch.float32).min)
    hidden = inner(
        torch.from_numpy(lesson.tokens),
        attention_mask=mask,
        position_ids=torch.from_numpy(lesson.place),
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    logits = model.lm_head(hidden.flatten(0, 1)[torch.from_numpy(lesson.asked)])
    keys = cache.layers[GUIDED].keys[0, :FINDING, :p]
    attention = inner.layers[GUIDED].self_attn
    return Predicted(logits, _found(attention, seen_by.of(GUIDED), keys, lesson), told)


def _read(inner: Any, tokens: Tensor, cache: Any) -> None:
    """Put a record [1, p] into the cache. Nothing is asked of what the last layer makes of it: of
    that only keys and values are worked out."""
    from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

    places = torch.arange(tokens.shape[1])[None]
    hidden = inner.embed_tokens(tokens)
    turns = inner.rotary_emb(hidden, places)
    given = {"position_ids": places, "past_key_values": cache, "position_embeddings": turns}
    *others, last = inner.layers
    for layer in others:
        hidden = layer(hidden, attention_mask=None, use_cache=True, **given)
    hidden, attention = last.input_layernorm(hidden), last.self_attn
    key, value = (
        projection(hidden).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        for projection in (attention.k_proj, attention.v_proj)
    )
    _, key = apply_rotary_pos_emb(key, key, *turns)
    cache.update(key, value, attention.layer_idx)


def beginnings(lesson: Encoded) -> NDArray[np.int64]:
    """Which of the places asked are an answer's first tokens [b]."""
    every = np.arange(len(lesson.of))
    starts = np.flatnonzero(np.diff(lesson.of, prepend=-1))
    return np.flatnonzero(every - starts[np.searchsorted(starts, every, "right") - 1] < BEGINNING)


def _queries(attention: Any, given: dict[str, Any], places: Tensor, heads: slice) -> Tensor:
    """Queries of some heads at some places, counted through the rows [heads, places, wide]."""
    wide = attention.head_dim
    rows = slice(heads.start * wide, heads.stop * wide)
    states = given["hidden_states"].flatten(0, 1)[places]
    cos, sin = (x.flatten(0, 1)[places] for x in given["position_embeddings"])
    query = F.linear(states, attention.q_proj.weight[rows], attention.q_proj.bias[rows])
    query = query.unflatten(1, (-1, wide)).transpose(0, 1)
    turned = torch.cat([-query[..., wide // 2 :], query[..., : wide // 2]], dim=-1)
    return (query * cos + turned * sin) / math.sqrt(wide)


def _told(attention: Any, given: dict[str, Any], cache: Any, lesson: Encoded) -> Tensor:
    """Log attention of the telling heads to how a token's line begins [heads, s]."""
    where = np.arange(len(lesson.opening))
    # A line begins with its bracket, year, month and day, and the bracket that ends them.
    begins = np.flatnonzero(np.diff(lesson.line, prepend=-1))
    begin = begins[np.searchsorted(begins, where, "right") - 1]
    inside = np.flatnonzero((lesson.line >= 0) & (where - begin > DATE))
    inside = inside[:: max(1, len(inside) // SAMPLED)]
    heads = slice(1, 1 + TOLD)
    keys = cache.layers[TELLING].keys[0, heads]
    places = torch.from_numpy(inside)
    scores = _queries(attention, given, places, heads) @ keys.transpose(1, 2)
    ahead = torch.from_numpy(where)[None] > places[:, None]
    attended = F.log_softmax(scores.float().masked_fill(ahead, -math.inf), dim=-1)
    targets = torch.from_numpy(np.stack([begin[inside] + DATE, begin[inside] + DATE - 1]))
    return attended.gather(2, targets[..., None])[..., 0]


def _found(attention: Any, given: dict[str, Any], keys: Tensor, lesson: Encoded) -> Tensor:
    """Log attention of the finding heads to the answering lines [heads, a]."""
    places = torch.from_numpy(lesson.asked)
    scores = _queries(attention, given, places, slice(0, FINDING)) @ keys.transpose(1, 2)
    line = torch.from_numpy(lesson.line)
    wanted = torch.from_numpy(lesson.evidence[lesson.of])
    other = line[None] != wanted[:, None]
    return F.log_softmax(scores.float(), dim=-1).masked_fill(other, -math.inf).logsumexp(-1)


def right_answers(logits: Tensor, lesson: Encoded) -> list[bool]:
    """For each question whether the likeliest token is the wanted one at every place."""
    hit = logits.argmax(-1).numpy() == lesson.wanted
    return [bool(hit[lesson.of == question].all()) for question in np.unique(lesson.of)]
