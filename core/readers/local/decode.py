"""Greedy answers to a batch of prompts: prefill, then one token per step for unfinished answers.

Prompts are padded on the left. They are read in slices of bounded size, and only the last token's
logits of each are computed: those of a complete prompt would be larger than the model (PROTOCOL,
Stage 2: reading). The chosen token has the largest float32 logit, the lowest id among equals, of
all tokens or of those that continue an allowed text; sampling settings of the weights are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from core.readers.local.batches import Ids
from core.readers.local.constrained_decoding import Tree, most_probable, rest


class Frame:
    """What the next forward pass sees: ``rows`` of the batch, columns from ``first`` to ``last``,
    and its own tokens after them."""

    def __init__(self, rows: slice, first: int, last: int) -> None:
        self.rows, self.first, self.last = rows, first, last


class FramedLayer(CacheLayerMixin):
    """One layer's keys and values, [batch, heads, width, dim] each."""

    is_sliding = False
    is_compileable = False

    def __init__(self, cache: FramedCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate; zeros, as the values of masked columns are multiplied by weights of zero."""
        _, heads, _, dim = key_states.shape
        shape = (self.cache.batch, heads, self.cache.width, dim)
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.values = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values after the frame; return all that the pass may attend to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        frame = self.cache.frame
        end = frame.last + key_states.shape[-2]
        self.keys[frame.rows, :, frame.last : end] = key_states
        self.values[frame.rows, :, frame.last : end] = value_states
        seen = (frame.rows, slice(None), slice(frame.first, end))
        return self.keys[seen], self.values[seen]

    def get_seq_length(self) -> int:
        """Columns the pass finds in its frame."""
        return self.cache.frame.last - self.cache.frame.first

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns with the pass's own tokens, and no offset."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """Columns in all."""
        return self.cache.width


class FramedCache(Cache):
    """A key-value cache of ``batch`` rows of ``width`` columns for a model of ``layers`` layers.

    Allocated once and filled in place, where that of transformers copies itself at every token.
    Rows end at the same column (left padding), and ``frame`` has the rows and columns of the next
    pass: slices of a batch are read without padding to the longest, and a prefix that was read
    once is copied into each row.
    """

    def __init__(self, layers: int, batch: int, width: int) -> None:
        self.batch, self.width = batch, width
        self.frame = Frame(slice(0, batch), 0, 0)
        self._layers = [FramedLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self._layers))

    def copy_prefix(self, other: FramedCache, shared: int, columns: list[int]) -> None:
        """Copy the first ``shared`` columns of the one row of ``other`` into each row, from the
        column that is named for it."""
        for target, its in zip(self._layers, other._layers, strict=True):
            assert its.keys is not None and its.values is not None
            if not target.is_initialized:
                target.lazy_initialization(its.keys, its.values)
            assert target.keys is not None and target.values is not None
            for row, column in enumerate(columns):
                target.keys[row, :, column : column + shared] = its.keys[0, :, :shared]
                target.values[row, :, column : column + shared] = its.values[0, :, :shared]

    def keep(self, rows: list[int]) -> None:
        """Drop all other rows."""
        for layer in self._layers:
            assert layer.keys is not None and layer.values is not None
            chosen = torch.tensor(rows, device=layer.keys.device)
            # One after the other, so that only one tensor at a time is in memory twice.
            layer.keys = layer.keys.index_select(0, chosen)
            layer.values = layer.values.index_select(0, chosen)
        self.batch = len(rows)


@dataclass(slots=True)
class Generated:
    """Tokens of an answer, without the one that ended it, and seconds until it was finished."""

    ids: list[int] = field(default_factory=list[int])
    seconds: float = 0.0


@torch.inference_mode()
def read_prefix(model: Any, ids: Ids) -> FramedCache:
    """A cache of one row that holds a prefix of prompts."""
    cache = FramedCache(model.config.num_hidden_layers, 1, len(ids))
    tokens = torch.from_numpy(ids[None]).to(model.device)
    positions = torch.arange(len(ids), device=model.device)[None]
    model.model(tokens, position_ids=positions, past_key_values=cache, use_cache=True)
    return cache


@torch.inference_mode()
def log_likelihoods(model: Any, prompt: Ids, options: Sequence[Sequence[int]]) -> list[float]:
    """The sum of log-probabilities of each option's tokens (one at least) after a prompt's."""
    shared = len(prompt) - 1
    cache = FramedCache(model.config.num_hidden_layers, 1, shared + max(map(len, options)))

    def run(layers: Any, tokens: Sequence[int], first: int) -> Any:
        cache.frame = Frame(slice(0, 1), 0, first)
        ids = torch.tensor([list(tokens)], device=model.device)
        positions = torch.arange(first, first + len(tokens), device=model.device)[None]
        return layers(ids, position_ids=positions, past_key_values=cache, use_cache=True)

    if shared:
        run(model.model, prompt[:-1].tolist(), 0)
    sums: list[float] = []
    for option in options:
        # Each option's columns replace those of the one before.
        logits = run(model, [int(prompt[-1]), *option[:-1]], shared).logits[0].float()
        chosen = torch.tensor(list(option), device=logits.device)[:, None]
        sums.append(float(logits.log_softmax(-1).gather(1, chosen).sum()))
    return sums


@torch.inference_mode()
def answer_batch(
    model: Any,
    prompts: Sequence[Ids],
    new: int,
    stop: frozenset[int],
    slice_tokens: int,
    prefix: tuple[FramedCache, int] | None = None,
    allowed: Sequence[Tree | None] = (),
) -> list[Generated]:
    """Answers of up to ``new`` tokens, in the order of ``prompts`` (longest first).

    ``stop`` are the ids that end an answer. ``slice_tokens`` bounds the tokens of one pass while
    reading; a longer prompt is read alone. ``prefix``: the cache of the prompts' common prefix and
    its length. ``allowed``: the texts of which each answer must be one, if any.
    """
    start = time.perf_counter()
    lengths = [len(ids) for ids in prompts]
    width = max(lengths)
    cache = FramedCache(model.config.num_hidden_layers, len(prompts), width + new)
    if prefix is not None:
        cache.copy_prefix(*prefix, [width - length for length in lengths])
    shared = prefix[1] if prefix is not None else 0
    logits = [
        _read(model, cache, prompts, rows, width, shared)
        for rows in _slices(lengths, shared, slice_tokens)
    ]
    trees = allowed or [None] * len(prompts)
    return _decode(model, cache, torch.cat(logits), lengths, new, stop, start, trees)


def _slices(lengths: Sequence[int], shared: int, most: int) -> list[slice]:
    """Consecutive rows whose padded tokens stay within ``most``, one row at least."""
    slices: list[slice] = []
    first = 0
    for row in range(1, len(lengths) + 1):
        if row == len(lengths) or (row + 1 - first) * (lengths[first] - shared) > most:
            slices.append(slice(first, row))
            first = row
    return slices


def _read(
    model: Any, cache: FramedCache, prompts: Sequence[Ids], rows: slice, width: int, shared: int
) -> torch.Tensor:
    """Read a slice of prompts into the cache; logits of their last tokens, [rows, vocabulary].

    After a shared prefix every row of the slice reads equally many tokens, its last ones: a
    shorter row reads some of the prefix again rather than padding that would overwrite it.
    """
    ids = prompts[rows]
    longest = max(len(i) for i in ids)
    reading = longest - shared
    tokens = torch.zeros((len(ids), reading), dtype=torch.long)
    positions = torch.zeros((len(ids), reading), dtype=torch.long)
    mask = torch.zeros((len(ids), longest), dtype=torch.bool)
    for row, one in enumerate(ids):
        length = min(len(one), reading)
        tokens[row, reading - length :] = torch.from_numpy(one[len(one) - length :])
        positions[row, reading - length :] = torch.arange(len(one) - length, len(one))
        mask[row, longest - len(one) :] = True
    cache.frame = Frame(rows, width - longest, width - longest + shared)
    padded = len(ids) > 1 and any(len(i) < longest for i in ids)
    return _last_logits(model, cache, tokens, positions, mask if padded else None)


def _last_logits(
    model: Any,
    cache: FramedCache,
    tokens: torch.Tensor,
    positions: torch.Tensor,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """One forward pass; float32 logits of each row's last token."""
    output = model(
        input_ids=tokens.to(model.device),
        attention_mask=None if mask is None else mask.to(model.device),
        position_ids=positions.to(model.device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def _decode(
    model: Any,
    cache: FramedCache,
    logits: torch.Tensor,
    lengths: Sequence[int],
    new: int,
    stop: frozenset[int],
    start: float,
    allowed: Sequence[Tree | None],
) -> list[Generated]:
    generated = [Generated() for _ in lengths]
    trees = list(allowed)
    rows = list(range(len(lengths)))
    """The answer of each row of the batch; the cache may hold finished rows."""
    done: set[int] = set()
    width = max(lengths)
    mask = torch.zeros((len(lengths), width + new), dtype=torch.bool, device=model.device)
    for row, length in enumerate(lengths):
        mask[row, width - length :] = True
    positions = torch.tensor(lengths, device=model.device)[:, None]
    padded = min(lengths) < width
    for step in range(new):
        chosen = logits.argmax(-1)
        for at, row in enumerate(rows):
            if row in done:
                continue
            tree = trees[row]
            if tree is not None:
                chosen[at] = most_probable(logits[at], tree)
            token = int(chosen[at])
            if token not in stop:
                generated[row].ids.append(token)
            ended = token in stop or step == new - 1
            if tree is not None and not ended:
                trees[row], ended = _advance(generated[row], tree[token], new, stop)
            if ended:
                generated[row].seconds = time.perf_counter() - start
                done.add(row)
        if len(done) == len(generated):
            break
        active = [at for at, row in enumerate(rows) if row not in done]
        if 2 * len(active) <= len(rows):
            cache.keep(active)
            rows = [rows[at] for at in active]
            active_rows = torch.tensor(active, device=model.device)
            chosen, positions, mask = chosen[active_rows], positions[active_rows], mask[active_rows]
        cache.frame = Frame(slice(0, len(rows)), 0, width + step)
        seen = mask[:, : width + step + 1] if padded else None
        logits = _last_logits(model, cache, chosen[:, None], positions + step, seen)
    return generated


def _advance(generated: Generated, at: Tree, new: int, stop: frozenset[int]) -> tuple[Tree, bool]:
    """The continuations of an answer, and whether it ended because only one text remained."""
    if len(at) != 1 or len(left := rest(at)) == 0 or left[-1] not in stop:
        return at, False
    generated.ids += left[:-1][: new - len(generated.ids)]
    return {}, True
