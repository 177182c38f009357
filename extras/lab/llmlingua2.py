"""LLMLingua-2: the record compressed to about 2,000 words, whatever the question.

docs/methods.md, Arms. Every word of the record has a probability of being kept
(:class:`Compressor`); the highest are kept, each sentence's under its own date, which is always
kept. Under the published protocol only the record's first 80,000 characters are read, and each
chunk of 512 tokens keeps the same share of its words, as the authors' package does. There is no
recency buffer: the compressor alone decides.

Pan et al., LLMLingua-2 (2024): an XLM-RoBERTa reads chunks of 512 tokens and classifies each token
as kept or dropped; a word's probability is the mean of its tokens'. Words are separated by white
space, so that numbers, units and dates stay together (the package ``llmlingua`` divides "8.1" into
two words). Text is chunked at sentence ends where possible; none of it is lost. The plain version
is ``tests/reference/llmlingua2.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core import weights
from midchart.core.arms.base import Candidates, candidates
from midchart.core.errors import InputError, MissingModel
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text import count_tokens
from midchart.core.text.prompt import line_date
from midchart.core.types import (
    Budget,
    ContextLine,
    Instruction,
    Kept,
    Record,
    Selection,
    Sentence,
    Span,
)

MODEL = "llmlingua-2-xlm-roberta-large-meetingbank"
_LONGEST = 512
"""Tokens of a chunk, special tokens included (the paper's)."""
_KEEP = 1
"""Index of the output "keep"."""
_DECIMALS = 6
"""Decimals of a probability: further ones differ between batches and machines."""
_CPU_BATCH, _GPU_BATCH = 2048, 32_768
"""Tokens of a batch."""


class Compressor:
    """The model in ``folder``, on a GPU where there is one; loaded when it is first needed.

    Raises MissingModel where the weights are missing or not those of such a model.
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
        self.longest = min(_LONGEST, positions)
        self._lock = Lock()
        self._loaded: tuple[Any, Any, str] | None = None

    def probabilities(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Of every word of ``sentences`` (lists of words without blanks), [n] each: the
        probability that it is kept, and its chunk."""
        n = sum(map(len, sentences))
        if not n:
            return np.zeros(0), np.zeros(0, dtype=np.int64)
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
            return np.zeros(n), np.zeros(n, dtype=np.int64)
        edges = chunk_edges(sentence, word, self.longest - 2)
        chunks = [np.concatenate([[first], ids[a:b], [last]]) for a, b in pairwise(edges)]
        probability = np.concatenate(self._probabilities(chunks))
        counts = np.bincount(word, minlength=n)
        sums = np.bincount(word, weights=probability, minlength=n)
        # A word without a token is dropped first.
        mean = np.round(sums / np.maximum(counts, 1), _DECIMALS)
        chunk = np.zeros(n, dtype=np.int64)
        chunk[word[::-1]] = np.repeat(np.arange(len(chunks)), np.diff(edges))[::-1]
        return mean, np.maximum.accumulate(chunk)

    def _probabilities(self, chunks: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
        """Probability of each token of each chunk, without its two special tokens."""
        import torch

        _, model, device = self._model()
        room = _GPU_BATCH if device == "cuda" else _CPU_BATCH
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
                shares = torch.softmax(logits.float(), dim=-1)[..., _KEEP].cpu().numpy()
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


@cache
def _shared(folder: str) -> Compressor:
    """The compressor of this process for the weights in a folder."""
    return Compressor()


WORDS = 2000
"""Words of the compressed record (docs/methods.md, Arms)."""
_WORD = re.compile(r"\S+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, eq=False, slots=True)
class Words:
    """The words of a record that are compressed.

    ``text`` [n], ``places`` [n] (start and end in its sentence's text), ``sentence`` [n] (the
    position of its sentence), ``probability`` and ``chunk`` [n]
    as :meth:`Compressor.probabilities`.
    """

    text: list[str]
    places: list[tuple[int, int]]
    sentence: NDArray[np.int64]
    probability: NDArray[np.float64]
    chunk: NDArray[np.int64]


_words: LRU[Words] = LRU(8)


class LLMLingua2:
    """The words of highest probability, in the record's order.

    ``words`` is how many are left; ``keep_digits`` keeps words that hold a digit before all
    others (the package's ``force_reserve_digit``). ``k`` and ``recency`` are ignored. Raises
    MissingModel where the weights are not here, InputError for a number of words below 1.
    """

    name: str = "llmlingua2"
    title: str = "LLMLingua-2 (compressed)"
    needs: ClassVar[str] = MODEL
    by_relevance: ClassVar[bool] = False

    def __init__(
        self,
        protocol: Protocol,
        words: int = WORDS,
        keep_digits: bool = False,
        compressor: Compressor | None = None,
    ) -> None:
        if type(words) is not int or words < 1:
            raise InputError(
                f"'words' of the arm 'llmlingua2' is {words!r}; it takes a whole number from 1"
            )
        if type(keep_digits) is not bool:
            raise InputError(
                f"'keep_digits' of the arm 'llmlingua2' is {keep_digits!r}; it takes true or false"
            )
        self.protocol, self.words, self.keep_digits = protocol, words, keep_digits
        self.compressor = compressor or _shared(str(weights.locate(MODEL).folder))

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """The record's words down to ``words``, and to ``budget.tokens`` without their dates.

        A sentence of which nothing is left is not kept; its score is the mean probability of its
        words.
        """
        pool = candidates(record, instruction.cutoff, self.protocol)
        key = (self.compressor.id, str(self.protocol.llmlingua_characters), *pool.key)
        words = _words.get(key, lambda: self._read(pool))
        wanted = self._wanted(words)
        kept_words = self._within(words, wanted, budget.tokens)
        lines: list[ContextLine] = []
        sentences: list[Kept] = []
        words_by_sentence = np.split(
            np.arange(len(words.text)), np.flatnonzero(np.diff(words.sentence)) + 1
        )
        for indices in words_by_sentence if len(words.text) else []:
            left = [int(i) for i in indices if kept_words[i]]
            if left:
                sentence = pool.sentences[int(words.sentence[indices[0]])]
                score = round(float(words.probability[indices].mean()), 6)
                sentences.append(Kept(sentence, score, "arm"))
                date = line_date(sentence.time, self.protocol)
                lines.append(_line(date, sentence, words, left))
        lost = set(words.sentence[wanted].tolist()) - set(words.sentence[kept_words].tolist())
        trace = [
            ("candidates", str(len(pool.sentences))),
            *([("after the cutoff", str(pool.withheld))] if pool.withheld else []),
            ("model", self.compressor.id),
            ("words read", str(len(words.text))),
            ("words kept", str(int(kept_words.sum()))),
            ("chunks read", str(int(words.chunk[-1]) + 1 if len(words.chunk) else 0)),
        ]
        return Selection(
            record.id,
            instruction.id,
            self.name,
            tuple(sentences),
            sum(count_tokens(words.text[i]) for i in np.flatnonzero(kept_words)),
            len(lost),
            tuple(trace),
            tuple(lines),
        )

    def _read(self, pool: Candidates) -> Words:
        """The words that are compressed, with their probabilities.

        Under ``llmlingua_characters`` they are those whose last character is among the first so
        many of the record's text, dates and line ends counted.
        """
        limit = self.protocol.llmlingua_characters or float("inf")
        begun = 0
        text: list[str] = []
        places: list[tuple[int, int]] = []
        owner: list[int] = []
        by_sentence: list[list[str]] = []
        for position, sentence in enumerate(pool.sentences):
            at = begun + len(f"[{line_date(sentence.time, self.protocol)}]")
            sentence_words: list[str] = []
            for match in _WORD.finditer(sentence.text):
                at += 1 + len(match.group())
                if at > limit:
                    break
                sentence_words.append(match.group())
                places.append(match.span())
                owner.append(position)
            text += sentence_words
            if sentence_words:
                by_sentence.append(sentence_words)
            begun = at + 1
            if begun > limit:
                break
        sentences = np.array(owner, dtype=np.int64)
        return Words(text, places, sentences, *self.compressor.probabilities(by_sentence))

    def _wanted(self, words: Words) -> NDArray[np.bool_]:
        """The words to keep, bool [n]; ties go to the earlier."""
        n = len(words.text)
        wanted = np.zeros(n, dtype=np.bool_)
        rank = self._ranked(words, np.arange(n))
        if self.protocol.llmlingua_threshold == "record" or n <= self.words:
            wanted[rank[: self.words]] = True
            return wanted
        share = self.words / n
        for chunk in np.unique(words.chunk):
            inside = rank[words.chunk[rank] == chunk]
            wanted[inside[: int(share * len(inside) + 0.5)]] = True
        return wanted

    def _ranked(self, words: Words, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """``indices``, best first."""
        score = words.probability[indices]
        if self.keep_digits:
            score = score + [bool(_DIGIT.search(words.text[i])) for i in indices]
        return indices[np.argsort(-score, kind="stable")]

    def _within(
        self, words: Words, wanted: NDArray[np.bool_], tokens: int | None
    ) -> NDArray[np.bool_]:
        """The wanted words that fit a budget, best first; shorter ones may fit later."""
        if tokens is None:
            return wanted
        mask = np.zeros_like(wanted)
        for i in self._ranked(words, np.flatnonzero(wanted)):
            size = count_tokens(words.text[i])
            if size <= tokens:
                mask[i] = True
                tokens -= size
        return mask


def _line(date: str, sentence: Sentence, words: Words, left: Sequence[int]) -> ContextLine:
    """The remaining words of a sentence, after its date; adjacent ones are one span."""
    begin, spans = sentence.span.start, list[Span]()
    previous = -2
    for i in left:
        start, end = words.places[i]
        if i == previous + 1:
            start = spans.pop().start - begin
        spans.append(Span(sentence.span.event, begin + start, begin + end))
        previous = i
    text = " ".join(words.text[i] for i in left)
    return ContextLine(sentence.id, f"[{date}] {text}", tuple(spans))
