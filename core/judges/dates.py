"""Dates in free text: the ways in which records and models write them, read as one value.

``2015-10-03``, ``2015/10/03``, ``10/03/2015`` and ``10-3-15`` (month first, as United States
records have it, unless the first number can be no month), ``Oct 3, 2015``, ``3 October 2015``,
``October 2015``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january", "feb february", "mar march", "apr april", "may", "jun june",
            "jul july", "aug august", "sep sept september", "oct october", "nov november",
            "dec december",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"


@dataclass(frozen=True, slots=True)
class Day:
    """A date; ``day`` is None where only the month is said."""

    year: int
    month: int
    day: int | None = None

    def says(self, other: Day) -> bool:
        """Whether this tells at least what ``other`` does."""
        same = (self.year, self.month) == (other.year, other.month)
        return same and (other.day is None or self.day == other.day)


def _valid(year: int, month: int, day: int) -> Day | None:
    try:
        date(year, month, day)
    except ValueError:
        return None
    return Day(year, month, day)


def _iso(match: re.Match[str]) -> Day | None:
    return _valid(int(match["year"]), int(match["month"]), int(match["day"]))


def _numeric(match: re.Match[str]) -> Day | None:
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if len(match["year"]) == 2:
        year += 2000 if year < 50 else 1900
    return _valid(year, first, second) or _valid(year, second, first)


def _worded(match: re.Match[str]) -> Day | None:
    return _valid(int(match["year"]), _MONTHS[match["month"].lower()], int(match["day"]))


def _month_only(match: re.Match[str]) -> Day | None:
    return Day(int(match["year"]), _MONTHS[match["month"].lower()])


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Day | None]], ...] = tuple(
    (re.compile(rf"(?<![\w/.-]){pattern}(?![\w/-])", re.IGNORECASE), read)
    for pattern, read in (
        # A time may follow an ISO date at once: 2015-10-03T14:30.
        (
            r"(?P<year>\d{4})(?P<by>[-/])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})"
            r"(?:T\d\d:\d\d(?::\d\d)?)?",
            _iso,
        ),
        (
            r"(?P<first>\d{1,2})(?P<by>[-/])(?P<second>\d{1,2})(?P=by)(?P<year>\d{4}|\d\d)",
            _numeric,
        ),
        (rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}", _worded),
        (rf"{_DAY}(?:\s+of)?\s+{_MONTH},?\s+{_YEAR}", _worded),
        (rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _month_only),
    )
)


def take_dates(text: str) -> tuple[list[Day], str]:
    """The dates in ``text`` in no particular order, and the text with blanks in their place."""
    days: list[Day] = []
    for pattern, read in _FORMS:

        def blank(match: re.Match[str], read: Callable[..., Day | None] = read) -> str:
            day = read(match)
            if day is None:
                return match.group()
            days.append(day)
            return " " * len(match.group())

        text = pattern.sub(blank, text)
    return days, text
