"""Numbers with units in free text, compared by amount: 7.50 is 7.5, 1 g is 1000 mg, and of
potassium 5.6 mEq/L is 5.6 mmol/L.

``units.toml`` has the units, as expressions of pint, and the molar masses of analytes. Any other
word after a number ("3 episodes") is not a unit. Numbers inside words (A1c, B12) are parts of
names, not quantities.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from midchart.core.parsing import read_toml

_FILE = Path(__file__).with_name("units.toml")
_TABLES = read_toml(_FILE.read_bytes(), _FILE.name)
_UNITS: dict[str, str] = {
    spelling: unit
    for unit, spellings in _TABLES["spellings"].items()
    for spelling in spellings.split()
}
"""Spelling → expression of pint."""
_MOLAR: dict[str, tuple[float, int]] = _TABLES["molar"]
_TEMPERATURES = frozenset({"degC", "degF"})
_ONE = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_PER = r"(?:\s?/\s?|\s?\bper\s)"
_UNIT = rf"(?:{_ONE})(?:{_PER}(?:{_ONE}))*|{_PER}(?:{_ONE})"

_NUMBER = re.compile(
    # A sign counts only where nothing before it could make it a dash or a range.
    r"(?<![\w.^])(?P<sign>(?<!\d )(?<![\w)\]])[-−+])?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    rf"(?:[\s-]?(?P<unit>{_UNIT})(?![\w/^]))?",
    re.IGNORECASE,
)


@cache
def _registry() -> Any:
    """pint's units with those of laboratories; importing pint takes a third of a second."""
    import pint

    registry: Any = pint.UnitRegistry(cache_folder=None)
    registry.define("international_unit = [activity]")
    registry.define("milli_unit = 1e-3 * international_unit")
    registry.define("micro_unit = 1e-6 * international_unit")
    registry.define("milliequivalent = [equivalents]")
    return registry


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as written and the unit after it, an expression of pint ("" without one)."""

    bare: Decimal
    unit: str

    def says(self, other: Quantity, item: str = "", about: float = 1e-9) -> bool:
        """Whether this is the same amount; a unit that one of them leaves out is not missed.

        ``item``: lower-case text that names what is measured, for mass and moles. A factor that is
        no power of ten (pounds, moles) leaves room for rounding to the coarser of both numbers.
        ``about``: a relative difference that is none.
        """
        if self.unit == other.unit or not (self.unit and other.unit):
            pairs = (self.bare, other.bare), (self._counts(), other._counts())
            return any(abs(one - two) <= Decimal(about) * abs(two) for one, two in pairs)
        converted = self.converted(other.unit, item)
        if converted is None:
            return False
        expected, room = float(other.bare), about * abs(converted)
        factor = converted / float(self.bare) if self.bare else 1.0
        if self.unit in _TEMPERATURES or not _is_round(factor):
            step = max(_step(other.bare), _step(self.bare) * abs(factor))
            room = max(room, min(0.51 * step, 0.04 * abs(expected)))
        return abs(converted - expected) <= room

    def comparable(self, other: Quantity, item: str = "") -> bool:
        """Whether both have units of one dimension, or equal units."""
        if self.unit == other.unit:
            return True
        return bool(self.unit and other.unit) and self.converted(other.unit, item) is not None

    def converted(self, unit: str, item: str = "") -> float | None:
        """The value in another unit; None where nothing converts into it."""
        factors = _ways(self.unit, unit, item)
        return None if factors is None else float(self.bare) * factors[0] + factors[1]

    def _counts(self) -> Decimal:
        """The number with its "thousand", "million" or per cent."""
        scale = self.unit.partition("/")[0].replace("percent", "1e-2")
        return self.bare * Decimal(scale) if scale.startswith("1e") else self.bare


def _step(number: Decimal) -> float:
    return 10.0 ** int(number.as_tuple().exponent)


def _is_round(factor: float) -> bool:
    """Whether a factor is a power of ten, or whole as that of weeks to days."""
    larger = max(factor, 1 / factor) if factor else 1.0
    return abs(larger - round(larger)) < 1e-6 * larger


@cache
def _ways(unit: str, target: str, item: str) -> tuple[float, float] | None:
    """Factor and shift that convert ``unit`` into ``target``, by the molar mass of an analyte that
    ``item`` names where mass and moles differ."""
    registry = _registry()
    if frozenset((unit, target)) == _TEMPERATURES:
        zero, one = (registry.Quantity(value, unit).to(target).magnitude for value in (0.0, 1.0))
        return one - zero, zero
    if "a1c" in item and {unit, target} == {"percent", "millimole/mole"}:
        # IFCC-NGSP master equation: per cent = 0.09148 mmol/mol + 2.152.
        ifcc = (0.09148, 2.152) if target == "percent" else (1 / 0.09148, -2.152 / 0.09148)
        return ifcc
    if {unit, target} & _TEMPERATURES:
        return None
    one, other = (registry.Quantity(1.0, "") * registry(part) for part in (unit, target))
    ways = [one]
    for name, (mass, charge) in _MOLAR.items():
        if re.search(rf"\b{name}", item):
            molar = registry.Quantity(mass, "gram/mole")
            ways += [one * molar, one / molar]
            if charge:
                equivalent = registry.Quantity(charge, "milliequivalent/millimole")
                ways += [one * equivalent, one / equivalent]
                ways += [one / molar * equivalent, one / equivalent * molar]
    for way in ways:
        if way.dimensionality == other.dimensionality:
            return float((way / other).to_base_units().magnitude), 0.0
    return None


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
        parsed.append((Quantity(bare, _expression(match["unit"] or "")), *match.span()))
    return parsed


@cache
def _expression(written: str) -> str:
    """A unit as written, as an expression of pint."""
    parts = re.split(_PER, written.lower()) if written else []
    return "/".join(_UNITS[part.strip()] if part.strip() else "1" for part in parts)


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
    for number, names in enumerate(_TABLES["months"].values(), start=1)
    for name in names.split()
}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
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
    if match["day_first"]:
        first, second = second, first
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
            # Month first, unless a German, French or Spanish word leads the date.
            r"(?P<day_first>(?:le|el|am|du|del|vom|den)\s+)?(?P<first>\d{1,2})(?P<by>[-/])(?P<second>\d{1,2})(?P=by)(?P<year>\d{4}|\d\d)",
            _numeric,
        ),
        (r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})", _iso),
        (rf"{_MONTH}\s+{_DAY}\s?,?\s+{_YEAR}", _worded),
        (rf"{_DAY}(?:\s+(?:of|de))?\s+{_MONTH},?\s+(?:del?\s+)?{_YEAR}", _worded),
        (rf"{_MONTH},?\s+(?:(?:of|de)\s+)?{_YEAR}", _month_only),
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
