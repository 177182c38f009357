"""The generator's tables: YAML and TSV files of the folder ``data``."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from midchart.core.errors import DataError
from midchart.core.reference_tables import checked, read_yaml

T = TypeVar("T")
DATA = Path(__file__).parent / "data"


def yaml_table(kind: type[T], name: str) -> Callable[[], T]:
    """A function that gives the content of a YAML file, read on its first call."""
    return cache(lambda: read_yaml(kind, DATA / name))


def tsv_table(kind: type[T], name: str) -> Callable[[], tuple[T, ...]]:
    """A function that gives the rows of a TSV file, read on its first call."""
    return cache(lambda: read_tsv(kind, DATA / name))


def read_tsv(row: type[T], path: Path) -> tuple[T, ...]:
    """One ``row`` for each line of a TSV file whose header names the fields; an empty cell takes
    its field's default.

    Raises DataError with the line of the first error.
    """
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    content: list[dict[str, str]] = []
    keys: set[str] = set()
    for number, cells in enumerate(lines, 2):
        if len(cells) != len(header):
            remedy = f"separate {len(header)} cells by tabs, as in the header"
            raise DataError(str(path), number, f"{len(cells)} cells", remedy)
        content.append({k: cell for k, cell in zip(header, cells, strict=True) if cell})
        key = content[-1].get("key", f"line {number}")
        if key in keys:
            raise DataError(str(path), number, f"key {key!r} is repeated", "rename or remove one")
        keys.add(key)
    rows = checked(list[row], content, path, lambda place: int(place[0]) + 2)
    return tuple(rows)
