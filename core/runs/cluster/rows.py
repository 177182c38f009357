"""The rows of a portion of work while a worker does it: in memory, each sent on as it is added.

Nothing is written on the machine that works: the run's own process writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.storage.query import Schema


class PortionRows:
    """Tables in memory; ``added`` is called with every row that is appended."""

    def __init__(
        self, schemas: Mapping[str, Schema], added: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self._schemas, self._added = schemas, added
        self._rows: dict[str, list[Mapping[str, Any]]] = {}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The tables' columns."""
        return self._schemas

    def begin(self, there: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Forget all rows and hold those that are ``there`` of the next portion."""
        self._rows = {table: list(there.get(table, ())) for table in self._schemas}

    def select(self, table: str, columns: str = "*", where: str = "true") -> list[dict[str, Any]]:
        """Rows of a table in the order in which they came; plain columns only.

        Raises ValueError for a question that takes a database.
        """
        names = list(self._schemas[table]) if columns == "*" else columns.split(", ")
        if where != "true" or not set(names) <= self._schemas[table].keys():
            raise ValueError(
                f"rows in memory are asked by plain columns, not {columns!r} {where!r}"
            )
        return [{name: row.get(name) for name in names} for row in self._rows[table]]

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row and send it on; raises ValueError for a column that is not declared."""
        if row.keys() != self._schemas[table].keys():
            wrong = ", ".join(sorted(row.keys() ^ self._schemas[table].keys()))
            raise ValueError(f"a row of {table} has its declared columns; these differ: {wrong}")
        self._rows[table].append(row)
        self._added(table, row)
