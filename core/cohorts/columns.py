"""How the columns of a table are read, decided once from all values of a column.

Numbers of a column have one decimal mark, its dates one order of day and month, its epoch times one
unit. What proves it is stated (``25/04/2021`` is day first). A column that proves nothing is named:
those of its dates that may be either are undated until ``midchart.toml`` says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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
"""A whole number that was written as a decimal, as a regular expression for Python and DuckDB."""
WHOLE_OR_NUMBER = r"-?\d+(?:\.0*)?"
_WHOLE, _WHOLE_OR_NUMBER = re.compile(WHOLE), re.compile(WHOLE_OR_NUMBER)


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
_YEAR_FIRST = re.compile(
    rf"(?P<y>\d{{4}})(?P<mark>[-/.])(?P<m>\d{{1,2}})(?P=mark)(?P<d>\d{{1,2}}){_CLOCK}"
)
_COMPACT = re.compile(
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})"
    r"(?:[T ]?(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?Z?)?"
)
_NUMERIC = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}){_CLOCK}"
)
_NAMED = (
    re.compile(
        rf"(?P<d>\d{{1,2}})[-\s./]*(?P<month>[A-Za-z]{{3,9}})[-\s.,/]*(?P<y>\d{{4}}){_CLOCK}"
    ),
    re.compile(
        r"(?P<month>[A-Za-z]{3,9})\.?\s+(?P<d>\d{1,2})(?:st|nd|rd|th)?,?\s+"
        rf"(?P<y>\d{{4}}){_CLOCK}"
    ),
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES_OF_MONTHS = re.compile(
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_EXCEL_EPOCH = datetime(1899, 12, 30, tzinfo=UTC).replace(tzinfo=None)
EXCEL = "days of Excel's calendar"
UNITS: Mapping[str, tuple[float, float, float]] = {
    EXCEL: (2e4, 6e4, 86_400),
    "seconds since 1970": (1e8, 1e10, 1),
    "milliseconds since 1970": (1e11, 1e13, 1e-3),
    "microseconds since 1970": (1e14, 1e16, 1e-6),
    "nanoseconds since 1970": (1e17, 1e19, 1e-9),
}
"""Unit of times written as numbers → lowest and highest number (1954 to 2064 of Excel's days, 1973
to 2286 of the others) and seconds of a unit."""


def _numeric(text: str) -> re.Match[str] | None:
    """A date of day, month and year in numbers, or of month, day and year."""
    match = _NUMERIC.fullmatch(text)
    if match is None or not 1 <= int(match["a"]) <= 31 or not 1 <= int(match["b"]) <= 31:
        return None
    return match if min(int(match["a"]), int(match["b"])) <= 12 else None


def _order(match: re.Match[str]) -> str:
    """The order of day and month that a date proves; "" where it may be either."""
    first, second = int(match["a"]), int(match["b"])
    return DAY_FIRST if first > 12 else MONTH_FIRST if second > 12 else ""


def _moment(year: int, month: int, day: int, match: re.Match[str]) -> datetime | None:
    """The naive time of a date and the clock of ``match``; None where there is no such time."""
    clock = match.groupdict()
    hour, minute = int(clock["hour"] or 0), int(clock["minute"] or 0)
    second, half = int(clock["second"] or 0), (clock.get("half") or "").lower()
    fraction = ((clock.get("fraction") or "") + "000000")[:6]
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour >= 12:
        hour = 0 if hour == 12 else 24
    try:
        return datetime(year, month, day, hour, minute, second, int(fraction))
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
        text = text.strip()
        numeric = _numeric(text)
        if numeric is not None:
            first, second = int(numeric["a"]), int(numeric["b"])
            order = self.order or _order(numeric) or (DAY_FIRST if first == second else "")
            if not order:
                return None
            day, month = (first, second) if order == DAY_FIRST else (second, first)
            return _moment(int(numeric["y"]), month, day, numeric)
        plain = _YEAR_FIRST.fullmatch(text) or _COMPACT.fullmatch(text)
        if plain is not None:
            time = _moment(int(plain["y"]), int(plain["m"]), int(plain["d"]), plain)
            if time is not None or plain.re is _YEAR_FIRST:
                return time
        if self.unit and _NUMBER.fullmatch(text):
            return _counted(text, self.unit)
        for form in _NAMED:
            named = form.fullmatch(text)
            if named is not None and _NAMES_OF_MONTHS.fullmatch(named["month"].lower()):
                month = _MONTHS.index(named["month"][:3].lower()) + 1
                return _moment(int(named["y"]), month, int(named["d"]), named)
        return None


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
    low, high, seconds = UNITS[unit]
    if not low <= float(text) < high:
        return None
    if unit == EXCEL:  # to the second, as a day's share is no exact number
        return _EXCEL_EPOCH + timedelta(seconds=round(float(text) * seconds))
    units, _, share = text.partition(".")
    micros = int(units) * 1_000_000 if seconds == 1 else int(int(units) * (seconds * 1e6))
    if seconds == 1:
        micros += int((share + "000000")[:6])
    return _EPOCH + timedelta(microseconds=micros)


ISO = Times()
"""The reading of a column whose times are all ISO 8601."""


US = Times(MONTH_FIRST)
"""The reading of times of a format that writes dates as 10/08/2018, month first."""


def parse_time(text: str | None) -> datetime | None:
    """The naive moment that a chart states, by ISO 8601 or month first; None for none."""
    return None if text is None else US.read(text)


def _unit_of(numbers: Sequence[str]) -> str:
    """The unit of times written as numbers; "" where none fits all of them."""
    for unit, (low, high, _) in UNITS.items():
        if all(low <= float(number) < high for number in numbers):
            return unit
    return ""


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the values of one column prove: rows and an example for each order, and the unit."""

    proofs: Mapping[str, tuple[int, str]]
    points: tuple[int, str] | None
    either: tuple[int, int, str] | None
    """Dates that may be day or month first: their number, the first one's row and the date."""
    numbers: Sequence[str]


def _evidence(values: Values) -> _Evidence:
    proofs: dict[str, tuple[int, str]] = {}
    points: tuple[int, str] | None = None
    either: tuple[int, int, str] | None = None
    numbers: list[str] = []
    for value, (count, row) in values.items():
        text = value.strip()
        if _NUMBER.fullmatch(text) and ISO.read(text) is None:
            numbers.append(text)
        numeric = _numeric(text)
        if numeric is None:
            continue
        date, order = (
            f"{numeric['a']}{numeric['mark']}{numeric['b']}{numeric['mark']}{numeric['y']}",
            _order(numeric),
        )
        if order and (order not in proofs or row < proofs[order][0]):
            proofs[order] = row, date
        if numeric["mark"] == "." and (points is None or row < points[0]):
            points = row, date
        if not order and numeric["a"].zfill(2) != numeric["b"].zfill(2):
            before = either or (0, row, date)
            first = min((before[1], before[2]), (row, date))
            either = before[0] + count, *first
    if points and DAY_FIRST not in proofs and "/" in proofs.get(MONTH_FIRST, (0, ""))[1]:
        proofs[DAY_FIRST] = points  # by convention, so that neither order is certain
    return _Evidence(proofs, points, either, numbers)


def decide_times(
    file: str, table: str, columns: Mapping[str, Values], settings: Mapping[str, str], log: LoadLog
) -> dict[str, Times]:
    """How to read each column of times of one table; what is not ISO 8601 is stated in ``log``.

    A column whose dates prove no order takes that of the other columns of the table, if they agree;
    else those of its dates that may be either are undated. ``settings``: "table.column" → its
    setting in ``midchart.toml``.
    """
    # Columns whose order is stated, proved by a date, or written with points.
    evidence = {column: _evidence(values) for column, values in columns.items()}
    orders: dict[str, str] = {}
    for column, one in evidence.items():
        stated = settings.get(f"{table}.{column}", "")
        if stated in (DAY_FIRST, MONTH_FIRST):
            orders[column] = stated
            log.warn(f"{file}: {column} read as {stated}, as midchart.toml says")
        elif len(one.proofs) == 1:
            ((orders[column], (row, date)),) = one.proofs.items()
            log.warn(f"{file}: {column} read as {orders[column]} ({date} in row {row:,})")
        elif not one.proofs and one.points is not None:
            row, date = one.points
            orders[column] = DAY_FIRST
            log.warn(
                f"{file}: {column} read as day first, as dates with points are ({date} in row "
                f"{row:,})"
            )
    # The others: the order of the table's other dates, or a question to the user.
    decided = set(orders.values())
    readings: dict[str, Times] = {}
    for column, values in columns.items():
        one = evidence[column]
        if column not in orders and one.either is not None:
            if len(decided) == 1 and not one.proofs:
                (orders[column],) = decided
                log.warn(
                    f"{file}: {column} read as {orders[column]}, as the other dates of the table"
                )
            else:
                log.unsettle(
                    f"{table}.{column}", (DAY_FIRST, MONTH_FIRST), _undecided(file, column, one)
                )
        unit = _unit_of(one.numbers) if one.numbers else ""
        if unit:
            rows = [values[value][1] for value in values if value.strip() in one.numbers]
            log.warn(f"{file}: {column} read as {unit} (a number in row {min(rows):,})")
        readings[column] = Times(orders.get(column, ""), unit)
        _warn_of_unread(file, column, values, readings[column], log)
    return readings


def _undecided(file: str, column: str, one: _Evidence) -> str:
    count, row, date = one.either or (0, 0, "")
    both = (
        " (the column has dates of both orders: "
        + ", ".join(f"{order} in row {row:,}" for order, (row, _) in sorted(one.proofs.items()))
        + ")"
        if one.proofs
        else ""
    )
    return (
        f"{file}: {column}: {count:,} dates may be day first or month first ({date} in row "
        f"{row:,}){both} — they are undated"
    )


def _warn_of_unread(file: str, column: str, values: Values, times: Times, log: LoadLog) -> None:
    """Name the values that are no time; those that may be day or month first were named before."""
    unread = [
        counted
        for value, counted in values.items()
        if value.strip() not in MISSING_TYPED
        and times.read(value) is None
        and (times.order or _numeric(value.strip()) is None or _order_or_equal(value))
    ]
    if unread:
        log.warn(
            f"{file}: {column}: {sum(count for count, _ in unread):,} times cannot be read, the "
            f"first in row {min(row for _, row in unread):,} — their entries are undated"
        )


def _order_or_equal(value: str) -> bool:
    match = _numeric(value.strip())
    return match is not None and (bool(_order(match)) or int(match["a"]) == int(match["b"]))


# Numbers.

_DECIMAL = re.compile(r"([<>=≤≥~]*\s*[+-]?)(\d[\d.,'\s]*|[.,]\d+)((?:[eE][+-]?\d+)?)")
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*")


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the numbers of a column are written; every digit of them is kept.

    What a single mark before three digits is (1,234 and 1.234): ``comma`` "," or "." for the mark
    of decimals or thousands, "" for undecided, which stays as written; ``point`` likewise.
    ``integers``: whole numbers were written as decimals (30.0).
    """

    comma: str = ""
    point: str = "."
    integers: bool = False

    def read(self, text: str) -> str:
        """The number with a decimal point and without marks of thousands; "" where missing."""
        text = text.strip()
        if text in MISSING_TYPED:
            return ""
        match = _DECIMAL.fullmatch(text)
        if match is None:
            return text
        digits = re.sub(r"[\s']", "", match[2])
        if self.integers and _WHOLE.fullmatch(digits):
            digits = digits.partition(".")[0]
        return match[1] + self._with_point(digits) + match[3]

    def _with_point(self, digits: str) -> str:
        comma, point = digits.rfind(","), digits.rfind(".")
        if comma >= 0 and point >= 0:  # the last of two marks is the decimal one
            return digits.replace("," if point > comma else ".", "").replace(",", ".")
        mark, meaning = (",", self.comma) if comma >= 0 else (".", self.point)
        if digits.count(mark) > 1:
            return digits.replace(mark, "")
        if _GROUPED.fullmatch(digits):
            decimal = meaning == mark
            return digits.replace(mark, "." if decimal else "") if meaning else digits
        return digits.replace(",", ".")


AS_WRITTEN = Numbers()


def _mark_kind(digits: str) -> str:
    """What the marks of a number prove, as "comma decimal", or that they may be either."""
    commas, points = digits.count(","), digits.count(".")
    if commas and points:
        return "comma decimal" if digits.rfind(",") > digits.rfind(".") else "comma thousands"
    name = "comma" if commas else "point"
    if commas + points > 1:
        return f"{name} thousands"
    if not commas + points:
        return ""
    return f"{name} either" if _GROUPED.fullmatch(digits) else f"{name} decimal"


def decide_numbers(
    file: str, table: str, column: str, values: Values, settings: Mapping[str, str], log: LoadLog
) -> Numbers:
    """How to read a column of numbers; what is not a plain decimal point is stated in ``log``.

    ``settings`` as for :func:`decide_times`.
    """
    # What each value shows about the marks, with the first row that shows it.
    proofs: dict[str, tuple[int, str]] = {}
    counts: dict[str, int] = {}
    for value, (count, row) in values.items():
        match = _DECIMAL.fullmatch(value.strip())
        digits = re.sub(r"[\s']", "", match[2]) if match else ""
        if kind := _mark_kind(digits):
            counts[kind] = counts.get(kind, 0) + count
            proofs[kind] = min(proofs.get(kind, (row, digits)), (row, digits))
            if "," in digits and "." in digits:
                proofs.setdefault("point thousands" if kind == "comma decimal" else "point decimal",
                                  (row, digits))  # fmt: skip
    if not any(kind.startswith("comma") or kind == "point thousands" for kind in proofs):
        return AS_WRITTEN
    # A stated mark decides; otherwise the proofs do.
    stated = settings.get(f"{table}.{column}", "")
    if stated in (DECIMAL_COMMA, DECIMAL_POINT):
        log.warn(f"{file}: {column} read with a {stated}, as midchart.toml says")
        comma = stated == DECIMAL_COMMA
        return Numbers("," if comma else ".", "," if comma else ".")
    comma = _meaning("comma", proofs)
    if not comma and "point decimal" in proofs and "comma decimal" not in proofs:
        comma = "."
    point = _meaning("point", proofs) or ("" if "comma decimal" in proofs else ".")
    # Report what was decided, then what the values leave open.
    for kind, words in (
        ("comma decimal", "a decimal comma"),
        ("comma thousands", "commas between thousands"),
        ("point thousands", "points between thousands"),
    ):
        if kind in proofs:
            row, digits = proofs[kind]
            log.warn(f"{file}: {column} read with {words} ({digits} in row {row:,})")
    if comma == "." and "comma thousands" not in proofs and "comma either" in proofs:
        row, digits = proofs["comma either"]
        log.warn(f"{file}: {column} read with commas between thousands ({digits} in row {row:,})")
    for name, meaning in (("comma", comma), ("point", point)):
        if not meaning and f"{name} either" in proofs:
            row, digits = proofs[f"{name} either"]
            log.unsettle(
                f"{table}.{column}",
                (DECIMAL_COMMA, DECIMAL_POINT),
                f"{file}: {column}: {counts[f'{name} either']:,} numbers may have a {name} before "
                f"decimals or between thousands ({digits} in row {row:,}) — they stay as written",
            )
    return Numbers(comma, point)


def _meaning(name: str, proofs: Mapping[str, tuple[int, str]]) -> str:
    """What a single ``name`` before three digits is by the proofs of a column; "" if undecided."""
    decimal, thousands = f"{name} decimal" in proofs, f"{name} thousands" in proofs
    if decimal == thousands:
        return ""
    return ("," if name == "comma" else ".") if decimal else ("." if name == "comma" else ",")
