"""What is computed of a cohort's records once: sentences, BM25 indexes, where evidence is.

It is that of the default protocol; by another one it is computed when it is asked for. It is made
with the chart store that it is part of.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from midchart.core.bm25 import BM25Index
from midchart.core.charts.arrays import TEXT, Columns, numbers, open_table, texts
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest
from midchart.core.text import event_text, sentence_rule, sentences, words
from midchart.core.text.evidence import Located, locate_rule
from midchart.core.types import Record, Sentence, Span

EVIDENCE = "evidence.json"
COLUMNS: Columns = {
    "sentences": {**dict.fromkeys(("event", "start", "end", "tokens"), "int32"), "piece": "int8"}
    | {"title": TEXT},
    "terms": {"term": TEXT, "end": "int32"},
    "postings": {"document": "int32", "part": "float64"},
}
"""Columns of each table. ``end`` of a term: the number of its record's postings up to its last
one."""


_RULE = Protocol()
_SENTENCES, _LOCATING = sentence_rule(_RULE), locate_rule(_RULE)
_BM25 = (_RULE.bm25_idf, *_SENTENCES)


def evidence_key(number: int, snippets: Sequence[str]) -> str:
    """The key of the located snippets of the record of a number."""
    return digest(str(number), *_LOCATING, *snippets)


class StoreTables:
    """The tables of a store's folder, of which ``records`` says where the rows of each record end
    in every other one, in a column of its name. Raises as :func:`open_table`."""

    def __init__(self, folder: Path, columns: Columns) -> None:
        self._folder, self._tables = folder, {name: open_table(folder, name) for name in columns}
        self.records = self._tables["records"]
        names = columns.keys() - {"records"}
        self.ends = {name: [0, *numbers(self.records, name).tolist()] for name in names}

    def rows(self, table: str, number: int) -> Any:
        """The rows of a record, without a copy."""
        start, end = self.ends[table][number : number + 2]
        return self._tables[table].slice(start, end - start)

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """Located evidence by its key."""
        return json.loads((self._folder / EVIDENCE).read_bytes())


class StoredSentences(Sequence[Sentence]):
    """The sentences of a record by their rows: each is made when it is first asked for."""

    def __init__(self, record: Record, rows: Any) -> None:
        self._events, self._titles = record.events, rows.column("title")
        names = ("event", "start", "end", "tokens", "piece")
        self._columns: list[list[int]] = [rows.column(name).to_pylist() for name in names]
        self._sentences: list[Sentence | None] = [None] * len(self._titles)
        self._text = -1, ""

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]
        if (one := self._sentences[at]) is None:
            one = self._sentences[at] = self._sentence(range(len(self))[at])
        return one

    def _sentence(self, at: int) -> Sentence:
        order, start, end, tokens, piece = (column[at] for column in self._columns)
        event, (known, text) = self._events[order], self._text
        if known != order:
            self._text = order, text = order, event_text(event)
        number = at - bisect_left(self._columns[0], order)
        id = f"e{order}.{number}" if piece else f"e{order}"
        title = str(self._titles[at].as_py(), "utf-8", "surrogatepass")
        span = Span(order, start, end)
        return Sentence(id, span, event.time, event.kind, text[start:end], tokens, title)


@dataclass(frozen=True)
class RecordAnalysis:
    """What an analysis holds of one record.

    Each method gives None where it was computed by another rule: then it is computed when it is
    asked for.
    """

    tables: StoreTables
    number: int

    def sentences(self, record: Record, rule: tuple[str, ...]) -> Sequence[Sentence] | None:
        """The sentences of the record; None under another rule."""
        stored = StoredSentences(record, self.tables.rows("sentences", self.number))
        return stored if rule == _SENTENCES else None

    def bm25(self, rule: tuple[str, ...]) -> BM25Index | None:
        """The BM25 index of all sentences; None under another rule."""
        if rule != _BM25:
            return None
        terms, postings = (self.tables.rows(of, self.number) for of in ("terms", "postings"))
        first, last = self.tables.ends["sentences"][self.number : self.number + 2]
        starts = np.concatenate([[0], numbers(terms, "end")])
        parts = numbers(postings, "document"), numbers(postings, "part")
        return BM25Index.stored(last - first, texts(terms, "term"), starts, *parts)

    def located(self, rule: tuple[str, ...], snippets: tuple[str, ...]) -> Located | None:
        """Where snippets are in the record; None for others than those of its questions."""
        stored = self.tables.evidence.get(evidence_key(self.number, snippets))
        return None if stored is None or rule != _LOCATING else msgspec.convert(stored, Located)


def analysis_rows(record: Record) -> dict[str, dict[str, Any]]:
    """Table → its columns of a record."""
    cut = sentences(record, _RULE)
    stored = record.analysed.bm25(_BM25) if record.analysed else None
    index = stored or BM25Index([words(one.scored_text) for one in cut], _RULE.bm25_idf)
    return {
        "sentences": {
            "event": np.array([one.span.event for one in cut], "int32"),
            "start": np.array([one.span.start for one in cut], "int32"),
            "end": np.array([one.span.end for one in cut], "int32"),
            "tokens": np.array([one.tokens for one in cut], "int32"),
            "piece": np.array(["." in one.id for one in cut], "int8"),
            "title": [one.title for one in cut],
        },
        "terms": {"term": list(index.terms), "end": index.starts[1:]},
        "postings": {"document": index.documents, "part": index.parts},
    }
