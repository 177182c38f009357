"""OMOP CDM 5.3 and 5.4: a folder or zip of CSV or Parquet tables, or a DuckDB file.

Table and column names may be upper or lower case; a CSV may have any encoding, separator, quoting,
decimal mark and order of day and month (:mod:`midchart.core.cohorts.columns`), and may be packed. A
patient's record is built from the rows of its person_id on access. Names come from CONCEPT where it
exists, else from the source values. Questions come from any other ``.tsv`` in the same folder, in
MedAlign's column names, ``filename`` being the person_id.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import duckdb

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import (
    ISO,
    MISSING,
    MISSING_TYPED,
    WHOLE_OR_NUMBER,
    Numbers,
    Times,
    Values,
    decide_numbers,
    decide_times,
)
from midchart.core.cohorts.files import (
    LoadLog,
    checked_tables,
    data_error,
    entries_of,
    without_hidden,
)
from midchart.core.cohorts.identity import Demographics, People
from midchart.core.cohorts.manifest import column_settings
from midchart.core.cohorts.records import (
    Entry,
    Questions,
    ReadRecord,
    ReadRecords,
    build_record,
    entry,
    read_question_tables,
    tables_in,
)
from midchart.core.cohorts.tables import (
    DAMAGED_FILE,
    DELIMITERS,
    MOST_CSV_COLUMNS,
    check_columns,
    column_names,
    leave_out,
    read_head,
    read_table,
    state_delimiter,
    table_kind,
    table_name,
)
from midchart.core.documents.payloads import cell_text
from midchart.core.errors import DataError
from midchart.core.fhir.values import distinct_texts
from midchart.core.loaders import LOADERS
from midchart.core.sequences.build import (
    EARLIEST,
    LATEST,
    OUTSIDE,
    connect,
    describe_error,
    is_nested,
    sql_files,
)
from midchart.core.storage.archives import UntrustedZip
from midchart.core.storage.files import copy_regular
from midchart.core.storage.sql_files import identifier, literal, sql_file
from midchart.core.storage.staging import temporary_folder
from midchart.core.types import Record

MOST_ZIP_FILES = 10_000
LARGEST_ZIP = 4 << 30
"""Bytes of the tables of a zip that are read, together and uncompressed."""
MEMORY = "2GB"
"""What the tables may take in memory; the rest is in a temporary folder."""
_CONCEPT = ("concept_id", "concept_name", "vocabulary_id", "concept_code")
_COUNTS = ("quantity", "days_supply", "year_of_birth", "month_of_birth", "day_of_birth")
_NUMBERS = (*_COUNTS, "value_as_number", "range_low", "range_high")
_EXACT_IDS = 2**53
"""Whole numbers up to which a floating-point column has each."""
_ROWS_AT_ONCE = 100_000
"""Rows that are read at once at most, where persons have as many as the cohort's mean."""
_ROW, _PLACE = "midchart_row", "midchart_place"
"""Columns of a row's number in its file and of its person's place in the cohort."""

Row = Mapping[str, str]
"""Column (lower case) → value as text; only columns with a value."""


_PersonRows = dict[str, list[Row]]
"""The rows of a person by table."""


@dataclass(frozen=True, slots=True)
class _Table:
    """How the rows of a table become entries of a kind.

    ``prefix`` opens the names of its columns (``condition`` of ``condition_start_date``);
    ``parts``: ``column`` or ``label: column`` of an entry's content, a column of concepts without
    its ``_concept_id``; ``interval``: a later end date is a separate entry.
    """

    kind: str
    prefix: str
    parts: tuple[str, ...] = ()
    interval: bool = False


_STARTS = ("_start_datetime", "_start_date", "_datetime", "_date")
_ENDS = ("_end_datetime", "_end_date")
_TABLES: Mapping[str, _Table] = {
    "visit_occurrence": _Table("visit", "visit", ("discharged to: discharged_to",), True),
    "condition_occurrence": _Table(
        "condition", "condition", ("condition_status", "stopped: stop_reason"), True
    ),
    "drug_exposure": _Table(
        "drug_exposure",
        "drug",
        ("sig", "quantity: quantity", "days: days_supply", "route", "stopped: stop_reason"),
        True,
    ),
    "measurement": _Table("measurement", "measurement"),
    "observation": _Table("observation", "observation", ("qualifier",)),
    "procedure_occurrence": _Table(
        "procedure", "procedure", ("modifier", "quantity: quantity"), True
    ),
    "device_exposure": _Table("device_exposure", "device", ("quantity: quantity",), True),
    "note": _Table("note", "note"),
    "death": _Table("death", "death"),
}


def _dated(table: str) -> str:
    """What the names of a table's columns of times begin with."""
    return _TABLES[table].prefix + ("_exposure" if table.endswith("_exposure") else "")


_START_COLUMNS: Mapping[str, tuple[str, ...]] = {
    table: tuple(f"{_dated(table)}{form}" for form in _STARTS) for table in _TABLES
}
_END_COLUMNS: Mapping[str, tuple[str, ...]] = {
    table: tuple(f"{_dated(table)}{form}" for form in _ENDS) for table in _TABLES
}
_CODED = ("_concept_id", "_source_concept_id", "_source_value")
"""How the names of the columns of a concept end."""
_OF_VALUES = ("value_as_number", "value_as_string", "value_source_value", "range_low", "range_high")
_OF_NOTES = ("note_title", "note_text", "note_id", "provider_id", "visit_occurrence_id")


def _columns_of(table: str, columns: Sequence[str]) -> list[str]:
    """The columns of a table that records draw on."""
    if table == "person":
        return list(columns)
    form = _TABLES[table]
    parts = [part.rpartition(": ")[2] for part in form.parts]
    named = ("cause" if table == "death" else form.prefix, *parts, "operator", "value_as", "unit",
             "note_class", "note_type")  # fmt: skip
    wanted = {name + ending for name in named for ending in _CODED}
    wanted.update(parts, _OF_VALUES, _OF_NOTES, _START_COLUMNS[table], _END_COLUMNS[table])
    return [column for column in columns if column in wanted]


def _row(columns: Sequence[str], cells: Sequence[str | None]) -> Row:
    """The cells that have a value, by column."""
    return {
        name: value
        for name, value in zip(columns, cells, strict=True)
        if value is not None and (value not in MISSING or name == "note_text")
    }


@lru_cache(maxsize=1)
def _fixed_names() -> Mapping[str, str]:
    """Operators (but "="), common units of UCUM, sexes, visits and findings by their ids of OHDSI's
    vocabularies, which never change, for data sets without CONCEPT."""
    lines = Path(__file__).with_name("omop_concepts.tsv").read_text("utf-8").splitlines()[1:]
    return dict(line.split("\t") for line in lines)


_SHARED = ("concept", "provider")
"""Tables that are not about a person."""
_NEEDED = ("person", *_TABLES, *_SHARED)


# Tables: in files, in a zip, in a database.


@dataclass
class _Database:
    """The tables of a cohort in one DuckDB database, as text."""

    base: duckdb.DuckDBPyConnection
    settings: Mapping[str, str]
    log: LoadLog
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Table → its file in messages."""
    concepts: dict[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    providers: dict[str, str] = field(default_factory=dict[str, str])
    times: dict[tuple[str, str], Times] = field(default_factory=dict[tuple[str, str], Times])
    """Readings of the columns (by table and name) whose times are not all ISO 8601."""
    numbers: dict[tuple[str, str], Numbers] = field(default_factory=dict[tuple[str, str], Numbers])
    """Readings of the columns whose numbers are not all as shown."""
    places: dict[str, int] = field(default_factory=dict[str, int])
    """Person → place in the order of the cohort."""
    _blocks: dict[int, dict[str, _PersonRows]] = field(
        default_factory=dict[int, "dict[str, _PersonRows]"]
    )
    """The rows of the block of persons that was read last."""
    _at_once: int = 1
    """Persons of a block."""

    def add(self, table: str, file: str, source: str, csv: bool = False) -> None:
        """Enter a table from an SQL source.

        Columns become lower case and text, and how they are read is decided. Raises duckdb.Error,
        DataError, and OtherDialectError where it is ``csv`` and apostrophes may quote its cells.
        """
        try:
            self._add(table, file, source, csv)
        except (duckdb.Error, DataError, OtherDialectError):
            self.columns.pop(table, None)  # a table that cannot be read is none of the cohort
            raise

    def _add(self, table: str, file: str, source: str, csv: bool) -> None:
        described = self.base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        types: dict[str, str] = {}
        originals: dict[str, str] = {}
        plain = [(name, str(type)) for name, type, *_ in described if not is_nested(str(type))]
        if nested := len(described) - len(plain):
            self.log.warn(f"{file}: columns of lists or structures are not read: {nested:,}")
        for name, type in plain:
            lower = re.sub(r"\W+", "_", str(name).strip(" \ufeff\"'").lower()).strip("_")
            if lower.isidentifier():
                types[lower], originals[lower] = type, identifier(str(name))
        needed = _CONCEPT if table == "concept" else () if table in _SHARED else ("person_id",)
        check_columns(list(types), needed, table)
        texts = [
            f"{_as_text(originals[c], type, c)} AS {identifier(c)}" for c, type in types.items()
        ]
        texts.append(f"row_number() OVER () AS {_ROW}")
        self.base.execute(
            f"CREATE OR REPLACE TABLE midchart_{table} AS SELECT {', '.join(texts)} FROM {source}"
        )
        self.columns[table], self.files[table] = tuple(types), file
        opening = [f"bool_or(starts_with({identifier(c)}, ''''))" for c in types if csv]
        if any(self.aggregates(table, opening)):
            raise OtherDialectError
        # What cannot be text: ids that are rounded, times that Python does not have.
        dated = (*_START_COLUMNS.get(table, ()), *_END_COLUMNS.get(table, ()))
        beyond = {
            c: f"abs({originals[c]}) > {_EXACT_IDS}"
            for c, type in types.items()
            if c.endswith("_id") and type in _FLOATING
        } | {
            c: f"{originals[c]} < TRY_CAST('0001-01-01' AS {types[c]}) "
            f"OR {originals[c]} > TRY_CAST('9999-12-31 23:59:59' AS {types[c]})"
            for c in dated
            if types.get(c, "").startswith(_TEMPORAL)
        }  # fmt: skip
        filters = ", ".join(f"count(*) FILTER ({sql})" for sql in beyond.values())
        counts = self.base.execute(f"SELECT {filters} FROM {source}").fetchone() if beyond else ()
        for column, rows in zip(beyond, counts or (), strict=True):
            what = f"{rows:,} times are {OUTSIDE} and are not read"
            if column.endswith("_id"):
                what = f"{rows:,} ids are floating-point numbers too large to be exact — export "
                what += "ids as text or whole numbers"
            if rows:
                self.log.warn(f"{file}: {column}: {what}")
        ids = [c for c, type in types.items() if c.endswith("_id") and type == "VARCHAR"]
        self._plain_ids(table, file, ids)
        if table in _TABLES or table == "person":
            self._decide(table, file, types)

    def aggregates(self, table: str, expressions: Sequence[str]) -> tuple[Any, ...]:
        """Aggregates over all rows of a table; none for none."""
        if not expressions:
            return ()
        row = self.base.execute(f"SELECT {', '.join(expressions)} FROM midchart_{table}").fetchone()
        return row or ()

    def _plain_ids(self, table: str, file: str, columns: Sequence[str]) -> None:
        """Make the ids of columns that are not all plain whole numbers so where they are some."""
        plain = [f"bool_or(translate({c}, '-0123456789', '') <> '')" for c in columns]
        missing = ", ".join(map(literal, sorted(MISSING_TYPED)))
        for column, is_other in zip(columns, self.aggregates(table, plain), strict=True):
            if not is_other:
                continue
            cell = f"trim({column})"
            number = f"regexp_full_match({cell}, {literal(WHOLE_OR_NUMBER)})"
            all_numbers, decimal = self.aggregates(table, [
                f"bool_and({number} OR {cell} IN ({missing}))",
                f"bool_or({number} AND contains({cell}, '.'))",
            ])  # fmt: skip
            digits = cell
            if all_numbers and decimal:
                self.log.warn(f"{file}: {column} read as whole numbers (1.0 is 1)")
                digits = f"split_part({cell}, '.', 1)"
            self.base.execute(
                f"UPDATE midchart_{table} SET {column} = "
                f"CASE WHEN {cell} NOT IN ({missing}) THEN {digits} END"
            )

    def _decide(self, table: str, file: str, types: Mapping[str, str]) -> None:
        """Decide the readings of the columns of times and numbers of a table."""
        dated = (*_START_COLUMNS.get(table, ()), *_END_COLUMNS.get(table, ()))
        times = [c for c in dated if not types.get(c, "DATE").startswith(_TEMPORAL)]
        numbers = [c for c in _NUMBERS if types.get(c) == "VARCHAR"]
        floating = [c for c in _NUMBERS if types.get(c, "").startswith((*_FLOATING, "DECIMAL"))]
        decimals = [c for c in numbers if c in _COUNTS] + floating
        flags = iter(self.aggregates(table, [
            *(f"coalesce(bool_or(NOT {_is_iso(c)}), false)" for c in times),
            *(f"count(*) FILTER (try_cast({c} AS DOUBLE) IS NULL AND {c} IS NOT NULL)"
              for c in numbers),
            *(f"coalesce(bool_and(ends_with({c}, '.0')), false)" for c in decimals),
        ]))  # fmt: skip
        other_times = [column for column in times if next(flags)]
        other_numbers = [column for column in numbers if next(flags)]
        self.numbers |= {(table, c): Numbers(integers=True) for c in decimals if next(flags)}
        values = {c: self._values(table, c, _TIME_TOKEN) for c in other_times}
        readings = decide_times(file, table, values, self.settings, self.log)
        self.times |= {(table, column): reading for column, reading in readings.items()}
        for c in other_numbers:
            values = self._values(table, c, "{0}")
            number = decide_numbers(file, table, c, values, self.settings, self.log)
            self.numbers[table, c] = number

    def _values(self, table: str, column: str, token: str) -> Values:
        """The distinct values of a column by ``token``, an SQL expression."""
        rows = self.base.execute(
            f"SELECT {token.format('v')}, count(*), min(n) FROM (SELECT trim({column}) AS v, "
            f"{_ROW} AS n FROM midchart_{table}) WHERE v IS NOT NULL GROUP BY 1"
        ).fetchall()
        return {str(value): (int(count), int(first)) for value, count, first in rows}

    def read_people(self) -> None:
        """Order the persons, and the rows of each table by them."""
        self.base.execute(
            "CREATE TABLE places AS SELECT id, row_number() OVER "
            f"(ORDER BY try_cast(id AS BIGINT), id) - 1 AS {_PLACE} "
            "FROM (SELECT DISTINCT person_id AS id FROM midchart_person) WHERE id IS NOT NULL"
        )
        people = self.base.execute(f"SELECT id FROM places ORDER BY {_PLACE}").fetchall()
        self.places = {id: place for place, (id,) in enumerate(people)}
        rows = 0
        for table in filter(self.columns.__contains__, ("person", *_TABLES)):
            self.base.execute(
                f"CREATE OR REPLACE TABLE midchart_{table} AS SELECT t.*, {_PLACE} "
                f"FROM midchart_{table} t LEFT JOIN places ON id = person_id "
                f"ORDER BY {_PLACE}, {_ROW}"
            )
            rows += self.aggregates(table, ["count(*)"])[0]
        self._at_once = max(1, _ROWS_AT_ONCE * len(people) // max(rows, 1))

    def rows(self, person: str) -> _PersonRows:
        """The rows of a person by table; those of its neighbours are read with them."""
        block = self.places[person] // self._at_once
        if block not in self._blocks:
            self._blocks = {block: self._read_block(block)}
        return self._blocks[block].get(person, {})

    def _read_block(self, block: int) -> dict[str, _PersonRows]:
        people: dict[str, _PersonRows] = {}
        first = block * self._at_once
        where = f"{_PLACE} BETWEEN {first} AND {first + self._at_once - 1}"
        for table in filter(self.columns.__contains__, ("person", *_TABLES)):
            for person, row in self.select(table, where):
                people.setdefault(person, {}).setdefault(table, []).append(row)
        return people

    def select(self, table: str, where: str) -> Iterator[tuple[str, Row]]:
        """The rows of a table by person, in the order of the file."""
        names = _columns_of(table, self.columns[table])
        passed = self.base.execute(
            f"SELECT {', '.join(map(identifier, ('person_id', *names)))} FROM midchart_{table} "
            f"WHERE {where} "
            f"ORDER BY {_PLACE}, {_ROW}"
        )
        yield from ((person, _row(names, row)) for person, *row in passed.fetchall())

    def read_concepts(self) -> None:
        """Name and ``VOCABULARY/code`` of the concepts that the tables use."""
        if "concept" not in self.columns:
            return
        used = " UNION ".join(
            f"SELECT {column} FROM midchart_{table}"
            for table, columns in self.columns.items()
            for column in columns
            if column.endswith("concept_id") and table not in _SHARED
        )
        rows = self.base.execute(
            f"SELECT {', '.join(_CONCEPT)} FROM midchart_concept WHERE concept_id IN ({used})"
        ).fetchall()
        for id, name, vocabulary, code in rows:
            if id != "0" and name:
                self.concepts[id] = (f"{vocabulary}/{code}" if vocabulary and code else "", name)

    def read_providers(self) -> None:
        """Name, or else specialty, of the providers of notes."""
        columns = self.columns.get("provider", ())
        if "provider_id" not in columns or "provider_id" not in self.columns.get("note", ()):
            return
        shown = [c for c in ("provider_name", "specialty_source_value") if c in columns]
        rows = self.base.execute(
            f"SELECT {', '.join(['provider_id', *shown])} FROM midchart_provider "
            "WHERE provider_id IN (SELECT provider_id FROM midchart_note)"
        ).fetchall()
        self.providers = {id: next(filter(None, names), "") for id, *names in rows}

    # Rows of a person become entries.

    def concept(self, row: Row, column: str) -> tuple[str, str]:
        """Code and name of a concept column: standard concept, source concept, source value."""
        for name in (f"{column}_concept_id", f"{column}_source_concept_id"):
            if row.get(name) in self.concepts:
                code, text = self.concepts[row[name]]
                written = row.get(f"{column}_source_value", "").strip()
                several = distinct_texts((text, written)) if " " in written else text
                return code, several
        number = row.get(f"{column}_concept_id", "")
        source = row.get(f"{column}_source_value", "").strip() or _fixed_names().get(number, "")
        code = "" if number == "0" else number
        return source or (f"OMOP/{code}" if code else ""), source

    def number(self, table: str, row: Row, column: str) -> str:
        """A number as it is shown; "" where there is none."""
        reading = self.numbers.get((table, column))
        text = row.get(column, "")
        return reading.read(text) if reading is not None else text.strip()

    def text(self, table: str, row: Row, parts: Sequence[str]) -> str:
        """The parts of what a row says, joined by semicolons."""
        texts: list[str] = []
        for part in parts:
            label, _, column = part.rpartition(": ")
            value = self.number(table, row, column) or self.concept(row, column)[1]
            if value and value != "0":
                texts.append(f"{label} {value}" if label else value)
        return "; ".join(texts)

    def value(self, table: str, row: Row) -> tuple[str, str]:
        """Text and unit of a measurement's or observation's value, with its limits."""
        number = self.number(table, row, "value_as_number")
        operator = self.concept(row, "operator")[1]
        value = f"{operator} {number}".strip() if number else ""
        value = value or _cell(row, "value_as_string") or self.concept(row, "value_as")[1]
        value = value or row.get("value_source_value", "")
        unit = self.concept(row, "unit")[1] if value else ""
        low, high = (self.number(table, row, limit) for limit in ("range_low", "range_high"))
        if low or high:
            return f"{value} {unit}".strip() + f" (reference {low or '?'}–{high or '?'})", ""
        return value, unit

    def time(self, table: str, columns: Sequence[str], row: Row) -> datetime | None:
        """The time of the first of these columns that states one."""
        for column in columns:
            if text := row.get(column):
                time = self.times.get((table, column), ISO).read(text)
                if time is not None:
                    return time
        return None

    def _say(self, table: str, row: Row) -> tuple[str, str, str, str]:
        """Code, name, text and unit of the entry of a row that is no note."""
        form = _TABLES[table]
        code, title = self.concept(row, "cause" if table == "death" else form.prefix)
        text, unit = self.text(table, row, form.parts), ""
        if table == "death":
            title, text = "Death", f"cause {title}" if title else "recorded"
        elif table in ("measurement", "observation"):
            value, unit = self.value(table, row)
            both = text and value
            text, unit = (f"{value} {unit}; {text}", "") if both else (value or text, unit)
        return code, title or f"{form.kind} without a name", text, unit

    def entries(self, table: str, row: Row) -> Iterator[Entry]:
        """The entry of a row, and one for its end where that is later."""
        form, time = _TABLES[table], self.time(table, _START_COLUMNS[table], row)
        if table == "note":
            yield self._note(time, row)
            return
        code, title, text, unit = self._say(table, row)
        end = self.time(table, _END_COLUMNS[table], row) if form.interval else None
        lasting = end is not None and (time is None or end.date() > time.date())
        text = text or ("start" if lasting else "recorded")
        visit = row.get("visit_occurrence_id", "")
        started: Entry = (time, form.kind, code, title, text, unit, "", visit, None, "")
        yield started
        if lasting:
            yield (end, *started[1:4], "end", "", "", *started[7:])

    def _note(self, time: datetime | None, row: Row) -> Entry:
        code, _ = self.concept(row, "note")
        named = self.concept(row, "note_class")[1] or self.concept(row, "note_type")[1]
        return entry(
            time,
            "note",
            code=code,
            name=row.get("note_title", "") or named or "Note",
            text=_cell(row, "note_text"),
            note_id=row.get("note_id", ""),
            visit_id=row.get("visit_occurrence_id", ""),
            author=self.providers.get(row.get("provider_id", ""), ""),
        )


def _cell(row: Row, column: str) -> str:
    """The text of a cell that may be a document (RTF, HTML, …), or why it is not read."""
    text, problem = cell_text(row.get(column, ""))
    return text or (f"not read: the text {problem}" if problem else "")


_FLOATING = ("DOUBLE", "FLOAT")
_TEMPORAL = ("DATE", "TIMESTAMP")


def _as_text(cell: str, type: str, column: str) -> str:
    """SQL for a cell as text: ids as whole numbers, and no zeros that only a DECIMAL type adds."""
    if column.endswith("_id") and type.startswith((*_FLOATING, "DECIMAL")):
        cell = f"TRY_CAST({cell} AS BIGINT)"
    elif column in _NUMBERS and type.startswith("DECIMAL"):
        cell = f"CAST({cell} AS DOUBLE)"
    elif type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        # In UTC, not in this machine's zone. The first moments that DuckDB has cannot be text.
        moment = f"epoch_us({cell})"
        cell = (
            f"CASE WHEN {moment} BETWEEN {EARLIEST} AND {LATEST} THEN make_timestamp({moment}) END"
        )
    return f"CAST({cell} AS VARCHAR)"


def _is_iso(cell: str) -> str:
    """SQL for whether a cell, which may be missing, is a time by ISO 8601."""
    return f"({cell} IS NULL OR ({cell}[5] = '-' AND try_cast({cell} AS TIMESTAMP) IS NOT NULL))"


_TIME_TOKEN = (
    r"CASE WHEN regexp_full_match({0}, '\d{{9,11}}(\.\d+)?|\d{{13}}|\d{{15,19}}') "
    r"THEN rpad({0}[1:4], strlen(split_part({0}, '.', 1))::INT, '0') "
    r"WHEN regexp_full_match({0}, '\d{{5}}\.\d+') THEN {0}[1:5] "
    r"ELSE regexp_replace({0}, '([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d+)?)?', '12:00') END"
)
"""SQL for what decides how a time is read, so that a column has few: the date, or the magnitude."""


def _by_table(names: Iterable[str]) -> dict[str, str]:
    """Table in lower case → the name of its file; other files are left out."""
    paths = {name: Path(name) for name in names}
    tables: dict[str, str] = {}
    for name, path in paths.items():
        if table_kind(path) in ("parquet", *DELIMITERS) and not path.name.startswith("._"):
            tables.setdefault(table_name(path), name)
    return tables


def _table_files(place: Path) -> dict[str, Path]:
    """Table → file of a folder, or of the one sub-folder that holds the person table."""
    for folder in (place, *(p for p in entries_of(place) if p.is_dir())):
        files = _by_table([f.name for f in entries_of(folder) if not f.is_dir()])
        if "person" in files and files.keys() & _TABLES.keys():
            return {table: folder / name for table, name in files.items()}
    return {}


def _visible(folder: Path, pattern: str) -> list[Path]:
    return sorted(without_hidden(folder, folder.glob(pattern)))


def _zip_at(place: Path) -> Path | None:
    """The zip of OMOP tables at a path: itself, or the only one in the folder."""
    archives = [place] if place.is_file() else _visible(place, "*.[zZ][iI][pP]")
    if len(archives) != 1 or not archives[0].is_file():
        return None
    try:
        with UntrustedZip(archives[0], archives[0].name) as archive:
            return archives[0] if "person" in _by_table(archive.names) else None
    except (DataError, OSError):
        return None  # no zip, or a damaged one


def _duckdb_at(place: Path) -> Path | None:
    databases = [place] if place.is_file() else _visible(place, "*.duckdb")
    return (
        databases[0] if len(databases) == 1 and databases[0].suffix.lower() == ".duckdb" else None
    )


class OtherDialectError(Exception):
    """A CSV file that DuckDB does not read completely."""


def _csv_source(file: Path, table: str, log: LoadLog) -> str:
    """SQL that reads a CSV file as text; raises DataError where its header cannot be read.

    DuckDB would try out several dialects, which takes seconds and gigabytes for some headers.
    """
    default = DELIMITERS[table_kind(file)]
    head = read_head(file, default, ("person_id", f"{table}_id", *_CONCEPT))
    check_columns(head.header, (), file.name, most=MOST_CSV_COLUMNS)
    if head.last != 1 or head.encoding or head.quote != '"':
        raise OtherDialectError
    names = column_names(head, (), {}, file.name, log)
    state_delimiter(head, default, file.name, log)
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    packed = "gzip" if file.suffix.lower() == ".gz" else "none"
    return (
        f"read_csv({sql_files([file])}, header=false, skip=1, auto_detect=false, "
        f"compression='{packed}', "
        f"columns={{{columns}}}, null_padding=false, delim={literal(head.delimiter)}, "
        "quote='\"', escape='\"', comment='', store_rejects=true, rejects_limit=0, "
        "max_line_size=67108864)"
    )


def _add_csv(base: _Database, table: str, file: Path) -> None:
    """Enter the table of a CSV file: by DuckDB, or row by row where that does not read it all."""
    try:
        base.add(table, file.name, _csv_source(file, table, base.log), csv=True)
        (rejected,) = base.base.execute("SELECT count(*) FROM reject_errors").fetchone() or (0,)
    except (OtherDialectError, duckdb.InvalidInputException):
        rejected = True
    finally:
        base.base.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
    if not rejected:
        (read,) = base.aggregates(table, ["count(*)"])
        base.log.account(file.name, "rows", total=read, shown=read)
        return
    import pyarrow as pa

    default = DELIMITERS[table_kind(file)]
    rows = read_table(file, file.name, (), base.log, default)
    header = list(rows[0].cells) if rows else read_head(file, default).header
    cells = {column: pa.array([row.cells[column] for row in rows], "string") for column in header}
    base.base.register("rows_of_csv", pa.table(cells))
    base.add(table, file.name, "rows_of_csv")


def _read_files(base: _Database, files: Mapping[str, Path]) -> None:
    """Enter the tables of files."""
    log = base.log
    log.opened.update(files.values())
    needed = {file: table for table, file in files.items() if table in _NEEDED}
    for file in checked_tables(needed, next(iter(files.values())).parent, log):
        try:
            if table_kind(file) == "parquet":
                base.add(needed[file], file.name, f"read_parquet({sql_files([file])})")
            else:
                _add_csv(base, needed[file], file)
        except duckdb.Error as error:
            log.skip(file.name, None, f"{describe_error(error)} — export the table again")
        except DAMAGED_FILE:
            log.skip(file.name, None, "cannot be unpacked — pack it again")
        except DataError as error:
            log.skip(file.name, error.line, f"{error.reason} — {error.remedy}")


def _read_zip(base: _Database, path: Path) -> list[str]:
    """Enter the tables of a zip, by way of a folder that is removed; gives all tables' names."""
    with UntrustedZip(path, path.name) as archive, temporary_folder() as folder:
        members = _by_table(archive.names)
        wanted = {t: m for t, m in members.items() if t in _NEEDED}
        archive.check(MOST_ZIP_FILES, LARGEST_ZIP, wanted.values())
        files: dict[str, Path] = {}
        for table, member in wanted.items():
            file = folder / f"{table}{Path(member).name[len(table) :].lower()}"
            try:
                with archive.open(member) as packed, file.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
            except DataError as error:
                base.log.skip(path.name, None, f"{error.reason} — {error.remedy}")
            else:
                files[table] = file
        _read_files(base, files)
        return list(members)


def _read_duckdb(base: _Database, path: Path) -> list[str]:
    """Enter the tables of a DuckDB file, read-only; its views are not run.

    DuckDB opens the log of changes that are not yet in the file by its name: where there is one,
    both are copied to a private folder.
    """
    log, changes = base.log, path.with_name(f"{path.name}.wal")
    if not checked_tables([path], path.parent, log):
        raise log.nothing_read(path.name, "cannot be read")
    with ExitStack() as stack:
        try:
            stored = path
            if os.path.lexists(changes):
                folder = stack.enter_context(temporary_folder())
                stored = folder / path.name
                for file in (path, changes):
                    copy_regular(file, folder / file.name)
            base.base.execute(f"ATTACH {sql_file(stored)} AS cdm (READ_ONLY)")
            tables = base.base.execute(
                "SELECT table_name, schema_name FROM duckdb_tables() WHERE database_name = 'cdm'"
            ).fetchall()
        except duckdb.Error as error:
            remedy = "close other users of it"
            raise DataError(path.name, None, describe_error(error), remedy) from None
        except OSError as error:
            raise data_error(error, path.name) from None
        for name, schema in tables:
            lower = str(name).lower()
            if lower in _NEEDED:
                try:
                    base.add(lower, lower, f'cdm."{schema}"."{name}"')
                except (duckdb.Error, DataError) as error:
                    reason = error.reason if isinstance(error, DataError) else describe_error(error)
                    log.skip(path.name, None, f"table {name}: {reason} — export it")
        base.base.execute("DETACH cdm")
    return [str(name).lower() for name, _ in tables]


# Rows become entries.


def _facts(base: _Database, person: Row) -> dict[str, str]:
    facts = {
        "birth year": base.number("person", person, "year_of_birth"),
        **{name: base.concept(person, name)[1] for name in ("gender", "race", "ethnicity")},
    }
    return {name: value for name, value in facts.items() if value and value != "0"}


def _record(base: _Database, id: str, source: str) -> tuple[Record, list[str]]:
    raw: list[Entry] = []
    blank = 0
    rows = base.rows(id)
    for table in _TABLES:
        for row in rows.get(table, ()):
            entries = list(base.entries(table, row))
            blank += table == "note" and not entries[0][4].strip()
            raw += entries
    raw.sort(key=lambda one: one[0] is not None)  # what is undated comes first
    person = rows["person"][0] if "person" in rows else {}
    warnings = [f"{source}: {blank} notes of person {id} hold no text"] if blank else []
    return build_record(id, raw, _facts(base, person), source), warnings


@LOADERS.register("omop")
class Omop(RecordLoader):
    """OMOP CDM tables in a folder, a zip or a DuckDB file."""

    name = "omop"
    title = "OMOP CDM 5.3 or 5.4 (CSV, Parquet, zip, DuckDB)"
    source = "OMOP CDM"

    def accepts(self, path: str) -> bool:
        """A folder or zip with a person table and one of events, or a ``.duckdb`` file."""
        place = Path(path)
        if place.is_dir() and _table_files(place):
            return True
        return _duckdb_at(place) is not None or _zip_at(place) is not None

    def companions(self, place: Path) -> list[Path]:
        """The log of a DuckDB file, with what is not written into it yet."""
        return [place.with_name(f"{place.name}.wal")] if place.suffix.lower() == ".duckdb" else []

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """The persons of the tables."""
        try:
            return self._read(place, root, log)
        except duckdb.Error as error:
            remedy = "export the tables again"
            raise DataError(place.name, None, describe_error(error), remedy) from None

    def _read(self, place: Path, root: Path, log: LoadLog) -> tuple[ReadRecords, Questions]:
        stack = ExitStack()  # what exceeds the memory is in a folder as long as there is the base
        spill = stack.enter_context(temporary_folder())
        base = _Database(connect(memory=MEMORY, spill=spill), column_settings(root, log), log)
        weakref.finalize(base, stack.close)
        files = _table_files(place) if place.is_dir() else {}
        if files:
            _read_files(base, files)
            tables: list[str] = list(files)
        elif (stored := _duckdb_at(place)) is not None:
            log.opened.add(stored)
            tables = _read_duckdb(base, stored)
        else:
            log.opened.add(_zip_at(place) or place)
            tables = _read_zip(base, _zip_at(place) or place)
        if "person" not in base.columns or not base.aggregates("person", ["count(*)"])[0]:
            raise log.nothing_read(place.name, "has no person — export PERSON")
        base.read_people()
        base.read_concepts()
        base.read_providers()
        questions = {table_name(table) for table in tables_in(place)}
        _account(base, [table for table in tables if table not in questions], log)
        readers: dict[str, ReadRecord] = {
            id: partial(_record, base, id, place.name) for id in base.places
        }
        records = ReadRecords(readers, log)
        questions = [table for table in tables_in(place) if table_name(table) not in _NEEDED]
        return records, read_question_tables(questions, records, log)


def _account(base: _Database, tables: Sequence[str], log: LoadLog) -> None:
    """Account for the rows of the tables, and name what is no part of any record."""
    for table in ("person", *_TABLES):
        if table not in base.columns:
            continue
        total, nobody, unknown = base.aggregates(
            table,
            [
                "count(*)",
                "count(*) FILTER (person_id IS NULL)",
                f"count(*) FILTER (person_id IS NOT NULL AND {_PLACE} IS NULL)",
            ],
        )
        if nobody:
            log.skip(table, None, f"{nobody:,} rows name no person — fill in person_id")
        if unknown:
            reason = f"{unknown:,} rows name a person who is not in PERSON — add the person"
            log.skip(table, None, reason)
        part = base.files[table]
        if (part, "rows") not in log.accounts:
            log.account(part, "rows", total=total, shown=total)
        reasons = {"names no person": nobody, "names a person who is not in PERSON": unknown}
        leave_out(log, part, reasons)
    _account_people(base, log)
    missing = [table for table in _TABLES if table not in base.columns]
    if missing:
        log.warn(f"tables that are not there: {', '.join(missing)}")
    if "concept" not in base.columns:
        log.warn("CONCEPT is not there — entries are named by their source values")
    others = sorted(set(tables) - set(_NEEDED))
    if others:
        log.warn(f"tables that are no part of a record: {', '.join(others)}")


def _account_people(base: _Database, log: LoadLog) -> None:
    """Name the persons who are in PERSON more than once, of whom the first row is used."""
    twice = "SELECT person_id FROM midchart_person GROUP BY person_id HAVING count(*) > 1"
    stated: dict[str, list[Row]] = {}
    for id, row in base.select("person", f"person_id IN ({twice})"):
        stated.setdefault(id, []).append(row)
    people, file = People(log), base.files["person"]
    repeated = others = 0
    for id, rows in sorted(stated.items()):
        first, *later = (_person(base, row) for row in rows)
        people.same(("", id), first, file)
        same = [people.same(("", id), person, file) for person in later]
        repeated, others = repeated + same.count(True), others + same.count(False)
    if repeated:
        log.skip(file, None, f"{repeated:,} rows repeat a person — the first is used")
    reasons = {"repeats a person": repeated, "is about another person": others}
    leave_out(log, file, reasons)


def _person(base: _Database, row: Row) -> Demographics:
    born = [
        base.number("person", row, column).zfill(2)
        for column in ("year_of_birth", "month_of_birth", "day_of_birth")
        if row.get(column)
    ]
    return Demographics(born="-".join(born), sex=base.concept(row, "gender")[1])
