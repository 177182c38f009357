"""Sentences of a note: wrapped lines joined, what a layout keeps apart kept apart.

A note is read in two steps. *Lines* that were broken only because they had reached the width of
their paragraph are joined; list items, headings, table rows and lines of one result stay apart.
Each run of joined lines is then cut at sentence ends, never within a number, an abbreviation or
a pair of brackets, and not at semicolons. Both steps read the text once, whatever its length;
every quantifier that can fail is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.splitting.lines import Kind, Line, Widths, read_lines
from core.splitting.sentences import sentences

SECTION = 400
"""Lines over which one width holds: letters of different widths may be put into one note."""


def split(text: str) -> list[tuple[int, int]]:
    """The sentences of a note as (start, end) character pairs, in order, none blank.

    They cover every visible character of ``text``, overlap nowhere, and begin and end with
    visible characters. A heading, list item, table row or line of one result without a full
    stop counts as a sentence.
    """
    found: list[tuple[int, int]] = []
    lines = read_lines(text)
    begin = 0
    for at, joined in enumerate(_joins(text, lines)):
        if joined:
            continue
        if lines[begin].kind in (Kind.PROSE, Kind.ITEM):
            found += sentences(text, lines[begin].start, lines[at].end)
        else:
            found.append((lines[begin].start, lines[at].end))
        begin = at + 1
    return found


def _joins(text: str, lines: Sequence[Line]) -> Iterator[bool]:
    """For every line whether the following one goes on with its text; the last has none."""
    for first in range(0, len(lines), SECTION):
        section = lines[first : first + SECTION + 1]
        widths = Widths(text, section)
        yield from (widths.joined(at) for at in range(len(section) - 1))
    if lines:
        yield False
