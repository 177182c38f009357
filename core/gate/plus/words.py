"""Words as hashed character n-grams, and a record as its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.bm25 import BM25Index
from core.gate.ngrams import Bags, Hashing, hasher
from core.text import words

HASHING = Hashing("blake2", n=3, buckets=10_000)
"""Of words: the n-grams of ``^word$``, and the word whole."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


def word_bags(vocabulary: Sequence[str], hashing: Hashing) -> Bags:
    """The n-gram ids of each word, each distinct n-gram hashed once."""
    bucket, n = hasher(hashing), hashing.n
    known: dict[str, int] = {}
    ids: list[int] = []
    counts: list[int] = []
    for word in vocabulary:
        marked = f"^{word}$"
        grams = [f"={word}", *(marked[i : i + n] for i in range(len(marked) - n + 1))]
        for gram in grams:
            if gram not in known:
                known[gram] = bucket(gram.encode("utf-8", "surrogatepass"))
            ids.append(known[gram])
        counts.append(len(grams))
    return Bags(np.array(ids, dtype=np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(int))


@dataclass(frozen=True, eq=False, slots=True)
class RecordWords:
    """The words of a record's sentences.

    ``vocabulary`` [v] in order of first appearance; ``tokens`` [t] are rows of it, sentence i
    owning ``tokens[offsets[i]:offsets[i + 1]]``; ``idf`` [v] is never negative; ``bags`` are the
    words' n-grams.
    """

    vocabulary: tuple[str, ...]
    tokens: Ints
    offsets: Ints
    idf: Floats
    bags: Bags
    bm25: BM25Index

    @property
    def sentences(self) -> int:
        """How many sentences there are."""
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False, slots=True)
class QuestionWords:
    """The words of a question [q], their idf in the record [q] (a word it lacks is rarest), and
    BM25 of every
    sentence [n], never negative."""

    words: tuple[str, ...]
    idf: Floats
    bags: Bags
    bm25: NDArray[np.float64]


def _idf(frequency: NDArray[np.float64], sentences: int) -> Floats:
    return np.log1p((sentences - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)


def record_words(texts: Sequence[str], hashing: Hashing = HASHING) -> RecordWords:
    """A record's sentences, by their texts [n], as words."""
    corpus = [words(text) for text in texts]
    index = BM25Index(corpus)
    tokens = np.array([index.terms[w] for line in corpus for w in line], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in corpus])]).astype(np.int64)
    idf = _idf(np.diff(index.starts).astype(float), len(texts))
    vocabulary = tuple(index.terms)
    return RecordWords(vocabulary, tokens, offsets, idf, word_bags(vocabulary, hashing), index)


def question_words(question: str, record: RecordWords, hashing: Hashing = HASHING) -> QuestionWords:
    """A question's words as asked of a record."""
    asked = tuple(words(question))
    terms = record.bm25.terms
    unseen = float(_idf(np.zeros(1), record.sentences)[0])
    idf = np.array(
        [record.idf[terms[w]] if w in terms else unseen for w in asked], dtype=np.float32
    )
    # A word that most sentences hold can count against them in BM25; here it counts for nothing.
    bm25 = np.maximum(record.bm25.scores(asked), 0.0)
    return QuestionWords(asked, idf, word_bags(asked, hashing), bm25)
