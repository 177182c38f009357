"""Label values as files write them, as SQL that gives whole numbers.

0 normal, 1 mild, 2 moderate, 3 severe; true and false are 1 and 0; numbers may be strings. What is
none of these is null, and is counted as skipped by who reads it.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

from core.errors import DataError
from core.loaders.files import stably
from core.sequences import LabelRows
from core.sequences.duck import connect, said
from core.types import Skip

_WORDS = {"false": 0, "no": 0, "normal": 0, "true": 1, "yes": 1, "mild": 1, "moderate": 2,
          "severe": 3}  # fmt: skip


def text_value(column: str) -> str:
    """SQL for the grade that a text column holds; null where it holds none."""
    cases = " ".join(f"WHEN '{word}' THEN {value}" for word, value in _WORDS.items())
    text = f"lower(trim({column}::VARCHAR))"
    return f"CASE {text} {cases} ELSE {number_value(text)} END"


def number_value(column: str) -> str:
    """SQL for the grade that a number holds: its whole part."""
    return f"try_cast(floor(try_cast({column} AS DOUBLE)) AS INT)"


def read_labels(select: str, name: str, skipped: list[Skip], csv: Path | None = None) -> LabelRows:
    """Labels from SQL giving ``p`` BIGINT, ``t`` BIGINT µs and ``y`` INT, in file order.

    Rows without one of them go to ``skipped``, one line a reason. ``csv``: the one file that the
    SQL reads with ``store_rejects``; its lines that are no row are skipped and counted too, and
    the first of a reason is told by its line where every line of the file is a row. Raises
    DataError.
    """
    torn: tuple[int, int | None] = (0, None)
    base = connect()
    try:
        found = {n: np.ma.asarray(c) for n, c in base.execute(select).fetchnumpy().items()}
        if csv is not None:
            counted = "SELECT count(DISTINCT line), min(line) FROM reject_errors"
            torn = base.execute(counted).fetchone() or torn
    except duckdb.Error as error:
        raise DataError(name, None, said(error), "mend or replace it") from None
    finally:
        base.close()
    if torn[0]:
        reason = f"{torn[0]:,} lines are not a row of the table — left out; the first is named"
        skipped.append(Skip(name, torn[1], reason))
    numbered = csv is not None and _lines(csv, name) == len(found["p"]) + 1
    missing = {c: np.ma.getmaskarray(np.ma.asarray(found[c])) for c in ("p", "t", "y")}
    left = np.zeros(len(found["p"]), bool)
    for column, reason in (
        ("p", "no patient id that is a whole number"),
        ("t", "no readable prediction time"),
        ("y", "no readable value"),
    ):
        mine = missing[column] & ~left
        left |= mine
        if mine.any():
            reason = f"{int(mine.sum()):,} labels have {reason} — left out"
            first = int(np.flatnonzero(mine)[0]) + 2 if numbered else None
            skipped.append(Skip(name, first, reason))
    kept = ~left
    return LabelRows(
        np.asarray(found["p"], np.int64)[kept],
        np.asarray(found["t"], np.int64)[kept],
        np.asarray(found["y"], np.int32)[kept],
    )


def _lines(file: Path, name: str) -> int:
    """How many lines a file has, empty ones at its end aside."""
    return stably(file, name, file.read_bytes).rstrip(b"\r\n").count(b"\n") + 1


def pickles(root: Path, folder: Path, warnings: list[str]) -> None:
    """Warn of pickled files, which are never opened: opening one runs what it says."""
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".pkl", ".pickle"))
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.append(
            f"{found[0].relative_to(root).as_posix()}{more}: pickled files are refused, since "
            "opening one runs whatever it holds; counts are made from the events instead"
        )
