"""``[VOCAB/code] name value unit``, the one-line entries of MedAlign's public sample.

The line does not say where the name ends. A value is taken out only where that is safe: in a
measurement or an observation, at the end of the line, alone or before a unit we know or that has
the shape of one. Everything else is the name, so no character of the line is lost.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"\[([^\]\s]*)\]\s*(.*)", re.DOTALL)
_UNIT = (
    r"%|[A-Za-zµμ°%{}\[\].*^0-9]+/[A-Za-zµμ°%{}\[\].*^0-9/]+|mm\s?\[?Hg\]?|cm\s?H2O|sq\s(?:meters|m)|"
    r"(?:k|m|u|µ|μ|n|p)?g|lbs?|oz|(?:k|c|m)?m|in(?:ches)?|ft|(?:m|d|u|µ)?L|ml|°?[CF]|deg\s?[CF]|"
    r"degrees\s\w+|bpm|beats\sper\sminute|(?:m|µ|u|n|p)?mol|m?Eq|IU|U|units?|seconds?|sec|s|ms|"
    r"min(?:utes)?|hours?|hrs?|h|days?|weeks?|months?|years?|fL|pg|kPa|mmol|K|M|score|points?"
)
_VALUE = re.compile(
    rf"(?P<name>.*\S)\s+(?P<value>(?:[<>]=?\s?)?[+-]?\d[\d,]*(?:\.\d+)?(?:/\d+(?:\.\d+)?)?)"
    rf"(?:\s*(?P<unit>{_UNIT}))?",
    re.DOTALL,
)
_VALUED = frozenset({"measurement", "observation"})


def parse_code(line: str, kind: str) -> tuple[str, str, str, str]:
    """Code, name, value and unit of a line; what cannot be told apart stays in the name.

    >>> parse_code("[LOINC/8478-0] Mean blood pressure 122 mm Hg", "measurement")
    ('LOINC/8478-0', 'Mean blood pressure', '122', 'mm Hg')
    """
    line = line.strip()
    match = _LINE.fullmatch(line)
    code, rest = (match.group(1), match.group(2).strip()) if match else ("", line)
    found = _VALUE.fullmatch(rest) if kind in _VALUED else None
    if found is None:
        return code, rest, "", ""
    return code, found["name"], found["value"], found["unit"] or ""
