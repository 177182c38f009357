"""What is computed of a cohort's records once: sentences, BM25 indexes, where evidence is.

It is that of the default protocol; by another one it is computed when it is asked for. An analysis
is complete or not there, as the chart store that it belongs to, and is made again by other code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from midchart.core.bm25 import BM25Index
from midchart.core.charts.arrays import TEXT, Columns, RecordTables, TableWriter, writing_tables
from midchart.core.protocol import Protocol
from midchart.core.provenance import code_digest, digest
from midchart.core.regular_files import read_regular
from midchart.core.text import event_text, sentence_rule, sentences, words
from midchart.core.text.evidence import Located, locate, locate_rule
from midchart.core.types import Record, Sentence, Span

_EVIDENCE = "evidence.json"
_CODE = ("charts", "text", "bm25", "protocol", "types")
_COLUMNS: Columns = {
    "sentences": {**dict.fromkeys(("event", "start", "end", "tokens"), "int32"), "piece": "int8"}
    | {"title": TEXT},
    "terms": {"term": TEXT, "end": "int32"},
    "postings": {"document": "int32", "part": "float64"},
    "records": dict.fromkeys(("sentences", "terms", "postings"), "int64"),
}
"""Columns of each table. Those of a record: the number of the row after its last one; ``end`` of a
term: the number of its record's postings up to its last one."""


def analysis_folder(store: Path) -> Path:
    """Where the analysis of a chart store is, or will be."""
    return store.with_name(f"{store.name}-analysis-{code_digest(*_CODE)}")


_SENTENCES = sentence_rule(Protocol())
_BM25 = (Protocol().bm25_idf, *_SENTENCES)


def _evidence_key(number: int, rule: Sequence[str], snippets: Sequence[str]) -> str:
    return digest(str(number), *rule, *snippets)


class Analysis(RecordTables):
    """The analysis of a cohort's records, in their order."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _COLUMNS)
        self._folder = folder

    @classmethod
    def open(cls, folder: Path) -> Analysis | None:
        """The analysis of a folder; None where there is none, or a damaged one."""
        try:
            return cls(folder) if (folder / _EVIDENCE).is_file() else None
        except (OSError, ValueError):
            return None

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """Located evidence by its key."""
        return json.loads(read_regular(self._folder / _EVIDENCE))


@dataclass(frozen=True)
class RecordAnalysis:
    """What an analysis holds of one record.

    Each method gives None where it was computed by another rule: then it is computed when it is
    asked for.
    """

    analysis: Analysis
    number: int

    def sentences(self, record: Record, rule: tuple[str, ...]) -> tuple[Sentence, ...] | None:
        """The sentences of the record, pieces of an event numbered in order; None under another
        rule."""
        if rule != _SENTENCES:
            return None
        rows = self.analysis.rows("sentences", self.number)
        names = ("event", "start", "end", "tokens", "piece")
        cut: list[Sentence] = []
        last, text, count = -1, "", 0
        for order, start, end, tokens, piece, title in zip(
            *(rows.numbers(name).tolist() for name in names), rows.texts("title"), strict=True
        ):
            if order != last:
                last, text, count = order, event_text(record.events[order]), 0
            event = record.events[order]
            id = f"e{order}.{count}" if piece else f"e{order}"
            span = Span(order, start, end)
            cut.append(Sentence(id, span, event.time, event.kind, text[start:end], tokens, title))
            count += 1
        return tuple(cut)

    def bm25(self, rule: tuple[str, ...]) -> BM25Index | None:
        """The BM25 index of all sentences; None under another rule."""
        if rule != _BM25:
            return None
        terms, postings = (self.analysis.rows(of, self.number) for of in ("terms", "postings"))
        first, last = self.analysis.ends["sentences"][self.number : self.number + 2]
        starts = np.concatenate([[0], terms.numbers("end")])
        parts = postings.numbers("document"), postings.numbers("part")
        return BM25Index.stored(last - first, terms.texts("term"), starts, *parts)

    def located(self, rule: tuple[str, ...], snippets: tuple[str, ...]) -> Located | None:
        """Where snippets are in the record; None for others than those of its questions."""
        stored = self.analysis.evidence.get(_evidence_key(self.number, rule, snippets))
        return None if stored is None else msgspec.convert(stored, Located)


def write_analysis(
    folder: Path, records: Iterable[tuple[Record, Sequence[tuple[str, ...]]]]
) -> None:
    """Write the analysis of records, each with the snippets of its questions, into a folder."""
    rule, evidence = Protocol(), dict[str, Any]()
    with writing_tables(folder, _COLUMNS) as tables:
        for number, (record, asked) in enumerate(records):
            _write_record(record, rule, tables)
            for snippets in asked:
                key = _evidence_key(number, locate_rule(rule), snippets)
                evidence[key] = msgspec.to_builtins(locate(record, snippets, rule))
    (folder / _EVIDENCE).write_text(json.dumps(evidence), encoding="utf-8")


def _write_record(record: Record, rule: Protocol, tables: dict[str, TableWriter]) -> None:
    cut = sentences(record, rule)
    tables["sentences"].add(
        event=[one.span.event for one in cut],
        start=[one.span.start for one in cut],
        end=[one.span.end for one in cut],
        tokens=[one.tokens for one in cut],
        piece=["." in one.id for one in cut],
        title=[one.title for one in cut],
    )
    index = BM25Index([words(one.scored_text) for one in cut], rule.bm25_idf)
    tables["terms"].add(term=list(index.terms), end=index.starts[1:])
    tables["postings"].add(document=index.documents, part=index.parts)
    tables["records"].add(
        **{name: [tables[name].rows] for name in ("sentences", "terms", "postings")}
    )
