"""OMOP CDM 5.3 and 5.4: a folder or zip of CSV or Parquet tables, or a DuckDB file.

All tables go into one DuckDB database, from which a person's record is built on access. Names come
from CONCEPT where it exists, else from the source values.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import (
    ISO,
    MISSING,
    Values,
    are_decimal_ids,
    decide_numbers,
    decide_times,
    read_id,
)
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, People
from midchart.core.cohorts.manifest import column_settings
from midchart.core.cohorts.records import (
    Entry,
    Questions,
    ReadRecords,
    build_record,
    read_question_tables,
    tables_in,
    with_end,
)
from midchart.core.cohorts.tables import (
    DELIMITERS,
    MOST_CSV_COLUMNS,
    check_columns,
    column_names,
    leave_out,
    read_head,
    read_table,
)
from midchart.core.documents.payloads import cell_shown
from midchart.core.errors import DataError
from midchart.core.fhir.values import distinct_texts
from midchart.core.loaders import LOADERS
from midchart.core.sequences.build import EARLIEST, LATEST, OUTSIDE, connect, describe_error
from midchart.core.storage.files import temporary_folder
from midchart.core.storage.rows import identifier
from midchart.core.storage.sources import Source
from midchart.core.types import Record

MEMORY = "2GB"
"""What the tables may take in memory; the rest is in a temporary folder."""
_CONCEPT = ("concept_id", "concept_name", "vocabulary_id", "concept_code")
_BORN = ("year_of_birth", "month_of_birth", "day_of_birth")
_COUNTS = ("quantity", "days_supply", *_BORN)
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

    ``concept``: its column of concepts without ``_concept_id``; ``start`` and ``end``: its columns
    of times without ``_date``, a later end being a separate entry; ``parts``: ``column`` or
    ``label: column`` of an entry's content.
    """

    kind: str
    concept: str
    start: str
    end: str = ""
    parts: tuple[str, ...] = ()

    def columns(self) -> set[str]:
        """The columns that records draw on."""
        parts = [part.rpartition(": ")[2] for part in self.parts]
        named = (self.concept, *parts, "operator", "value_as", "unit", "note_class", "note_type")
        times = (*_times(self.start), *_times(self.end))
        return {"person_id", *parts, *times, *_OF_VALUES, *_OF_NOTES, *_coded(*named)}


def _coded(*names: str) -> set[str]:
    """The columns of concepts."""
    endings = ("_concept_id", "_source_concept_id", "_source_value")
    return {name + ending for name in names for ending in endings}


def _times(name: str) -> tuple[str, str]:
    """The columns of a time, the more exact one first."""
    return f"{name}_datetime", f"{name}_date"


_OF_VALUES = ("value_as_number", "value_as_string", "value_source_value", "range_low", "range_high")
_OF_NOTES = ("note_title", "note_text", "note_id", "provider_id", "visit_occurrence_id")
_TABLES: Mapping[str, _Table] = {
    "visit_occurrence": _Table(
        *("visit", "visit", "visit_start", "visit_end"),
        ("admitted from: admitted_from", "admitted from: admitting",
         "discharged to: discharged_to", "discharged to: discharge_to"),
    ),
    "condition_occurrence": _Table(
        *("condition", "condition", "condition_start", "condition_end"),
        ("condition_status", "stopped: stop_reason"),
    ),
    "drug_exposure": _Table(
        *("drug_exposure", "drug", "drug_exposure_start", "drug_exposure_end"),
        ("sig", "quantity: quantity", "days: days_supply", "route", "stopped: stop_reason"),
    ),
    "measurement": _Table("measurement", "measurement", "measurement"),
    "observation": _Table("observation", "observation", "observation", parts=("qualifier",)),
    "procedure_occurrence": _Table(
        "procedure", "procedure", "procedure", "procedure_end", ("modifier", "quantity: quantity")
    ),
    "device_exposure": _Table(
        *("device_exposure", "device", "device_exposure_start", "device_exposure_end"),
        ("quantity: quantity",),
    ),
    "specimen": _Table(
        *("specimen", "specimen", "specimen"),
        parts=("site: anatomic_site", "disease_status", "quantity: quantity", "unit"),
    ),
    "note": _Table("note", "note", "note"),
    "death": _Table("death", "cause", "death"),
}  # fmt: skip
_FACTS = ("gender", "race", "ethnicity")
_COLUMNS: Mapping[str, set[str]] = {
    "person": {"person_id", *_BORN, *_coded(*_FACTS)},
    **{table: form.columns() for table, form in _TABLES.items()},
    "concept": {*_CONCEPT},
    "provider": {"provider_id", "provider_name", "specialty_source_value"},
}
"""Table → the columns of it that are read."""
_ABOUT_PERSONS = ("person", *_TABLES)


@lru_cache(maxsize=1)
def _fixed_names() -> Mapping[str, str]:
    """Operators (but "="), common units of UCUM, sexes, visits and findings by their ids of OHDSI's
    vocabularies, which never change, for data sets without CONCEPT."""
    lines = Path(__file__).with_name("omop_concepts.tsv").read_text("utf-8").splitlines()[1:]
    return dict(line.split("\t") for line in lines)


# Tables: in files, in a zip, in a database.


@dataclass
class _Database:
    """The tables of a cohort in one DuckDB database: their columns are text, with ids, times and
    numbers rewritten to one way to write them."""

    base: duckdb.DuckDBPyConnection
    settings: Mapping[str, str]
    log: LoadLog
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Table → its file in messages."""
    concepts: dict[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    providers: dict[str, str] = field(default_factory=dict[str, str])
    places: dict[str, int] = field(default_factory=dict[str, int])
    """Person → place in the order of the cohort."""
    _block: tuple[int, Mapping[str, _PersonRows]] = (-1, {})
    """The number and rows of the block of persons that was read last."""
    _at_once: int = 1
    """Persons of a block."""

    def add(self, table: str, file: str, source: str, csv: bool = False) -> None:
        """Enter a table from an SQL source.

        Raises duckdb.Error, DataError, and OtherDialectError where it is ``csv`` and apostrophes
        may quote its cells.
        """
        described = self.base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        types: dict[str, str] = {}
        cells: dict[str, str] = {}
        for name, type, *_ in described:
            column = re.sub(r"\W+", "_", name.strip(" \ufeff\"'").lower()).strip("_")
            if column in _COLUMNS[table]:
                types[column], cells[column] = str(type), identifier(name)
        needed = {"concept": _CONCEPT, "provider": ()}.get(table, ("person_id",))
        check_columns(list(types), needed, file)
        texts = [f"{_as_text(cells[c], type, c)} AS {c}" for c, type in types.items()]
        self.base.execute(
            f"CREATE OR REPLACE TABLE midchart_{table} AS SELECT {', '.join(texts)}, "
            f"row_number() OVER () AS {_ROW} FROM {source}"
        )
        opening = [f"bool_or(starts_with({column}, ''''))" for column in types if csv]
        if any(self.aggregates(table, opening)):
            raise OtherDialectError
        typed = [c for c, type in types.items() if type in _FLOATING or type.startswith(_TEMPORAL)]
        counts = ", ".join(f"count({cells[column]})" for column in typed) or "1"
        stated = self.base.execute(f"SELECT {counts} FROM {source}").fetchone() or ()
        shown = self.aggregates(table, [f"count({column})" for column in typed])
        for column, there, read in zip(typed, stated, shown, strict=False):
            if lost := there - read:
                what = f"times are {OUTSIDE} and are not read"
                if column.endswith("_id"):
                    what = "ids are floating-point numbers too large to be exact and are not read "
                    what += "— export ids as text or whole numbers"
                self.log.warn(f"{file}: {column}: {lost:,} {what}")
        self._rewrite(table, file, types)
        self.columns[table], self.files[table] = tuple(types), file

    def aggregates(self, table: str, expressions: Sequence[str]) -> tuple[Any, ...]:
        """Aggregates over all rows of a table; none for none."""
        if not expressions:
            return ()
        row = self.base.execute(f"SELECT {', '.join(expressions)} FROM midchart_{table}").fetchone()
        return row or ()

    def _rewrite(self, table: str, file: str, types: Mapping[str, str]) -> None:
        """Rewrite the columns of ids, times and numbers in which a cell is written in another way
        than most are, each as all of its values say."""
        odd = {column: sql for column, type in types.items() if (sql := _is_odd(column, type))}
        counts = [c for c in types if c in _COUNTS or (c in _NUMBERS and types[c] != "VARCHAR")]
        flags = iter(self.aggregates(table, [
            *(f"bool_or({sql}) FILTER ({column} IS NOT NULL)" for column, sql in odd.items()),
            *(f"bool_and(ends_with({column}, '.0'))" for column in counts),
        ]))  # fmt: skip
        odd = {column: sql for column, sql in odd.items() if next(flags)}
        whole_columns = [column for column in counts if next(flags) and column not in odd]
        if whole_columns:  # whole numbers that were written as decimals
            cut = ", ".join(f"{column} = split_part({column}, '.', 1)" for column in whole_columns)
            self.base.execute(f"UPDATE midchart_{table} SET {cut}")
        values = {c: self._values(table, c, "true" if c in _NUMBERS else odd[c]) for c in odd}
        times = {column: of for column, of in values.items() if column.endswith(_TIMES)}
        readings = decide_times(file, table, times, self.settings, self.log)
        for column, of in values.items():
            if column in readings:
                fresh = {text: str(readings[column].read(text) or "") for text in of}
            elif column in _NUMBERS:
                number = decide_numbers(file, table, column, of, self.settings, self.log)
                fresh = {text: number.read(text) for text in of}
            else:
                if decimal := are_decimal_ids(of):
                    self.log.warn(f"{file}: {column} read as whole numbers (1.0 is 1)")
                fresh = {text: read_id(text, decimal) for text in of}
            self._replace(table, column, fresh)

    def _values(self, table: str, column: str, where: str) -> Values:
        """The distinct values of a column."""
        rows = self.base.execute(
            f"SELECT {column}, count(*), min({_ROW}) FROM midchart_{table} "
            f"WHERE {column} IS NOT NULL AND {where} GROUP BY 1"
        ).fetchall()
        return {value: (count, first) for value, count, first in rows}

    def _replace(self, table: str, column: str, fresh: Mapping[str, str]) -> None:
        """Replace values of a column; "" is none."""
        import pyarrow as pa

        changed = {old: new or None for old, new in fresh.items() if old != new}
        columns = {"old": [*changed.keys()], "new": [*changed.values()]}
        base = self.base.register(
            "fresh", pa.table({name: pa.array(cells, "string") for name, cells in columns.items()})
        )
        base.execute(f"UPDATE midchart_{table} SET {column} = new FROM fresh WHERE {column} = old")

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
        for table in filter(self.columns.__contains__, _ABOUT_PERSONS):
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
        if block != self._block[0]:
            first, people = block * self._at_once, dict[str, _PersonRows]()
            where = f"{_PLACE} BETWEEN {first} AND {first + self._at_once - 1}"
            for table in filter(self.columns.__contains__, _ABOUT_PERSONS):
                for id, row in self.select(table, where):
                    people.setdefault(id, {}).setdefault(table, []).append(row)
            self._block = block, people
        return self._block[1].get(person, {})

    def select(self, table: str, where: str) -> Iterator[tuple[str, Row]]:
        """The rows of a table by person, in the order of the file."""
        columns = self.columns[table]
        passed = self.base.execute(
            f"SELECT person_id, {', '.join(columns)} FROM midchart_{table} WHERE {where} "
            f"ORDER BY {_PLACE}, {_ROW}"
        )
        for person, *cells in passed.fetchall():
            yield (
                person,
                {
                    column: cell
                    for column, cell in zip(columns, cells, strict=True)
                    if cell is not None and (cell not in MISSING or column == "note_text")
                },
            )

    def read_concepts(self) -> None:
        """Name and ``VOCABULARY/code`` of the concepts that the tables use."""
        if "concept" not in self.columns:
            return
        used = " UNION ".join(
            f"SELECT {column} FROM midchart_{table}"
            for table in filter(self.columns.__contains__, _ABOUT_PERSONS)
            for column in self.columns[table]
            if column.endswith("concept_id")
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
        written = row.get(f"{column}_source_value", "").strip()
        for name in (f"{column}_concept_id", f"{column}_source_concept_id"):
            if row.get(name) in self.concepts:
                code, text = self.concepts[row[name]]
                return code, distinct_texts((text, written)) if " " in written else text
        number = row.get(f"{column}_concept_id", "")
        source = written or _fixed_names().get(number, "")
        return source or (f"OMOP/{number}" if number not in ("", "0") else ""), source

    def text(self, row: Row, parts: Sequence[str]) -> str:
        """The parts of what a row says, joined by semicolons."""
        texts: list[str] = []
        for part in parts:
            label, _, column = part.rpartition(": ")
            value = row.get(column, "").strip() or self.concept(row, column)[1]
            if value and value != "0":
                texts.append(f"{label} {value}" if label else value)
        return "; ".join(texts)

    def value(self, row: Row) -> tuple[str, str]:
        """Text and unit of a measurement's or observation's value, with its limits."""
        number = row.get("value_as_number", "")
        value = f"{self.concept(row, 'operator')[1]} {number}".strip() if number else ""
        value = value or cell_shown(row.get("value_as_string", ""))
        value = value or self.concept(row, "value_as")[1] or row.get("value_source_value", "")
        unit = self.concept(row, "unit")[1] if value else ""
        low, high = row.get("range_low"), row.get("range_high")
        if low or high:
            return f"{value} {unit}".strip() + f" (reference {low or '?'}–{high or '?'})", ""
        return value, unit

    def entries(self, table: str, row: Row) -> list[Entry]:
        """The entry of a row, and one for its end where that is on a later day."""
        form, visit, unit = _TABLES[table], row.get("visit_occurrence_id", ""), ""
        code, title = self.concept(row, form.concept)
        if table == "note":
            named = self.concept(row, "note_class")[1] or self.concept(row, "note_type")[1]
            name, text = row.get("note_title", "") or named, cell_shown(row.get("note_text", ""))
            note, author = row.get("note_id", ""), self.providers.get(row.get("provider_id", ""))
            stated = (code, name or "Note", text, "", note, visit, None, author or "")
            return [(_time(row, form.start), form.kind, *stated)]
        text = self.text(row, form.parts)
        if table == "death":
            title, text = "Death", f"cause {title}" if title else ""
        elif table in ("measurement", "observation"):
            value, unit = self.value(row)
            both = text and value
            text, unit = (f"{value} {unit}; {text}", "") if both else (value or text, unit)
        title = title or f"{form.kind} without a name"
        one = (_time(row, form.start), form.kind, code, title, text, unit, "", visit, None, "")
        return with_end(one, _time(row, form.end))


def _time(row: Row, name: str) -> datetime | None:
    """The time of the first of its columns that states one."""
    times = (ISO.read(row[column]) for column in _times(name) if column in row)
    return next((time for time in times if time is not None), None)


_FLOATING = ("DOUBLE", "FLOAT")
_TEMPORAL = ("DATE", "TIMESTAMP")
_TIMES = ("_date", "_datetime")


def _as_text(cell: str, type: str, column: str) -> str:
    """SQL for a cell as text: ids as exact whole numbers, times in UTC that Python has, and numbers
    without zeros that only a DECIMAL type adds."""
    if type == "VARCHAR":
        trimmed = column.endswith(("_id", *_TIMES)) or column in _NUMBERS
        return f"nullif(trim({cell}), '')" if trimmed else cell
    if column.endswith("_id") and type.startswith((*_FLOATING, "DECIMAL")):
        cell = f"CASE WHEN abs({cell}) <= {_EXACT_IDS} THEN CAST({cell} AS BIGINT) END"
    elif column in _NUMBERS and type.startswith("DECIMAL"):
        cell = f"CAST({cell} AS DOUBLE)"
    elif type == "DATE":
        cell = f"CASE WHEN {cell} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {cell} END"
    elif type.startswith("TIMESTAMP"):
        known = type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
        moment = f"epoch_us({cell if known else f'TRY_CAST({cell} AS TIMESTAMP)'})"
        cell = (
            f"CASE WHEN {moment} BETWEEN {EARLIEST} AND {LATEST} THEN make_timestamp({moment}) END"
        )
    return f"CAST({cell} AS VARCHAR)"


def _is_odd(column: str, type: str) -> str:
    """SQL for whether a cell of a column of ids, times or numbers is no whole number, time by ISO
    8601 or decimal number; "" for a column that needs no check."""
    if column.endswith(_TIMES):
        iso = f"({column}[5] = '-' AND try_cast({column} AS TIMESTAMP) IS NOT NULL)"
        return "" if type.startswith(_TEMPORAL) else f"NOT {iso}"
    if type != "VARCHAR":
        return ""
    if column.endswith("_id"):
        return f"translate({column}, '-0123456789', '') <> ''"
    return f"try_cast({column} AS DOUBLE) IS NULL" if column in _NUMBERS else ""


def _by_table(files: Iterable[Source]) -> dict[str, Source]:
    """Table in lower case → its file; other files are left out."""
    tables: dict[str, Source] = {}
    for file in files:
        if file.ending in (".parquet", *DELIMITERS):
            tables.setdefault(file.stem.lower(), file)
    return tables


def _table_files(place: Source) -> dict[str, Source]:
    """Table → file of a folder, or of the one sub-folder that holds the person table."""
    for folder in (place, *filter(Source.is_folder, place.entries())):
        files = _by_table(file for file in folder.entries() if not file.is_folder())
        if "person" in files and files.keys() & _TABLES.keys():
            return files
    return {}


def _file_at(place: Source) -> Source | None:
    """The DuckDB file, or else the zip of OMOP tables, at a path: itself, or the only one in the
    folder."""
    for ending in (".duckdb", ".zip"):
        files = [file for file in place.entries() if file.ending == ending]
        if len(files) == 1 and files[0].is_file() and (ending == ".duckdb" or _is_omop(files[0])):
            return files[0]
    return None


def _is_omop(file: Source) -> bool:
    """Whether a file is a zip with a person table."""
    with suppress(DataError):  # no zip, or a damaged one
        return "person" in _by_table(file.members())
    return False


class OtherDialectError(Exception):
    """A CSV file that DuckDB does not read completely."""


def _csv_source(file: Source, table: str, log: LoadLog) -> str:
    """SQL that reads a CSV file as text; raises DataError where its header cannot be read."""
    head = read_head(file, ("person_id", f"{table}_id", *_CONCEPT))
    check_columns(head.header, (), file.name, most=MOST_CSV_COLUMNS)
    if head.last != 1 or head.encoding or head.quote != '"':
        raise OtherDialectError
    names = column_names(head, (), {}, file, log)
    return file.csv_rows(names, head.delimiter)


def _add_csv(base: _Database, table: str, file: Source) -> None:
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

    rows = read_table(file, (), base.log)
    header = list(rows[0].cells) if rows else read_head(file).header
    cells = {column: pa.array([row.cells[column] for row in rows], "string") for column in header}
    base.base.register("rows_of_csv", pa.table(cells))
    base.add(table, file.name, "rows_of_csv")


def _read_files(base: _Database, files: Mapping[str, Source]) -> None:
    """Enter the tables of files."""
    base.log.opened.update(files.values())
    for table, source in files.items():
        if table not in _COLUMNS:
            continue
        with base.log.skipping(), source.on_disk() as file:
            try:
                if file.ending == ".parquet":
                    base.add(table, file.name, f"read_parquet({file.sql})")
                else:
                    _add_csv(base, table, file)
            except duckdb.Error as error:
                reason, remedy = describe_error(error), "export the table again"
                raise DataError(file.name, None, reason, remedy) from None


def _read_duckdb(base: _Database, source: Source) -> list[str]:
    """Enter the tables of a DuckDB file, read-only; its views are not run."""
    try:
        with source.open():
            base.base.execute(f"ATTACH {source.sql} AS cdm (READ_ONLY)")
    except duckdb.Error as error:
        remedy = "close other users of it"
        raise DataError(source.name, None, describe_error(error), remedy) from None
    tables = base.base.execute(
        "SELECT lower(table_name), schema_name FROM duckdb_tables() WHERE database_name = 'cdm'"
    ).fetchall()
    for table, schema in tables:
        if table in _COLUMNS:
            try:
                base.add(table, table, f"cdm.{identifier(schema)}.{table}")
            except (duckdb.Error, DataError) as error:
                reason = error.reason if isinstance(error, DataError) else describe_error(error)
                base.log.skip(source.name, None, f"table {table}: {reason} — export it")
    base.base.execute("DETACH cdm")
    return [table for table, _ in tables]


def _record(base: _Database, id: str, source: str) -> Record:
    rows = base.rows(id)
    raw = [
        one for table in _TABLES for row in rows.get(table, ()) for one in base.entries(table, row)
    ]
    raw.sort(key=lambda one: one[0] is not None)  # what is undated comes first
    blank = sum(one[1] == "note" and not one[4].strip() for one in raw)
    if blank:
        base.log.warn(f"{source}: {blank} notes of person {id} hold no text")
    person = rows["person"][0] if "person" in rows else {}
    facts = {
        "birth year": person.get("year_of_birth", ""),
        **{name: base.concept(person, name)[1] for name in _FACTS},
    }
    stated = {name: value for name, value in facts.items() if value and value != "0"}
    return build_record(id, raw, stated, source)


@LOADERS.register("omop")
class Omop(RecordLoader):
    """OMOP CDM tables in a folder, a zip or a DuckDB file."""

    name = "omop"
    title = "OMOP CDM 5.3 or 5.4 (CSV, Parquet, zip, DuckDB)"
    source = "OMOP CDM"

    def accepts(self, place: Source) -> bool:
        """A folder or zip with a person table and one of events, or a ``.duckdb`` file."""
        return bool(place.is_folder() and _table_files(place)) or _file_at(place) is not None

    def companions(self, place: Source) -> list[Source]:
        """The log of a DuckDB file, with what is not written into it yet."""
        return [place.parent.within(f"{place.own_name}.wal")] if place.ending == ".duckdb" else []

    def read(self, place: Source, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """The persons of the tables."""
        try:
            return self._read(place, log)
        except duckdb.Error as error:
            remedy = "export the tables again"
            raise DataError(place.own_name, None, describe_error(error), remedy) from None

    def _read(self, place: Source, log: LoadLog) -> tuple[ReadRecords, Questions]:
        stack = ExitStack()  # what exceeds the memory is in a folder as long as there is the base
        spill = stack.enter_context(temporary_folder())
        base = _Database(connect(None, MEMORY, spill), column_settings(place.root, log), log)
        weakref.finalize(base, stack.close)
        files = _table_files(place) if place.is_folder() else {}
        stored = place if files else _file_at(place) or place
        if not files:
            log.opened.add(stored)
        if stored.ending == ".duckdb":
            tables = _read_duckdb(base, stored)
        else:
            files = files or _by_table(stored.members())
            _read_files(base, files)
            tables = list(files)
        if "person" not in base.columns or not base.aggregates("person", ["count(*)"])[0]:
            raise log.nothing_read(place.own_name, "has no person — export PERSON")
        base.read_people()
        base.read_concepts()
        base.read_providers()
        asked = {table.stem.lower(): table for table in tables_in(place)}
        _account(base, sorted({*tables} - asked.keys() - _COLUMNS.keys()), log)
        records = ReadRecords(base.places, lambda id: _record(base, id, place.own_name), log)
        questions = [table for name, table in asked.items() if name not in _COLUMNS]
        return records, read_question_tables(questions, records, log)


def _account(base: _Database, others: Sequence[str], log: LoadLog) -> None:
    """Account for the rows of the tables, and name what is no part of any record: tables,
    ``others`` among them, rows of nobody, and rows of a person after the first one in PERSON."""
    for table in filter(base.columns.__contains__, _ABOUT_PERSONS):
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
    twice = "SELECT person_id FROM midchart_person GROUP BY person_id HAVING count(*) > 1"
    people, file, seen, counts = People(log), base.files["person"], set[str](), Counter[str]()
    for id, row in base.select("person", f"person_id IN ({twice})"):
        born = "-".join(row[column].zfill(2) for column in _BORN if column in row)
        person = Demographics(born=born, sex=base.concept(row, "gender")[1])
        same = people.same(("", id), person, file)
        if id in seen:
            counts["repeats a person" if same else "is about another person"] += 1
        seen.add(id)
    if repeated := counts["repeats a person"]:
        log.skip(file, None, f"{repeated:,} rows repeat a person — the first is used")
    leave_out(log, file, counts)
    if missing := [one for one in _TABLES if one not in (*base.columns, "specimen")]:
        log.warn(f"tables that are not there: {', '.join(missing)}")
    if "concept" not in base.columns:
        log.warn("CONCEPT is not there — entries are named by their source values")
    if others:
        log.warn(f"tables that are no part of a record: {', '.join(others)}")
