"""OMOP CDM 5.3 and 5.4: a folder or zip of CSV or Parquet tables, or a DuckDB file.

Table and column names may be upper or lower case. A patient's record is built from the rows of
its person_id on access. Names come from CONCEPT where it exists, else from the source values.
Questions come from any ``.tsv`` in the same folder, in MedAlign's column names, ``filename`` being
the person_id.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import LoadLog, checked_tables, parse_time
from core.loaders.records import (
    Entry,
    LazyRecords,
    Questions,
    ReadRecord,
    build_record,
    entry,
    read_question_tables,
    tables_in,
)
from core.loaders.tables import MOST_CSV_COLUMNS, check_columns
from core.sequences.build import connect, describe_error, sql_files
from core.storage.archives import UntrustedZip
from core.storage.rows import literal
from core.types import Record

MOST_ZIP_FILES = 10_000
LARGEST_ZIP = 4 << 30
"""Bytes of the tables of a zip that are read, together and uncompressed."""
MEMORY = "2GB"
"""What the tables of CSV files and zips may take in memory; Parquet and DuckDB stay on disk."""
_CONCEPT = ("concept_id", "concept_name", "vocabulary_id", "concept_code")
_SUFFIXES = (".csv", ".parquet")
_MOST_REJECTED = 20
"""Rows of a table that are named one by one; of more, the number is named."""

Row = Mapping[str, str]
"""Column (lower case) → value as text; only columns with a value."""


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
    "procedure_occurrence": _Table("procedure", "procedure", ("modifier", "quantity: quantity")),
    "device_exposure": _Table("device_exposure", "device", ("quantity: quantity",), True),
    "note": _Table("note", "note"),
    "death": _Table("death", "death"),
}
_SHARED = ("concept", "provider")
"""Tables that are not about a person."""
_NEEDED = ("person", *_TABLES, *_SHARED)


# Tables: in files, in a zip, in a database.


@dataclass
class _Database:
    """The tables of a cohort behind one DuckDB connection, used by one thread at a time."""

    base: duckdb.DuckDBPyConnection
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    concepts: dict[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    providers: dict[str, str] = field(default_factory=dict[str, str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table: str, source: str, stored: bool) -> None:
        """Enter a table from an SQL source, as a view where it is ``stored`` on disk already.

        Columns become lower case and text. Raises duckdb.Error, DataError.
        """
        columns = self.base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        names = [str(row[0]) for row in columns]
        numbers = {str(row[0]) for row in columns if row[1] in ("DOUBLE", "FLOAT")}
        lower = [name.lower() for name in names]
        needed = _CONCEPT if table == "concept" else () if table in _SHARED else ("person_id",)
        check_columns(lower, needed, table)
        chosen = ", ".join(
            f"{_as_text(name, name in numbers and low.endswith('_id'))} AS {_quoted(low)}"
            for name, low in zip(names, lower, strict=True)
            if low.isidentifier()
        )
        ordered = "" if stored or table in _SHARED else " ORDER BY person_id"
        what = "VIEW" if stored else "TABLE"
        self.base.execute(
            f"CREATE {what} midchart_{table} AS SELECT {chosen} FROM {source}{ordered}"
        )
        self.columns[table] = tuple(low for low in lower if low.isidentifier())

    def count(self, table: str, condition: str = "true") -> int:
        """Number of rows of a table for which an SQL condition holds."""
        rows = self.base.sql(f"SELECT count(*) FROM midchart_{table} WHERE {condition}").fetchall()
        return int(rows[0][0])

    def rows(self, table: str, person: str) -> list[Row]:
        """The rows of a person; raises DataError where they cannot be read."""
        try:
            with self.lock:
                rows = self.base.execute(
                    f"SELECT * FROM midchart_{table} WHERE person_id = ?", [person]
                ).fetchall()
        except duckdb.Error as error:
            raise DataError(table, None, describe_error(error), "open the cohort again") from None
        names = self.columns[table]
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        ]

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
                return self.concepts[row[name]]
        source = row.get(f"{column}_source_value", "").strip()
        number = row.get(f"{column}_concept_id", "")
        code = "" if number == "0" else number
        return source or (f"OMOP/{code}" if code else ""), source

    def text(self, row: Row, parts: Sequence[str]) -> str:
        """The parts of what a row says, joined by semicolons."""
        texts: list[str] = []
        for part in parts:
            label, _, column = part.rpartition(": ")
            value = _number(row.get(column, "").strip()) or self.concept(row, column)[1]
            if value and value != "0":
                texts.append(f"{label} {value}" if label else value)
        return "; ".join(texts)

    def value(self, row: Row) -> tuple[str, str]:
        """Text and unit of a measurement's or observation's value, with its limits."""
        number = _number(row.get("value_as_number", ""))
        operator = self.concept(row, "operator")[1]
        value = f"{operator} {number}".strip() if number else ""
        value = value or row.get("value_as_string", "") or self.concept(row, "value_as")[1]
        value = value or row.get("value_source_value", "")
        unit = self.concept(row, "unit")[1] if value else ""
        low, high = _number(row.get("range_low", "")), _number(row.get("range_high", ""))
        if low or high:
            return f"{value} {unit}".strip() + f" (reference {low or '?'}–{high or '?'})", ""
        return value, unit

    def entries(self, name: str, row: Row) -> Iterator[Entry]:
        """The entry of a row, and one for its end where that is later."""
        table = _TABLES[name]
        dated = table.prefix + ("_exposure" if name.endswith("_exposure") else "")
        time = _moment(row, dated, ("_start", ""))
        code, title = self.concept(row, "cause" if name == "death" else table.prefix)
        text, unit, note, author = self.text(row, table.parts), "", "", ""
        if name == "note":
            note = row.get("note_id", "")
            author = self.providers.get(row.get("provider_id", ""), "")
            named = self.concept(row, "note_class")[1] or self.concept(row, "note_type")[1]
            title, text = row.get("note_title", "") or named or "Note", row.get("note_text", "")
        elif name == "death":
            title, text = "Death", f"cause {title}" if title else "recorded"
        elif name in ("measurement", "observation"):
            value, unit = self.value(row)
            both = text and value
            text, unit = (f"{value} {unit}; {text}", "") if both else (value or text, unit)
        visit = row.get("visit_occurrence_id", "")
        title = title or f"{table.kind} without a name"
        end = _moment(row, dated, ("_end",)) if table.interval else None
        lasting = end is not None and (time is None or end.date() > time.date())
        text = text or ("start" if lasting else "" if name == "note" else "recorded")
        started = entry(
            time,
            table.kind,
            code=code,
            name=title,
            text=text,
            unit=unit,
            note_id=note,
            visit_id=visit,
            author=author,
        )
        yield started
        if lasting:
            yield (end, *started[1:4], "end", "", "", *started[7:])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_text(column: str, is_integer: bool) -> str:
    """SQL for a column as text; ``is_integer``: an id stored as a floating-point number."""
    number = f"TRY_CAST({_quoted(column)} AS BIGINT)" if is_integer else _quoted(column)
    return f"CAST({number} AS VARCHAR)"


def _by_table(names: Iterable[str]) -> dict[str, str]:
    """Table in lower case → the name of its file; other files are left out."""
    paths = {name: Path(name) for name in names}
    return {
        path.stem.lower(): name
        for name, path in paths.items()
        if path.suffix.lower() in _SUFFIXES and not path.name.startswith("._")
    }


def _table_files(place: Path) -> dict[str, Path]:
    """Table → file of a folder, or of the one sub-folder that holds the person table."""
    for folder in (place, *sorted(p for p in place.iterdir() if p.is_dir())):
        files = _by_table(sorted(f.name for f in folder.iterdir() if not f.is_dir()))
        if "person" in files and files.keys() & _TABLES.keys():
            return {table: folder / name for table, name in files.items()}
    return {}


def _zip_at(place: Path) -> Path | None:
    """The zip of OMOP tables at a path: itself, or the only one in the folder."""
    archives = [place] if place.is_file() else sorted(place.glob("*.[zZ][iI][pP]"))
    if len(archives) != 1 or not archives[0].is_file():
        return None
    try:
        with UntrustedZip(archives[0], archives[0].name) as archive:
            return archives[0] if "person" in _by_table(archive.names) else None
    except (DataError, OSError):
        return None  # no zip, or a damaged one


def _duckdb_at(place: Path) -> Path | None:
    databases = [place] if place.is_file() else sorted(place.glob("*.duckdb"))
    return (
        databases[0] if len(databases) == 1 and databases[0].suffix.lower() == ".duckdb" else None
    )


def _delimiter(file: Path) -> str:
    """The first delimiter in a CSV file's header; raises DataError for too many columns.

    DuckDB would try out several, which takes seconds and gigabytes for some headers of 50 KB.
    """
    with file.open("rb") as opened:
        header = opened.readline(1 << 20)
    first = re.search(rb"[,\t;|]", header)
    delimiter = first[0] if first else b","
    if (columns := header.count(delimiter) + 1) > MOST_CSV_COLUMNS:
        reason = f"has {columns:,} columns; at most {MOST_CSV_COLUMNS} are read"
        raise DataError(file.name, 1, reason, "export the table again")
    return delimiter.decode()


def _add_file(base: _Database, table: str, file: Path, stored: bool, log: LoadLog) -> None:
    """Enter the table of a CSV or Parquet file; rows that cannot be parsed are skipped."""
    if file.suffix.lower() == ".parquet":
        base.add(table, f"read_parquet({sql_files([file])})", stored)
        return
    base.add(
        table,
        f"read_csv({sql_files([file])}, header=true, all_varchar=true, null_padding=false, delim="
        f"{literal(_delimiter(file))}, comment='', store_rejects=true, rejects_limit=0, "
        "max_line_size=67108864, sample_size=-1)",
        False,
    )
    rejected = base.base.execute(
        "SELECT line, min(CAST(error_type AS VARCHAR)) FROM reject_errors "
        "GROUP BY line ORDER BY line"
    ).fetchall()
    base.base.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
    for line, kind in rejected[:_MOST_REJECTED]:
        reason = f"cannot be parsed ({str(kind).lower()}) — fix the row's quotes and columns"
        log.skip(file.name, int(line), reason)
    if len(rejected) > _MOST_REJECTED:
        more = len(rejected) - _MOST_REJECTED
        log.skip(file.name, None, f"{more:,} more rows cannot be parsed — fix them")


def _read_files(base: _Database, files: Mapping[str, Path], stored: bool, log: LoadLog) -> None:
    for table, file in files.items():
        log.opened.add(file)
        if table not in _NEEDED:
            continue
        if not checked_tables([file], file.parent, log):
            continue
        try:
            _add_file(base, table, file, stored and file.suffix.lower() == ".parquet", log)
        except duckdb.OutOfMemoryException:
            reason = f"takes more than {MEMORY} of memory"
            raise DataError(file.name, None, reason, "convert the tables to Parquet") from None
        except duckdb.Error as error:
            log.skip(file.name, None, f"{describe_error(error)} — export the table again")
        except DataError as error:
            log.skip(file.name, error.line, f"{error.reason} — {error.remedy}")


def _read_zip(base: _Database, path: Path, log: LoadLog) -> list[str]:
    """Enter the tables of a zip, by way of a folder that is removed; gives all tables' names."""
    with (
        UntrustedZip(path, path.name) as archive,
        TemporaryDirectory(prefix="midchart-") as folder,
    ):
        members = _by_table(archive.names)
        wanted = {t: m for t, m in members.items() if t in _NEEDED}
        archive.check(MOST_ZIP_FILES, LARGEST_ZIP, wanted.values())
        files: dict[str, Path] = {}
        for table, member in wanted.items():
            file = Path(folder) / f"{table}{Path(member).suffix.lower()}"
            try:
                with archive.open(member) as packed, file.open("wb") as unpacked:
                    while block := packed.read(1 << 20):
                        unpacked.write(block)
            except DataError as error:
                log.skip(path.name, None, f"{error.reason} — {error.remedy}")
            else:
                files[table] = file
        _read_files(base, files, False, log)
        return list(members)


def _read_duckdb(base: _Database, path: Path, log: LoadLog) -> list[str]:
    """Enter the tables of a DuckDB file, read-only; its views are not trusted."""
    if not checked_tables([path], path.parent, log):
        raise log.nothing_read(path.name, "cannot be read")
    try:
        base.base.execute(f"ATTACH {literal(path)} AS cdm (READ_ONLY)")
        base.base.execute("SET enable_external_access = false")
        tables = base.base.execute(
            "SELECT table_name, schema_name FROM duckdb_tables() WHERE database_name = 'cdm'"
        ).fetchall()
    except duckdb.Error as error:
        raise DataError(path.name, None, describe_error(error), "close other users of it") from None
    for name, schema in tables:
        if str(name).lower() in _NEEDED:
            try:
                base.add(str(name).lower(), f'cdm."{schema}"."{name}"', True)
            except duckdb.Error as error:
                log.skip(path.name, None, f"table {name}: {describe_error(error)} — export it")
    return [str(name).lower() for name, _ in tables]


# Rows become entries.


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    return f"{value:.6g}" if not value or 1e-4 <= abs(value) < 1e6 else text.removesuffix(".0")


def _moment(row: Row, prefix: str, infixes: Sequence[str]) -> datetime | None:
    columns = (f"{prefix}{infix}_{what}" for infix in infixes for what in ("datetime", "date"))
    return next((t for c in columns if (t := parse_time(row.get(c))) is not None), None)


def _facts(base: _Database, person: Row) -> dict[str, str]:
    facts = {
        "birth year": person.get("year_of_birth", ""),
        **{name: base.concept(person, name)[1] for name in ("gender", "race", "ethnicity")},
    }
    return {name: value for name, value in facts.items() if value and value != "0"}


def _record(base: _Database, id: str, source: str) -> tuple[Record, list[str]]:
    raw: list[Entry] = []
    blank = 0
    for table in _TABLES:
        for row in base.rows(table, id) if table in base.columns else ():
            entries = list(base.entries(table, row))
            blank += table == "note" and not entries[0][4].strip()
            raw += entries
    raw.sort(key=lambda one: one[0] is not None)  # what is undated comes first
    person = next(iter(base.rows("person", id)), {})
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

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """The persons of the tables."""
        try:
            return self._read(place, log)
        except duckdb.Error as error:
            remedy = "export the tables again"
            raise DataError(place.name, None, describe_error(error), remedy) from None

    def _read(self, place: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        base = _Database(connect(memory=MEMORY))
        files = _table_files(place) if place.is_dir() else {}
        if files:
            _read_files(base, files, True, log)
            tables: list[str] = list(files)
        elif (stored := _duckdb_at(place)) is not None:
            log.opened.add(stored)
            tables = _read_duckdb(base, stored, log)
        else:
            log.opened.add(_zip_at(place) or place)
            tables = _read_zip(base, _zip_at(place) or place, log)
        if "person" not in base.columns or not base.count("person"):
            raise log.nothing_read(place.name, "has no person — export PERSON")
        base.read_concepts()
        base.read_providers()
        _account(base, tables, log)
        people = base.base.execute(
            "SELECT DISTINCT person_id FROM midchart_person WHERE person_id IS NOT NULL "
            "ORDER BY try_cast(person_id AS BIGINT), person_id"
        ).fetchall()
        readers: dict[str, ReadRecord] = {
            id: partial(_record, base, id, place.name) for (id,) in people
        }
        records = LazyRecords(readers, log)
        return records, read_question_tables(tables_in(place), records, log)


def _account(base: _Database, tables: Sequence[str], log: LoadLog) -> None:
    """Say what of the tables is no part of any record."""
    for table in _TABLES:
        if table not in base.columns:
            continue
        lost = base.count(
            table, "person_id IS NULL OR person_id NOT IN (SELECT person_id FROM midchart_person "
            "WHERE person_id IS NOT NULL)",
        )  # fmt: skip
        if lost:
            reason = f"{lost:,} rows name a person who is not in PERSON — add the person"
            log.skip(table, None, reason)
    missing = [table for table in _TABLES if table not in base.columns]
    if missing:
        log.warn(f"tables that are not there: {', '.join(missing)}")
    if "concept" not in base.columns:
        log.warn("CONCEPT is not there — entries are named by their source values")
    others = sorted(set(tables) - set(_NEEDED))
    if others:
        log.warn(f"tables that are no part of a record: {', '.join(others)}")
