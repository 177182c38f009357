"""QCCS plus: a gate that joins BM25, MiniLM and learned similarity of words.

It starts as the reciprocal rank fusion of BM25 and MiniLM, learns a vector for
every word from its character n-grams, and scores for each word of the question how near the nearest
word of a sentence is (late interaction: Khattab and Zaharia 2020, ColBERT, section 3.3). It is
trained to rank a question's true evidence above everything else in the record. The score is a sum
of six features with learned weights.

Words have unit vectors v (mean of their n-grams' embeddings) and weights w (softplus of idf and a
learned part), normalised over the question to shares a. Features of a sentence s:

====================  ============================================================
bm25_share, bm25_log  BM25 over its largest value in the record; log(1 + BM25)
rank_bm25             61 / (60 + rank) by BM25; 0 for a sentence without a question word
rank_minilm           61 / (60 + rank) by MiniLM's cosine with the question
cosine                that cosine
nearest_4             Σ_q a_q · max_{u in s} max(0, v_q · v_u)⁴: near words count most
====================  ============================================================

No feature describes where in a record, or in what kind of entry, a sentence is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.bm25 import BM25Index
from midchart.core.gate.checkpoint import load_arrays, save_arrays
from midchart.core.gate.ngrams import Bags, Hashing, hasher
from midchart.core.gate.scoring import DECIMALS, pooled
from midchart.core.stats.ranking import OFFSET, reciprocal_ranks
from midchart.core.text import word_spans, words
from midchart.core.types import Explanation, Term

HASHING = Hashing("blake2", n=3, buckets=10_000)
"""Hashing of the n-grams of ``^word$`` and of the word itself."""

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float32]


def _word_bags(vocabulary: Sequence[str]) -> Bags:
    """The n-gram ids of each word, each distinct n-gram hashed once."""
    bucket, n = hasher(HASHING), HASHING.n
    known: dict[str, int] = {}
    each: list[list[int]] = []
    for word in vocabulary:
        marked = f"^{word}$"
        grams = [f"={word}", *(marked[i : i + n] for i in range(len(marked) - n + 1))]
        for gram in grams:
            if gram not in known:
                known[gram] = bucket(gram.encode("utf-8", "surrogatepass"))
        each.append([known[gram] for gram in grams])
    return Bags.of(each)


@dataclass(frozen=True, eq=False, slots=True)
class RecordWords:
    """The words of a record's sentences.

    ``vocabulary`` [v] in order of first appearance; ``tokens`` [t] are rows of it, sentence i
    owning ``tokens[offsets[i]:offsets[i + 1]]``; ``idf`` [v] is never negative; ``bags`` are the
    words' n-grams.
    """

    vocabulary: tuple[str, ...]
    tokens: _Ints
    offsets: _Ints
    idf: _Floats
    bags: Bags
    bm25: BM25Index

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False, slots=True)
class QuestionWords:
    """The words of a question [q], their idf in the record [q] (a word it lacks is rarest), BM25 of
    every sentence [n], never negative, and the features that nothing learned changes, all but the
    last, [n, features - 1]."""

    words: tuple[str, ...]
    idf: _Floats
    bags: Bags
    bm25: NDArray[np.float64]
    fixed: _Floats


def _idf(frequency: NDArray[np.float64], sentences: int) -> _Floats:
    return np.log1p((sentences - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)


def record_words(texts: Sequence[str]) -> RecordWords:
    """A record's sentences, by their texts [n], as words."""
    corpus = [words(text) for text in texts]
    index = BM25Index(corpus)
    tokens = np.array([index.terms[w] for line in corpus for w in line], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in corpus])]).astype(np.int64)
    idf = _idf(np.diff(index.starts).astype(float), len(texts))
    vocabulary = tuple(index.terms)
    return RecordWords(vocabulary, tokens, offsets, idf, _word_bags(vocabulary), index)


def question_words(
    question: str, record: RecordWords, cosine: NDArray[np.float64]
) -> QuestionWords:
    """A question's words as asked of a record; ``cosine`` [n]: of its sentences, by MiniLM."""
    asked = tuple(words(question))
    terms = record.bm25.terms
    unseen = float(_idf(np.zeros(1), record.sentences)[0])
    idf = np.array(
        [record.idf[terms[w]] if w in terms else unseen for w in asked], dtype=np.float32
    )
    # Words of most sentences can have negative BM25; here they count as 0.
    bm25 = np.maximum(record.bm25.scores(asked), 0.0)
    columns = [
        bm25 / max(float(bm25.max(initial=0.0)), 1e-6),
        np.log1p(bm25),
        *((1 + OFFSET) * column for column in reciprocal_ranks(bm25, cosine)),
        cosine,
    ]
    fixed = np.stack(columns, axis=1).astype(np.float32)
    return QuestionWords(asked, idf, _word_bags(asked), bm25, fixed)


FEATURES = ("bm25_share", "bm25_log", "rank_bm25", "rank_minilm", "cosine", "nearest_4")
POWER = 4
"""Power of the similarity of two words: a moderate similarity counts for little."""
GATE_SCALE = 4.0
"""Scale of the score, so that the head's weights are of the size that AdamW moves them by."""
START = (0.0, 0.0, 1.0, 1.0, 0.0, 1.0)
"""The head before training: the fused reciprocal ranks, times 61, and the nearest words."""


@dataclass(frozen=True, eq=False, slots=True)
class PlusWeights:
    """Learned weights: ``embedding`` [buckets, dim], ``weight`` [buckets], ``idf`` [2],
    ``head`` [features]; all float32."""

    embedding: _Floats
    weight: _Floats
    idf: _Floats
    head: _Floats


@dataclass(frozen=True, eq=False, slots=True)
class PlusRecord:
    """A prepared record and the unit ``vectors`` [v, dim] of its words."""

    words: RecordWords
    vectors: _Floats


def _word_vectors(weights: PlusWeights, bags: Bags) -> _Floats:
    """Unit vectors of words, [m, dim]."""
    rows = pooled(bags, weights.embedding)
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def _word_weights(weights: PlusWeights, bags: Bags, idf: _Floats) -> _Floats:
    """Weights of words, [m], above zero."""
    learned = pooled(bags, weights.weight[:, None])[:, 0]
    return np.logaddexp(0.0, weights.idf[0] * idf + weights.idf[1] + learned).astype(np.float32)


def ready(weights: PlusWeights, texts: Sequence[str]) -> PlusRecord:
    """Prepare a record from the texts [n] of its sentences, whatever the question."""
    record = record_words(texts)
    return PlusRecord(record, _word_vectors(weights, record.bags))


def _nearness(
    weights: PlusWeights, record: PlusRecord, question: QuestionWords
) -> tuple[_Floats, _Floats]:
    """Similarity of each word of the record and the question to the power 4 [v, q], and the
    shares of the question's words [q]."""
    asked = _word_vectors(weights, question.bags)
    share = _word_weights(weights, question.bags, question.idf)
    near = np.maximum(record.vectors @ asked.T, 0.0)
    return near**POWER, share / share.sum()


def features(weights: PlusWeights, record: PlusRecord, question: QuestionWords) -> _Floats:
    """The features of each sentence, [n, features]."""
    near, share = _nearness(weights, record, question)
    tokens, offsets = record.words.tokens, record.words.offsets
    nearest = np.zeros((record.words.sentences, len(share)), dtype=np.float32)
    with_words = np.flatnonzero(np.diff(offsets))
    if len(with_words):
        nearest[with_words] = np.maximum.reduceat(near[tokens], offsets[with_words], axis=0)
    return np.column_stack([question.fixed, nearest @ share])


def scores(
    weights: PlusWeights, record: PlusRecord, question: str, cosine: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Score of each sentence, float64 [n], rounded to six decimals; all 0 for a question without
    words. ``cosine`` [n]: of each sentence with the question, by MiniLM."""
    asked = question_words(question, record.words, cosine)
    if not asked.words or not record.words.vocabulary:
        return np.zeros(record.words.sentences)
    logits = features(weights, record, asked).astype(np.float64) @ weights.head.astype(np.float64)
    return np.round(GATE_SCALE * logits, DECIMALS)


STEM, FORMAT = "plus", "midchart-plus-2"
"""The format changes with :data:`HASHING` and :data:`FEATURES`."""


@dataclass(frozen=True, eq=False)
class Plus:
    """A trained QCCS plus. ``patients`` are the records it was trained on; ``facts`` say how, in
    plain JSON values."""

    weights: PlusWeights
    patients: frozenset[str]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    digest: str = ""


def save_plus(folder: Path, plus: Plus) -> None:
    """Write it; each file is written atomically."""
    arrays = {name: getattr(plus.weights, name) for name in PlusWeights.__slots__}
    card = {
        "hash": dataclasses.asdict(HASHING),
        "features": list(FEATURES),
        "patients": sorted(plus.patients),
        **plus.facts,
    }
    save_arrays(folder, STEM, FORMAT, arrays, card)


def load_plus(folder: Path) -> Plus:
    """What :func:`save_plus` wrote; raises DataError where it is missing, broken, or of another
    format."""
    arrays, card, digest = load_arrays(folder, STEM, FORMAT)
    facts = {k: v for k, v in card.items() if k not in ("hash", "features", "patients")}
    return Plus(PlusWeights(**arrays), frozenset(card["patients"]), facts, digest)


NOTE = (
    "Each word's part of the score: its BM25 part, and how near it is to words of the question by "
    "learned vectors. The parts and the base (rank and cosine of the sentence by MiniLM) add up to "
    "the score."
)


def explain(
    weights: PlusWeights,
    record: PlusRecord,
    question: str,
    cosine: NDArray[np.float64],
    place: int,
    text: str,
) -> Explanation:
    """The part of each distinct word of sentence number ``place``, whose text is ``text``,
    largest first; ``cosine`` [n] as in :func:`scores`.

    The nearest word of the sentence gets the part of a question's word, and BM25's features are
    divided in proportion to BM25. Rank and cosine by MiniLM are of the whole sentence and make up
    the base. The parts and the base add up to the score.
    """
    asked = question_words(question, record.words, cosine)
    if not asked.words or not record.words.vocabulary:
        return Explanation((), 0.0, NOTE)
    head = GATE_SCALE * weights.head.astype(np.float64)
    terms = head[:-1] * asked.fixed[place]
    lexical, semantic = float(terms[:3].sum()), float(terms[3:].sum())
    sums: dict[str, float] = {}
    vocabulary, index = record.words.vocabulary, record.words.bm25
    tokens = record.words.tokens[record.words.offsets[place] : record.words.offsets[place + 1]]
    if len(tokens):
        near, share = _nearness(weights, record, asked)
        sums = {vocabulary[token]: 0.0 for token in tokens}
        nearest = near[tokens].argmax(axis=0)
        for token, q in zip(tokens[nearest], range(len(share)), strict=True):
            sums[vocabulary[token]] += head[-1] * float(share[q] * near[token, q])
    if asked.bm25[place] > 0:
        for word, part in index.explain(asked.words, place):
            sums[word] += lexical * part / float(asked.bm25[place])
    spans: dict[str, list[tuple[int, int]]] = {}
    for word, start, end in word_spans(text):
        spans.setdefault(word, []).append((start, end))
    parts = [Term(word, part, tuple(spans.get(word, ()))) for word, part in sums.items()]
    return Explanation(tuple(sorted(parts, key=lambda t: -abs(t.part))), semantic, NOTE)
