"""LLMLingua-2's model: for each word of a text the probability that it is kept.

Pan et al., LLMLingua-2 (2024): an XLM-RoBERTa reads chunks of 512 tokens and classifies each token
as kept or dropped; a word's probability is the mean of its tokens'. Words are separated by white
space, so that numbers, units and dates stay together (the package ``llmlingua`` divides "8.1" into
two words). Text is chunked at sentence ends where possible; none of it is lost. The plain version
is ``tests/reference/llmlingua2.py``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import config as settings
from core import weights
from core.errors import MissingModel
from core.storage.files import replacing

LOG = logging.getLogger("midchart.compressor")

MODEL = "llmlingua-2-xlm-roberta-large-meetingbank"
LONGEST = 512
"""Tokens of a chunk, special tokens included (the paper's)."""
KEEP = 1
"""Index of the output "keep"."""
DECIMALS = 6
"""Decimals of a probability: further ones differ between batches and machines."""
CPU_BATCH, GPU_BATCH = 2048, 32_768
"""Tokens of a batch."""


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """Of each word, float64 [n]: the probability that it is kept; int64 [n]: its chunk."""

    probability: NDArray[np.float64]
    chunk: NDArray[np.int64]


class Compressor:
    """The model in ``folder``, on a GPU where there is one; loaded when it is first needed.

    Predictions are cached on disk by the hash of weights and text. Raises MissingModel
    where the weights are missing or not those of such a model.
    """

    def __init__(self, name: str = MODEL) -> None:
        located = weights.locate(name)
        self.folder = located.folder
        self.id = f"{name}@{weights.fingerprint(located)[:16]}"
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        if not (self.folder / "tokenizer.json").is_file():
            raise MissingModel(f"{self.folder}: tokenizer.json is missing")
        if len(config.get("id2label", {0: "", 1: ""})) != 2:
            raise MissingModel(f"{self.folder}: id2label needs two classes (keep, drop)")
        positions = int(config["max_position_embeddings"])
        if "roberta" in config["model_type"]:  # its positions begin behind the padding token's
            positions -= int(config["pad_token_id"]) + 1
        self.longest = min(LONGEST, positions)
        self._cache = settings.cache_folder() / "compression" / self.id.replace("@", "-")
        self._lock = Lock()
        self._loaded: tuple[Any, Any, str] | None = None

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> Kept:
        """Probability and chunk of every word of ``sentences`` (lists of words without blanks)."""
        path = self._cache / f"{self._digest(sentences)}.npy"
        n = sum(map(len, sentences))
        probabilities = _read(path, n)
        if probabilities is None:
            probabilities = self._predict(sentences)
            with replacing(path) as fresh, fresh.open("wb") as file:
                np.save(
                    file,
                    np.stack([probabilities.probability, probabilities.chunk.astype(np.float64)]),
                )
        return probabilities

    def _digest(self, sentences: Sequence[Sequence[str]]) -> str:
        spelled = json.dumps([str(self.longest), sentences]).encode()
        return blake2b(spelled, digest_size=16).hexdigest()

    def _predict(self, sentences: Sequence[Sequence[str]]) -> Kept:
        n = sum(map(len, sentences))
        if not n:
            return Kept(np.zeros(0), np.zeros(0, dtype=np.int64))
        tokenizer, _, _ = self._model()
        first, last = tokenizer.encode("", add_special_tokens=True).ids
        # A lone surrogate cannot be encoded; it is replaced by a question mark.
        clean = [[w.encode("utf-8", "replace").decode() for w in words] for words in sentences]
        encoded = tokenizer.encode_batch(clean, is_pretokenized=True, add_special_tokens=False)
        begins = np.cumsum([0, *map(len, sentences)])
        ids = np.concatenate([np.array(e.ids, dtype=np.int64) for e in encoded])
        word = np.concatenate(
            [begins[i] + np.array(e.word_ids, dtype=np.int64) for i, e in enumerate(encoded)]
        )
        sentence = np.repeat(np.arange(len(encoded)), [len(e.ids) for e in encoded])
        if not len(ids):
            return Kept(np.zeros(n), np.zeros(n, dtype=np.int64))
        edges = chunk_edges(sentence, word, self.longest - 2)
        chunks = [np.concatenate([[first], ids[a:b], [last]]) for a, b in pairwise(edges)]
        probability = np.concatenate(self._probabilities(chunks))
        counts = np.bincount(word, minlength=n)
        sums = np.bincount(word, weights=probability, minlength=n)
        # A word without a token is dropped first.
        mean = np.round(sums / np.maximum(counts, 1), DECIMALS)
        chunk = np.zeros(n, dtype=np.int64)
        chunk[word[::-1]] = np.repeat(np.arange(len(chunks)), np.diff(edges))[::-1]
        return Kept(mean, np.maximum.accumulate(chunk))

    def _probabilities(self, chunks: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
        """Probability of each token of each chunk, without its two special tokens."""
        import torch

        _, model, device = self._model()
        room = GPU_BATCH if device == "cuda" else CPU_BATCH
        order = sorted(range(len(chunks)), key=lambda i: len(chunks[i]))
        out: list[NDArray[np.float64]] = [np.zeros(0)] * len(chunks)
        with torch.inference_mode():
            while order:
                size = max(1, room // len(chunks[order[-1]]))
                batch, order = order[-size:], order[:-size]
                longest = max(len(chunks[i]) for i in batch)
                ids = np.full((len(batch), longest), model.config.pad_token_id, dtype=np.int64)
                mask = np.zeros((len(batch), longest), dtype=np.int64)
                for row, i in enumerate(batch):
                    ids[row, : len(chunks[i])] = chunks[i]
                    mask[row, : len(chunks[i])] = 1
                logits = model(
                    input_ids=torch.from_numpy(ids).to(device),
                    attention_mask=torch.from_numpy(mask).to(device),
                ).logits
                shares = torch.softmax(logits.float(), dim=-1)[..., KEEP].cpu().numpy()
                for row, i in enumerate(batch):
                    out[i] = shares[row, 1 : len(chunks[i]) - 1].astype(np.float64)
        return out

    def _model(self) -> tuple[Any, Any, str]:
        """Tokenizer, model and device."""
        with self._lock:
            if self._loaded is None:
                import torch
                from tokenizers import Tokenizer
                from transformers import AutoModelForTokenClassification

                with weights.no_progress_bar():
                    model: Any = AutoModelForTokenClassification.from_pretrained(
                        str(self.folder), local_files_only=True, dtype=torch.float32
                    )
                tokenizer: Any = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
                tokenizer.no_padding()
                tokenizer.no_truncation()
                device = "cuda" if torch.cuda.is_available() else "cpu"
                self._loaded = (tokenizer, model.eval().to(device), device)
            return self._loaded


def chunk_edges(
    sentence: NDArray[np.int64], word: NDArray[np.int64], room: int
) -> NDArray[np.int64]:
    """Starts of chunks of at most ``room`` tokens, and the end of the last.

    ``sentence`` and ``word`` [n] number each token's own. A chunk ends with the last sentence that
    fits, else with the last word, else where it is full.
    """
    n = len(word)
    ends = [
        np.concatenate([np.flatnonzero(np.diff(kind)) + 1, [n]]) if n else np.zeros(0, np.int64)
        for kind in (sentence, word)
    ]
    edges = [0]
    while edges[-1] < n:
        begin = edges[-1]
        end = min(begin + room, n)
        for places in ends:
            last = places[np.searchsorted(places, end, side="right") - 1] if end >= places[0] else 0
            if last > begin:
                end = int(last)
                break
        edges.append(end)
    return np.array(edges, dtype=np.int64)


def _read(path: Path, n: int) -> Kept | None:
    """Cached scores of ``n`` words; None where there are none, or the file is corrupt."""
    if not path.is_file():
        return None
    try:
        saved = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError):
        saved = np.zeros(0)
    if saved.shape != (2, n):
        LOG.warning("%s is corrupt; the text is scored again", path)
        return None
    return Kept(saved[0], saved[1].astype(np.int64))


_shared: dict[tuple[Path, Path], Compressor] = {}
_shared_lock = Lock()


def shared() -> Compressor:
    """The compressor of this process for these weights and this cache folder."""
    key = (weights.locate(MODEL).folder, settings.cache_folder())
    with _shared_lock:
        if key not in _shared:
            _shared[key] = Compressor()
        return _shared[key]
