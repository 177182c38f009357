"""A language model in memory: loaded once a process, read from in batches, one at a time.

A prompt longer than the model was trained on is read by a separate engine: the same weights
with rotary positions stretched by YaRN (Peng et al. 2023, arXiv 2309.00071), as Qwen2.5's model
card asks. Static YaRN changes every answer, so prompts within the trained length never use it.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from core.errors import WorkFailed
from core.readers.local.batches import Ids, plan
from core.readers.local.constrained_decoding import Tree
from core.readers.local.decode import (
    FramedCache,
    Generated,
    answer_batch,
    log_likelihoods,
    read_prefix,
)
from core.readers.local.press import press_answers
from core.text import one_line
from core.weights import no_progress_bar

YARN_FACTOR = 4.0
GPU_SLICE, CPU_SLICE = 8192, 1024
"""Tokens of one prefill pass: enough to fill the device."""
CPU_BATCH_TOKENS = 16_384
MEMORY_SHARE = 0.8
"""Share of the accelerator's free memory that batches may fill."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer's token ids, or why there is none; costs as in :class:`core.types.Answer`."""

    ids: tuple[int, ...]
    reason: str = ""
    seconds: float = 0.0
    reused: int = 0
    peak_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How prompts are to be read.

    ``new``: most tokens of an answer. ``stop``: ids that end one. ``stretched``: with YaRN.
    ``batch_tokens``: padded tokens of a batch, 0 for what memory allows. ``share``: read a common
    prefix once. ``press``, ``ratio``: key-value compression and the share it drops.
    ``allowed``: of some prompts, by number, the texts of which the answer must be one
    (not with a press).
    """

    new: int
    stop: frozenset[int]
    stretched: bool = False
    batch_tokens: int = 0
    share: bool = True
    press: str = ""
    ratio: float = 0.5
    allowed: Mapping[int, Tree] = field(default_factory=dict[int, Tree])


class PrefixCache:
    """The common prefix of a group of prompts, read once; dropped where memory is short."""

    def __init__(self, cache: FramedCache, tokens: int) -> None:
        self.cache: FramedCache | None = cache
        self.tokens = tokens

    def cached(self) -> tuple[FramedCache, int] | None:
        """The cache and its length, if it is still there."""
        return None if self.cache is None else (self.cache, self.tokens)


class Engine:
    """The model of a folder, on the accelerator where there is one, spread by accelerate."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.lock = RLock()
        self.gpu = torch.cuda.is_available()
        self.dtype = _dtype(dtype, self.gpu)
        self.model = _load(folder, self.dtype, self.gpu)
        self._plain = self.model.model.rotary_emb
        self._stretched: Any = None
        self._limit = 0

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
    ) -> Generator[tuple[int, Reply]]:
        """Each prompt's index and reply, batch by batch, longest prompts first.

        Raises ValueError for constrained answers where a press drops part of the cache.
        """
        if config.press and config.allowed:
            raise ValueError("constrained decoding does not work with a compressed cache")
        if config.press:
            for index, ids in enumerate(prompts):
                yield index, self._read_or_halve([ids], [index], config, None)[0][1]
            return
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

    def _prefix(self, ids: Ids, config: GenerationConfig) -> PrefixCache | None:
        if not len(ids):
            return None
        try:
            with self.positions(config.stretched):
                return PrefixCache(read_prefix(self.model, ids), len(ids))
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
        prefix: PrefixCache | None,
        first: bool = True,
    ) -> list[tuple[int, Reply]]:
        """Replies to a batch; one that does not fit into memory is halved, down to one prompt."""
        try:
            return self._batch(prompts, indices, config, prefix, first)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        if len(prompts) == 1 and prefix is not None and prefix.cache is not None:
            prefix.cache = None
            self._free_memory()
            return self._read_or_halve(prompts, indices, config, prefix, first)
        self._free_memory()
        if len(prompts) == 1:
            return [(indices[0], Reply((), self._too_long(len(prompts[0]))))]
        half = (len(prompts) + 1) // 2
        self._limit = half * (len(prompts[0]) + config.new)
        return [
            *self._read_or_halve(prompts[:half], indices[:half], config, prefix, first),
            *self._read_or_halve(prompts[half:], indices[half:], config, prefix, False),
        ]

    def _batch(
        self,
        prompts: list[Ids],
        indices: list[int],
        config: GenerationConfig,
        prefix: PrefixCache | None,
        first: bool,
    ) -> list[tuple[int, Reply]]:
        cached = prefix.cached() if prefix is not None else None
        with self.positions(config.stretched):
            if self.gpu:
                torch.cuda.reset_peak_memory_stats()
            if config.press:
                generated = press_answers(
                    self.model, prompts, config.new, config.stop, config.press, config.ratio
                )
            else:
                most = GPU_SLICE if self.gpu else CPU_SLICE
                allowed = [config.allowed.get(index) for index in indices]
                generated = answer_batch(
                    self.model, prompts, config.new, config.stop, most, cached, allowed
                )
            peak = torch.cuda.max_memory_allocated() / 1e6 if self.gpu else 0.0
        shared = cached[1] if cached is not None else 0
        return [
            (i, _reply(one, 0 if first and at == 0 else shared, peak))
            for at, (i, one) in enumerate(zip(indices, generated, strict=True))
        ]

    def _batch_tokens(self, config: GenerationConfig, longest: int) -> int:
        """Padded tokens of a batch: the user's number, or what free memory holds."""
        if config.batch_tokens:
            return config.batch_tokens
        if not self.gpu:
            return self._limit or CPU_BATCH_TOKENS
        model, size = self.model.config, self.dtype.itemsize
        cache = 2 * size * model.num_hidden_layers * model.num_key_value_heads * _head(model)
        # While a token is read it also takes hidden states and the gated layer's three.
        activations = size * (3 * model.intermediate_size + 6 * model.hidden_size)
        free = sum(_free(device) for device in range(torch.cuda.device_count()))
        tokens = int((MEMORY_SHARE * free - activations * max(GPU_SLICE, longest)) / cache)
        return min(tokens, self._limit) if self._limit else tokens

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


def _reply(generated: Generated, reused: int, peak_mb: float) -> Reply:
    return Reply(tuple(generated.ids), "", generated.seconds, reused, peak_mb)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on an accelerator or on a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _free(device: int) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + cached


def _head(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


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
        "factor": YARN_FACTOR,
        "original_max_position_embeddings": config.max_position_embeddings,
    }
    longer.max_position_embeddings = int(YARN_FACTOR * config.max_position_embeddings)
    return type(plain)(config=longer).to(plain.inv_freq.device)


_engines: dict[tuple[str, str], Engine] = {}
_loading = RLock()


def shared_engine(folder: Path, dtype: str) -> Engine:
    """The engine of a folder, loaded once a process however many readers use it."""
    with _loading:
        key = (str(folder), dtype)
        if key not in _engines:
            _engines[key] = Engine(folder, dtype)
        return _engines[key]
