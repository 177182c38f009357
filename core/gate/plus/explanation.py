"""Attribution of a sentence's QCCS-plus score to its words.

The nearest word of the sentence gets the part of a question's word, and BM25's features are divided
in proportion to BM25. Rank and cosine by MiniLM are of the whole sentence and make up the base. The
parts and the base add up to the score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.gate.plus.features import (
    GATE_SCALE,
    PlusRecord,
    PlusWeights,
    nearness,
    question_words,
)
from core.text import word_spans
from core.types import Explanation, Term

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
    largest first; ``cosine`` [n] as in :func:`core.gate.plus.features.scores`."""
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
        near, share = nearness(weights, record, asked)
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
