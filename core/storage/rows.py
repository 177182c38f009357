"""A folder of tables that one process appends to: the :class:`core.interfaces.Store` of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import UnknownName, WorkFailed
from core.storage.damage import Conditions, check_rows, refuse_damage, set_aside
from core.storage.files import sync_folder
from core.storage.jsonl import encode
from core.storage.query import (
    Schema,
    attempted,
    cursor,
    json_source,
    literal,
    query,
    quoted,
    rows_of,
    source,
)

# Append-only JSON lines: one row, one line, one write.


SYNC_EVERY_S = 1.0
"""At most so much work is lost to a power cut; a killed process loses none."""
CHUNK = 1 << 20


def repair(path: Path) -> int:
    """Cut off a half-written last line; returns the bytes cut. Only under the run's lock."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - CHUNK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())
        return size - end


class LineWriter:
    """An open file of JSON lines; opening it cuts off a half-written last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        repair(path)
        created = not path.exists()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if created:
            sync_folder(path.parent)
        self._synced = time.monotonic()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row, newline and all, in one call; raises WorkFailed when the disk is full."""
        line = encode(row)
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise WorkFailed(f"{self.path}: cannot be written ({error.strerror})") from None
        if written < len(line):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise WorkFailed(f"{self.path}: the disk took only part of a row (is it full?)")
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Make what was written outlast a power cut."""
        os.fsync(self._fd)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close; closing twice is once."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1


# From JSON Lines to Parquet when a run is finished, and back when it is resumed.


def compact(folder: Path, table: str, schema: Schema, conditions: Conditions) -> None:
    """Move a table from JSONL to Parquet. Only under the run's lock, with no writer open.

    Raises WorkFailed where the JSONL holds damaged lines: a resume moves them to another file.
    """
    parquet, journal = folder / f"{table}.parquet", folder / f"{table}.jsonl"
    if not parquet.exists():
        if not journal.exists():
            return
        repair(journal)
        refuse_damage(journal, schema, conditions)
        fresh = parquet.with_name(parquet.name + ".tmp")
        fresh.unlink(missing_ok=True)
        with cursor() as connection:
            connection.execute(
                f"COPY {json_source(journal, schema)} TO {literal(fresh)} "
                "(FORMAT parquet, COMPRESSION zstd)"
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
    with fresh.open("wb") as file:
        for row in query(lambda: f"SELECT * FROM read_parquet({quoted(parquet)})"):
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
    ``conditions``: a table's columns → the SQL condition of each column's values, to which rows are
    held before they are read.
    """

    def __init__(
        self,
        folder: Path,
        schemas: Mapping[str, Schema],
        conditions: Callable[[Schema], Conditions] = lambda schema: {},
    ) -> None:
        self.folder, self.schemas, self.conditions = folder, schemas, conditions
        self.counted = "true"
        self._writers: dict[str, LineWriter] = {}
        self._keys: dict[str, set[str]] = {}

    def _schema(self, table: str) -> Schema:
        if table not in self.schemas:
            raise UnknownName("table", table, self.schemas)
        return self.schemas[table]

    def source(self, table: str) -> str:
        """SQL of a table's present rows; raises DataError for one that breaks a condition."""
        schema = self._schema(table)
        if conditions := self.conditions(schema):
            for end in (".parquet", ".jsonl"):
                if (path := self.folder / f"{table}{end}").exists():
                    check_rows(path, schema, conditions)
                    break
        return source(self.folder, table, schema)

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table, in the order in which they were appended; raises DataError."""
        return query(lambda: f"SELECT {columns} FROM {self.source(table)} WHERE {where}")

    def table(self, table: str) -> Iterator[Mapping[str, Any]]:
        """All rows of a table."""
        yield from self.select(table)

    def has(self, table: str, key: str) -> bool:
        """Whether a row with this key is there, as of the first question plus what was appended."""
        if table not in self._keys:
            self._keys[table] = {row["key"] for row in self.select(table, "key")}
        return key in self._keys[table]

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Append a row; raises ValueError for a key that is there or a column that is not."""
        schema = self._schema(table)
        if row.keys() != schema.keys():
            wrong = ", ".join(sorted(row.keys() ^ schema.keys()))
            raise ValueError(f"a row of {table} has its declared columns; these differ: {wrong}")
        if table not in self._writers:
            # Opening cuts off a half-written line, so it comes before the keys are looked at.
            self._writers[table] = LineWriter(self.folder / f"{table}.jsonl")
        if self.has(table, row["key"]):
            raise ValueError(f"{table} has a row with the key {row['key']}")
        self._writers[table].append(row)
        self._keys[table].add(row["key"])

    def reopen(self) -> None:
        """Ready every table for appending: back to JSONL, without failed rows and damaged lines.

        Damaged lines are moved to another file (:mod:`core.storage.damage`).
        """
        if not self.folder.exists():
            self.folder.mkdir()
            sync_folder(self.folder.parent)
        for table, schema in self.schemas.items():
            reopen(self.folder, table)
            repair(self.folder / f"{table}.jsonl")
            set_aside(self.folder / f"{table}.jsonl", schema, self.conditions(schema))
        self._keys.clear()

    def sync(self) -> None:
        """Make what was written outlast a power cut."""
        for journal in self._writers.values():
            journal.sync()

    def close(self) -> None:
        """Close all files; the store can be read from and opened again."""
        for journal in self._writers.values():
            journal.close()
        self._writers.clear()

    def compact(self) -> None:
        """Close all files and move every table to Parquet."""
        self.close()
        for table, schema in self.schemas.items():
            compact(self.folder, table, schema, self.conditions(schema))


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

        attempted(make)
        yield lambda sql: rows_of(connection.execute(sql))
