"""Files read with care: one-line reasons, files that change while they are read, atomic writes.

Whatever goes wrong with a file becomes a DataError that names it and says what would be right;
loaders turn those into Skips, so that one bad file never takes the good ones with it.
"""

from __future__ import annotations

import csv
import errno
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TypeVar

from core.errors import DataError
from core.storage.files import replacing
from core.types import Skip

T = TypeVar("T")

_REASONS = {
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.EACCES: ("may not be read", "give yourself read permission"),
    errno.EPERM: ("may not be read", "give yourself read permission"),
    errno.ELOOP: ("is a symbolic link that leads in a circle", "remove or repair the link"),
    errno.EISDIR: ("is a folder where a file should be", "move it out of the cohort"),
}


def data_error(error: OSError, shown: str) -> DataError:
    """The one-line form of an operating system's error about the file ``shown``."""
    reason, remedy = _REASONS.get(
        error.errno or 0, (f"cannot be read ({error.strerror or type(error).__name__})", "")
    )
    return DataError(shown, None, reason, remedy)


def skip_of(error: DataError) -> Skip:
    """The Skip that a DataError becomes when the rest of the cohort still loads."""
    reason = error.reason + (f" — {error.remedy}" if error.remedy else "")
    return Skip(error.file, error.line, reason)


def shown(path: Path, root: Path) -> str:
    """How messages name a file: from the cohort's folder on, or its name alone."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _state(path: Path, name: str) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise data_error(error, name) from None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def stably(path: Path, name: str, read: Callable[[], T]) -> T:
    """What ``read()`` makes of a file that did not change meanwhile.

    A file that changed is read once more; raises DataError if it changed again, and for every
    error of the operating system.
    """
    for last in (False, True):
        before = _state(path, name)
        failure: DataError | None = None
        result: T | None = None
        try:
            result = read()
        except OSError as error:
            failure = data_error(error, name)
        except DataError as error:
            failure = error
        if _state(path, name) == before:
            if failure is not None:
                raise failure
            return result  # pyright: ignore[reportReturnType]
        if last:
            break
    raise DataError(name, None, "changed while it was read", "load it once it is complete")


def read_text(path: Path, name: str) -> str:
    """A UTF-8 file, a byte-order mark dropped, line ends as they are.

    Raises DataError with the line of the first byte that is not UTF-8.
    """
    data = stably(path, name, path.read_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(name, line, "is not UTF-8 text", "save it as UTF-8") from None


def write_atomic(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises DataError where that fails."""
    try:
        with replacing(path) as fresh:
            fresh.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(error, path) from None


def _unwritten(error: OSError, path: Path) -> DataError:
    reason = f"cannot be written ({error.strerror or type(error).__name__})"
    return DataError(str(path), None, reason, "free space or name another folder")


# Rows of delimited text, and those that a stray quote spoils.


@dataclass(frozen=True, slots=True)
class Parsed:
    """A row's cells and its lines, ``first`` to ``last``, counted from 1.

    ``torn``: its quotes do not close soundly, so its cells are not to be trusted. ``doubtful``: it
    is sound, but a line inside a cell would be a row by itself.
    """

    first: int
    last: int
    cells: list[str]
    torn: bool = False
    doubtful: bool = False


def parse_rows(
    lines: Sequence[str], delimiter: str, after: int = 0, width: int = 0
) -> Iterator[Parsed]:
    """The rows of ``lines`` that follow the first ``after`` lines, blank ones too.

    ``width``: how many cells a whole row has. Raises csv.Error where a cell is too long.
    """
    start = after
    while start < len(lines):
        # A row of two empty cells closes the text. An open quote takes it in, and so is seen.
        source = chain(map(lines.__getitem__, range(start, len(lines))), [delimiter])
        reader = csv.reader(source, delimiter=delimiter)
        begin, again = start, len(lines)
        for cells in reader:
            end = start + reader.line_num
            closed = end <= len(lines)
            if not closed and cells == ["", ""]:
                break
            end = min(end, len(lines))
            inner = lines[begin + 1 : end]
            if not closed or (inner and not _sound(lines[begin:end], delimiter)):
                if inner and all(_whole(line, delimiter, width) for line in inner):
                    yield Parsed(begin + 1, begin + 1, cells, torn=True)
                    again = begin + 1
                    break
                yield Parsed(begin + 1, end, cells, torn=True)
            else:
                doubtful = any(_whole(line, delimiter, width) for line in inner)
                yield Parsed(begin + 1, end, cells, doubtful=doubtful)
            begin = end
        start = again


def _sound(lines: Sequence[str], delimiter: str) -> bool:
    try:
        return len(list(csv.reader(lines, delimiter=delimiter, strict=True))) == 1
    except csv.Error:
        return False


def _whole(line: str, delimiter: str, width: int) -> bool:
    """Whether a line is a row by itself and not prose: prose has a space behind its commas."""
    if width < 2 or line.count(delimiter) < width - 1:
        return False
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    return len(rows) == 1 and len(rows[0]) == width and not any(c[:1].isspace() for c in rows[0])


# Tables of questions and responses, row by row, each row knowing its line in the file.


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
            Skip(name, line + 1, f"cannot be parsed from here on ({error}) — fix the quoting")
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
    return f"{reason} — the row{also} is skipped; fix the quote"


def check_columns(header: Sequence[str], required: Sequence[str], name: str) -> None:
    """Raise DataError naming the columns that are missing or there twice."""
    missing = [column for column in required if column not in header]
    if missing:
        needs = ", ".join(required)
        raise DataError(name, 1, f"lacks the columns {', '.join(missing)}", f"it needs {needs}")
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise DataError(name, 1, f"names the columns {', '.join(twice)} twice", "rename one")


# Times as charts write them, read into naive moments.


_US = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4})"
    r"(?:[ T]+(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(?:([AaPp])\.?[Mm]\.?)?)?"
)


def parse_time(text: str | None) -> datetime | None:
    """A naive moment, or None where the text is absent, blank or not a time.

    ``2014-08-10 23:59``, ``2014-08-10T23:59:59Z``, ``2014-08-10``, ``10/08/2018 20:00``,
    ``10/08/2018 8:00 PM`` and ``10/08/2018 20:00 PM`` (a 24-hour clock that says PM as well) are
    times. Two-digit years are not: they do not say which century.
    """
    if text is None:
        return None
    text = text.strip()
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return _us_time(text)


def _us_time(text: str) -> datetime | None:
    match = _US.fullmatch(text)
    if match is None:
        return None
    month, day, year, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    half = (match.group(7) or "").lower()
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    elif half == "a" and hour > 12:
        return None
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
