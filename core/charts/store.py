"""The chart store of a cohort: its records as tables of a folder, with its questions in JSON.

A store is complete or not there, and never edited: it is written into a hidden folder, which is
then renamed. Records are made of it when they are asked for; a record that could not be read is
none of it, and is named among what was left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from midchart.core.charts.analysis import (
    COLUMNS,
    EVIDENCE,
    RecordAnalysis,
    StoreTables,
    analysis_rows,
    evidence_key,
)
from midchart.core.charts.arrays import TEXT, Columns, numbers, rows_of, texts, writing_tables
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.gold import LazyGold, sources_of
from midchart.core.cohorts.parallel import each
from midchart.core.cohorts.records import GoldSource, NamedRecords
from midchart.core.confinement import OVER_LIMIT
from midchart.core.errors import DataError
from midchart.core.storage import sources
from midchart.core.storage.lru import LRU
from midchart.core.text import count_tokens, event_text
from midchart.core.text.evidence import locate
from midchart.core.types import (
    Account,
    Cohort,
    Event,
    Instruction,
    Manifest,
    Record,
    Response,
    Skip,
    UnsettledColumn,
)

COHORT = "cohort.json"
_CACHED = 32
"""Most recently used records in memory."""
_FACT = ("name", "value")
_COLUMNS: Columns = {
    "records": {"id": TEXT, "digest": TEXT, "source": TEXT}
    | dict.fromkeys(("events", "facts", *COLUMNS, "tokens", "undated"), "int64"),
    "facts": dict.fromkeys(_FACT, TEXT),
    "events": {
        "time": "timestamp[us]",
        **dict.fromkeys(("kind", "code", "name", "text", "unit", "note_id", "visit_id"), TEXT),
        **{"line": "int64", "author": TEXT},
    },
    **COLUMNS,
}
"""Columns of each table, of an event in the order of its fields. Those of a record that are named
after a table: the number of the row after its last one."""
_Rows = dict[str, dict[str, Any]]
"""Table → its columns of a record, but the ends of its rows."""
_ANALYSIS = 10
"""Bytes of a file that take as much processor time as a character that is analysed."""


@dataclass
class _CohortParts:
    """The parts of a cohort other than its records; ``sizes``: bytes of each other file."""

    sizes: dict[str, int]
    aliases: dict[str, str | None]
    sources: dict[str, GoldSource]
    accounts: list[tuple[str, str, Account]]
    format: str
    instructions: tuple[Instruction, ...]
    responses: tuple[Response, ...]
    skipped: list[Skip]
    warnings: list[str]
    unsettled: list[UnsettledColumn]
    unconfined: tuple[str, ...]


_KEPT = tuple(one.name for one in fields(_CohortParts))[4:]
"""Fields of a cohort that are stored as they are."""


class ChartRecords(NamedRecords):
    """Record id → Record, made of a store's tables on access.

    ``counts``: events, tokens and undated events before the first dated one, by record.
    """

    def __init__(self, folder: Path, aliases: Mapping[str, str | None]) -> None:
        self._tables = StoreTables(folder, _COLUMNS)
        records = self._tables.records
        super().__init__(texts(records, "id"), aliases)
        self._digests, self._sources = texts(records, "digest"), texts(records, "source")
        self.counts = {
            "events": np.diff(self._tables.ends["events"]),
            **{name: numbers(records, name) for name in ("tokens", "undated")},
        }
        self._cache: LRU[Record] = LRU(_CACHED, lambda record: len(record.events))

    def _record(self, id: str) -> Record:
        return self._cache.get(id, lambda: self._from_tables(id))

    def _from_tables(self, id: str) -> Record:
        number = self._ids[id]
        facts, events = (self._tables.rows(table, number) for table in ("facts", "events"))
        rows = enumerate(rows_of(events, _COLUMNS["events"]))
        return Record(
            id,
            tuple([Event(order, *row) for order, row in rows]),
            self._digests[number],
            tuple(rows_of(facts, _COLUMNS["facts"])),
            self._sources[number],
            RecordAnalysis(self._tables, number),
        )

    def analyses(self) -> dict[str, RecordAnalysis]:
        """What the store holds of each record, by the digest of its content."""
        return {d: RecordAnalysis(self._tables, number) for number, d in enumerate(self._digests)}


def open_charts(folder: Path, path: str, tag: Callable[[str, LoadLog], Manifest]) -> Cohort | None:
    """The cohort of a store; None where there is none, or a damaged one.

    ``tag`` reads the data-use tag of a cohort of a format as it is now; what is wrong with it
    enters the log.
    """
    try:
        parts = msgspec.convert(json.loads((folder / COHORT).read_bytes()), _CohortParts)
        if any((folder / name).stat().st_size != size for name, size in parts.sizes.items()):
            return None
        records = ChartRecords(folder, parts.aliases)
    except (OSError, ValueError):  # those of JSON, msgspec and Arrow are ValueErrors
        return None
    log = LoadLog(parts.skipped, parts.warnings)
    return Cohort(
        path,
        manifest=tag(parts.format, log),
        records=records,
        gold=LazyGold(parts.sources, records, log),
        accounts={(part, what): account for part, what, account in parts.accounts},
        **{name: getattr(parts, name) for name in _KEPT},
    )


def write_charts(cohort: Cohort, folder: Path, former: Path | None = None) -> None:
    """Write the store of a cohort that a loader has opened; each record is read once, and analysed
    unless the store in the folder ``former``, of the same code, holds one of the same content.

    Raises DataError where no record can be read, OSError where the store cannot be written.
    """
    snippets: dict[str, list[tuple[str, ...]]] = {}
    for source in sources_of(cohort.gold).values():
        if source.snippets:
            snippets.setdefault(source.record_id, []).append(source.snippets)

    @cache
    def analyses() -> dict[str, RecordAnalysis]:
        # Opened by each of the forks: Arrow starts threads, with which no process is forked.
        earlier = former and open_charts(former, "", lambda _, log: Manifest(""))
        return cast(Any, earlier).records.analyses() if earlier else {}

    def rows(id: str) -> tuple[_Rows, list[tuple[tuple[str, ...], Any]]] | DataError:
        try:
            if not sources.watched(f"record {id}", 0):
                raise DataError(f"record {id}", None, OVER_LIMIT, "split it")
            record = cohort.records[id]
        except DataError as error:
            return error
        record = replace(record, analysed=analyses().get(record.digest))
        size = sum(len(event.text) for event in record.events)
        sources.watched(f"record {id}", _ANALYSIS * size)
        located = [(one, locate(record, one)) for one in snippets.get(id, ())]
        return _rows_of(record) | analysis_rows(record), msgspec.to_builtins(located)

    assert isinstance(cohort.records, NamedRecords)
    log = LoadLog(cohort.skipped, cohort.warnings, cohort.accounts, cohort.unsettled)
    ids, failed, evidence = tuple(cohort.records), dict[str, DataError](), dict[str, Any]()
    read, others = each("records", ids, rows, log), _COLUMNS.keys() - {"records"}
    with writing_tables(folder, _COLUMNS) as tables:
        for id, result in zip(ids, read, strict=True):
            if isinstance(result, DataError):
                failed[id] = result
                continue
            columns, located = result
            written = tables["records"].rows
            evidence |= {evidence_key(written, one): spans for one, spans in located}
            for name in others:
                tables[name].add(**columns[name])
                columns["records"][name] = [tables[name].rows]
            tables["records"].add(**columns["records"])
        written = tables["records"].rows
    if failed and not written:
        raise next(iter(failed.values()))
    (folder / EVIDENCE).write_text(json.dumps(evidence), encoding="utf-8")
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    parts = _parts_of(cohort, cohort.records.aliases, failed, sizes)
    (folder / COHORT).write_text(json.dumps(msgspec.to_builtins(parts)), encoding="utf-8")


def _rows_of(record: Record) -> _Rows:
    events = record.events
    return {
        "events": {name: [getattr(e, name) for e in events] for name in _COLUMNS["events"]},
        "facts": {name: [fact[n] for fact in record.facts] for n, name in enumerate(_FACT)},
        "records": {
            "id": [record.id],
            "digest": [record.digest],
            "source": [record.source],
            "tokens": [count_tokens("\n".join(map(event_text, events)))],
            "undated": [next((n for n, event in enumerate(events) if event.time), 0)],
        },
    }


def _parts_of(
    cohort: Cohort,
    aliases: Mapping[str, str | None],
    failed: Mapping[str, DataError],
    sizes: dict[str, int],
) -> _CohortParts:
    """What is stored of a cohort; questions about records that could not be read are left out."""
    asked = Counter(one.record_id for one in cohort.instructions if one.record_id in failed)
    for id, number in asked.items():
        reason = f"questions about the record, which cannot be read, are left out ({number:,})"
        cohort.skipped.append(Skip(failed[id].file, failed[id].line, reason))
    instructions = tuple(one for one in cohort.instructions if one.record_id not in failed)
    known = {one.id for one in instructions}
    responses = tuple(one for one in cohort.responses if one.instruction_id in known)
    answered = replace(cohort, instructions=instructions, responses=responses)
    return _CohortParts(
        sizes,
        {name: None if id in failed else id for name, id in aliases.items()},
        {id: one for id, one in sources_of(cohort.gold).items() if id in known},
        [(*key, account) for key, account in cohort.accounts.items()],
        **{name: getattr(answered, name) for name in _KEPT},
    )
