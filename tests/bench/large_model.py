"""A reader of Qwen2.5-7B's size on a GPU, with random weights: speed does not hang on them.

``python -m tests.bench qwen_gpu_reading`` (``qwen_gpu_batches``, ``qwen_gpu_long``) on a machine
with a GPU of 40 GB or more; without one each says so in one line. The weights (15 GB) are written
to the folder of temporary files and read from there, as a reader does. Floors are arithmetic at the
card's matrix rate, measured in the same process.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from midchart.core.errors import InputError, WorkFailed
from midchart.core.readers.local_batches import Ids
from tests.bench import BENCHES, compare
from tests.bench.networks import card

SHAPE = {
    "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "max_position_embeddings": 32_768, "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}  # fmt: skip
"""The configuration of Qwen2.5-7B-Instruct."""
_READ, _SHORTEST, _LONGEST = 32, 2000, 6000
_SHARED, _GROUPS, _QUESTIONS, _NEW = 2000, 6, 4, 40
_LONG, _MOST_GB = 131_072, 80


def flop(length: int, shape: dict[str, Any]) -> float:
    """Multiplications and additions of reading a prompt of ``length`` tokens.

    Two for every weight that is no embedding and every token, and, in each layer, those of the
    attention of each token to itself and the tokens before it.
    """
    hidden = shape["hidden_size"]
    head = hidden // shape["num_attention_heads"]
    attention = 2 * hidden * hidden + 2 * hidden * head * shape["num_key_value_heads"]
    weights = attention + 3 * hidden * shape["intermediate_size"]
    pairs = length * (length + 1) / 2
    return shape["num_hidden_layers"] * (2 * weights * length + 4 * hidden * pairs)


def drawn_prompts(lengths: Sequence[int], vocabulary: int, shared: int = 0) -> list[Ids]:
    """Prompts of drawn tokens; the first ``shared`` of them are the same in all."""
    rng = np.random.default_rng(0)
    opening = rng.integers(0, vocabulary, shared)
    parts = [rng.integers(0, vocabulary, length - shared) for length in lengths]
    return [np.concatenate((opening, part)).astype(np.int64) for part in parts]


def engine_of(shape: dict[str, Any]) -> Any:
    """The reader's engine over random weights of that shape; on the GPU where there is one."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from midchart.core.readers.local_engine import Engine

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with tempfile.TemporaryDirectory() as place:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                model = Qwen2ForCausalLM(Qwen2Config(**shape))
        finally:
            torch.set_default_dtype(before)
        model.save_pretrained(place)
        del model
        if device == "cuda":
            torch.cuda.empty_cache()
        return Engine(Path(place), "auto")


@cache
def _engine() -> Any:
    return engine_of(SHAPE)


def _require_gpu(name: str) -> None:
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"bench {name} measures a GPU, and none can be used here; run it on a machine with one "
            "(torch.cuda.is_available() must be true)"
        )


def read_s(engine: Any, prompts: list[Ids], new: int, stretched: bool = False) -> tuple[float, Any]:
    """Seconds of reading prompts and writing ``new`` tokens for each, and the replies in order."""
    from midchart.core.readers.local_engine import GenerationConfig

    begun = time.perf_counter()
    replies = dict(engine.read(prompts, GenerationConfig(new, frozenset(), stretched)))
    seconds = time.perf_counter() - begun
    if failed := [reply.reason for reply in replies.values() if reply.reason]:
        raise WorkFailed(failed[0])
    return seconds, [replies[at] for at in range(len(prompts))]


def one_by_one(model: Any, prompts: list[Ids], new: int) -> list[list[int]]:
    """transformers' greedy generation, one prompt after another."""
    import torch

    written: list[list[int]] = []
    for ids in prompts:
        asked = torch.from_numpy(ids[None]).to(model.device)
        out = model.generate(
            asked, attention_mask=torch.ones_like(asked), max_new_tokens=new, do_sample=False,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        written.append(out[0, len(ids) :].tolist())
    return written


def _share(name: str, size: str, floor: float, taken: float, ask: float) -> dict[str, Any]:
    import torch

    return {
        "name": name,
        "size": f"{size} on {torch.cuda.get_device_name()}; reference: the arithmetic at the "
        "card's matrix rate, ratio: its share",
        "reference_ms": round(1e3 * floor, 1),
        "fast_ms": round(1e3 * taken, 1),
        "ratio": round(floor / taken, 3),
        "ask": ask,
        "reached": floor / taken >= ask,
    }


@BENCHES.register("qwen_gpu_reading")
def reading() -> dict[str, Any]:
    """Prompts of a record's size, of unlike lengths, read to the first token of the answer."""
    _require_gpu("qwen_gpu_reading")
    rng = np.random.default_rng(1)
    lengths = rng.integers(_SHORTEST, _LONGEST, _READ).tolist()
    prompts = drawn_prompts(lengths, SHAPE["vocab_size"])
    engine, (rate, _) = _engine(), card()
    taken = min(read_s(engine, prompts, 1)[0] for _ in range(3))
    floor = sum(flop(length, SHAPE) for length in lengths) / rate
    return _share(
        "qwen_gpu_reading", f"{_READ} prompts, {sum(lengths):,} tokens", floor, taken, 0.5
    )


@BENCHES.register("qwen_gpu_batches")
def batches() -> dict[str, Any]:
    """Answers of forty tokens to seven arms' prompts, batched, and one prompt after another.

    Six arms ask with some four hundred tokens, the seventh with all of a record, which its four
    questions share.
    """
    _require_gpu("qwen_gpu_batches")
    engine, vocabulary = _engine(), SHAPE["vocab_size"]
    short = [400 + 10 * at for at in range(_GROUPS * _QUESTIONS)]
    prompts = drawn_prompts(short, vocabulary)
    prompts += drawn_prompts([_SHARED + 20 + at for at in range(_QUESTIONS)], vocabulary, _SHARED)
    fast = [list(reply.ids) for reply in read_s(engine, prompts, _NEW)[1]]
    slow = one_by_one(engine.model, prompts, _NEW)
    # In bfloat16 another order of sums can change the largest of 152,064 logits of random weights.
    same = sum(a[0] == b[0] for a, b in zip(fast, slow, strict=True))
    if 2 * same < len(prompts):
        raise WorkFailed("the reader's answers are not those of one prompt after another")
    size = f"{len(prompts)} prompts, {sum(map(len, prompts)):,} tokens, {_NEW} new each"
    return compare(
        "qwen_gpu_batches",
        f"{size}; {same} begin alike",
        lambda: one_by_one(engine.model, prompts, _NEW),
        lambda: read_s(engine, prompts, _NEW),
        ask=10,
        rounds=1,
    )


@BENCHES.register("qwen_gpu_long")
def long() -> dict[str, Any]:
    """One prompt of 131,072 tokens with its answer, by YaRN, in less than 80 GB."""
    _require_gpu("qwen_gpu_long")
    engine, (rate, _) = _engine(), card()
    prompts = drawn_prompts([_LONG - 8], SHAPE["vocab_size"])
    taken, [reply] = read_s(engine, prompts, 8, stretched=True)
    gigabytes = reply.peak_mb / 1e3
    size = f"a prompt of {len(prompts[0]):,} tokens, {gigabytes:.1f} GB at most (asked: {_MOST_GB})"
    row = _share("qwen_gpu_long", size, flop(_LONG, SHAPE) / rate, taken, 0)
    return {**row, "reached": gigabytes < _MOST_GB}
