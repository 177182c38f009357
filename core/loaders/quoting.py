"""Rows of delimited text, and those that a stray quote spoils.

A quote that is opened and not closed takes the rows after it into its cell, until the next quote
or to the end of the file, and the csv module says nothing of it. Rows of several lines are looked
at again here: where their quoting is not sound, a row's text may be another row's, so the row is
torn; the lines after its first are read anew where every one of them is a row by itself.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain


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
