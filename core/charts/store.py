"""The chart store of a cohort: its records as tables of a folder, with its questions in JSON.

A store is complete or not there, and never edited: it is written into a hidden folder, which is
then renamed. Records are made of it when they are asked for; a record that could not be read is
none of it, and is named among what was left out.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import msgspec
import numpy as np

from midchart.core.charts.analysis import (
    COLUMNS,
    EVIDENCE,
    RecordAnalysis,
    StoreTables,
    analysis_rows,
    evidence_key,
    located_rows,
)
from midchart.core.charts.arrays import TEXT, Columns, numbers, texts, writing_tables
from midchart.core.cohorts import parallel
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.gold import LazyGold
from midchart.core.cohorts.records import GoldSource, NamedRecords
from midchart.core.confinement import OVER_LIMIT
from midchart.core.errors import DataError
from midchart.core.storage import sources
from midchart.core.storage.lru import LRU
from midchart.core.text import count_tokens, event_text
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
READINGS = "readings.zip"
"""What was read of each file, for formats of which each file is read by itself."""
_CACHED = 32
"""Most recently used records in memory."""
_TEXTS = ("kind", "code", "name", "text", "unit", "note_id", "visit_id")
_COLUMNS: Columns = {
    "records": {"id": TEXT, "digest": TEXT, "source": TEXT}
    | dict.fromkeys(("events", "facts", *COLUMNS, "tokens", "undated"), "int64"),
    "facts": {"name": TEXT, "value": TEXT},
    "events": {"time": "int64", "line": "int64", **dict.fromkeys((*_TEXTS, "author"), TEXT)},
    **COLUMNS,
}
"""Columns of each table. Those of a record that are named after a table: the number of the row
after its last one."""
_Rows = dict[str, dict[str, Any]]
"""Table → its columns of a record, but the ends of its rows."""
_Located = list[tuple[tuple[str, ...], Any]]
"""Snippets of a record, and where they are."""
_ANALYSIS = 10
"""Bytes of a file that take as much processor time as a character that is analysed."""
_NO_TIME, _NO_LINE = np.iinfo(np.int64).min, -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_MICROSECOND = timedelta(microseconds=1)


@dataclass
class _CohortParts:
    """What a store holds of a cohort besides its records."""

    format: str
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    aliases: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    sources: dict[str, GoldSource] = field(default_factory=dict[str, GoldSource])
    responses: list[Response] = field(default_factory=list[Response])
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    accounts: list[tuple[str, str, Account]] = field(default_factory=list[tuple[str, str, Account]])
    unsettled: list[UnsettledColumn] = field(default_factory=list[UnsettledColumn])
    unconfined: tuple[str, ...] = ()


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
        rows = zip(
            (
                None if micros == _NO_TIME else _EPOCH + timedelta(microseconds=micros)
                for micros in numbers(events, "time").tolist()
            ),
            *(texts(events, name) for name in _TEXTS),
            (None if line == _NO_LINE else line for line in numbers(events, "line").tolist()),
            texts(events, "author"),
            strict=True,
        )
        return Record(
            id,
            tuple([Event(order, *row) for order, row in enumerate(rows)]),
            self._digests[number],
            tuple(zip(texts(facts, "name"), texts(facts, "value"), strict=True)),
            self._sources[number],
            RecordAnalysis(self._tables, number),
        )

    def analyses(self) -> dict[str, RecordAnalysis]:
        """What the store holds of each record, by the digest of its content."""
        return {d: RecordAnalysis(self._tables, number) for number, d in enumerate(self._digests)}


def open_charts(folder: Path, path: str, tag: Callable[[LoadLog], Manifest]) -> Cohort | None:
    """The cohort of a store; None where there is none, or a damaged one.

    ``tag`` reads the cohort's data-use tag as it is now; what is wrong with it enters the log.
    """
    try:
        parts = msgspec.convert(json.loads((folder / COHORT).read_bytes()), _CohortParts)
        if any((folder / name).stat().st_size != size for name, size in parts.sizes.items()):
            return None
        records = ChartRecords(folder, parts.aliases)
    except (OSError, ValueError):  # those of JSON, msgspec and Arrow are ValueErrors
        return None
    log = LoadLog(parts.skipped)
    for warning in parts.warnings:
        log.warn(warning)
    return Cohort(
        path,
        parts.format,
        tag(log),
        records,
        tuple(parts.instructions),
        LazyGold(parts.sources, records, log),
        tuple(parts.responses),
        skipped=log.skipped,
        warnings=log.warnings,
        accounts={(part, what): account for part, what, account in parts.accounts},
        unsettled=parts.unsettled,
        unconfined=parts.unconfined,
    )


@contextmanager
def keeping_readings(folder: Path, former: Path | None) -> Generator[None]:
    """Keep in the store that is written into ``folder`` what is read of each file in the body
    (:func:`.parallel.each_file`); files that the store in the folder ``former`` knows are not read
    again. In memory a process and its forks can read it."""
    known: ZipFile | None = None
    if former is not None:
        with suppress(OSError, BadZipFile):
            known = ZipFile(BytesIO(read_regular(former / READINGS)))

    def kept(key: str) -> str:
        try:
            return known.read(key).decode() if known else ""
        except (KeyError, BadZipFile, zlib.error):  # another file, or a damaged store
            return ""

    with ZipFile(folder / READINGS, "w") as made:
        parallel.kept = kept
        parallel.keep = lambda key, text: made.writestr(ZipInfo(key), text, ZIP_DEFLATED, 1)
        yield


def write_charts(cohort: Cohort, folder: Path, former: Path | None = None) -> None:
    """Write the store of a cohort that a loader has opened; each record is read once, and analysed
    unless the store in the folder ``former``, of the same code, holds one of the same content.

    Raises DataError where no record can be read, OSError where the store cannot be written.
    """
    snippets: dict[str, list[tuple[str, ...]]] = {}
    for source in _sources(cohort).values():
        if source.snippets:
            snippets.setdefault(source.record_id, []).append(source.snippets)

    @cache
    def analyses() -> dict[str, RecordAnalysis]:
        # Opened by each of the forks: Arrow starts threads, with which no process is forked.
        earlier = former and open_charts(former, "", lambda log: Manifest(""))
        return earlier.records.analyses() if earlier else {}

    def rows(id: str) -> tuple[_Rows, _Located] | DataError:
        try:
            if not sources.watched(f"record {id}", 0):
                raise DataError(f"record {id}", None, OVER_LIMIT, "split it")
            record = cohort.records[id]
        except DataError as error:
            return error
        record = replace(record, analysed=analyses().get(record.digest))
        size = sum(len(event.text) for event in record.events)
        sources.watched(f"record {id}", _ANALYSIS * size)
        located = [(one, located_rows(record, one)) for one in snippets.get(id, ())]
        return _rows_of(record) | analysis_rows(record), located

    log = LoadLog(cohort.skipped, cohort.warnings, cohort.accounts, cohort.unsettled)
    ids, failed, evidence = tuple(cohort.records), dict[str, DataError](), dict[str, Any]()
    read, others = parallel.each("records", ids, rows, log), _COLUMNS.keys() - {"records"}
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
    parts = _parts_of(cohort, failed)
    parts.sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    (folder / COHORT).write_text(json.dumps(msgspec.to_builtins(parts)), encoding="utf-8")


def _rows_of(record: Record) -> _Rows:
    events = record.events
    times = [_NO_TIME if e.time is None else (e.time - _EPOCH) // _MICROSECOND for e in events]
    lines = [_NO_LINE if event.line is None else event.line for event in events]
    return {
        "events": {
            "time": np.array(times, "int64"),
            "line": np.array(lines, "int64"),
            **{name: [getattr(event, name) for event in events] for name in (*_TEXTS, "author")},
        },
        "facts": {
            "name": [name for name, _ in record.facts],
            "value": [value for _, value in record.facts],
        },
        "records": {
            "id": [record.id],
            "digest": [record.digest],
            "source": [record.source],
            "tokens": [count_tokens("\n".join(map(event_text, events)))],
            "undated": [undated_first(record)],
        },
    }


def undated_first(record: Record) -> int:
    """The undated events before the first dated one, which are in no position band."""
    return next((i for i, event in enumerate(record.events) if event.time is not None), 0)


def _parts_of(cohort: Cohort, failed: Mapping[str, DataError]) -> _CohortParts:
    """What is stored of a cohort; questions about records that could not be read are left out."""
    asked = Counter(one.record_id for one in cohort.instructions if one.record_id in failed)
    for id, number in asked.items():
        reason = f"questions about the record, which cannot be read, are left out ({number:,})"
        cohort.skipped.append(Skip(failed[id].file, failed[id].line, reason))
    instructions = [one for one in cohort.instructions if one.record_id not in failed]
    known = {one.id for one in instructions}
    aliases: Mapping[str, str | None] = getattr(cohort.records, "aliases", {})
    return _CohortParts(
        cohort.format,
        aliases={name: None if id in failed else id for name, id in aliases.items()},
        instructions=instructions,
        sources={id: one for id, one in _sources(cohort).items() if id in known},
        responses=[one for one in cohort.responses if one.instruction_id in known],
        skipped=cohort.skipped,
        warnings=cohort.warnings,
        accounts=[(*key, account) for key, account in cohort.accounts.items()],
        unsettled=cohort.unsettled,
        unconfined=cohort.unconfined,
    )


def _sources(cohort: Cohort) -> Mapping[str, GoldSource]:
    """What is stored of a cohort's gold, whether its loader has located it or not."""
    if isinstance(cohort.gold, LazyGold):
        return cohort.gold.sources
    return {
        i.id: GoldSource(i.record_id, g.answer, g.snippets, cohort.path, None, g.spans, g.exact)
        for i in cohort.instructions
        if (g := cohort.gold.get(i.id)) is not None
    }
