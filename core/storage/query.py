"""Queries of a run's files through DuckDB, in memory: without a database file, readers and writers
do not block each other.

A table's columns are declared, never guessed from its first rows. A line that is not whole JSON
comes out of DuckDB as a row of nulls; it is left out by its missing key. One such line, the last,
is what a writer at work or a killed one leaves; more of them are damage (core.storage.damage).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from core.errors import DataError
from core.parsing import valid_unicode

T = TypeVar("T")
Schema = Mapping[str, str]
"""Column → DuckDB type; every schema has a ``key``."""

LONGEST_LINE = 256 << 20
_ATTEMPTS = 5
_lock = threading.Lock()
_connections: list[duckdb.DuckDBPyConnection] = []


def cursor() -> duckdb.DuckDBPyConnection:
    """A cursor of this process's one in-memory database; extensions are never fetched."""
    with _lock:
        if not _connections:
            _connections.append(
                duckdb.connect(
                    ":memory:",
                    config={
                        "autoinstall_known_extensions": False,
                        "autoload_known_extensions": False,
                        # A file that was compacted, reopened and compacted again keeps its name.
                        "enable_external_file_cache": False,
                    },
                )
            )
        return _connections[0].cursor()


@atexit.register
def close() -> None:
    """Close the database; the next question opens another.

    Left to the interpreter's end, the binding prints pages about leaks on standard error.
    """
    with _lock:
        while _connections:
            _connections.pop().close()


def literal(text: str | Path) -> str:
    """A text or path as an SQL string."""
    # DuckDB takes no lone surrogates and no NUL in SQL; no row holds either.
    return "'" + valid_unicode(str(text)).replace("'", "''").replace("\0", "\ufffd") + "'"


def quoted(path: Path) -> str:
    """A path as an SQL string that DuckDB takes for one file, not for a pattern."""
    return literal("".join(f"[{c}]" if c in "*?[" else c for c in str(path)))


def _struct(schema: Schema) -> str:
    return "{" + ", ".join(f"'{name}': '{type}'" for name, type in schema.items()) + "}"


def json_lines(path: Path, schema: Schema) -> str:
    """SQL that reads the lines of a JSONL file; one that is no row gives nulls."""
    longest = min(max(path.stat().st_size, 16 << 20), LONGEST_LINE)
    return (
        f"read_json({quoted(path)}, columns={_struct(schema)}, "
        f"format='newline_delimited', ignore_errors=true, maximum_object_size={longest})"
    )


def json_source(path: Path, schema: Schema) -> str:
    """SQL that reads the whole rows of a JSONL file."""
    return f"(SELECT * FROM {json_lines(path, schema)} WHERE key IS NOT NULL)"


def source(folder: Path, table: str, schema: Schema) -> str:
    """SQL of a table from its current file: Parquet, JSONL or none.

    The order of the checks matters: a finished run's rows move from JSONL to Parquet at any
    moment, so where neither exists Parquet is checked once more.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if parquet.exists():
        return parquet_source(parquet, schema)
    try:
        return json_source(journal, schema)
    except FileNotFoundError:
        return parquet_source(parquet, schema) if parquet.exists() else f"({_no_rows(schema)})"


def _no_rows(schema: Schema) -> str:
    columns = ", ".join(f"NULL::{type} AS {name}" for name, type in schema.items())
    return f"SELECT {columns} WHERE false"


def parquet_source(path: Path, schema: Schema) -> str:
    """SQL that reads a Parquet file: a column that is newer than the file as nulls; one of another
    type is cast, or refused."""
    cast = ", ".join(f"{name}::{type} AS {name}" for name, type in schema.items())
    return (
        f"(SELECT {cast} FROM ({_no_rows(schema)} UNION ALL BY NAME "
        f"SELECT * FROM read_parquet({quoted(path)})))"
    )


RESTORE_ROWS = "restore the file, or do the run again"
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

    return attempted(read, name)


def rows_of(done: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows of an executed question as dictionaries."""
    names = [column[0] for column in done.description or []]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


def attempted(read: Callable[[], T], name: str = ROWS) -> T:
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
            raise DataError(name, None, reason, RESTORE_ROWS) from None
    raise AssertionError("unreachable")
