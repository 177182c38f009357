"""Numbers with units in free text, compared by value: 7.50 is 7.5, 5mg is 5 mg, 1 g is 1000 mg.

A unit is one of the list below; any other word after a number ("3 episodes") is not a unit.
Numbers inside words (A1c, B12) are parts of names, not quantities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
    # A sign counts only where nothing stands before it that could make it a dash or a range.
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

    ``bare`` is the number as it stands.
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
    found: list[Quantity] = []
    for match in _NUMBER.finditer(text):
        bare = Decimal(match["number"].replace(",", ""))
        if match["sign"] in ("-", "−"):
            bare = -bare
        dimension, factor = _UNITS.get((match["unit"] or "").lower(), ("", "1"))
        found.append(Quantity(bare, bare * Decimal(factor), dimension))
    return found
