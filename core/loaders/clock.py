"""Times as charts write them, read into naive moments.

Real exports mix ISO times (with or without seconds, with a blank or a ``T``, with an offset) and
US dates whose hours are on a 24-hour clock, or have AM and PM, or both. An offset is dropped, not
applied: the clock on the ward's wall is what a chart's order means.
"""

from __future__ import annotations

import re
from datetime import datetime

_US = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4})"
    r"(?:[ T]+(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(?:([AaPp])\.?[Mm]\.?)?)?"
)


def parse_time(text: str | None) -> datetime | None:
    """A naive moment, or None where the text is absent, blank or not a time.

    ``2014-08-10 23:59``, ``2014-08-10T23:59:59Z``, ``2014-08-10``, ``10/08/2018 20:00``,
    ``10/08/2018 8:00 PM`` and ``10/08/2018 20:00 PM`` (a 24-hour clock that says PM as well) are
    times. Two-digit years are not: they do not say which century.
    """
    if text is None:
        return None
    text = text.strip()
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return _us_time(text)


def _us_time(text: str) -> datetime | None:
    match = _US.fullmatch(text)
    if match is None:
        return None
    month, day, year, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    half = (match.group(7) or "").lower()
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    elif half == "a" and hour > 12:
        return None
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
