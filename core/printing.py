"""What commands print: one JSON document, tables in columns, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol


def json_line(value: Any) -> None:
    """Print a value as one JSON document."""
    print(json.dumps(value, ensure_ascii=False, default=str, allow_nan=False))


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print rows in columns."""
    cells = [[cell(row.get(c)) for c in columns] for row in rows]
    widths = [
        max(len(c), *(len(r[i]) for r in cells)) if cells else len(c) for i, c in enumerate(columns)
    ]
    print("  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)).rstrip())
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


class Meter(Protocol):
    """Told how many items are there, how many are planned, and how many of those there failed."""

    def __call__(self, done: int, planned: int, failed: int = 0) -> None: ...


def meter(what: str) -> Meter:
    """Progress on standard error with the time left; quiet between whole percents."""
    begun, shown = time.monotonic(), [-1]

    def step(done: int, planned: int, failed: int = 0) -> None:
        percent = 100 * done // max(planned, 1)
        if percent == shown[0]:
            return
        shown[0] = percent
        left = (time.monotonic() - begun) / max(done, 1) * (planned - done)
        bad = f", {failed} failed" if failed else ""
        end = "\n" if done >= planned else "\r" if sys.stderr.isatty() else "\n"
        if sys.stderr.isatty() or percent % 10 == 0:
            print(
                f"{what}: {done}/{planned} ({percent} %){bad}, {left:.0f} s left",
                end=end,
                file=sys.stderr,
            )

    return step
