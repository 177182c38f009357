"""Numbers with units in free text, compared by value: 7.50 is 7.5, 5mg is 5 mg, 1 g is 1000 mg.

A unit is one of the list below; any other word after a number ("3 episodes") is not a unit.
Numbers inside words (A1c, B12) are parts of names, not quantities.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

_UNITS: dict[str, tuple[str, str]] = {
    spelling: (dimension, factor)
    for dimension, factor, spellings in (
        ("mass", "1e-6", "mcg µg μg ug microgram micrograms"),
        ("mass", "1e-3", "mg milligram milligrams"),
        ("mass", "1", "g gm gram grams"),
        ("mass", "1e3", "kg kilogram kilograms"),
        ("volume", "1e-3", "ml cc milliliter milliliters millilitre millilitres"),
        ("volume", "1e-1", "dl"),
        ("volume", "1", "l liter liters litre litres"),
        ("length", "1", "mm"),
        ("length", "10", "cm"),
        ("length", "1000", "m"),
        ("time", "1", "min mins minute minutes"),
        ("time", "60", "h hr hrs hour hours"),
        ("time", "1440", "day days"),
        ("time", "10080", "week weeks"),
        ("months", "1", "month months"),
        ("months", "12", "year years yr yrs"),
        ("%", "1", "% percent"),
        ("mg/dl", "1", "mg/dl"),
        ("g/dl", "1", "g/dl gm/dl"),
        ("g/l", "1", "g/l"),
        ("mmol/l", "1", "mmol/l"),
        ("meq/l", "1", "meq/l"),
        ("meq", "1", "meq"),
        ("u/l", "1", "u/l iu/l"),
        ("unit", "1", "unit units u iu"),
        ("ng/ml", "1", "ng/ml"),
        ("pg/ml", "1", "pg/ml"),
        ("mcg/ml", "1", "mcg/ml ug/ml"),
        ("mmhg", "1", "mmhg"),
        ("bpm", "1", "bpm"),
        ("/min", "1", "/min"),
        ("mg/kg", "1", "mg/kg"),
        ("kg/m2", "1", "kg/m2"),
        ("ml/min", "1", "ml/min"),
        ("k/ul", "1", "k/ul"),
        ("celsius", "1", "°c"),
        ("fahrenheit", "1", "°f"),
    )
    for spelling in spellings.split()
}
"""Spelling → (dimension, factor to the dimension's own unit)."""

_NUMBER = re.compile(
    # A sign counts only where nothing before it could make it a dash or a range.
    r"(?<![\w.])(?P<sign>(?<!\d )(?<![\w)\]])[-−+])?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s?(?P<unit>"
    + "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
    + r")(?![\w/]))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value and the dimension of its unit ("" without one), scaled to the dimension's unit.

    ``bare`` is the number as written, not scaled.
    """

    bare: Decimal
    value: Decimal
    dimension: str

    def says(self, other: Quantity) -> bool:
        """Whether this is the same amount; a unit that one of them leaves out is not missed."""
        if self.dimension and other.dimension:
            return self.dimension == other.dimension and self.value == other.value
        return self.bare == other.bare


def quantities(text: str) -> list[Quantity]:
    """The quantities in ``text`` in order."""
    return [quantity for quantity, _, _ in quantity_places(text)]


def quantity_places(text: str) -> list[tuple[Quantity, int, int]]:
    """The quantities in ``text`` in order, each with its first character and the one after it."""
    parsed: list[tuple[Quantity, int, int]] = []
    for match in _NUMBER.finditer(text):
        bare = Decimal(match["number"].replace(",", ""))
        if match["sign"] in ("-", "−"):
            bare = -bare
        dimension, factor = _UNITS.get((match["unit"] or "").lower(), ("", "1"))
        quantity = Quantity(bare, bare * Decimal(factor), dimension)
        parsed.append((quantity, *match.span()))
    return parsed


def single_value(text: str) -> str:
    """The only number of a text as written, with its unit; dates are no numbers. "" where it has
    none or several."""
    _, rest = take_dates(text)
    places = quantity_places(rest)
    if len(places) != 1:
        return ""
    _, start, end = places[0]
    return rest[start:end].strip()


# Dates in free text: the ways in which records and models write them, read as one value.


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
    """A date; ``day`` is None where only the month is given."""

    year: int
    month: int
    day: int | None = None

    def says(self, other: Day) -> bool:
        """Whether this is at least as specific as ``other``."""
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
