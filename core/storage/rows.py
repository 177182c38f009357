"""A folder of tables that one process appends to, its queries, and its damaged lines.

Its files are queried through DuckDB, in memory: without a database file, readers and writers do not
block each other.

A table's columns are declared, never guessed from its first rows. A line that is not whole JSON
comes out of DuckDB as a row of nulls; it is left out by its missing key. One such line, the last,
is what a writer at work or a killed one leaves; more of them are damage.

Damaged lines of a table's JSON Lines file are known by the table's declared columns, and moved. The
damaged lines of ``answers.jsonl`` go to ``answers.damaged.jsonl`` in its folder, which is only
appended to: ``line`` (from 1, in the file as it was), ``reason`` and ``text``, with bytes that are
not UTF-8 as escapes. Their items are then absent from the table, and repeated.
"""

from __future__ import annotations

import atexit
import mmap
import os
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar

import duckdb

from midchart.core.errors import DataError, UnknownName, WorkFailed
from midchart.core.format import count as spelled
from midchart.core.regular_files import open_regular
from midchart.core.storage.files import file_state_if_any, open_private, sync_folder
from midchart.core.storage.jsonl import add_line, encode, read_lines
from midchart.core.storage.sql_files import identifier, literal, sql_file

T = TypeVar("T")
Schema = Mapping[str, str]
"""Column → DuckDB type; every schema has a ``key``."""

_LONGEST_LINE = 256 << 20
_ATTEMPTS = 5
_ROWS_AT_ONCE = 2048
"""Rows of a Parquet file's group, the fewest that DuckDB takes: the writer holds some of them, and
a row with its prompt has tens of kilobytes."""
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # A file that was compacted, reopened and compacted again keeps its name.
    "enable_external_file_cache": False,
}
_lock = threading.Lock()
_connections: list[duckdb.DuckDBPyConnection] = []


def cursor() -> duckdb.DuckDBPyConnection:
    """A cursor of this process's one in-memory database; extensions are never fetched."""
    with _lock:
        if not _connections:
            _connections.append(duckdb.connect(":memory:", config=_CONFIG))
        return _connections[0].cursor()


@atexit.register
def close() -> None:
    """Close the database; the next question opens another.

    Left to the interpreter's end, the binding prints pages about leaks on standard error.
    """
    with _lock:
        while _connections:
            _connections.pop().close()


def _json_source(path: Path, schema: Schema, longest: int | None = None) -> str:
    """SQL that reads the rows of a JSONL file; a line that is none has no key and is left out.

    ``longest``: bytes of its longest line, where they are known: DuckDB holds twice as many.
    """
    longest = min(max(longest or path.stat().st_size, 16 << 20), _LONGEST_LINE)
    columns = ", ".join(f"'{name}': '{type}'" for name, type in schema.items())
    read = (
        f"read_json({sql_file(path)}, columns={{{columns}}}, "
        f"format='newline_delimited', ignore_errors=true, maximum_object_size={longest})"
    )
    return f"(SELECT * FROM {read} WHERE key IS NOT NULL)"


def source(folder: Path, table: str, schema: Schema) -> str:
    """SQL of a table from its current file: Parquet, JSONL or none.

    The order of the checks matters: a finished run's rows move from JSONL to Parquet at any
    moment, so where neither exists Parquet is checked once more.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if parquet.exists():
        return parquet_source(parquet, schema)
    try:
        return _json_source(journal, schema)
    except (FileNotFoundError, NotADirectoryError):
        return parquet_source(parquet, schema) if parquet.exists() else f"({_no_rows(schema)})"
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        name = f"run {folder.parent.name}: {folder.name}/{journal.name}"
        raise DataError(name, None, reason, _RESTORE_ROWS) from None


def _no_rows(schema: Schema) -> str:
    columns = ", ".join(f"NULL::{type} AS {identifier(name)}" for name, type in schema.items())
    return f"SELECT {columns} WHERE false"


def parquet_source(path: Path, schema: Schema) -> str:
    """SQL that reads a Parquet file: a column that is newer than the file as nulls; one of another
    type is cast, or refused."""
    names = {identifier(name): type for name, type in schema.items()}
    cast = ", ".join(f"{name}::{type} AS {name}" for name, type in names.items())
    file = f"read_parquet({sql_file(path)})"
    return f"(SELECT {cast} FROM ({_no_rows(schema)} UNION ALL BY NAME SELECT * FROM {file}))"


_RESTORE_ROWS = "restore the file, or do the run again"
ROWS = "the run's rows"


def query(
    sql: Callable[[], str], parameters: Sequence[Any] = (), name: str = ROWS
) -> list[dict[str, Any]]:
    """Rows of a question as dictionaries; raises DataError, by ``name``, where the files cannot be
    read.

    ``sql`` is called for the text, again when a file moved between the look and the read.
    """

    def read() -> list[dict[str, Any]]:
        with cursor() as connection:
            return rows_of(connection.execute(sql(), list(parameters)))

    return _attempted(read, name)


def rows_of(done: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows of an executed question as dictionaries."""
    names = [column[0] for column in done.description or []]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


def _attempted(read: Callable[[], T], name: str = ROWS) -> T:
    """The result of ``read``, tried again where a file moved meanwhile.

    Raises DataError for DuckDB's error, without its text, which may quote rows.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return read()
        except duckdb.Error as error:
            if isinstance(error, duckdb.IOException) and attempt < _ATTEMPTS - 1:
                continue
            kind = type(error).__name__.removesuffix("Exception")
            reason = f"cannot be read ({kind} error)"
            # No content of a file gives this error.
            wrong_sql = isinstance(error, duckdb.ParserException)
            remedy = "quote columns whose names SQL reserves" if wrong_sql else _RESTORE_ROWS
            raise DataError(name, None, reason, remedy) from None
    raise AssertionError("unreachable")


_SUFFIX = ".damaged.jsonl"
_INTEGER = 1 << 63
_MOST_NAMED = 20


def _column_type(declared: Any) -> Any:
    """The pydantic type of a DuckDB type."""
    from pydantic import Field, create_model

    column: Any
    if declared.id == "list":
        column = list[_column_type(declared.children[0][1])]
    elif declared.id == "struct":
        fields: dict[str, Any] = {
            f"field_{name}": (_column_type(inner), Field(None, alias=name))
            for name, inner in declared.children
        }
        column = create_model("Struct", **fields)
    else:
        column = {
            "varchar": str,
            "bigint": Annotated[int, Field(ge=-_INTEGER, lt=_INTEGER)],
            "double": Annotated[float, Field(allow_inf_nan=False)],
            "boolean": bool,
        }[declared.id]
    return Optional[column]  # noqa: UP045 - the type is a value here


def _row_model(schema: Schema) -> Any:
    """The pydantic model of a table's rows. A column that is absent reads as null, as in files of
    an earlier version."""
    from pydantic import ConfigDict, Field, create_model

    columns: dict[str, Any] = {
        f"column_{name}": (_column_type(duckdb.sqltype(type)), Field(None, alias=name))
        for name, type in schema.items()
    }
    columns["column_key"] = (Annotated[str, Field(min_length=1)], Field(alias="key"))
    columns["column_status"] = (Literal["ok", "failed"], Field(alias="status"))
    return create_model("Row", __config__=ConfigDict(strict=True), **columns)


def _lines(path: Path, schema: Schema) -> Iterator[bytes]:
    """The lines of a table's file, and those that the rows of a Parquet file would be."""
    if path.suffix != ".parquet":
        with open_regular(path) as file:
            yield from file
        return
    for row in query(lambda: f"SELECT * FROM {parquet_source(path, schema)}", name=path.name):
        try:
            yield encode(row)
        except (TypeError, ValueError):
            yield b""  # a value that JSON does not have


def damaged_and_failed(path: Path, schema: Schema) -> tuple[dict[int, str], set[int]]:
    """The damaged lines (from 1) of a table's file, JSON Lines or Parquet, with their reasons, and
    the lines of failed rows; raises DataError for a Parquet file that cannot be read."""
    from pydantic import ValidationError

    model = _row_model(schema)
    keys: set[str] = set()
    damaged: dict[int, str] = {}
    failed: set[int] = set()
    for number, line in enumerate(_lines(path, schema), 1):
        try:
            row = model.model_validate_json(line)
        except ValidationError as error:
            at = error.errors(include_url=False, include_input=False)[0]["loc"]
            damaged[number] = f"{at[0]} is missing or has a wrong type" if at else "is no row"
            continue
        if row.column_key in keys:
            damaged[number] = "repeats the key of an earlier line"
            continue
        keys.add(row.column_key)
        if row.column_status == "failed":
            failed.add(number)
    return damaged, failed


def set_aside(path: Path, schema: Schema) -> None:
    """Rewrite a table's file without its damaged lines, which are appended to another file, and
    without failed rows, by atomic rename.

    A row whose key an earlier row has is damaged too. The other lines stay byte for byte. Only
    under the run's lock, without a half-written last line and with no writer open.
    """
    if not path.exists():
        return
    damaged, failed = damaged_and_failed(path, schema)
    if not damaged and not failed:
        return
    aside = path.with_name(path.stem + _SUFFIX)
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)
    with open_regular(path) as file, fresh.open("xb") as out:
        for number, line in enumerate(file, 1):
            if number in damaged:
                text = line.removesuffix(b"\n").decode("utf-8", "backslashreplace")
                entry = {"line": number, "reason": damaged[number], "text": text}
                add_line(aside, entry, durable=True)
            elif number not in failed:
                out.write(line)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def damage_warnings(folder: Path) -> list[str]:
    """A sentence on each table in ``folder`` that lost damaged lines to such a file."""
    warnings: list[str] = []
    for aside in sorted(folder.glob(f"*{_SUFFIX}")):
        numbers = sorted({e["line"] for e in read_lines(aside) if isinstance(e.get("line"), int)})
        if numbers:
            more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
            warnings.append(
                f"{aside.name.removesuffix(_SUFFIX)}.jsonl had damaged lines: line "
                f"{', '.join(map(str, numbers[:_MOST_NAMED]))}{more}; they are kept in "
                f"items/{aside.name}, and a resume does their items again"
            )
    return warnings


# Append-only JSON lines: one row, one line, one write.


SYNC_EVERY_S = 1.0
"""At most so much work is lost to a power cut; a killed process loses none."""


def repair(path: Path) -> None:
    """Cut off a half-written last line. Only under the run's lock."""
    if not path.exists() or not path.stat().st_size:
        return
    with os.fdopen(open_private(path, os.O_RDWR), "r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            size, end = len(content), content.rfind(b"\n") + 1
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())


class LineWriter:
    """An open file of JSON lines; opening it cuts off a half-written last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        repair(path)
        created = not path.exists()
        self._fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if created:
            sync_folder(path.parent)
        self._synced = time.monotonic()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row, newline and all, in one call; raises WorkFailed when the disk is full."""
        line = encode(row)
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise self._not_written(error) from None
        if written < len(line):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise WorkFailed(f"{self.path}: the disk took only part of a row (is it full?)")
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Make what was written outlast a power cut; raises WorkFailed when the disk is full."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._not_written(error) from None
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close, also where syncing fails; closing twice is once."""
        if self._fd >= 0:
            try:
                self.sync()
            finally:
                os.close(self._fd)
                self._fd = -1

    def _not_written(self, error: OSError) -> WorkFailed:
        return WorkFailed(f"{self.path}: cannot be written ({error.strerror})")


# From JSON Lines to Parquet when a run is finished, and back when it is resumed.


def compact(folder: Path, table: str, schema: Schema) -> None:
    """Move a table from JSONL to Parquet. Only under the run's lock, with no writer open.

    Raises WorkFailed where the JSONL holds damaged lines: a resume moves them to another file.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if not parquet.exists():
        if not journal.exists():
            return
        repair(journal)
        damaged, _ = damaged_and_failed(journal, schema)
        if damaged:
            raise WorkFailed(
                f"{journal}: {spelled(len(damaged), 'damaged line')}; resume the run: it moves "
                "them to a separate file and does their items again"
            )
        fresh = parquet.with_name(parquet.name + ".tmp")
        fresh.unlink(missing_ok=True)
        # Several threads would hold all rows that are read ahead of the one that is written.
        single = duckdb.connect(":memory:", config=_CONFIG | {"threads": 1})
        with open_regular(journal) as file:
            longest = max(map(len, file), default=0)
        with single as connection:
            connection.execute(
                f"COPY {_json_source(journal, schema, longest)} TO {literal(fresh)} "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROWS_AT_ONCE})"
            )
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(parquet)
        sync_folder(folder)
    journal.unlink(missing_ok=True)
    sync_folder(folder)


def reopen(folder: Path, table: str) -> None:
    """Move a table from Parquet back to JSONL, to append to it. Only under the run's lock.

    A JSONL that a kill left next to the Parquet is replaced: the Parquet is the complete table.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if not parquet.exists():
        return
    fresh = journal.with_name(journal.name + ".tmp")
    fresh.unlink(missing_ok=True)
    with fresh.open("xb") as file:
        for row in query(lambda: f"SELECT * FROM read_parquet({sql_file(parquet)})"):
            file.write(encode(row))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(journal)
    sync_folder(folder)
    parquet.unlink()
    sync_folder(folder)


class RowStore:
    """Tables in ``folder``; ``schemas`` maps each table's name to its columns.

    Every row has a unique ``key`` and a ``status``, "ok" or "failed". Appending takes the run's
    lock, which the caller holds.
    ``counted`` is the condition on ``record``, in SQL, of the rows that tables of results count.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, Schema]) -> None:
        self.folder, self.schemas = folder, schemas
        self.counted = "true"
        self._writers: dict[str, LineWriter] = {}
        self._keys: dict[str, set[str]] = {}

    def _schema(self, table: str) -> Schema:
        if table not in self.schemas:
            raise UnknownName("table", table, self.schemas)
        return self.schemas[table]

    def source(self, table: str) -> str:
        """SQL of a table's present rows; raises DataError for a file that cannot be read."""
        return source(self.folder, table, self._schema(table))

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table, in the order in which they were appended; raises DataError."""
        return query(lambda: f"SELECT {columns} FROM {self.source(table)} WHERE {where}")

    def state(self, table: str) -> Hashable:
        """A table's files and what changes with their content."""
        files = (self.folder / f"{table}.parquet", self.folder / f"{table}.jsonl")
        return files, *map(file_state_if_any, files)

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Append a row; raises ValueError for a key that is there or a column that is not."""
        schema = self._schema(table)
        if row.keys() != schema.keys():
            wrong = ", ".join(sorted(row.keys() ^ schema.keys()))
            raise ValueError(f"a row of {table} has its declared columns; these differ: {wrong}")
        if table not in self._writers:
            # Opening cuts off a half-written line, so it comes before the keys are looked at.
            self._writers[table] = LineWriter(self.folder / f"{table}.jsonl")
        if table not in self._keys:
            self._keys[table] = {row["key"] for row in self.select(table, "key")}
        if row["key"] in self._keys[table]:
            raise ValueError(f"{table} has a row with the key {row['key']}")
        self._writers[table].append(row)
        self._keys[table].add(row["key"])

    def reopen(self) -> None:
        """Ready every table for appending: back to JSONL, without failed rows and damaged lines.

        Damaged lines are moved to another file (:mod:`midchart.core.storage.rows`).
        """
        if not self.folder.exists():
            self.folder.mkdir()
            sync_folder(self.folder.parent)
        for table, schema in self.schemas.items():
            reopen(self.folder, table)
            repair(self.folder / f"{table}.jsonl")
            set_aside(self.folder / f"{table}.jsonl", schema)
        self._keys.clear()

    def close(self) -> None:
        """Close all files; the store can be read from and opened again."""
        for journal in self._writers.values():
            journal.close()
        self._writers.clear()

    def compact(self) -> None:
        """Close all files and move every table to Parquet."""
        self.close()
        for table, schema in self.schemas.items():
            compact(self.folder, table, schema)


# Many questions about one moment of a run: its tables read once, into memory, then asked.


Ask = Callable[[str], list[dict[str, Any]]]
"""A question in SQL → its rows as dictionaries."""


@contextmanager
def snapshot(statements: Callable[[], Sequence[str]]) -> Generator[Ask]:
    """Make temporary tables, and answer questions about them until the block ends.

    ``statements`` is called for the SQL that makes them (``CREATE OR REPLACE TEMP TABLE …``),
    again when a file moved between the look and the read.
    """
    with cursor() as connection:

        def make() -> None:
            for statement in statements():
                connection.execute(statement)

        _attempted(make)
        yield lambda sql: rows_of(connection.execute(sql))
