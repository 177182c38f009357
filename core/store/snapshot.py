"""Many questions about one moment of a run: its tables read once, into memory, then asked.

A report asks a score of questions. Asked of the files, each would read them anew, and of a run at
work each would see another moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from core.store.query import cursor

Ask = Callable[[str], list[dict[str, Any]]]
"""A question in SQL → its rows as dictionaries."""

ATTEMPTS = 5


@contextmanager
def snapshot(statements: Callable[[], Sequence[str]]) -> Generator[Ask]:
    """Make temporary tables, and answer questions about them until the block ends.

    ``statements`` is called for the SQL that makes them (``CREATE OR REPLACE TEMP TABLE …``),
    again when a file moved between the look and the read.
    """
    with cursor() as connection:
        for attempt in range(ATTEMPTS):
            try:
                for statement in statements():
                    connection.execute(statement)
                break
            except duckdb.IOException:
                if attempt == ATTEMPTS - 1:
                    raise

        def ask(sql: str) -> list[dict[str, Any]]:
            done = connection.execute(sql)
            names = [column[0] for column in done.description or []]
            return [dict(zip(names, row, strict=True)) for row in done.fetchall()]

        yield ask
