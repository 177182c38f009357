"""The generator's tables: YAML and TSV files of the folder ``data``, each read on first use."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from midchart.core import reference_tables

T = TypeVar("T")
DATA = Path(__file__).parent / "data"


def yaml_table(kind: type[T], name: str) -> Callable[[], T]:
    """A function that gives the content of a YAML file."""
    return reference_tables.yaml_table(kind, DATA / name)


def tsv_table(row: type[T], name: str) -> Callable[[], tuple[T, ...]]:
    """A function that gives the rows of a TSV file whose header names the fields; an empty cell
    takes its field's default."""

    def read() -> tuple[T, ...]:
        with (DATA / name).open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
            cells = [{key: cell for key, cell in line.items() if cell} for line in lines]
        return tuple(reference_tables.checked(list[row], cells))

    return cache(read)


def by_key(rows: Callable[[], tuple[Any, ...]]) -> Callable[[], dict[str, Any]]:
    """A function that gives the rows of a table by their ``key``."""
    return cache(lambda: {row.key: row for row in rows()})
