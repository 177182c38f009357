"""A folder of tables that one process appends to: the :class:`core.seams.Store` of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import UnknownName
from core.store.compact import compact, reopen
from core.store.journal import Journal, drop, repair
from core.store.query import Schema, query, source


class RowStore:
    """Tables in ``folder``; ``schemas`` maps each table's name to its columns.

    Every row has a unique ``key`` and a ``status``, "ok" or "failed". Appending takes the run's
    lock, which the caller holds.
    ``counted`` is the condition on ``record``, in SQL, of the rows that tables of results count.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, Schema]) -> None:
        self.folder, self.schemas = folder, schemas
        self.counted = "true"
        self._journals: dict[str, Journal] = {}
        self._keys: dict[str, set[str]] = {}

    def _schema(self, table: str) -> Schema:
        if table not in self.schemas:
            raise UnknownName("table", table, self.schemas)
        return self.schemas[table]

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table, in the order in which they were appended."""
        schema = self._schema(table)
        return query(
            lambda: f"SELECT {columns} FROM {source(self.folder, table, schema)} WHERE {where}"
        )

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
        if table not in self._journals:
            # Opening cuts off a half-written line, so it comes before the keys are looked at.
            self._journals[table] = Journal(self.folder / f"{table}.jsonl")
        if self.has(table, row["key"]):
            raise ValueError(f"{table} has a row with the key {row['key']}")
        self._journals[table].append(row)
        self._keys[table].add(row["key"])

    def reopen(self) -> None:
        """Ready every table for appending: back to JSONL, without the rows that failed."""
        self.folder.mkdir(exist_ok=True)
        for table in self.schemas:
            reopen(self.folder, table)
            repair(self.folder / f"{table}.jsonl")
            drop(self.folder / f"{table}.jsonl", lambda row: row["status"] == "failed")
        self._keys.clear()

    def sync(self) -> None:
        """Make what was written outlast a power cut."""
        for journal in self._journals.values():
            journal.sync()

    def close(self) -> None:
        """Close all files; the store can be read from and opened again."""
        for journal in self._journals.values():
            journal.close()
        self._journals.clear()

    def compact(self) -> None:
        """Close all files and move every table to Parquet."""
        self.close()
        for table, schema in self.schemas.items():
            compact(self.folder, table, schema)
