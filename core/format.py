"""Numbers, durations and spreadsheet cells as text: one format for reports, errors and progress.

CSV output has the columns of all rows, and no formula that a spreadsheet would run.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from json import dumps
from math import isfinite, isnan
from typing import Any, TextIO


def finite(value: float) -> float | None:
    """A number as JSON can hold it: None for NaN and infinity."""
    return float(value) if isfinite(value) else None


NONE = "–"
"""In place of a value that is not there."""
NOT_ESTIMABLE = "not estimable"
"""In place of a number that is NaN."""


def percent(share: float) -> str:
    """A share in per cent, one decimal."""
    return NOT_ESTIMABLE if isnan(share) else f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """A difference of shares in percentage points, one decimal, without a plus sign."""
    if isnan(difference):
        return NOT_ESTIMABLE
    return f"{with_sign(100 * difference).removeprefix('+')} points"


def signed(difference: float) -> str:
    """A difference of shares in percentage points, with its sign and without the unit."""
    return with_sign(100 * difference)


def with_sign(value: float, digits: int = 1) -> str:
    """A number with its sign (a true minus), and 0 without one: "+1.5", "−2.0", "0.0"."""
    if isnan(value):
        return NOT_ESTIMABLE
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]


def decimals(value: float) -> str:
    """A number with three decimals."""
    return NOT_ESTIMABLE if isnan(value) else f"{value:.3f}"


def interval(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """``[low, high]`` after a blank, each end by ``text``; "" where there is none, or it is NaN."""
    if low is None or high is None or isnan(low) or isnan(high):
        return ""
    return f" [{text(low)}, {text(high)}]"


def p_number(p: float) -> str:
    """A p value without its letter, to three decimals; never as 0."""
    if isnan(p):
        return NOT_ESTIMABLE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_value(p: float) -> str:
    """A p value to three decimals; never as 0."""
    return f"p = {p_number(p)}" if p >= 0.001 else f"p {p_number(p)}"


def shown(value: float | None, unit: str = "%", digits: int = 3) -> str:
    """A value in its unit (:data:`midchart.core.runs.declared.Unit`), "–" where there is none."""
    if value is None or isnan(value):
        return NONE
    if unit == "%":
        return percent(value)
    if unit == "points":
        return signed(value)
    if unit == "":
        return f"{value:.{digits}f}".replace("-", "−")
    return f"{value:,.0f}" if unit in ("count", "tokens", "days") else f"{value:,.2f}"


def with_interval(
    value: float | None, low: float | None, high: float | None, unit: str = "%", digits: int = 3
) -> str:
    """A value with its interval: "25.3 % [16.0, 31.2]", "+10.0 [+2.0, +18.0]", "0.812 [0.770,
    0.851]"; "–" without a value."""
    text = shown(value, unit, digits)
    if text == NONE or low is None or high is None or isnan(low) or isnan(high):
        return text
    ends = [shown(end, unit, digits).removesuffix(" %") for end in (low, high)]
    return f"{text} [{ends[0]}, {ends[1]}]"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun; ``plural`` where it is not the noun with an s."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


def duration(seconds: float) -> str:
    """A time as "4.2 s", "45 s", "12 min" or "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time_left(done: int, seconds: float, remaining: int) -> float | None:
    """Seconds that ``remaining`` steps may take, where ``done`` ones took so many; None before a
    tenth of all is done."""
    if not remaining:
        return 0.0
    return remaining * seconds / done if done and 9 * done >= remaining else None


def about_left(seconds: float | None, of: str = "") -> str:
    """A time left as the end of a sentence, ", about 12 min left"; "" where it is not known."""
    return "" if seconds is None else f", about {duration(seconds)} left {of}".rstrip()


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    r"[\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters without width, bidirectional controls, line separators, fillers, tags, variation
selectors (what Unicode calls default ignorable, in short) and halves of a character."""
HIDDEN = re.compile(f"{_CONTROL.pattern}|{_INVISIBLE.pattern}")
"""A character that nobody sees as it is; a tab and a line feed are none."""


def for_terminal(text: str, json: bool = False) -> str:
    """The text with control characters replaced, and invisible ones shown by their code point.

    A zero-width space becomes "[U+200B]". The text is longer then, so marks are placed before. Of
    a ``json`` document these characters become JSON's escapes, which leave its content the same.
    """
    if json:
        return HIDDEN.sub(lambda match: dumps(match.group())[1:-1], text)
    text = _INVISIBLE.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


MARKDOWN = frozenset("\\`*_{}[]()#+-.!|~>$:<&")
"""Characters that markdown, or what Streamlit adds to it, may interpret."""
_BREAK = re.compile(r"[\r\n]+")


def for_screen(text: str, html: bool = False) -> str:
    """A text as one line of plain text inside markdown, or as ``html`` text with its lines.

    Nothing in it acts, and control and invisible characters are shown (:func:`for_terminal`).
    """
    if html:
        return escape(for_terminal(text.replace("\r\n", "\n")))
    line = for_terminal(_BREAK.sub(" ", text))
    return "".join(f"\\{c}" if c in MARKDOWN else c for c in line)


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Starts of cells that a spreadsheet runs as formulas (OWASP, CSV Injection)."""
_CELL_START = re.compile("[;\t](?=[=+@-]|[＝＋－＠])")
"""What ends a cell for a spreadsheet of another language, before the start of a formula."""


def sheet_cell(value: Any) -> Any:
    """The value of a cell; a text that a spreadsheet would run gets a leading apostrophe.

    So does a part of it after a semicolon or tab, which separate cells in some languages. Numbers
    are unchanged, negative ones too.
    """
    if not isinstance(value, str):
        return value
    text = _CELL_START.sub(lambda match: f"{match.group()}'", value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def write_sheet(file: TextIO, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV with the columns of all of them; a missing value is an empty cell.

    ``file`` is open for text, with ``newline=""``.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not columns:
        return
    writer = csv.writer(file)
    writer.writerow([sheet_cell(name) for name in columns])
    writer.writerows([sheet_cell(row.get(name)) for name in columns] for row in rows)
