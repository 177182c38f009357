"""Text as bags of hashed character n-grams, the same in every process.

An n-gram of the lower-cased text has an id from 1 to ``buckets - 1`` by a named hash; 0 is padding
(docs/methods.md, The QCCS gate). Of many texts each distinct n-gram is hashed once.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_HashName = Literal["blake2", "crc32", "salted"]
_Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hashing:
    """How text becomes ids.

    ``n`` is the length of an n-gram, ``buckets`` the number of ids with 0. ``characters`` and
    ``ngrams`` limit how much of a text is read (0: all of it; published: 500 and 128). ``salt`` is
    for the hash "salted": the published gate used Python's ``hash()``, whose salt differs from
    process to process, and an explicit salt makes that error repeatable.
    """

    name: _HashName = "blake2"
    n: int = 3
    buckets: int = 5000
    salt: int = 0
    characters: int = 0
    ngrams: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Bags:
    """n-gram ids of m texts, concatenated: text i has ``ids[offsets[i]:offsets[i + 1]]``;
    ``offsets`` has m + 1 entries."""

    ids: _Ids
    offsets: _Ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def shares(self) -> NDArray[np.float64]:
        """Weight of each n-gram in the mean of its text: one over their number."""
        counts = np.diff(self.offsets)
        return np.repeat(1.0 / np.maximum(counts, 1), counts)

    def take(self, rows: _Ids) -> Bags:
        """The bags of ``rows``, in that order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Bags(self.ids[np.repeat(self.offsets[rows], lengths) + within], offsets)


def lowered(text: str) -> str:
    """Lower case, character by character, so that an n-gram keeps its place in the text."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def _blake(hashing: Hashing) -> blake2b:
    key = f"salt {hashing.salt}".encode() if hashing.name == "salted" else b""
    return blake2b(digest_size=8, key=key)


@lru_cache(maxsize=32)
def hasher(hashing: Hashing) -> Callable[[bytes], int]:
    span = hashing.buckets - 1
    if hashing.name == "crc32":
        return lambda gram: 1 + zlib.crc32(gram) % span
    initial = _blake(hashing)

    def blake(gram: bytes) -> int:
        state = initial.copy()
        state.update(gram)
        return 1 + int.from_bytes(state.digest(), "little") % span

    return blake


def _hashed(hashing: Hashing, grams: Sequence[bytes]) -> _Ids:
    """:func:`hasher` of many n-grams."""
    if hashing.name == "crc32":
        numbers = np.array([zlib.crc32(gram) for gram in grams], dtype=np.uint64)
    else:
        initial, digests = _blake(hashing), list[bytes]()
        for gram in grams:
            state = initial.copy()  # cheaper than a new hash
            state.update(gram)
            digests.append(state.digest())
        numbers = np.frombuffer(b"".join(digests), dtype="<u8")
    return 1 + (numbers % np.uint64(hashing.buckets - 1)).astype(np.int64)


def gram_ids(hashing: Hashing, text: str) -> list[int]:
    """Ids of one text's n-grams, in reading order; a text shorter than ``n`` has none."""
    if hashing.characters:
        text = text[: hashing.characters]
    text, n, bucket = lowered(text), hashing.n, hasher(hashing)
    grams = [text[i : i + n] for i in range(len(text) - n + 1)]
    if hashing.ngrams:
        grams = grams[: hashing.ngrams]
    return [bucket(gram.encode("utf-8", "surrogatepass")) for gram in grams]


def bags(hashing: Hashing, texts: Sequence[str]) -> Bags:
    """The n-gram bags of many texts: :func:`gram_ids` of each, each distinct n-gram hashed once."""
    n = hashing.n
    read = [lowered(t[: hashing.characters] if hashing.characters else t) for t in texts]
    counts = np.array([max(len(t) - n + 1, 0) for t in read], dtype=np.int64)
    if hashing.ngrams:
        counts = np.minimum(counts, hashing.ngrams)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    # Texts are in one array of code points with n - 1 blanks between them; the n-grams that
    # would span two texts are never gathered.
    joined = "".join(t + " " * (n - 1) for t in read)
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    begins = np.concatenate([[0], np.cumsum([len(t) + n - 1 for t in read])])[:-1]
    starts = np.repeat(begins - offsets[:-1], counts) + np.arange(offsets[-1])
    if not len(starts):
        return Bags(np.zeros(0, dtype=np.int64), offsets)
    # Each character becomes its rank among those that occur, so an n-gram is one small number.
    alphabet, _, ranks = _distinct(points, sys.maxunicode + 1)
    size = len(alphabet)
    if size**n >= 2**63:
        flat = [i for t in texts for i in gram_ids(hashing, t)]
        return Bags(np.array(flat, dtype=np.int64), offsets)
    keys = np.zeros(len(points) - n + 1, dtype=np.int64)
    for i in range(n):
        keys *= size
        keys += ranks[i : len(points) - n + 1 + i]
    _, seen, inverse = _distinct(keys[starts], size**n)
    grams = [joined[at : at + n].encode("utf-8", "surrogatepass") for at in starts[seen].tolist()]
    return Bags(_hashed(hashing, grams)[inverse], offsets)


_DENSE_KEYS, _DENSE_TIMES = 1 << 24, 64
"""Up to this many possible keys, and this multiple of the keys present, a table finds the distinct
ones; beyond it they are sorted."""


def _distinct(keys: NDArray[Any], possible: int) -> tuple[NDArray[Any], _Ids, _Ids]:
    """Distinct keys, sorted, an index of each, and the inverse, as by ``np.unique``, but without
    sorting where the keys are numbers below ``possible``."""
    if possible > min(_DENSE_KEYS, _DENSE_TIMES * len(keys)):
        return np.unique(keys, return_index=True, return_inverse=True)
    present = np.zeros(possible, dtype=bool)
    present[keys] = True
    distinct = np.flatnonzero(present)
    number = np.empty(possible, dtype=np.int64)
    number[distinct] = np.arange(len(distinct))
    inverse = number[keys]
    places = np.empty(len(distinct), dtype=np.int64)
    places[inverse] = np.arange(len(keys))
    return distinct, places, inverse
