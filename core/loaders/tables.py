"""Tables of questions and responses, row by row, each row knowing its line in the file.

Cells may be quoted and hold line breaks, so a row's line is counted in the file's own lines, as
an editor shows them. A row that does not fit its header, or whose quotes are astray, is skipped
with its line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import DataError
from core.loaders.files import read_text
from core.loaders.quoting import parse_rows
from core.types import Skip

LONGEST_CELL = 2**31 - 1
"""The csv module's own limit, 128 KiB, is shorter than a long note."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the file's shown name, the line it begins on, and its cells by column."""

    file: str
    line: int
    cells: dict[str, str]

    def get(self, *columns: str) -> str:
        """The first of these columns that is there and not blank, stripped; else ""."""
        for column in columns:
            value = self.cells.get(column, "").strip()
            if value and value != "NULL":
                return value
        return ""

    def skip(self, reason: str) -> Skip:
        """This row as skipped."""
        return Skip(self.file, self.line, reason)


def read_table(
    path: Path,
    name: str,
    required: Sequence[str],
    skipped: list[Skip],
    warnings: list[str],
    delimiter: str = "\t",
) -> list[Row]:
    """All rows of a delimited table with a header; quotes, CRLF and a byte-order mark are fine.

    Raises DataError where the file cannot be read as UTF-8, has no header, names a column twice
    or lacks one of ``required`` (all that are missing are named).
    """
    if csv.field_size_limit() < LONGEST_CELL:
        csv.field_size_limit(LONGEST_CELL)
    lines = list(io.StringIO(read_text(path, name), newline=""))
    top = next(parse_rows(lines, delimiter), None)
    header = [cell.strip() for cell in top.cells] if top else []
    check_columns(header, required, name)
    needed = max((header.index(column) for column in required), default=-1) + 1
    rows: list[Row] = []
    doubtful: list[int] = []
    line = after = top.last if top else 0
    try:
        for row in parse_rows(lines, delimiter, after, len(header)):
            cells, line = row.cells, row.last
            if row.torn:
                skipped.append(Skip(name, row.first, _torn(row.last - row.first)))
            elif not any(cell.strip() for cell in cells):
                continue
            elif not needed <= len(cells) <= len(header):
                what = {"\t": "tabs", ",": "commas"}.get(delimiter, delimiter)
                reason = f"has {len(cells)} columns where the header names {len(header)}"
                skipped.append(Skip(name, row.first, f"{reason} — quote cells that hold {what}"))
            else:
                tabs = delimiter == "\t" and any("\n" in c and "\t" in c for c in cells)
                if row.doubtful or tabs:
                    doubtful.append(row.first)
                full = cells + [""] * (len(header) - len(cells))
                rows.append(Row(name, row.first, dict(zip(header, full, strict=True))))
    except csv.Error as error:
        skipped.append(
            Skip(name, line + 1, f"cannot be read on from here ({error}) — mend the quoting")
        )
    if doubtful:
        warnings.append(
            f"{name}:{doubtful[0]}: {len(doubtful):,} rows hold what looks like a row of its own "
            "in a cell — check for a quote that is not closed"
        )
    return rows


def _torn(more: int) -> str:
    also = f", with {more:,} lines after it," if more else ""
    reason = "has a quote that is not closed, or not doubled inside a cell"
    return f"{reason} — the row{also} is left out; mend the quote"


def check_columns(header: Sequence[str], required: Sequence[str], name: str) -> None:
    """Raise DataError naming the columns that are missing or there twice."""
    missing = [column for column in required if column not in header]
    if missing:
        needs = ", ".join(required)
        raise DataError(name, 1, f"lacks the columns {', '.join(missing)}", f"it needs {needs}")
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise DataError(name, 1, f"names the columns {', '.join(twice)} twice", "rename one")
