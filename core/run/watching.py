"""What a run's folder tells to somebody who watches it: the end of its log, and what failed."""

from __future__ import annotations

import os
from typing import Any

from core.run.folder import find_run
from core.run.tables.common import literal

FIELDS = ("instruction", "record", "label", "variant", "reader", "judge", "repeat", "value")
"""What names an item in a table of rows, where the table has it."""


def log_tail(run: str, lines: int = 40) -> str:
    """The last lines of what a run's worker printed: never text of a record; raises UnknownName."""
    log = find_run(run).log
    if not log.exists():
        return ""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 400 * lines))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])


def failed_items(run: str, most: int = 500) -> list[dict[str, Any]]:
    """The items of a run that failed, each with its reason; the first so many of each table.

    Columns: stage (the table), what names the item there, reason. Raises UnknownName.
    """
    folder = find_run(run)
    store = folder.store(folder.plan().kind)
    found: list[dict[str, Any]] = []
    for table, schema in store.schemas.items():
        names = [name for name in FIELDS if name in schema]
        columns = ", ".join([literal(table) + " AS stage", *names, "reason"])
        where = f"status = 'failed' ORDER BY reason, key LIMIT {int(most)}"
        found += store.select(table, columns, where)
    return found
