"""DuckDB connections of the event store: no external extensions, bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from core.storage.query import quoted


def connect(
    file: Path | None = None, memory: str = "1GB", spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A database in ``file`` (in memory where None) that takes at most ``memory``."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": memory,
        "preserve_insertion_order": True,
    }
    if spill is not None:
        config["temp_directory"] = str(spill)
    return duckdb.connect(":memory:" if file is None else str(file), config=config)


def columns(sql: str) -> dict[str, NDArray[Any]]:
    """The rows of a query as arrays by column; masked where null."""
    base = connect()
    try:
        return {name: np.ma.asarray(c) for name, c in base.execute(sql).fetchnumpy().items()}
    finally:
        base.close()


def describe_error(error: duckdb.Error) -> str:
    """The class of a DuckDB error, without its text, which may quote rows."""
    kind = type(error).__name__.removesuffix("Exception")
    return f"DuckDB could not read it ({kind} error)"


def sql_files(files: Sequence[Path]) -> str:
    """Paths as an SQL list that DuckDB takes for these files, not for patterns."""
    return "[" + ", ".join(map(quoted, files)) + "]"
