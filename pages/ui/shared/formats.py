"""Numbers as text: one format on every page, and a dash where there is no value.

Percentages have one decimal, p values three, intervals are [low, high]. A share is a number in
[0, 1] and is shown in per cent; a difference of shares is shown in percentage points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from midchart.core import api

NONE = "–"


def missing(value: Any) -> bool:
    """Whether there is no value: None or NaN."""
    return value is None or bool(pd.isna(value))


def number(value: Any) -> float:
    """A float; NaN for a missing value."""
    return float("nan") if missing(value) else float(value)


def percent(share: Any) -> str:
    """A share in per cent: "25.3 %"."""
    return NONE if missing(share) else api.percent(share)


def signed(value: Any, digits: int = 1) -> str:
    """A number with its sign (a true minus), and 0 without one: "+1.5", "−2.0", "0.0"."""
    return NONE if missing(value) else api.with_sign(value, digits)


def interval(low: Any, high: Any) -> str:
    """An interval of shares in per cent: "[16.0, 31.2]"."""
    if missing(low) or missing(high):
        return NONE
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def signed_interval(low: Any, high: Any) -> str:
    """An interval of a difference of shares in points: "[−11.0, +7.0]"."""
    if missing(low) or missing(high):
        return NONE
    return f"[{signed(100 * low)}, {signed(100 * high)}]"


def _joined(value: str, ends: str) -> str:
    return value if value == NONE or ends == NONE else f"{value} {ends}"


def share(value: Any, low: Any = None, high: Any = None) -> str:
    """A share with its interval where it has one: "25.3 % [16.0, 31.2]"."""
    return _joined(percent(value), interval(low, high))


def difference(value: Any, low: Any = None, high: Any = None) -> str:
    """A difference of shares in points, with its interval: "+10.0 [+2.0, +18.0]"."""
    if missing(value):
        return NONE
    return _joined(signed(100 * value), signed_interval(low, high))


def p_number(p: Any) -> str:
    """A p value without its letter: "0.012", "< 0.001"."""
    return NONE if missing(p) else api.p_number(p)


def p_value(p: Any) -> str:
    """A p value: "p = 0.012", "p < 0.001", "no p"."""
    return "no p" if missing(p) else api.p_value(p)


def compact(count: Any) -> str:
    """A count in words: "3.1 million", "45 thousand", "812"."""
    count = float(count)
    if count >= 1e6:
        return f"{count / 1e6:,.1f} million"
    return f"{count / 1e3:,.0f} thousand" if count >= 1e4 else f"{count:,.0f}"


def short(count: Any) -> str:
    """A count in about four characters: "3.1M", "45k", "812"."""
    return compact(count).replace(" thousand", "k").replace(" million", "M")


def duration(seconds: Any) -> str:
    """Seconds as "4.2 s", "45 s", "12 min" or "3.5 h"."""
    return api.duration(float(seconds))


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(n: int, noun: str) -> str:
    """A number of things: "1 patient", "1,200 patients"."""
    return f"{n:,} {noun}" + "s" * (n != 1)


def sentence(text: str) -> str:
    """A text with a capital and a full stop; a column's name keeps its small letters."""
    first = text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"
    return f"{first.rstrip('.')}."


def unbroken(text: str) -> str:
    """A number and its per cent sign, or a p and its value, kept on one line."""
    return (
        text.replace(" %", "\u00a0%")
        .replace("p = ", "p\u00a0=\u00a0")
        .replace("p < ", "p\u00a0<\u00a0")
    )
