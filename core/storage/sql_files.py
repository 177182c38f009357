"""Names of files, texts and columns in DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from midchart.core.parsing import valid_unicode
from midchart.core.regular_files import open_regular


def literal(text: str | Path) -> str:
    """A text or path as an SQL string."""
    # DuckDB takes no lone surrogates and no NUL in SQL; no row holds either.
    return "'" + valid_unicode(str(text)).replace("'", "''").replace("\0", "\ufffd") + "'"


def identifier(name: str) -> str:
    """A column's name in SQL, also one that is a reserved word there (``order``, ``end``)."""
    return '"' + name.replace('"', '""') + '"'


def sql_file(path: Path) -> str:
    """A file as an SQL string.

    Raises duckdb.IOException, as DuckDB itself does, for one that
    :func:`midchart.core.regular_files.open_regular` does not open.
    """
    try:
        open_regular(path).close()
    except OSError as error:
        raise duckdb.IOException(error.strerror or type(error).__name__) from None
    return literal(path)


def csv_source(file: str, columns: Sequence[str], delimiter: str = ",") -> str:
    """SQL that reads all columns of a CSV, ``file`` in SQL, with a one-line header as text;
    malformed lines are listed in DuckDB's table ``reject_errors``. The dialect is given explicitly:
    DuckDB's detection takes seconds and gigabytes of memory for some headers."""
    names = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in columns)
    return (
        f"read_csv({file}, header=false, skip=1, auto_detect=false, null_padding=false, "
        f"columns={{{names}}}, delim={literal(delimiter)}, quote='\"', escape='\"', comment='', "
        "store_rejects=true, rejects_limit=0, max_line_size=67108864)"
    )
