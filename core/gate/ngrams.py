"""Text as bags of hashed character n-grams, the same in every process.

An n-gram of the lower-cased text has an id from 1 to ``buckets - 1`` by a named hash; 0 is padding
(docs/methods.md, The QCCS gate). Of many texts each distinct n-gram is hashed once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

import numpy as np

_HashName = Literal["blake2", "crc32", "salted"]


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


def lowered(text: str) -> str:
    """Lower case, character by character, so that an n-gram keeps its place in the text."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


@lru_cache(maxsize=32)
def hasher(hashing: Hashing) -> Callable[[bytes], int]:
    """The function from an n-gram to its id."""
    span = hashing.buckets - 1
    if hashing.name == "crc32":
        return lambda gram: 1 + zlib.crc32(gram) % span
    key = f"salt {hashing.salt}".encode() if hashing.name == "salted" else b""

    def blake(gram: bytes) -> int:
        digest = blake2b(gram, digest_size=8, key=key).digest()
        return 1 + int.from_bytes(digest, "little") % span

    return blake


def gram_ids(hashing: Hashing, text: str, known: dict[str, int] | None = None) -> list[int]:
    """Ids of one text's n-grams, in reading order; a text shorter than ``n`` has none.

    ``known``: ids of n-grams hashed before, which is added to.
    """
    known = {} if known is None else known
    if hashing.characters:
        text = text[: hashing.characters]
    text, n, bucket = lowered(text), hashing.n, hasher(hashing)
    grams = [text[i : i + n] for i in range(len(text) - n + 1)]
    if hashing.ngrams:
        grams = grams[: hashing.ngrams]
    for gram in grams:
        if gram not in known:
            known[gram] = bucket(gram.encode("utf-8", "surrogatepass"))
    return [known[gram] for gram in grams]


def bags(hashing: Hashing, texts: Sequence[str]) -> Any:
    """The n-grams of texts as a sparse float64 matrix [texts, buckets], each distinct n-gram hashed
    once.

    A row has an entry for each n-gram in reading order, repeated ones too: one over their number,
    so that the product with a table is the mean of its rows.
    """
    from scipy.sparse import csr_matrix

    known: dict[str, int] = {}
    each = [gram_ids(hashing, text, known) for text in texts]
    counts = np.array([len(ids) for ids in each], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    shares = np.repeat(1.0 / np.maximum(counts, 1), counts)
    ids = np.fromiter(chain.from_iterable(each), np.int64, int(starts[-1]))
    return csr_matrix((shares, ids, starts), (len(each), hashing.buckets))
