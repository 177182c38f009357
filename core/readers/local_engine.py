"""A language model in memory: loaded once a process, read from in batches, one at a time.

It imports torch and transformers, so the readers import it when the first prompt is read.

A prompt longer than the model was trained on is read by a separate engine: the same weights
with rotary positions stretched by YaRN (Peng et al. 2023, arXiv 2309.00071), as Qwen2.5's model
card asks. Static YaRN changes every answer, so prompts within the trained length never use it.

Prompts are padded on the left. They are read in slices of bounded size, and only the last token's
logits of each are computed: those of a complete prompt would be larger than the model
(docs/methods.md, Stage 2: reading). The chosen token has the largest float32 logit, the lowest id
among equals, of all tokens or of those that continue an allowed text; sampling settings of the
weights are ignored.
"""

from __future__ import annotations

import copy
import gc
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from midchart.core.errors import WorkFailed
from midchart.core.readers.local_batches import Ids, Tree, most_probable, plan, repeated, rest
from midchart.core.text import one_line
from midchart.core.weights import no_progress_bar


class _PassFrame:
    """What the next forward pass sees: ``rows`` of the batch, columns from ``first`` to ``last``,
    and its own tokens after them."""

    def __init__(self, rows: slice, first: int, last: int) -> None:
        self.rows, self.first, self.last = rows, first, last


class _FramedLayer(CacheLayerMixin):
    """One layer's keys and values, [batch, heads, width, dim] each."""

    is_sliding = False
    is_compileable = False

    def __init__(self, cache: _FramedCache) -> None:
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


class _FramedCache(Cache):
    """A key-value cache of ``batch`` rows of ``width`` columns for a model of ``layers`` layers.

    Allocated once and filled in place, where that of transformers copies itself at every token.
    Rows end at the same column (left padding), and ``frame`` has the rows and columns of the next
    pass: slices of a batch are read without padding to the longest, and a prefix that was read
    once is copied into each row.
    """

    def __init__(self, layers: int, batch: int, width: int) -> None:
        self.batch, self.width = batch, width
        self.frame = _PassFrame(slice(0, batch), 0, 0)
        self._layers = [_FramedLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self._layers))

    def copy_prefix(self, other: _FramedCache, shared: int, columns: list[int]) -> None:
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


_Prefix = tuple[_FramedCache, int]
"""The cache of a common prefix of prompts, and its length."""


@dataclass(slots=True)
class Generated:
    """Tokens of an answer, without the one that ended it, seconds until it was finished, whether it
    was cut off at the largest number of tokens, and whether it was ended as it repeated a line."""

    ids: list[int] = field(default_factory=list[int])
    seconds: float = 0.0
    cut: bool = False
    looped: bool = False


@torch.inference_mode()
def _read_prefix(model: Any, ids: Ids) -> _FramedCache:
    """A cache of one row that holds a prefix of prompts."""
    cache = _FramedCache(model.config.num_hidden_layers, 1, len(ids))
    tokens = torch.from_numpy(ids[None]).to(model.device)
    positions = torch.arange(len(ids), device=model.device)[None]
    model.model(tokens, position_ids=positions, past_key_values=cache, use_cache=True)
    return cache


@torch.inference_mode()
def log_likelihoods(model: Any, prompt: Ids, options: Sequence[Sequence[int]]) -> list[float]:
    """The sum of log-probabilities of each option's tokens (one at least) after a prompt's."""
    shared = len(prompt) - 1
    cache = _FramedCache(model.config.num_hidden_layers, 1, shared + max(map(len, options)))

    def run(layers: Any, tokens: Sequence[int], first: int) -> Any:
        cache.frame = _PassFrame(slice(0, 1), 0, first)
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
    prefix: _Prefix | None = None,
    allowed: Sequence[Tree | None] = (),
    stop_loops: bool = False,
) -> list[Generated]:
    """Answers of up to ``new`` tokens, in the order of ``prompts`` (longest first).

    ``stop`` are the ids that end an answer. ``slice_tokens`` bounds the tokens of one pass while
    reading; a longer prompt is read alone. ``prefix``: the cache of the prompts' common prefix and
    its length. ``allowed``: the texts of which each answer must be one, if any. ``stop_loops``:
    end an answer that repeats its line, after the first of them.
    """
    start = time.perf_counter()
    lengths = [len(ids) for ids in prompts]
    width = max(lengths)
    cache = _FramedCache(model.config.num_hidden_layers, len(prompts), width + new)
    if prefix is not None:
        cache.copy_prefix(*prefix, [width - length for length in lengths])
    shared = prefix[1] if prefix is not None else 0
    logits = [
        _read(model, cache, prompts, rows, width, shared)
        for rows in _slices(lengths, shared, slice_tokens)
    ]
    trees = allowed or [None] * len(prompts)
    return _decode(model, cache, torch.cat(logits), lengths, new, stop, start, trees, stop_loops)


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
    model: Any, cache: _FramedCache, prompts: Sequence[Ids], rows: slice, width: int, shared: int
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
    cache.frame = _PassFrame(rows, width - longest, width - longest + shared)
    padded = len(ids) > 1 and any(len(i) < longest for i in ids)
    return _last_logits(model, cache, tokens, positions, mask if padded else None)


def _last_logits(
    model: Any,
    cache: _FramedCache,
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
    cache: _FramedCache,
    logits: torch.Tensor,
    lengths: Sequence[int],
    new: int,
    stop: frozenset[int],
    start: float,
    allowed: Sequence[Tree | None],
    stop_loops: bool,
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
        chosen = most_probable(logits, {at: trees[row] for at, row in enumerate(rows)})
        # One transfer for all rows: each would wait for the device.
        for row, token in zip(rows, chosen.tolist(), strict=True):
            if row in done:
                continue
            tree = trees[row]
            if token not in stop:
                generated[row].ids.append(token)
            generated[row].cut = token not in stop and step == new - 1
            ended = token in stop or step == new - 1
            if tree is not None and not ended:
                trees[row], ended = _advance(generated[row], tree[token], new, stop)
            if stop_loops and not ended and (more := repeated(generated[row].ids)):
                del generated[row].ids[-more:]
                generated[row].looped = ended = True
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
        cache.frame = _PassFrame(slice(0, len(rows)), 0, width + step)
        seen = mask[:, : width + step + 1] if padded else None
        logits = _last_logits(model, cache, chosen[:, None], positions + step, seen)
    return generated


def _advance(generated: Generated, at: Tree, new: int, stop: frozenset[int]) -> tuple[Tree, bool]:
    """The continuations of an answer, and whether it ended because only one text remained."""
    if len(at) != 1 or len(left := rest(at)) == 0 or left[-1] not in stop:
        return at, False
    room = new - len(generated.ids)
    generated.ids += left[:-1][:room]
    generated.cut = len(left) - 1 > room
    return {}, True


_YARN_FACTOR = 4.0
_GPU_SLICE, _CPU_SLICE = 8192, 1024
"""Tokens of one prefill pass: enough to fill the device."""
_CPU_BATCH_TOKENS = 16_384
_MEMORY_SHARE = 0.8
"""Share of the accelerator's free memory that batches may fill."""


@dataclass(frozen=True, slots=True)
class EngineReply:
    """An answer's token ids and whether it was cut off or looped, or why there is none; costs as in
    :class:`core.types.Answer`."""

    ids: tuple[int, ...]
    reason: str = ""
    seconds: float = 0.0
    reused: int = 0
    peak_mb: float = 0.0
    cut: bool = False
    looped: bool = False


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How prompts are to be read.

    ``new``: most tokens of an answer. ``stop``: ids that end one. ``stretched``: with YaRN.
    ``batch_tokens``: padded tokens of a batch, 0 for what memory allows. ``share``: read a common
    prefix once. ``allowed``: of some prompts, by number, the texts of which the answer must be one.
    ``stop_loops``: as of :func:`answer_batch`.
    """

    new: int
    stop: frozenset[int]
    stretched: bool = False
    batch_tokens: int = 0
    share: bool = True
    allowed: Mapping[int, Tree] = field(default_factory=dict[int, Tree])
    stop_loops: bool = False


class Engine:
    """The model of a folder, on the accelerator where there is one, spread by accelerate.

    ``offload``: layers that do not fit on the accelerators may be in this machine's memory or on
    its disk. Raises WorkFailed where they would be and may not.
    """

    def __init__(self, folder: Path, dtype: str, offload: bool = False) -> None:
        self.lock = RLock()
        self.gpu = torch.cuda.is_available()
        self.dtype = _dtype(dtype, self.gpu)
        self.model = _load(folder, self.dtype, self.gpu)
        outside = sorted({str(place) for place in self._places() if place in ("cpu", "disk")})
        if self.gpu and outside and not offload:
            raise WorkFailed(
                f"{folder}: not all layers fit on the accelerators (the others: "
                f"{', '.join(outside)}), which makes every answer many times slower; use a smaller "
                "model or more cards, or give the reader offload = true"
            )
        self._plain = self.model.model.rotary_emb
        self._stretched: Any = None

    def _places(self) -> list[Any]:
        """Where each layer is: the number of a card, "cpu" or "disk"."""
        return layer_places(
            getattr(self.model, "hf_device_map", None) or {"": 0},
            self.model.config.num_hidden_layers,
        )

    @contextmanager
    def positions(self, stretched: bool) -> Generator[None]:
        """The model with plain or stretched rotary positions, for this thread alone."""
        with self.lock:
            if stretched and self._stretched is None:
                self._stretched = _stretch(self._plain, self.model.config)
            self.model.model.rotary_emb = self._stretched if stretched else self._plain
            try:
                yield
            finally:
                self.model.model.rotary_emb = self._plain

    def read(
        self, prompts: Sequence[Ids], config: GenerationConfig
    ) -> Generator[tuple[int, EngineReply]]:
        """Each prompt's index and reply, batch by batch, longest prompts first."""
        batch_tokens = self._batch_tokens(config, max((len(ids) for ids in prompts), default=0))
        for group in plan(prompts, config.new, batch_tokens, config.share):
            prefix = self._prefix(prompts[group.batches[0][0]][: group.shared], config)
            for at, batch in enumerate(group.batches):
                chosen = [prompts[i] for i in batch]
                yield from self._read_or_halve(chosen, list(batch), config, prefix, first=at == 0)

    def log_likelihoods(self, prompt: Ids, options: Sequence[Sequence[int]]) -> list[float]:
        """The log-likelihood of each option's tokens after a prompt's, which is read once."""
        with self.positions(False):
            return log_likelihoods(self.model, prompt, options)

    def _prefix(self, ids: Ids, config: GenerationConfig) -> _Prefix | None:
        if not len(ids):
            return None
        try:
            with self.positions(config.stretched):
                return _read_prefix(self.model, ids), len(ids)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            self._free_memory()
            return None  # each prompt then reads its prefix itself

    def _read_or_halve(
        self,
        prompts: list[Ids],
        indices: list[int],
        config: GenerationConfig,
        prefix: _Prefix | None,
        first: bool = True,
    ) -> list[tuple[int, EngineReply]]:
        """Replies to a batch; one that does not fit into memory is halved, down to one prompt."""
        try:
            return self._batch(prompts, indices, config, prefix, first)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        self._free_memory()
        if len(prompts) == 1 and prefix is not None:
            return self._read_or_halve(prompts, indices, config, None, first)
        if len(prompts) == 1:
            return [(indices[0], EngineReply((), self._too_long(len(prompts[0]))))]
        half = (len(prompts) + 1) // 2
        return [
            *self._read_or_halve(prompts[:half], indices[:half], config, prefix, first),
            *self._read_or_halve(prompts[half:], indices[half:], config, prefix, False),
        ]

    def _batch(
        self,
        prompts: list[Ids],
        indices: list[int],
        config: GenerationConfig,
        prefix: _Prefix | None,
        first: bool,
    ) -> list[tuple[int, EngineReply]]:
        with self.positions(config.stretched):
            if self.gpu:
                torch.cuda.reset_peak_memory_stats()
            most = _GPU_SLICE if self.gpu else _CPU_SLICE
            allowed = [config.allowed.get(index) for index in indices]
            generated = answer_batch(
                self.model, prompts, config.new, config.stop, most, prefix, allowed,
                config.stop_loops,
            )  # fmt: skip
            peak = torch.cuda.max_memory_allocated() / 1e6 if self.gpu else 0.0
        shared = prefix[1] if prefix is not None else 0
        reused = [0 if first and at == 0 else shared for at in range(len(indices))]
        return [
            (i, EngineReply(tuple(one.ids), "", one.seconds, known, peak, one.cut, one.looped))
            for i, known, one in zip(indices, reused, generated, strict=True)
        ]

    def _batch_tokens(self, config: GenerationConfig, longest: int) -> int:
        """Padded tokens of a batch: the user's number, or what free memory holds."""
        if config.batch_tokens:
            return config.batch_tokens
        if not self.gpu:
            return _CPU_BATCH_TOKENS
        model, size = self.model.config, self.dtype.itemsize
        head = getattr(model, "head_dim", None) or model.hidden_size // model.num_attention_heads
        cache = 2 * size * model.num_key_value_heads * head
        # While a token is read it also takes hidden states and the gated layer's three.
        activations = size * (3 * model.intermediate_size + 6 * model.hidden_size)
        room = activations * max(_GPU_SLICE, longest)
        # Each card holds the keys and values of its own layers: the fullest one decides.
        layers = Counter(place for place in self._places() if isinstance(place, int))
        tokens = [
            int((_MEMORY_SHARE * _free(card) - room) / (cache * n)) for card, n in layers.items()
        ]
        return max(1, min(tokens, default=_CPU_BATCH_TOKENS))

    def _free_memory(self) -> None:
        gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()

    def _too_long(self, tokens: int) -> str:
        where = "the accelerator" if self.gpu else "this machine"
        return (
            f"a prompt of {tokens:,} tokens does not fit into the memory of {where}; use a smaller "
            "model, or give the protocol fewer context_tokens"
        )


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on an accelerator or on a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def layer_places(device_map: Mapping[str, Any], layers: int) -> list[Any]:
    """Where each of a model's ``layers`` is by accelerate's map of modules to devices: the number
    of a card, "cpu" or "disk"."""

    def place(layer: int) -> Any:
        name = f"model.layers.{layer}"
        while name and name not in device_map:
            name = name.rpartition(".")[0]
        device = device_map.get(name, 0)
        return getattr(device, "index", device) if not isinstance(device, str) else device

    return [place(layer) for layer in range(layers)]


def _free(device: int) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + cached


def _dtype(name: str, gpu: bool) -> torch.dtype:
    """The type of weights: bfloat16 where the device computes in it, float32 elsewhere."""
    if name != "auto":
        return getattr(torch, name)
    if gpu:
        return torch.bfloat16
    able = torch.cpu.get_capabilities()
    fast = any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.bfloat16 if fast else torch.float32


def _load(folder: Path, dtype: torch.dtype, gpu: bool) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    try:
        with no_progress_bar():
            model, loading_info = loader.from_pretrained(
                str(folder),
                dtype=dtype,
                device_map="auto" if gpu else None,
                attn_implementation="sdpa",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, MemoryError, SafetensorError) as error:
        if out_of_memory(error):
            raise WorkFailed(
                f"{folder}: the weights do not fit into memory; use a smaller model"
            ) from None
        # These name files and settings of the folder, never a prompt.
        line = one_line(str(error))[:200]
        raise WorkFailed(f"{folder}: the weights cannot be loaded ({line})") from None
    if loading_info["missing_keys"]:
        # transformers would initialise them at random.
        lacking = len(loading_info["missing_keys"])
        raise WorkFailed(f"{folder}: {lacking} of the model's weights are missing; fetch it again")
    return model.eval()


def _stretch(plain: Any, config: Any) -> Any:
    """Rotary positions stretched by YaRN to four times the trained length."""
    longer = copy.deepcopy(config)
    longer.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": config.rope_parameters["rope_theta"],
        "factor": _YARN_FACTOR,
        "original_max_position_embeddings": config.max_position_embeddings,
    }
    longer.max_position_embeddings = int(_YARN_FACTOR * config.max_position_embeddings)
    return type(plain)(config=longer).to(plain.inv_freq.device)


_engines: dict[tuple[str, str, bool], Engine] = {}
_loading = RLock()


def shared_engine(folder: Path, dtype: str, offload: bool = False) -> Engine:
    """The engine of a folder, loaded once a process however many readers use it."""
    with _loading:
        key = (str(folder), dtype, offload)
        if key not in _engines:
            _engines[key] = Engine(folder, dtype, offload)
        return _engines[key]
