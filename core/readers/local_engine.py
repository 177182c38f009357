"""A language model in memory: loaded once a process, read from in batches, one at a time.

It imports torch and transformers, so the readers import it when the first prompt is read.

A prompt longer than the model was trained on is read by a separate engine: the same weights
with rotary positions stretched by YaRN (Peng et al. 2023, arXiv 2309.00071), as Qwen2.5's model
card asks. Static YaRN changes every answer, so prompts within the trained length never use it.

Prompts are padded on the left and read in slices of bounded size (docs/methods.md, Stage 2:
reading). The chosen token has the largest float32 logit, the lowest id among equals, of all tokens
or of those that continue an allowed text; sampling settings of the weights are ignored.
"""

from __future__ import annotations

import copy
import gc
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import torch
import transformers
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache

from midchart.core.embedding.pairs import hardware
from midchart.core.errors import WorkFailed
from midchart.core.readers.local_batches import Ids, Tree, plan, repeated, rest
from midchart.core.text import one_line
from midchart.core.weights import no_progress_bar

T = TypeVar("T")
_Prefix = tuple[DynamicCache, int]
"""The cache of a common prefix of prompts, one row, and its length."""


@dataclass(slots=True)
class Generated:
    """An answer's token ids without the one that ended it, or the reason why there is none.

    ``cut``: it ended at the largest number of tokens; ``looped``: it was ended as it repeated a
    line. ``seconds``, ``reused`` and ``peak_mb`` are as in :class:`core.types.Answer`.
    """

    ids: list[int] = field(default_factory=list[int])
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
    ``stop_loops``: end an answer that repeats its line, after the first of them.
    """

    new: int
    stop: frozenset[int]
    stretched: bool = False
    batch_tokens: int = 0
    share: bool = True
    allowed: Mapping[int, Tree] = field(default_factory=dict[int, Tree])
    stop_loops: bool = False


class _Answers:
    """The answers of a batch while they are generated: what may follow, and which have ended."""

    def __init__(self, trees: Sequence[Tree | None], config: GenerationConfig) -> None:
        self.trees, self.config, self.start = list(trees), config, time.perf_counter()
        self.replies = [Generated() for _ in trees]
        self.ended = [False] * len(self.replies)

    def restrict(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The logits [rows, vocabulary], −∞ for tokens that continue no allowed text."""
        for row, at in enumerate(self.trees):
            if at and not self.ended[row]:
                others = torch.ones_like(scores[row], dtype=torch.bool)
                others[list(at)] = False
                scores[row].masked_fill_(others, -torch.inf)
        return scores

    def take(self, input_ids: torch.Tensor, scores: Any, **others: Any) -> torch.Tensor:
        """Take the last token of each row; which rows have ended, bool [rows]."""
        # One transfer for all rows: each would wait for the device.
        for row, token in enumerate(input_ids[:, -1].tolist()):
            if not self.ended[row]:
                self.ended[row] = self._take(row, token)
                self.replies[row].seconds = time.perf_counter() - self.start
        return torch.tensor(self.ended, device=input_ids.device)

    def _take(self, row: int, token: int) -> bool:
        reply, at, config = self.replies[row], self.trees[row], self.config
        if token in config.stop:
            return True
        reply.ids.append(token)
        room = config.new - len(reply.ids)
        if at is not None:
            self.trees[row] = at[token]
            # Where only one text remains, its rest need not be generated.
            left = rest(at[token])
            if left and left[-1] in config.stop:
                reply.ids += left[:-1][:room]
                reply.cut = len(left) - 1 > room
                return True
        if config.stop_loops and room and (more := repeated(reply.ids)):
            del reply.ids[-more:]
            reply.looped = True
        reply.cut = not room
        return reply.cut or reply.looped


def _copied(prefix: _Prefix, padding: Sequence[int]) -> DynamicCache:
    """The cache of rows that begin with so much padding and then the prefix, as wide as it is."""
    cache, width = DynamicCache(), prefix[1]

    def rows(one: torch.Tensor) -> torch.Tensor:
        pads = [min(pad, width) for pad in padding]
        return torch.cat([pad(one[:, :, : width - n], (0, 0, n, 0)) for n in pads])

    layers: list[Any] = prefix[0].layers
    for number, layer in enumerate(layers):
        cache.update(rows(layer.keys), rows(layer.values), number)
    return cache


@torch.inference_mode()
def answer_batch(
    model: Any,
    prompts: Sequence[Ids],
    config: GenerationConfig,
    slice_tokens: int,
    prefix: _Prefix | None = None,
    allowed: Sequence[Tree | None] = (),
) -> list[Generated]:
    """Answers in the order of ``prompts``, by transformers' greedy search.

    ``slice_tokens`` bounds the tokens of one pass while reading. ``prefix``: the cache of the
    prompts' common prefix and its length. ``allowed``: the texts of which each answer must be one,
    if any.
    """
    width = max(map(len, prompts))
    padding = [width - len(ids) for ids in prompts]
    answers = _Answers(allowed or [None] * len(prompts), config)
    tokens = torch.tensor(
        np.stack([np.pad(ids, (n, 0)) for ids, n in zip(prompts, padding, strict=True)])
    )
    mask = torch.arange(width) >= torch.tensor(padding)[:, None]
    model.generate(
        tokens.to(model.device),
        attention_mask=mask.long().to(model.device),
        past_key_values=DynamicCache() if prefix is None else _copied(prefix, padding),
        generation_config=transformers.GenerationConfig(
            max_new_tokens=config.new,
            do_sample=False,
            pad_token_id=0,
            prefill_chunk_size=max(1, slice_tokens // len(prompts)),
        ),
        logits_processor=[answers.restrict],
        stopping_criteria=[answers.take],
    )
    return answers.replies


_YARN_FACTOR = 4.0
_GPU_SLICE, _CPU_SLICE = 8192, 1024
"""Tokens of one prefill pass: enough to fill the device."""
_CPU_BATCH_TOKENS = 16_384
_MEMORY_SHARE = 0.8
"""Share of the accelerator's free memory that batches may fill."""


class Engine:
    """The model of a folder, on the accelerator where there is one, spread by accelerate.

    ``offload``: layers that do not fit on the accelerators may be in this machine's memory or on
    its disk. Raises WorkFailed where they would be and may not.
    """

    def __init__(self, folder: Path, dtype: str, offload: bool = False) -> None:
        self.lock = RLock()
        self.gpu = torch.cuda.is_available()
        self.dtype: torch.dtype = getattr(torch, hardware()[1] if dtype == "auto" else dtype)
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
    ) -> Generator[tuple[int, Generated]]:
        """Each prompt's index and reply, batch by batch, longest prompts first."""
        batch_tokens = self._batch_tokens(config, max((len(ids) for ids in prompts), default=0))
        for group in plan(prompts, config.new, batch_tokens, config.share):
            opening = prompts[group.batches[0][0]][: group.shared]
            prefix = self._opened(opening, config)
            todo, first = [list(batch) for batch in reversed(group.batches)], True
            while todo:
                batch = todo.pop()
                replies = self._attempt(config, self._batch, prompts, batch, config, prefix)
                if replies is not None:
                    for reply in replies:
                        reply.reused = prefix[1] if prefix is not None and not first else 0
                        first = False
                    yield from zip(batch, replies, strict=True)
                elif len(batch) > 1:
                    half = (len(batch) + 1) // 2
                    todo += [batch[half:], batch[:half]]
                elif prefix is not None:
                    prefix = None
                    todo.append(batch)
                else:
                    yield batch[0], Generated(reason=self._too_long(len(prompts[batch[0]])))

    def _opened(self, ids: Ids, config: GenerationConfig) -> _Prefix | None:
        """The cache of a common prefix; None without one, and where it does not fit: each prompt
        then reads it itself."""
        cache = self._attempt(config, self._read, ids) if len(ids) else None
        return None if cache is None else (cache, len(ids))

    def _attempt(
        self, config: GenerationConfig, work: Callable[..., T], *arguments: Any
    ) -> T | None:
        """What some work of the model gives; None where memory runs out."""
        try:
            with self.positions(config.stretched):
                return work(*arguments)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()
        return None

    def _batch(
        self,
        prompts: Sequence[Ids],
        batch: Sequence[int],
        config: GenerationConfig,
        prefix: _Prefix | None,
    ) -> list[Generated]:
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        most = _GPU_SLICE if self.gpu else _CPU_SLICE
        chosen, allowed = [prompts[i] for i in batch], [config.allowed.get(i) for i in batch]
        replies = answer_batch(self.model, chosen, config, most, prefix, allowed)
        for reply in replies:
            reply.peak_mb = torch.cuda.max_memory_allocated() / 1e6 if self.gpu else 0.0
        return replies

    @torch.inference_mode()
    def log_likelihoods(self, prompt: Ids, options: Sequence[Sequence[int]]) -> list[float]:
        """The sum of log-probabilities of each option's tokens (one at least) after a prompt's,
        which is read once."""
        sums: list[float] = []
        with self.positions(False):
            cache = self._read(prompt[:-1]) if len(prompt) > 1 else DynamicCache()
            for option in options:
                ids = torch.tensor([[int(prompt[-1]), *option[:-1]]], device=self.model.device)
                logits = self.model(ids, past_key_values=cache).logits[0].float()
                cache.crop(-len(option))
                chosen = torch.tensor(list(option), device=logits.device)[:, None]
                sums.append(float(logits.log_softmax(-1).gather(1, chosen).sum()))
        return sums

    @torch.inference_mode()
    def _read(self, ids: Ids) -> DynamicCache:
        """A cache of one row that holds a prompt's beginning."""
        cache = DynamicCache()
        self.model.model(torch.from_numpy(ids[None]).to(self.model.device), past_key_values=cache)
        return cache

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


def _load(folder: Path, dtype: torch.dtype, gpu: bool) -> Any:
    from safetensors import SafetensorError

    loader: Any = transformers.AutoModelForCausalLM
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
    model.generation_config = transformers.GenerationConfig()  # not the folder's sampling
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


_engine = cache(Engine)
_loading = RLock()


def shared_engine(folder: Path, dtype: str, offload: bool = False) -> Engine:
    """The engine of a folder, loaded once a process however many readers use it."""
    with _loading:
        return _engine(folder, dtype, offload)
