"""BM25 scores of all sentences of a record for one question, from an index that is kept.

With its idf the scores are those of ``rank_bm25.BM25Okapi`` bit for bit (k1 = 1.5, b = 0.75,
epsilon = 0.25): the same operations in the same order, done once per posting instead of once per
question. The plain version is ``tests/reference/bm25.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from midchart.core.text.analysis import Alternative, Analyzer, QuestionPart, analyzer, language_of

K1, B, EPSILON = 1.5, 0.75, 0.25
Idf = Literal["non_negative", "rank_bm25"]


def _rank_bm25_idf(corpus: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The package's own idf of each term, in first-seen order [terms]; of none without a word."""
    if not any(corpus):
        return np.zeros(0)
    idf: dict[str, float] = BM25Okapi(corpus, k1=K1, b=B, epsilon=EPSILON).idf
    return np.array(list(idf.values()))


class BM25Index:
    """Postings of a corpus, each already weighted by its term's idf.

    ``corpus`` holds the words of each document. ``terms`` maps a word to its row; the documents
    of row t are ``documents[starts[t]:starts[t + 1]]`` with parts ``parts[...]`` of their score.

    ``idf`` of a word in n of N documents: "non_negative" is ln(1 + (N - n + 0.5) / (n + 0.5))
    (Robertson and Zaragoza 2009, 10.1561/1500000019, equation 3.3, with 1 added inside the
    logarithm as in Lucene), above 0 for every word; "rank_bm25" is the logarithm without the 1
    (Trotman, Puurula, Burgess, ADCS 2014, 10.1145/2682862.2682863), as coded in rank_bm25 0.2.2: 0
    for a word in half of the documents, and epsilon times the mean idf where it is below 0. A
    corpus without any word, on which rank_bm25 divides by zero, scores 0.
    """

    def __init__(self, corpus: Sequence[Sequence[str]], idf: Idf = "rank_bm25") -> None:
        self.size = len(corpus)
        self.terms: dict[str, int] = {}
        terms = self.terms
        # Rows in first-seen order: the mean idf is a float sum, and its order shows in the bits.
        rows = np.array(
            [terms.setdefault(word, len(terms)) for words in corpus for word in words],
            dtype=np.int64,
        )
        lengths = np.array([len(words) for words in corpus], dtype=np.int64)
        owners = np.repeat(np.arange(self.size), lengths)
        postings, counts = np.unique(rows * max(self.size, 1) + owners, return_counts=True)
        term_of, self.documents = np.divmod(postings, max(self.size, 1))
        self.starts = np.searchsorted(term_of, np.arange(len(terms) + 1))
        frequencies = np.diff(self.starts)
        weights = (
            np.log1p((self.size - frequencies + 0.5) / (frequencies + 0.5))
            if idf == "non_negative"
            else _rank_bm25_idf(corpus)
        )
        self.parts = np.zeros(0)
        if terms:
            mean_length = len(rows) / self.size
            saturation = (
                counts
                * (K1 + 1)
                / (counts + K1 * (1 - B + B * lengths[self.documents] / mean_length))
            )
            self.parts = weights[term_of] * saturation

    @classmethod
    def stored(
        cls,
        size: int,
        terms: Sequence[str],
        starts: NDArray[np.int64],
        documents: NDArray[np.int32],
        parts: NDArray[np.float64],
    ) -> BM25Index:
        """The index with these attributes."""
        index = cls.__new__(cls)
        index.size, index.terms = size, {term: row for row, term in enumerate(terms)}
        index.starts, index.documents, index.parts = starts, documents, parts
        return index

    def scores(self, query: Sequence[str]) -> NDArray[np.float64]:
        """Score of every document, float64 [size]; a word asked twice counts twice."""
        scores = np.zeros(self.size)
        for word in query:
            term = self.terms.get(word)
            if term is not None:
                row = slice(self.starts[term], self.starts[term + 1])
                scores[self.documents[row]] += self.parts[row]
        return scores

    def holding(self, words: Iterable[str]) -> NDArray[np.bool_]:
        """Which documents hold any of ``words``, bool [size]."""
        holds = np.zeros(self.size, dtype=bool)
        for word in words:
            term = self.terms.get(word)
            if term is not None:
                holds[self.documents[self.starts[term] : self.starts[term + 1]]] = True
        return holds

    def holding_all(self, words: Iterable[str]) -> NDArray[np.bool_]:
        """Which documents hold all of ``words``, bool [size]."""
        return np.logical_and.reduce([self.holding((word,)) for word in words])

    def explain(self, query: Sequence[str], document: int) -> list[tuple[str, float]]:
        """What each word of the query adds to a document's score, in the order of the query.

        Words that add nothing are left out; added up from left to right the parts are the score.
        """
        parts: list[tuple[str, float]] = []
        for word in query:
            term = self.terms.get(word)
            if term is None:
                continue
            start, end = int(self.starts[term]), int(self.starts[term + 1])
            at = start + int(np.searchsorted(self.documents[start:end], document))
            if at < end and self.documents[at] == document:
                parts.append((word, float(self.parts[at])))
        return parts


@dataclass(frozen=True, eq=False, slots=True)
class AnalysedIndex:
    """Texts as the terms of ``analyzer``: a part of a question counts by its own terms, or by the
    equivalent that counts most, all of whose terms a text holds."""

    analyzer: Analyzer
    index: BM25Index

    @classmethod
    def of(cls, texts: Sequence[str], language: str = "") -> AnalysedIndex:
        """The index of texts; without a ``language`` that of the texts is determined."""
        chosen = analyzer(language or language_of(texts))
        return cls(chosen, BM25Index([chosen.terms(text) for text in texts], "non_negative"))

    def scores(self, question: str) -> NDArray[np.float64]:
        """Score of every text, float64 [n]; 0 where it holds nothing that is asked."""
        total = np.zeros(self.index.size)
        for part in self.analyzer.question(question):
            best = self.index.scores(part.terms)
            for other, holds in self._others(part):
                best = np.maximum(best, other.weight * self.index.scores(other.terms) * holds)
            total += best
        return total

    def coverage(
        self, parts: Sequence[QuestionPart], kinds: Sequence[str] = ("equal", "narrower")
    ) -> NDArray[np.float64]:
        """Share of ``parts`` of a question that each text holds, itself or by an equivalent of the
        ``kinds``, rarer ones counting more, float64 [n] in [0, 1]; all 0 without parts."""
        share, total = np.zeros(self.index.size), 0.0
        for part in parts:
            holds = self.index.holding_all(part.terms)
            for other, others in self._others(part):
                if other.kind in kinds:
                    holds = holds | others
            weight = float(np.log1p(self.index.size / (1 + np.count_nonzero(holds))))
            share, total = share + weight * holds, total + weight
        return share / total if total else share

    def _others(self, part: QuestionPart) -> Iterator[tuple[Alternative, NDArray[np.bool_]]]:
        for other in part.others:
            holds = self.index.holding_all(other.terms)
            if holds.any():
                yield other, holds
