"""Builds an event store from a source's rows: read once and ordered by DuckDB.

First all rows go into a DuckDB table on disk, in the source's order. Then they are read back in
order and written into memory-mapped columns. Both steps keep to :data:`MEMORY`, whatever the size
of the source; what does not fit is spilled next to the store. The store is built in a temporary
folder, which is renamed when it is complete; a build that was killed leaves that folder, and the
next build clears it and starts again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import DataError
from midchart.core.sequences.store import COLUMNS, FORMAT, NO_TIME, EventStore
from midchart.core.storage.files import complete_folder
from midchart.core.storage.lock import exclusive
from midchart.core.storage.rows import cursor, literal
from midchart.core.storage.sources import Source


def connect(file: Path | None, memory: str, spill: Path | None) -> duckdb.DuckDBPyConnection:
    """A database in ``file`` (in memory where None) that takes at most ``memory``."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": memory,
        "preserve_insertion_order": True,
    }
    if spill is not None:
        config["temp_directory"] = str(spill)
    return duckdb.connect(":memory:" if file is None else str(file), config=config)


def columns(sql: str) -> dict[str, NDArray[Any]]:
    """The rows of a query as arrays by column; masked where null."""
    with cursor() as base:
        return {name: np.ma.asarray(c) for name, c in base.execute(sql).fetchnumpy().items()}


def describe_error(error: duckdb.Error) -> str:
    """The class of a DuckDB error, without its text, which may quote rows."""
    kind = type(error).__name__.removesuffix("Exception")
    return f"DuckDB could not read it ({kind} error)"


def parquet_source(files: Sequence[Source]) -> str:
    """Parquet files as SQL of one table with the columns of all."""
    return f"read_parquet([{', '.join(file.sql for file in files)}], union_by_name=true)"


def is_nested(type: str) -> bool:
    """Whether a DuckDB type is one of lists or structures, which no table of records has."""
    return type.endswith("]") or type.startswith(("STRUCT", "MAP", "UNION", "VARIANT"))


def patient_id(column: str, type: str = "VARCHAR") -> str:
    """SQL of a patient's id as BIGINT; null for a number that is not whole, which DuckDB rounds.

    ``type``: the column's DuckDB type.
    """
    id = f"try_cast({column} AS BIGINT)"
    if type.endswith("INT") or type.endswith("INTEGER"):
        return id
    number = f"try_cast({column} AS DOUBLE)"
    return f"CASE WHEN {number} = floor({number}) THEN {id} END"


EARLIEST, LATEST = (
    (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    for moment in (datetime.min, datetime.max)
)
"""Microseconds since 1970 of the first and last moment of a record: the years 1 to 9999."""
OUTSIDE = "outside of the years 1 to 9999"
"""How reasons name a time before or after them."""
MEMORY = "2GB"
"""Memory of DuckDB while a store is built."""
GROUP = 1_000_000
"""Rows written at a time."""
_HEAD = 1 << 16
Progress = Callable[[int, int], None]
_Problem = tuple[str, int | None, str]
"""File, line and reason of something left out."""


@dataclass(frozen=True)
class RawTable:
    """A source for DuckDB.

    ``select``: SQL whose rows hold ``p`` BIGINT patient, ``t`` BIGINT µs (null: no time), ``bad``
    BOOLEAN (an invalid time), ``code``, ``v`` FLOAT, ``x`` VARCHAR (non-numeric
    text), ``u`` unit, ``k`` kind. ``files``: those read, in order. ``time_needed``: rows
    without a time are left out and reported (else they are static and come first). ``csv``: lines
    that cannot be parsed are reported by number.
    """

    name: str
    select: str
    files: tuple[Source, ...]
    time_needed: bool = False
    csv: bool = False


def store_folder(cache: Path, source: RawTable) -> Path:
    """The folder of the store of these files, by each one's name, size, modification time and first
    and last 64 KB. Raises DataError."""
    key = hashlib.blake2b(f"{FORMAT}\0{source.select}".encode(), digest_size=12)
    for file in source.files:
        with file.open() as opened:
            stat = os.fstat(opened.fileno())
            key.update(f"{file.own_name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
            key.update(opened.read(_HEAD))
            opened.seek(max(0, stat.st_size - _HEAD))
            key.update(opened.read(_HEAD))
    return cache / "events" / key.hexdigest()


def build_store(source: RawTable, folder: Path, progress: Progress | None = None) -> EventStore:
    """Build the store in ``folder``, or open it where another process has just done so.

    ``progress`` hears of the rows that are in order, and of all. Raises DataError where DuckDB
    cannot read the source or the disk is full.
    """
    with exclusive(folder.parent / f"{folder.name}.lock"):
        if not EventStore.there(folder):
            try:
                with complete_folder(folder) as fresh:
                    _build(source, fresh, progress or (lambda done, planned: None))
            except duckdb.Error as error:
                raise DataError(
                    source.name, None, describe_error(error), "fix or replace it"
                ) from None
            except OSError as error:
                reason = f"could not be read into {folder.parent} ({error.strerror or error})"
                raise DataError(source.name, None, reason, "free space") from None
    return EventStore.open(folder)


def _build(source: RawTable, fresh: Path, progress: Progress) -> None:
    (fresh / "spill").mkdir()
    base = connect(fresh / "raw.duckdb", MEMORY, fresh / "spill")
    try:
        base.execute(f"CREATE TABLE raw AS {source.select}")  # in the source's order
        rows = _count(base, "raw")
        lines = _malformed(base) if source.csv else []
        problems, left_out = _problems(base, source, lines)
        _words(base, fresh)
        _order(base, fresh, progress)
    finally:
        base.close()
    (fresh / "raw.duckdb").unlink()
    (fresh / "raw.duckdb.wal").unlink(missing_ok=True)
    rmtree(fresh / "spill", ignore_errors=True)
    meta = {
        "format": FORMAT, "source": source.name, "problems": problems, "rows": rows + len(lines),
        "left_out": left_out,
    }  # fmt: skip
    (fresh / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _count(base: duckdb.DuckDBPyConnection, table: str) -> int:
    ((number,),) = base.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(number)


def _malformed(base: duckdb.DuckDBPyConnection) -> list[int]:
    """The lines of a CSV that are not a row of the table."""
    query = "SELECT DISTINCT line FROM reject_errors ORDER BY line"
    return [int(line) for (line,) in base.execute(query).fetchall()]


def _problems(
    base: duckdb.DuckDBPyConnection, source: RawTable, malformed: Sequence[int]
) -> tuple[list[_Problem], dict[str, int]]:
    """Deletes invalid rows; counts them by reason, the problems with the position of the first."""
    reasons = [
        ("p IS NULL", "have no patient id that is a whole number"),
        ("coalesce(code, '') = ''", "have no code"),
        ("bad", "have a time that cannot be read"),
        (f"t NOT BETWEEN {EARLIEST} AND {LATEST}", f"have a time {OUTSIDE}"),
    ]
    if source.time_needed:
        reasons.append(("t IS NULL", "have no time"))
    problems: list[_Problem] = []
    left_out: dict[str, int] = {}
    if malformed:
        reason = "are not a row of the table"
        problems.append((source.name, malformed[0], f"{len(malformed):,} lines {reason}"))
        left_out[reason] = len(malformed)
    before = "false"
    for test, reason in reasons:
        row = base.execute(
            f"SELECT count(*), min(rowid) FROM raw WHERE coalesce({test}, false) AND NOT ({before})"
        ).fetchone()
        before += f" OR coalesce({test}, false)"
        if row and row[0]:
            line = _line(int(row[1]), malformed) if source.csv else None
            problems.append((source.name, line, f"{row[0]:,} rows {reason} — they are left out"))
            left_out[reason] = int(row[0])
    base.execute(f"DELETE FROM raw WHERE {before}")
    return problems, left_out


def _line(row: int, malformed: Sequence[int]) -> int:
    """The line of a table's row, which counts neither the header nor the malformed lines."""
    line = row + 2
    for number in malformed:
        if number > line:
            break
        line += 1
    return line


def _words(base: duckdb.DuckDBPyConnection, fresh: Path) -> None:
    """Vocabulary tables of each column, by frequency, in the database and as Parquet."""
    for name, column in (("code", "code"), ("text", "x"), ("unit", "u"), ("kind", "k")):
        base.execute(
            f"CREATE TABLE words_{name} AS SELECT row_number() OVER (ORDER BY n DESC, word)::INT "
            f"AS id, word, n FROM (SELECT {column} AS word, count(*) AS n FROM raw "
            f"WHERE {column} IS NOT NULL GROUP BY 1)"
        )
        target = literal(fresh / f"{name}.parquet")
        base.execute(f"COPY (SELECT * FROM words_{name} ORDER BY id) TO {target} (FORMAT parquet)")


def _order(base: duckdb.DuckDBPyConnection, fresh: Path, progress: Progress) -> None:
    """All rows in order into the columns."""
    counts = base.execute("SELECT p, count(*) AS n FROM raw GROUP BY p ORDER BY p").fetchnumpy()
    patients = np.asarray(counts["p"], np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(counts["n"], np.int64))])
    total = int(offsets[-1])
    arrays = _columns(fresh, total)
    joins = " ".join(
        f"LEFT JOIN words_{name} ON raw.{column} = words_{name}.word"
        for name, column in (("code", "code"), ("text", "x"), ("unit", "u"), ("kind", "k"))
    )
    ids = ", ".join(
        f"coalesce(words_{name}.id, 0) AS {name}" for name in ("code", "text", "unit", "kind")
    )
    ordered = base.sql(
        f"SELECT coalesce(t, {NO_TIME}) AS time, coalesce(v, 'nan'::FLOAT) AS value, {ids} "
        f"FROM raw {joins} ORDER BY p, raw.t NULLS FIRST, raw.rowid"
    ).to_arrow_reader(GROUP)
    done = 0
    for rows in ordered:
        for name, array in arrays.items():
            array[done : done + len(rows)] = rows[name].to_numpy()
        done += len(rows)
        progress(done, total)
    for array in arrays.values():
        if isinstance(array, np.memmap):
            array.flush()
    for name, array in (("patients", patients), ("offsets", offsets)):
        np.save(fresh / f"{name}.npy", array)


def _columns(fresh: Path, total: int) -> dict[str, Any]:
    def column(name: str, dtype: np.dtype[Any]) -> Any:
        file = fresh / f"{name}.npy"
        if total:
            return np.lib.format.open_memmap(file, "w+", dtype, (total,))
        np.save(file, np.empty(0, dtype))  # an empty file cannot be mapped for writing
        return np.empty(0, dtype)

    return {name: column(name, dtype) for name, dtype in COLUMNS.items()}
