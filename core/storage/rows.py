"""A folder of tables that one process appends to, and its queries.

Its files are queried through DuckDB, in memory: without a database file, readers and writers do not
block each other.

A table's columns are declared, never guessed from its first rows. A line that is not whole JSON
comes out of DuckDB as a row of nulls; it is left out by its missing key. One such line, the last,
is what a writer at work or a killed one leaves; more of them are damage, and their items are done
again by a resume.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import msgspec

from midchart.core.errors import DataError, UnknownName, WorkFailed
from midchart.core.format import count as spelled
from midchart.core.parsing import identifier, literal
from midchart.core.storage.files import file_state, replacing, sync_folder
from midchart.core.storage.jsonl import encode, last_line

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
_databases: dict[int, duckdb.DuckDBPyConnection] = {}
"""The database by process: that of the process which forked this one lacks its threads here, so it
is neither asked nor closed."""


def cursor() -> duckdb.DuckDBPyConnection:
    """A cursor of this process's one in-memory database; extensions are never fetched."""
    with _lock:
        if os.getpid() not in _databases:
            _databases[os.getpid()] = duckdb.connect(":memory:", config=_CONFIG)
        return _databases[os.getpid()].cursor()


@atexit.register
def close() -> None:
    """Close the database; the next question opens another.

    Left to the interpreter's end, the binding prints pages about leaks on standard error.
    """
    with _lock:
        if database := _databases.pop(os.getpid(), None):
            database.close()


def _json_source(path: Path, schema: Schema, longest: int | None = None) -> str:
    """SQL that reads the rows of a JSONL file; a line that is none has no key and is left out.

    ``longest``: bytes of its longest line, where they are known: DuckDB holds twice as many.
    """
    longest = min(max(longest or path.stat().st_size, 16 << 20), _LONGEST_LINE)
    columns = ", ".join(f"'{name}': '{type}'" for name, type in schema.items())
    read = (
        f"read_json({literal(path)}, columns={{{columns}}}, "
        f"format='newline_delimited', ignore_errors=true, maximum_object_size={longest})"
    )
    return f"(SELECT * FROM {read} WHERE key IS NOT NULL)"


def source(parquet: Path, journal: Path, schema: Schema) -> str:
    """SQL of a table from its current file: Parquet, JSONL or none.

    The order of the checks matters: a finished run's rows move from JSONL to Parquet at any
    moment, so where neither exists Parquet is checked once more.
    """
    if parquet.exists():
        return parquet_source(parquet, schema)
    try:
        return _json_source(journal, schema)
    except (FileNotFoundError, NotADirectoryError):
        return parquet_source(parquet, schema) if parquet.exists() else f"({_no_rows(schema)})"
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        name = f"run {journal.parts[-3]}: {journal.parent.name}/{journal.name}"
        raise DataError(name, None, reason, _RESTORE_ROWS) from None


def _no_rows(schema: Schema) -> str:
    columns = ", ".join(f"NULL::{type} AS {identifier(name)}" for name, type in schema.items())
    return f"SELECT {columns} WHERE false"


def parquet_source(path: Path, schema: Schema) -> str:
    """SQL that reads a Parquet file: a column that is newer than the file as nulls; one of another
    type is cast, or refused."""
    names = {identifier(name): type for name, type in schema.items()}
    cast = ", ".join(f"{name}::{type} AS {name}" for name, type in names.items())
    file = f"read_parquet({literal(path)})"
    return f"(SELECT {cast} FROM ({_no_rows(schema)} UNION ALL BY NAME SELECT * FROM {file}))"


_RESTORE_ROWS = "restore the file, or do the run again"
ROWS = "the run's rows"


def query(
    sql: Callable[[], str], parameters: Sequence[Any] = (), name: str = ROWS
) -> list[dict[str, Any]]:
    """Rows of a question as dictionaries; ``sql`` is called for its text, again when a file moved
    between the look and the read. Raises DataError, by ``name``."""

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


class _Key(msgspec.Struct):
    key: str


_KEY = msgspec.json.Decoder(_Key)


def _key_of(line: bytes) -> str | None:
    """The key of a line of rows; None for one that is no JSON object with a key."""
    try:
        return _KEY.decode(line).key
    except (msgspec.MsgspecError, UnicodeError):
        return None


def keep_finished(path: Path, schema: Schema) -> int:
    """Rewrite a table's file, by atomic rename, without rows that failed and without lines that are
    no rows of the table, and give the number of the latter. The other lines stay byte for byte.

    Only under the run's lock, without a half-written last line and with no writer open.
    """
    columns = f"SELECT key, status FROM {_json_source(path, schema)}"
    statuses = {row["key"]: row["status"] for row in query(lambda: columns)}
    left_out: dict[int, bool] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file):
            status = statuses.pop(_key_of(line) or "", None)
            if status != "ok":
                left_out[number] = status != "failed"
    if left_out:
        with replacing(path) as fresh, path.open("rb") as file, fresh.open("wb") as out:
            out.writelines(line for number, line in enumerate(file) if number not in left_out)
    return sum(left_out.values())


# Append-only JSON lines: one row, one line, one write.


SYNC_EVERY_S = 1.0
"""At most so much work is lost to a power cut; a killed process loses none."""


def repair(path: Path) -> None:
    """Cut off a half-written last line. Only under the run's lock."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(last_line(file.fileno())[0])
            os.fsync(file.fileno())


class LineWriter:
    """An open file of JSON lines; opening it cuts off a half-written last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        repair(path)
        created = not path.exists()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
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


class RowStore:
    """Tables in ``folder``; ``schemas`` maps each table's name to its columns.

    Every row has a unique ``key`` and a ``status``, "ok" or "failed". Appending takes the run's
    lock, which the caller holds. ``counted`` is the condition on ``record``, in SQL, of the rows
    that tables of results count.
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

    def _files(self, table: str) -> tuple[Path, Path]:
        """A table's Parquet and JSONL file."""
        return self.folder / f"{table}.parquet", self.folder / f"{table}.jsonl"

    def source(self, table: str) -> str:
        """SQL of a table's present rows; raises DataError for a file that cannot be read."""
        return source(*self._files(table), self._schema(table))

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table, in the order in which they were appended; raises DataError."""
        return query(lambda: f"SELECT {columns} FROM {self.source(table)} WHERE {where}")

    def state(self, table: str) -> Hashable:
        """A table's files and what changes with their content."""
        files = self._files(table)
        return files, *map(file_state, files)

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

    def reopen(self) -> list[str]:
        """Ready every table for appending: back to JSONL, without failed rows and damaged lines,
        on which it gives a sentence.

        Only under the run's lock. A JSONL that a kill left next to a Parquet file is replaced: the
        Parquet is the complete table.
        """
        warnings: list[str] = []
        if not self.folder.exists():
            self.folder.mkdir()
            sync_folder(self.folder.parent)
        for table, schema in self.schemas.items():
            parquet, journal = self._files(table)
            if parquet.exists():
                with replacing(journal) as fresh, fresh.open("wb") as file:
                    for row in query(
                        lambda at=parquet: f"SELECT * FROM read_parquet({literal(at)})"
                    ):
                        file.write(encode(row))
                parquet.unlink()
                sync_folder(self.folder)
            repair(journal)
            if damaged := keep_finished(journal, schema) if journal.exists() else 0:
                lines = spelled(damaged, "damaged line")
                warnings.append(f"{journal.name}: {lines} left out; their items are done again")
        self._keys.clear()
        return warnings

    def close(self) -> None:
        """Close all files; the store can be read from and opened again."""
        for journal in self._writers.values():
            journal.close()
        self._writers.clear()

    def compact(self) -> None:
        """Close all files and move every table to Parquet. Only under the run's lock.

        Raises WorkFailed where a JSONL holds damaged lines, which a resume leaves out.
        """
        self.close()
        # Several threads would hold all rows that are read ahead of the one that is written.
        with duckdb.connect(":memory:", config=_CONFIG | {"threads": 1}) as single:
            for table, schema in self.schemas.items():
                parquet, journal = self._files(table)
                if journal.exists() and not parquet.exists():
                    repair(journal)
                    _compact(single, journal, parquet, schema)
                journal.unlink(missing_ok=True)
                sync_folder(self.folder)


def _compact(
    single: duckdb.DuckDBPyConnection, journal: Path, parquet: Path, schema: Schema
) -> None:
    with journal.open("rb") as file:
        lengths = [len(line) for line in file]
    rows = _json_source(journal, schema, max(lengths, default=0))
    (counts,) = query(lambda: f"SELECT count(DISTINCT key) AS keys FROM {rows}")
    if counts["keys"] < len(lengths):
        damaged = spelled(len(lengths) - counts["keys"], "damaged line")
        raise WorkFailed(f"{journal}: {damaged}; resume the run, which does their items again")
    with replacing(parquet) as fresh:
        single.execute(
            f"COPY {rows} TO {literal(fresh)} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROWS_AT_ONCE})"
        )


# Many questions about one moment of a run: its tables read once, into memory, then asked.


Ask = Callable[[str], list[dict[str, Any]]]
"""A question in SQL → its rows as dictionaries."""


@contextmanager
def snapshot(statements: Callable[[], Sequence[str]]) -> Generator[Ask]:
    """Make temporary tables (``CREATE OR REPLACE TEMP TABLE …``), and answer questions about them
    until the block ends; ``statements`` is called as by :func:`query`."""
    with cursor() as connection:

        def make() -> None:
            for statement in statements():
                connection.execute(statement)

        _attempted(make)
        yield lambda sql: rows_of(connection.execute(sql))
