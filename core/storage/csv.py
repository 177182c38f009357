"""CSV as every exit of the program writes it: all columns of all rows, and no live formulas."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell begins with that a spreadsheet runs as a formula (OWASP, CSV Injection)."""


def inert(value: Any) -> Any:
    """The value of a cell; a text that a spreadsheet would run gets an apostrophe before it.

    Numbers stay as they are, negative ones too.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def columns_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of all rows, in the order in which they first come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_sheet(file: TextIO, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV with the columns of all of them; what a row lacks is an empty cell.

    Nothing is written without rows. ``file`` is open for text, with ``newline=""``.
    """
    columns = columns_of(rows)
    if not columns:
        return
    writer = csv.writer(file)
    writer.writerow([inert(name) for name in columns])
    writer.writerows([inert(row.get(name)) for name in columns] for row in rows)
