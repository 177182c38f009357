"""How the columns of a table are read, decided once from all values of a column.

Numbers of a column have one decimal mark, its dates one order of day and month, its epoch times one
unit. What proves it is stated (``25/04/2021`` is day first). A column that proves nothing is named:
those of its dates that may be either are undated until ``midchart.toml`` says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from midchart.core.cohorts.files import LoadLog

MISSING = frozenset({"", "NULL", "null", "Null", "NaN", "nan", "NAN", "NaT", r"\N", "<NA>"})
"""Ways to write that a cell of text has no value."""
MISSING_TYPED = MISSING | {"None", "none", "NONE", "NA", "na", "N/A", "n/a", "#N/A", "-", "--", "."}
"""The same for ids, numbers and times, where words are no values ("None" and "NA" may be text)."""

Values = Mapping[str, tuple[int, int]]
"""Each distinct value of a column → number of rows that have it, and the first of them from 1."""
DAY_FIRST, MONTH_FIRST = "day first", "month first"
DECIMAL_COMMA, DECIMAL_POINT = "decimal comma", "decimal point"
BY_FILE, BY_NUMBER = "by file", "by number"
PATIENTS = "records.patient"
"""Key of the setting by which files with several people under one number make records."""
SETTINGS = (DAY_FIRST, MONTH_FIRST, DECIMAL_COMMA, DECIMAL_POINT, BY_FILE, BY_NUMBER)
"""Values of the table ``[columns]`` of ``midchart.toml``, as ``"notes.time" = "day first"``."""


def distinct(values: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The distinct values of a column, given in the order of its rows."""
    counted: dict[str, tuple[int, int]] = {}
    for row, value in enumerate(values, 1):
        count, first = counted.get(value, (0, row))
        counted[value] = count + 1, first
    return counted


# Names of columns.


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A column's name without case, blanks and marks: ``Patient ID`` is ``patientid``."""
    return re.sub(r"[\W_]+", "", name.casefold())


def known_names(header: Sequence[str], names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Column of a header → the name in ``names`` of which it is a spelling or synonym.

    ``names``: name → its synonyms, the first wins. A column has one name, and a name that is there
    as such has no synonym.
    """
    spelled: dict[str, str] = {}
    for column in header:
        spelled.setdefault(folded(column), column)
    exact = {name: name if name in header else spelled.get(folded(name)) for name in names}
    used = {column: name for name, column in exact.items() if column is not None}
    for name, synonyms in names.items():
        if exact[name] is None:
            there = (spelled.get(folded(synonym)) for synonym in synonyms)
            column = next((one for one in there if one is not None and one not in used), None)
            if column is not None:
                used[column] = name
    return used


# Ids.

WHOLE = r"-?\d+\.0*"
"""A whole number that was written as a decimal, as a regular expression."""
_WHOLE, _WHOLE_OR_NUMBER = re.compile(WHOLE), re.compile(r"-?\d+(?:\.0*)?")


def are_decimal_ids(values: Iterable[str]) -> bool:
    """Whether a column's ids are whole numbers, some of them written as decimals (``1.0``)."""
    decimal = False
    for value in values:
        if value in MISSING_TYPED:
            continue
        if _WHOLE_OR_NUMBER.fullmatch(value) is None:
            return False
        decimal = decimal or "." in value
    return decimal


def read_id(value: str, decimal: bool) -> str:
    """An id without blanks around it; "" where it is missing; ``decimal``: 1.0 is 1."""
    value = value.strip()
    if value in MISSING_TYPED:
        return ""
    return value.partition(".")[0] if decimal and _WHOLE.fullmatch(value) else value


# Times.

_CLOCK = (
    r"(?:(?:[\sT:]|,\s)\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})"
    r"(?:[.,](?P<fraction>\d+))?)?\s*(?:(?P<half>[AaPp])\.?[Mm]\.?)?"
    r"\s*(?:[A-Z]{1,5}|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?)?)?"
)
_NUMERIC = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}){_CLOCK}"
)
"""A date of day and month, or of month and day."""
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?P<y>\d{{4}})(?P<mark>[-/.])(?P<m>\d{{1,2}})(?P=mark)(?P<d>\d{{1,2}}){_CLOCK}",
        r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})"
        r"(?:[T ]?(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?Z?)?",
        rf"(?P<d>\d{{1,2}})[-\s./]*(?P<month>[A-Za-z]{{3,9}})[-\s.,/]*(?P<y>\d{{4}}){_CLOCK}",
        r"(?P<month>[A-Za-z]{3,9})\.?\s+(?P<d>\d{1,2})(?:st|nd|rd|th)?,?\s+"
        rf"(?P<y>\d{{4}}){_CLOCK}",
    )
)
"""The other ways to write a date."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NAMES = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
          "october", "november", "december")  # fmt: skip
_MONTHS = {form: n for n, name in enumerate(_NAMES, 1) for form in (name, name[:3])} | {"sept": 9}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_EXCEL_EPOCH = datetime(1899, 12, 30, tzinfo=UTC).replace(tzinfo=None)
EXCEL = "days of Excel's calendar"
UNITS: Mapping[str, tuple[float, float, Decimal]] = {
    EXCEL: (2e4, 6e4, Decimal(86_400_000_000)),
    "seconds since 1970": (1e8, 1e10, Decimal(1_000_000)),
    "milliseconds since 1970": (1e11, 1e13, Decimal(1_000)),
    "microseconds since 1970": (1e14, 1e16, Decimal(1)),
    "nanoseconds since 1970": (1e17, 1e19, Decimal("1e-3")),
}
"""Unit of times written as numbers → lowest and highest number (1954 to 2064 of Excel's days, 1973
to 2286 of the others) and microseconds of a unit."""
_EITHER, _SAME, _POINTS, _NO_UNIT = "", "same", "points", "no unit"


def _numeric(text: str) -> tuple[str, str]:
    """The order that a date of day and month in numbers proves, :data:`_EITHER` or, where both are
    equal, :data:`_SAME`; and the date, "" of a text that is none."""
    match = _NUMERIC.fullmatch(text)
    first, second = (int(match["a"]), int(match["b"])) if match else (0, 0)
    if match is None or not 1 <= min(first, second) <= 12 or max(first, second) > 31:
        return _EITHER, ""
    order = DAY_FIRST if first > 12 else MONTH_FIRST if second > 12 else _EITHER
    return _SAME if first == second else order, text[: match.end("y")]


def _moment(match: re.Match[str], order: str = "") -> datetime | None:
    """The naive time of a match; None where there is no such time."""
    part = match.groupdict("")
    hour, half = int(part["hour"] or 0), part.get("half", "").lower()
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour >= 12:
        hour = 0 if hour == 12 else 24
    if order:
        day, month = (part["b"], part["a"]) if order == MONTH_FIRST else (part["a"], part["b"])
    else:
        day, month = part["d"], part.get("m") or _MONTHS.get(part["month"].lower(), 0)
    minute, second = int(part["minute"] or 0), int(part["second"] or 0)
    micros = int(f"{part.get('fraction', '')}000000"[:6])
    try:
        return datetime(int(part["y"]), int(month), int(day), hour, minute, second, micros)
    except ValueError:
        return None


_OFFSET = re.compile(r"\d[Tt ].*(?:[Zz]|[+-]\d\d:?\d\d)\s*\Z")


@dataclass(frozen=True, slots=True)
class Times:
    """How the times of a column are read: naive, an offset left out.

    ``order`` of dates such as 03/04/2021: "" reads only those that cannot be otherwise. ``unit`` of
    times written as numbers: "" reads none.
    """

    order: str = ""
    unit: str = ""

    def read(self, text: str) -> datetime | None:
        """The time that a cell states; None where it states none that can be read."""
        if text[4:5] == "-":
            try:
                return datetime.fromisoformat(text).replace(tzinfo=None)
            except ValueError:
                pass  # another way to write it
        return _read(text.strip(), self.order, self.unit)


@lru_cache(maxsize=1 << 16)
def _read(text: str, order: str, unit: str) -> datetime | None:
    if match := _NUMERIC.fullmatch(text):
        order = order or _numeric(text)[0]
        return _moment(match, order) if order else None
    for form in _FORMS:
        if (match := form.fullmatch(text)) and (time := _moment(match)):
            return time
    return _counted(text, unit) if unit and _NUMBER.fullmatch(text) else None


def with_offset(text: str, time: datetime | None) -> datetime | None:
    """The time that was read of a text, with the offset from UTC that the text states."""
    if time is None or not _OFFSET.search(text):
        return time
    try:
        zone = datetime.fromisoformat(text.strip()).tzinfo
    except ValueError:
        return time
    return time.replace(tzinfo=zone)


def _counted(text: str, unit: str) -> datetime | None:
    (low, high, micros), number = UNITS[unit], Decimal(text)
    if not low <= number < high:
        return None
    if unit == EXCEL:  # to the second, as a day's share is no exact number
        return _EXCEL_EPOCH + timedelta(seconds=round(number * micros / 1_000_000))
    return _EPOCH + timedelta(microseconds=int(number * micros))


ISO = Times()
"""The reading of a column whose times are all ISO 8601."""


US = Times(MONTH_FIRST)
"""The reading of times of a format that writes dates as 10/08/2018, month first."""


def parse_time(text: str | None) -> datetime | None:
    """The naive moment that a chart states, by ISO 8601 or month first; None for none."""
    return None if text is None else US.read(text)


class _ShownValues(NamedTuple):
    """The first row of a column that shows something, what is in it, and how many rows show it."""

    row: int
    text: str
    rows: int


def _shown(
    values: Values, kinds: Callable[[str], Iterable[tuple[str, str]]]
) -> dict[str, _ShownValues]:
    """What the values of a column show by kind. ``kinds``: of a value, each with its part of it."""
    shown: dict[str, _ShownValues] = {}
    for value, (rows, row) in values.items():
        for kind, text in kinds(value.strip()):
            before = shown.get(kind, _ShownValues(row, text, 0))
            first = min(before[:2], (row, text))
            shown[kind] = _ShownValues(*first, before.rows + rows)
    return shown


def _kinds_of_time(text: str) -> Iterator[tuple[str, str]]:
    """The unit of a number; the order of day and month, and whether points separate them."""
    order, date = _numeric(text)
    if date:
        yield order, date
    if "." in date:
        yield _POINTS, date
    if _NUMBER.fullmatch(text) and ISO.read(text) is None:
        fits = (unit for unit, (low, high, _) in UNITS.items() if low <= float(text) < high)
        yield next(fits, _NO_UNIT), text


def decide_times(
    file: str, table: str, columns: Mapping[str, Values], settings: Mapping[str, str], log: LoadLog
) -> dict[str, Times]:
    """How to read each column of times of one table; what is not ISO 8601 is stated in ``log``.

    A column whose dates prove no order takes that of the other columns of the table, if they agree;
    else those of its dates that may be either are undated. ``settings``: "table.column" → its
    setting in ``midchart.toml``.
    """
    shown = {column: _shown(values, _kinds_of_time) for column, values in columns.items()}
    orders: dict[str, str] = {}
    proofs: dict[str, dict[str, _ShownValues]] = {}
    for column, kinds in shown.items():
        # Columns whose order is stated, proved by a date, or written with points.
        proved = {order: kinds[order] for order in (DAY_FIRST, MONTH_FIRST) if order in kinds}
        stated, how = settings.get(f"{table}.{column}", ""), ""
        if _POINTS in kinds and all("/" in proof.text for proof in proved.values()):
            proved.setdefault(DAY_FIRST, kinds[_POINTS])
            how = "" if DAY_FIRST in kinds else ", as dates with points are"
        if stated in (DAY_FIRST, MONTH_FIRST):
            orders[column], how = stated, ", as midchart.toml says"
        elif len(proved) == 1:
            ((orders[column], proof),) = proved.items()
            how += f" ({proof.text} in row {proof.row:,})"
        if column in orders:
            log.warn(f"{file}: {column} read as {orders[column]}{how}")
        proofs[column] = proved
    # The others: the order of the table's other dates, or a question to the user.
    decided = set(orders.values())
    readings: dict[str, Times] = {}
    for column, kinds in shown.items():
        if column not in orders and (either := kinds.get(_EITHER)):
            if len(decided) == 1 and not proofs[column]:
                (orders[column],) = decided
                as_others = f"{orders[column]}, as the other dates of the table"
                log.warn(f"{file}: {column} read as {as_others}")
            else:
                rows = [
                    f"{order} in row {one.row:,}" for order, one in sorted(proofs[column].items())
                ]
                both = f" (the column has dates of both orders: {', '.join(rows)})" if rows else ""
                log.unsettle(
                    f"{table}.{column}",
                    (DAY_FIRST, MONTH_FIRST),
                    f"{file}: {column}: {either.rows:,} dates may be day first or month first "
                    f"({either.text} in row {either.row:,}){both} — they are undated",
                )
        units = [unit for unit in kinds if unit in UNITS or unit == _NO_UNIT]
        unit = units[0] if len(units) == 1 and units[0] != _NO_UNIT else ""
        if unit:
            log.warn(f"{file}: {column} read as {unit} (a number in row {kinds[unit].row:,})")
        readings[column] = Times(orders.get(column, ""), unit)
        _warn_of_unread(file, column, columns[column], readings[column], log)
    return readings


def _warn_of_unread(file: str, column: str, values: Values, times: Times, log: LoadLog) -> None:
    """Name the values that are no time; those that may be day or month first were named before."""
    unread = [
        counted
        for value, counted in values.items()
        if (text := value.strip()) not in MISSING_TYPED
        and times.read(text) is None
        and (times.order or _numeric(text)[0] != _EITHER or not _numeric(text)[1])
    ]
    if unread:
        log.warn(
            f"{file}: {column}: {sum(count for count, _ in unread):,} times cannot be read, the "
            f"first in row {min(row for _, row in unread):,} — their entries are undated"
        )


# Numbers.

_DECIMAL = re.compile(r"([<>=≤≥~]*\s*[+-]?)(\d[\d.,'\s]*|[.,]\d+)((?:[eE][+-]?\d+)?)")
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*")
_DECIMALS, _THOUSANDS = "decimal", "thousands"


def _digits(text: str) -> str:
    """The digits and separators of a number, without white space and apostrophes; an empty string
    if the text is not a number."""
    match = _DECIMAL.fullmatch(text)
    return re.sub(r"[\s']", "", match[2]) if match else ""


def _marks(digits: str) -> dict[str, str]:
    """Separator → its role in the number: decimal or thousands; "" if both are possible."""
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:  # the last of two marks is the decimal one
        first, last = (",", ".") if comma < point else (".", ",")
        return {first: _THOUSANDS, last: _DECIMALS}
    if comma < 0 and point < 0:
        return {}
    mark = "," if comma >= 0 else "."
    if digits.count(mark) > 1:
        return {mark: _THOUSANDS}
    return {mark: "" if _GROUPED.fullmatch(digits) else _DECIMALS}


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the numbers of a column are written; every digit of them is kept.

    ``comma`` and ``point``: what a single mark before three digits is (1,234 and 1.234), of
    decimals, of thousands, or "" for undecided, which stays as written.
    """

    comma: str = ""
    point: str = _DECIMALS

    def read(self, text: str) -> str:
        """The number with a decimal point and without marks of thousands; "" where missing."""
        text = text.strip()
        if text in MISSING_TYPED:
            return ""
        match, digits = _DECIMAL.fullmatch(text), _digits(text)
        if match is None:
            return text
        for mark, stated in _marks(digits).items():  # thousands come first
            meaning = stated or (self.comma if mark == "," else self.point)
            if meaning:
                digits = digits.replace(mark, "." if meaning == _DECIMALS else "")
        return match[1] + digits + match[3]


def _kinds_of_number(text: str) -> Iterator[tuple[str, str]]:
    digits = _digits(text)
    for mark, meaning in _marks(digits).items():
        yield f"{mark} {meaning}", digits


def decide_numbers(
    file: str, table: str, column: str, values: Values, settings: Mapping[str, str], log: LoadLog
) -> Numbers:
    """How to read a column of numbers; what is not a plain decimal point is stated in ``log``.

    ``settings`` as for :func:`decide_times`.
    """
    shown = _shown(values, _kinds_of_number)
    if not any(kind[0] == "," or kind == ". thousands" for kind in shown):
        return Numbers()
    # A stated mark decides; otherwise the values that can be read in one way only do.
    stated = settings.get(f"{table}.{column}", "")
    if stated in (DECIMAL_COMMA, DECIMAL_POINT):
        log.warn(f"{file}: {column} read with a {stated}, as midchart.toml says")
        meanings = (_DECIMALS, _THOUSANDS)
        return Numbers(*(meanings if stated == DECIMAL_COMMA else meanings[::-1]))
    comma, point = (
        next(iter(proved)) if len(proved) == 1 else ""
        for proved in (
            {meaning for meaning in (_DECIMALS, _THOUSANDS) if f"{mark} {meaning}" in shown}
            for mark in ",."
        )
    )
    if not comma and ". decimal" in shown and ", decimal" not in shown:
        comma = _THOUSANDS
    point = point or ("" if ", decimal" in shown else _DECIMALS)
    if comma == _THOUSANDS and ", " in shown:
        shown.setdefault(", thousands", shown[", "])
    # Report what was decided, then what the values leave open.
    for kind, words in (
        (", decimal", "a decimal comma"),
        (", thousands", "commas between thousands"),
        (". thousands", "points between thousands"),
    ):
        if one := shown.get(kind):
            log.warn(f"{file}: {column} read with {words} ({one.text} in row {one.row:,})")
    for mark, name, meaning in ((", ", "comma", comma), (". ", "point", point)):
        if not meaning and (one := shown.get(mark)):
            log.unsettle(
                f"{table}.{column}",
                (DECIMAL_COMMA, DECIMAL_POINT),
                f"{file}: {column}: {one.rows:,} numbers may have a {name} before decimals or "
                f"between thousands ({one.text} in row {one.row:,}) — they stay as written",
            )
    return Numbers(comma, point)
