"""Coded entries of a C-CDA section as lines of text, for sections without a narrative.

The narrative is what a person may rely on (HL7 CDA R2, 4.3.5), so entries are read only where there
is none. Codes stay with their displayed names; numbers are given as written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from xml.etree.ElementTree import Element

from midchart.core.cohorts.status import Status, classify, stated

_STATEMENTS = frozenset(
    ("act", "observation", "organizer", "procedure", "encounter", "supply",
     "substanceAdministration", "regionOfInterest", "observationMedia")
)  # fmt: skip
_XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_NESTED = {"RSON": "because", "MFST": "manifestation", "CAUS": "caused by"}
_MOST_LEVELS = 12


def tag_of(element: Element) -> str:
    """The local name of an element."""
    return element.tag.rpartition("}")[2]


def inside(element: Element | None, *tags: str) -> Element | None:
    """The first element down a path of local names."""
    for tag in tags:
        if element is None:
            return None
        element = next((child for child in element if tag_of(child) == tag), None)
    return element


def each(element: Element | None, *tags: str) -> Iterator[Element]:
    """The children with one of these local names."""
    return (
        (child for child in element if tag_of(child) in tags) if element is not None else iter(())
    )


def joined(element: Element | None) -> str:
    """All text of an element in one line, a blank between the texts of two elements."""
    return "" if element is None else " ".join(" ".join(element.itertext()).split())


def parse_ts(value: str) -> tuple[datetime | None, str]:
    """The naive moment of an HL7 time stamp, and its date as ISO 8601 no more exact than written.

    A year or a month alone is its first moment; an offset is dropped, as charts are read in local
    time. (None, "") for what is no time stamp.
    """
    digits = value.strip().partition(".")[0].partition("+")[0].partition("-")[0]
    if not digits.isdecimal() or len(digits) < 4 or len(digits) % 2:
        return None, ""
    digits = digits[:14]
    padded = digits + "00000101000000"[len(digits) :]
    try:
        time = datetime.strptime(padded, "%Y%m%d%H%M%S")
    except ValueError:
        return None, ""
    return time, "-".join(filter(None, (digits[:4], digits[4:6], digits[6:8])))


def date_of(stamp: Element | None) -> str:
    """The date of an element's time stamp as ISO 8601, or ""."""
    return "" if stamp is None else parse_ts(stamp.get("value", ""))[1]


def code_text(element: Element | None) -> str:
    """What a coded value says: its display name, else its original text, else the code."""
    if element is None:
        return ""
    codings = [element, *each(element, "translation")]
    named = (coding.get("displayName", "").strip() for coding in codings)
    text = next(filter(None, named), "") or joined(inside(element, "originalText"))
    return text or next((c.get("code", "") for c in codings if c.get("code")), "")


def _quantity(element: Element | None) -> str:
    if element is None:
        return ""
    unit = element.get("unit", "")
    return f"{element.get('value', '')} {'' if unit == '1' else unit}".strip()


def _range(element: Element) -> str:
    low, high = _quantity(inside(element, "low")), _quantity(inside(element, "high"))
    return f"{low}–{high}" if low and high else f"≥ {low}" if low else f"≤ {high}" if high else ""


def _value(element: Element) -> str:
    kind = element.get(_XSI_TYPE, "").rpartition(":")[2]
    if kind == "TS":
        return date_of(element)
    if kind.startswith("IVL"):
        return _range(element) or _quantity(element)
    text = code_text(element) or _quantity(element) or joined(element)
    return text or ("unknown" if element.get("nullFlavor") else "")


def _when(statement: Element) -> str:
    times: list[str] = []
    for stamp in each(statement, "effectiveTime", "time"):
        low, high = date_of(inside(stamp, "low")), date_of(inside(stamp, "high"))
        period, single = _quantity(inside(stamp, "period")), date_of(stamp)
        if single or low or high:
            ends = f"from {low}" if low and not high else f"until {high}" if not low else ""
            times.append(single or ends or f"{low} to {high}")
        if period:
            times.append(f"every {period}")
    return ", ".join(times)


def _label(statement: Element) -> str:
    products = [
        code_text(inside(product, "manufacturedProduct", "manufacturedMaterial", "code"))
        or joined(inside(product, "manufacturedProduct", "manufacturedMaterial", "name"))
        for product in each(statement, "consumable", "product")
    ]
    played = [
        code_text(inside(one, "participantRole", "playingEntity", "code"))
        or joined(inside(one, "participantRole", "playingEntity", "name"))
        for one in each(statement, "participant")
    ]
    code = inside(statement, "code")
    named = "" if code is not None and code.get("code") == "ASSERTION" else code_text(code)
    return ": ".join(filter(None, (*products[:1], named, *played)))


def _says(statement: Element) -> tuple[str, bool]:
    """What a statement says without those nested in it, and whether it was taken back."""
    code = inside(statement, "statusCode")
    state = "" if code is None else code.get("code", "")
    negated = ["negated"] if statement.get("negationInd") == "true" else []
    status, words = classify([state, statement.get("moodCode", ""), *negated])
    parts = [
        _label(statement),
        ", ".join(filter(None, map(_value, each(statement, "value")))),
        _when(statement),
        *(f"dose {_quantity(one)}" for one in each(statement, "doseQuantity") if _quantity(one)),
        *map(code_text, each(statement, "routeCode", "interpretationCode", "priorityCode")),
        *(
            f"site {code_text(one)}"
            for one in each(statement, "targetSiteCode", "approachSiteCode")
        ),
        *(f"method {code_text(one)}" for one in each(statement, "methodCode") if code_text(one)),
        *(f"reference {_reference(one)}" for one in each(statement, "referenceRange")),
        joined(inside(statement, "text")),
        state if state not in ("", "completed", "active") and not words else "",
    ]
    text = "; ".join(filter(None, parts))
    return (stated(words, text) if text else ""), status is Status.RETRACTED


def _reference(element: Element) -> str:
    observed = inside(element, "observationRange")
    value = inside(observed, "value")
    return joined(inside(observed, "text")) or ("" if value is None else _value(value))


def entry_lines(section: Element, counts: Counter[str]) -> list[str]:
    """One line for each entry of a section, and for each member of an organizer.

    ``counts`` is increased by the entries: shown, and not shown by reason.
    """
    lines: list[str] = []
    for entry in each(section, "entry"):
        statements = [child for child in entry if tag_of(child) in _STATEMENTS]
        written, retracted = _statement_lines(statements, 0)
        lines += written
        reason = "was cancelled or entered in error" if retracted else "states nothing"
        counts["shown" if written else reason] += 1
    return lines


def _statement_lines(statements: Iterable[Element], level: int) -> tuple[list[str], bool]:
    lines: list[str] = []
    any_retracted = False
    for statement in statements if level < _MOST_LEVELS else ():
        text, retracted = _says(statement)
        any_retracted |= retracted
        if retracted:
            continue
        members = [m for c in each(statement, "component") for m in c if tag_of(m) in _STATEMENTS]
        nested: list[str] = []
        for related in each(statement, "entryRelationship"):
            inner, _ = _statement_lines((m for m in related if tag_of(m) in _STATEMENTS), level + 1)
            word = _NESTED.get(related.get("typeCode", ""), "")
            nested += [f"{word} {line}".strip() for line in inner]
        line = "; ".join(filter(None, (text, *nested)))
        lines += [line] if line else []
        lines += _statement_lines(members, level + 1)[0]
    return lines, any_retracted
