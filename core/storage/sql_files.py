"""Files that DuckDB reads: each is opened once and checked, and read by its descriptor.

SQL names a file by :func:`quoted`. Whoever executes it does so within :func:`reading`, which opens
the files and puts their descriptors in place of the paths, so that no path is opened a second time.
"""

from __future__ import annotations

import re
import resource
import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb

from midchart.core.parsing import valid_unicode
from midchart.core.regular_files import open_regular

_MARK = f"{secrets.token_hex(16)}:"
"""Before each path in SQL; text of a record cannot guess it."""
_PATH = re.compile(f"'{_MARK}((?:[^']|'')*)'")
_OTHERS = 256
"""Descriptors for everything else that a process has open."""


def literal(text: str | Path) -> str:
    """A text or path as an SQL string."""
    # DuckDB takes no lone surrogates and no NUL in SQL; no row holds either.
    return "'" + valid_unicode(str(text)).replace("'", "''").replace("\0", "\ufffd") + "'"


def identifier(name: str) -> str:
    """A column's name in SQL, also one that is a reserved word there (``order``, ``end``)."""
    return '"' + name.replace('"', '""') + '"'


def quoted(path: Path) -> str:
    """A file as SQL that is executed within :func:`reading`."""
    return literal(f"{_MARK}{path}")


def without_marks(sql: str) -> str:
    """SQL with the paths of its files as they are, which is the same in every process."""
    return sql.replace(_MARK, "")


@contextmanager
def reading(sql: str) -> Generator[str]:
    """SQL with its files opened (:func:`midchart.core.regular_files.open_regular`) until the block
    ends.

    Raises duckdb.IOException, as DuckDB itself does, for a file that may not be opened.
    """
    paths = list(dict.fromkeys(_PATH.findall(sql)))
    with ExitStack() as stack:
        descriptors: dict[str, str] = {}
        try:
            _allow(2 * len(paths) + _OTHERS)  # DuckDB opens each descriptor again
            for path in paths:
                file = stack.enter_context(open_regular(Path(path.replace("''", "'"))))
                descriptors[path] = f"'/dev/fd/{file.fileno()}'"
        except OSError as error:
            raise duckdb.IOException(error.strerror or type(error).__name__) from None
        yield _PATH.sub(lambda match: descriptors[match[1]], sql)


def _allow(descriptors: int) -> None:
    """Let this process have so many files open, where the system's limit allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        most = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
