"""Delimited tables of any encoding, separator and quoting: all rows, and which reading was chosen.

An unclosed quote costs its own row, not the rows after it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from midchart.core.cohorts.columns import MISSING, folded, known_names
from midchart.core.cohorts.files import LoadLog
from midchart.core.errors import DataError
from midchart.core.format import count
from midchart.core.parsing import repeated
from midchart.core.storage.encodings import decoded, encoding_read
from midchart.core.storage.sources import Source

# Rows.

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, as csv reads them."""
    return _LINE.findall(text)  # io.StringIO holds four bytes a character


class ParsedRow(NamedTuple):
    """A row's cells and its lines, ``first`` to ``last``, counted from 1.

    ``unclosed``: its quotes do not close properly, so its cells are not reliable. ``suspicious``:
    its quotes close, but a line inside a cell looks like a row.
    """

    first: int
    last: int
    cells: list[str]
    unclosed: bool = False
    suspicious: bool = False


def parse_rows(
    lines: Sequence[str],
    delimiter: str,
    after: int = 0,
    width: int = 0,
    quote: str = '"',
    mixed: bool = False,
) -> Iterator[ParsedRow]:
    """The rows of ``lines`` after the first ``after`` lines, blank ones included.

    ``width``: the number of cells of a complete row. ``mixed``: some rows may quote in another way
    (:func:`_row_in_other_quotes`).
    """
    begin = after
    while begin < len(lines):
        end, closed = begin + 1, True
        if quote in lines[begin]:
            # Two empty cells are appended; an unclosed quote swallows them and so is detected.
            ahead = chain(map(lines.__getitem__, range(begin, len(lines))), [delimiter])
            reader = csv.reader(ahead, delimiter=delimiter, quotechar=quote)
            cells = next(reader)
            end = begin + reader.line_num
            closed, end = end <= len(lines), min(end, len(lines))
        else:
            cells = lines[begin].rstrip("\r\n").split(delimiter)
        row = None
        if mixed:
            row = _row_in_other_quotes(lines, begin, end, cells, delimiter, width)
        if row is None:
            inner = lines[begin + 1 : end]
            rows = [_is_row(line, delimiter, width) for line in inner]
            if closed and (not inner or _well_quoted(lines[begin:end], delimiter, quote)):
                row = ParsedRow(begin + 1, end, cells, suspicious=any(rows))
            else:
                end = begin + 1 if inner and all(rows) else end
                row = ParsedRow(begin + 1, end, cells, unclosed=True)
        yield row
        begin = row.last


def _well_quoted(lines: Sequence[str], delimiter: str, quote: str = '"') -> bool:
    try:
        return len(list(csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True))) == 1
    except csv.Error:
        return False


def _is_row(line: str, delimiter: str, width: int) -> bool:
    """Whether a line is a row and not prose, which has a space after its commas."""
    if width < 2 or line.count(delimiter) < width - 1 or not _well_quoted([line], delimiter):
        return False
    (cells,) = csv.reader([line], delimiter=delimiter)
    return len(cells) == width and not any(cell[:1].isspace() for cell in cells)


_MOST_LINES = 5_000
"""Lines of a row that is read again with other quotes."""


def _row_in_other_quotes(
    lines: Sequence[str], begin: int, end: int, cells: Sequence[str], delimiter: str, width: int
) -> ParsedRow | None:
    r"""The row from line ``begin`` on, where ``cells`` to line ``end`` are not what it says.

    Quotes inside a cell may be written ``\"``, a space may precede an opening quote, and
    apostrophes may quote a cell that holds the delimiter. None where no such reading has ``width``
    cells.
    """
    row, ahead = lines[begin:end], lines[begin : begin + _MOST_LINES]
    dialects: list[tuple[Iterable[str], dict[str, Any]]] = []
    if any('\\"' in line for line in row) and (
        len(cells) != width or not _well_quoted(row, delimiter)
    ):
        # Other backslashes are characters of the text.
        escaped = (re.sub(r'\\(?!")', r"\\\\", line) for line in ahead)
        dialects.append((escaped, {"escapechar": "\\"}))
    if any(f'{delimiter} "' in line for line in row):
        dialects.append((ahead, {"skipinitialspace": True}))
    for source, dialect in dialects:
        reader = csv.reader(source, delimiter=delimiter, strict=True, **dialect)
        with suppress(csv.Error, StopIteration):
            other = next(reader)
            if len(other) == width:
                return ParsedRow(begin + 1, begin + reader.line_num, other)
    if len(cells) <= width or len(row) > 1 or f"{delimiter}'" not in row[0]:
        return None
    mark = re.escape(delimiter)
    cell = rf"""'((?:[^']|'')*)'(?={mark}|$)|"((?:[^"]|"")*)"(?={mark}|$)|([^{mark}]*)"""
    parts = [
        (m[1] or "").replace("''", "'") + (m[2] or "").replace('""', '"') + (m[3] or "")
        for m in re.finditer(rf"(?:^|(?<={mark}))(?:{cell})", row[0].rstrip("\r\n"))
    ]
    return ParsedRow(begin + 1, end, parts) if len(parts) == width else None


# Tables.

DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t", ".psv": "|"}
"""Ending of a delimited table → the separator that needs no statement."""
TABLES = (*DELIMITERS, ".jsonl", ".ndjson", ".parquet")
"""Endings of tables."""
_DELIMITERS = (",", "\t", ";", "|")
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
MOST_CSV_COLUMNS = 64
"""Columns of a CSV that DuckDB reads: it copies a short row for each column that the row lacks."""
_LONGEST_CELL = 2**31 - 1
"""The csv module's default limit, 128 KiB, is shorter than a long note."""
_HEADER_LINES = 64
"""Lines in which a table's header ends."""
_SEPARATOR_LINE = re.compile(r'"?sep=([,;|\t])"?\s*')


class TableRow(NamedTuple):
    """One row of a table: file name in messages, first line, and cells by column."""

    file: str
    line: int
    cells: dict[str, str]

    def get(self, column: str) -> str:
        """The cell of a column, stripped; "" where it has no value or there is no such column."""
        value = self.cells.get(column, "").strip()
        return "" if value in MISSING else value


@dataclass(frozen=True, slots=True)
class Head:
    """How a table is written: its separator and quote, its columns, the header's last line, and
    its encoding ("" for UTF-8) where it was decided."""

    delimiter: str
    quote: str
    header: list[str]
    last: int
    encoding: str = ""


def table_head(lines: Sequence[str], delimiter: str, names: Sequence[str] = ()) -> Head:
    """The header of a table and how it is written, decided among separators and quotes.

    The separator is that by which the header has most of the columns ``names``, else most columns;
    ``delimiter`` where none separates any. A line ``sep=;`` before the header states it.
    """
    accept_long_cells()
    filled = (n for n, line in enumerate(lines) if line.strip())
    first = next(filled, 0)
    stated = _SEPARATOR_LINE.fullmatch(lines[first]) if lines else None
    first = next(filled, first + 1) if stated else first
    quote = "'" if first < len(lines) and lines[first][0] == "'" else '"'
    heads: list[Head] = []
    for mark in [stated[1]] if stated else dict.fromkeys((delimiter, *_DELIMITERS)):
        rows = parse_rows(lines[: first + _HEADER_LINES], mark, first, 0, quote)
        top = next(rows, ParsedRow(0, first, []))
        heads.append(Head(mark, quote, [cell.strip() for cell in top.cells], top.last))
    wanted: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return max(heads, key=lambda head: (len(known_names(head.header, wanted)), len(head.header)))


_HEAD = 1 << 16


def read_head(file: Source, names: Sequence[str] = ()) -> Head:
    """:func:`table_head` of a file by its first 64 KB; raises DataError."""
    with file.open() as opened:
        data = opened.read(_HEAD)
    if len(data) == _HEAD:  # whole lines, and whole characters of UTF-16 and UTF-32
        data = data[: data.rfind(b"\n") + 1] or data
        data = data[: len(data) & ~3] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data
    try:
        text, encoding = decoded(data, file.name)
    except DataError:  # reading the table names its encoding; its columns show that it is one
        text, encoding = data.decode("latin-1"), "unknown"
    head = table_head(lines_of(text), DELIMITERS.get(file.ending, "\t"), names)
    return replace(head, encoding=encoding)


def header_of(file: Source, names: Sequence[str] = ()) -> list[str]:
    """The columns of a delimited table (:func:`table_head`); none of any other file, or of one that
    cannot be read, which reading it names."""
    with suppress(DataError):
        if file.ending in DELIMITERS and file.is_file():
            return read_head(file, names).header
    return []


def text_of(file: Source, log: LoadLog) -> str:
    """The text of a file in any encoding, stated in ``log`` where it is not UTF-8."""
    text, encoding = file.decoded()
    if encoding:
        log.warn(encoding_read(file.name, encoding))
    return text


def accept_long_cells() -> None:
    """Let the csv module, whose limit holds for the process, read cells of any length."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)


def read_table(
    file: Source,
    required: Sequence[str],
    log: LoadLog,
    names: Mapping[str, Sequence[str]] | None = None,
) -> list[TableRow]:
    """All rows of a delimited table with a header, of any encoding, separator and quoting.

    ``names``: further columns, and other names that a column may have
    (:func:`midchart.core.cohorts.columns.known_names`). Raises DataError where the file is no text,
    has no header, names a column twice or lacks one of ``required`` (all missing ones are named).
    """
    name, text = file.name, text_of(file, log)
    lines = lines_of(text)
    known = {**dict.fromkeys(required, ()), **(names or {})}
    delimiter, columns = DELIMITERS.get(file.ending, "\t"), chain.from_iterable(known.values())
    head = table_head(lines, delimiter, [*known, *columns])
    header = column_names(head, required, known, file, log)
    needed = max((header.index(column) for column in required), default=-1) + 1
    marks = ('\\"', f'{head.delimiter} "', f"{head.delimiter}'")
    mixed = head.quote == '"' and any(mark in text for mark in marks)
    width, tabbed = len(header), head.delimiter == "\t"
    rows: list[TableRow] = []
    suspicious: list[int] = []
    reasons, total = Counter[str](), 0
    for row in parse_rows(lines, head.delimiter, head.last, width, head.quote, mixed):
        cells = row.cells
        while len(cells) > width and not cells[-1].strip():
            cells.pop()
        if not row.unclosed and not any(map(str.strip, cells)):
            continue
        total += 1
        if row.unclosed:
            reasons["has quotes that do not close"] += 1
            more = row.last - row.first
            also = f", with {more:,} lines after it," if more else ""
            problem = "has a quote that is not closed, or not doubled inside a cell — the row"
            log.skip(name, row.first, f"{problem}{also} is skipped; fix the quote")
        elif not needed <= len(cells) <= width:
            reasons["has another number of columns"] += 1
            problem = f"has {len(cells)} columns where the header names {width}"
            what = DELIMITER_NAMES[head.delimiter]
            log.skip(name, row.first, f"{problem} — quote cells that hold {what}")
        else:
            if row.suspicious or (tabbed and any("\n" in c and "\t" in c for c in cells)):
                suspicious.append(row.first)
            padded = cells + [""] * (width - len(cells))
            rows.append(TableRow(name, row.first, dict(zip(header, padded, strict=True))))
    log.account(name, "rows", total=total, shown=len(rows), reasons=reasons)
    if suspicious:
        log.warn(
            f"{name}:{suspicious[0]}: {len(suspicious):,} rows hold what looks like a row of its "
            "own in a cell — check for a quote that is not closed"
        )
    if "'" in text:
        _strip_apostrophes(rows, header, name, log)
    return rows


_APOSTROPHES = re.compile(r"'(?:[^']|'')*'")


def _strip_apostrophes(
    rows: Sequence[TableRow], header: Sequence[str], name: str, log: LoadLog
) -> None:
    """Take away the apostrophes that quote the cells of a column: of those that start with one, all
    end with one."""
    for column in header:
        quoted = [row for row in rows if row.cells[column][:1] == "'"]
        if quoted and all(_APOSTROPHES.fullmatch(row.cells[column]) for row in quoted):
            log.warn(f"{name}: {column}: {len(quoted):,} cells are quoted by apostrophes")
            for row in quoted:
                row.cells[column] = row.cells[column][1:-1].replace("''", "'")


def leave_out(log: LoadLog, name: str, reasons: Mapping[str, int]) -> None:
    """Move rows of a table from those that are shown to those left out, by reason."""
    before = log.accounts[name, "rows"]
    log.account(
        name,
        "rows",
        total=before.total,
        shown=before.shown - sum(reasons.values()),
        reasons={**dict(before.reasons), **reasons},
    )


def column_names(
    head: Head,
    required: Sequence[str],
    names: Mapping[str, Sequence[str]],
    file: Source,
    log: LoadLog,
) -> list[str]:
    """The columns of a header under the names that are known; synonyms are stated in ``log``, as is
    a separator that is not that of the file's ending.

    Raises DataError as :func:`check_columns`.
    """
    known = known_names(head.header, names)
    for column, meaning in known.items():
        if folded(column) != folded(meaning):
            log.warn(f"{file.name}: {column} read as {meaning}")
    header = [known.get(column, column) for column in head.header]
    check_columns([column for column in header if column], required, file.name, head.last or 1)
    if head.delimiter != DELIMITERS.get(file.ending, "\t"):
        log.warn(f"{file.name}: columns are separated by {DELIMITER_NAMES[head.delimiter]}")
    return [column or f"column {n}" for n, column in enumerate(header, 1)]


def check_columns(
    header: Sequence[str],
    required: Sequence[str],
    name: str,
    line: int | None = 1,
    most: int = 0,
) -> None:
    """Raise DataError naming columns that are missing or there twice, or for more than ``most``.

    Only required columns are named: a file without a header has text of records in its place.
    """
    missing = [column for column in required if column not in header]
    if missing:
        needs = ", ".join(required)
        raise DataError(name, line, f"lacks the columns {', '.join(missing)}", f"it needs {needs}")
    if 0 < most < len(header):
        reason = f"names {len(header):,} columns"
        raise DataError(name, line, reason, f"at most {most:,} are read")
    twice = repeated(header)
    if twice:
        known = [column for column in twice if column in required]
        words = [f"the columns {', '.join(known)}"] if known else []
        if len(known) < len(twice):
            words.append(count(len(twice) - len(known), "other column"))
        raise DataError(name, line, f"names {' and '.join(words)} twice", "rename one")
