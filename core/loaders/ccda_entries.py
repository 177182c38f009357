"""Coded entries of a C-CDA section: what each says, and the narrative rows that it is the entry of.

The narrative is what a person may rely on (HL7 CDA R2, 4.3.5). An entry refers to the text that
says the same (``text/reference``, ``originalText/reference``): its date is then that of the text,
and what it says in addition or to the contrary (that something was not given, was stopped, has a
value) is written with it. An entry that no text says is a line of its own. Codes stay with their
displayed names; numbers are given as written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree.ElementTree import Element

from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.status import Status, classify, stated

_STATEMENTS = frozenset(
    ("act", "observation", "organizer", "procedure", "encounter", "supply",
     "substanceAdministration", "regionOfInterest", "observationMedia")
)  # fmt: skip
_XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_NESTED = {"RSON": "because", "MFST": "manifestation", "CAUS": "caused by"}
_MOST_LEVELS = 12
_NEGATED = {
    **dict.fromkeys(("substanceAdministration", "supply"), "not given"),
    **dict.fromkeys(("procedure", "act", "encounter"), "not done"),
}
"""What negationInd says of a statement; of others "negated"."""
_SAYS_NO = re.compile(
    r"\b(?:no|not|non|never|none|without|den(?:y|ies|ied)|negative|refus\w*|declin\w*|absent"
    r"|free of|ruled out|unknown|unremarkable|kein\w*|nicht|aucun\w*|pas|sin|ningun\w*)\b",
    re.IGNORECASE,
)
_CODE_NAMES = {
    **dict.fromkeys(("ASSERTION", "CONC", "IMMUNIZ"), ""),
    "SEV": "severity",
    "33999-4": "status",
    "11323-3": "health status",
}
"""Codes that are written without a display name, in words; those that say nothing are ""."""
_OPENS = (Status.NEGATED, Status.RETRACTED)
"""What opens a line of a narrative that does not say so itself."""
_TYPES = frozenset((
    *("problem", "disease", "disorder", "finding", "condition", "diagnosis", "complaint"),
    *("symptom", "unknown", "clinical", "n", "a"),
))  # fmt: skip
"""Words of values that say what kind of entry it is, and nothing of the patient."""
_DATE = re.compile(
    r"\b(?:\d{4}-\d\d?-\d\d?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{8}"
    r"|\d{1,2}[- ][A-Z][a-z]{2,8}[-, ]{1,2}\d{4}|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4})\b"
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+")


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
    code = inside(statement, "code")
    named = code_text(code)
    if code is not None and not code.get("displayName"):
        named = _CODE_NAMES.get(code.get("code", ""), named)
    return ": ".join(filter(None, (*_products(statement)[:1], named, *_players(statement))))


def _products(statement: Element) -> list[str]:
    materials = (
        inside(product, "manufacturedProduct", "manufacturedMaterial")
        for product in each(statement, "consumable", "product")
    )
    return [code_text(inside(one, "code")) or joined(inside(one, "name")) for one in materials]


def _players(statement: Element) -> list[str]:
    players = (
        inside(one, "participantRole", "playingEntity") for one in each(statement, "participant")
    )
    return [code_text(inside(one, "code")) or joined(inside(one, "name")) for one in players]


def _parts(statement: Element) -> Iterator[str]:
    """The parts of what a statement says without those nested in it and without its status."""
    yield _label(statement)
    yield ", ".join(filter(None, map(_value, each(statement, "value"))))
    yield _when(statement)
    yield from (f"dose {_quantity(d)}" for d in each(statement, "doseQuantity") if _quantity(d))
    yield from map(code_text, each(statement, "routeCode", "interpretationCode", "priorityCode"))
    for name, tags in (
        ("site", ("targetSiteCode", "approachSiteCode")),
        ("method", ("methodCode",)),
    ):
        yield from (f"{name} {code_text(one)}" for one in each(statement, *tags) if code_text(one))
    yield from (f"reference {_reference(one)}" for one in each(statement, "referenceRange"))
    yield joined(inside(statement, "text"))


def _reference(element: Element) -> str:
    observed = inside(element, "observationRange")
    value = inside(observed, "value")
    return joined(inside(observed, "text")) or ("" if value is None else _value(value))


def _words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


@dataclass(slots=True)
class _Statement:
    """A statement of an entry: the one around it, how that is related, and those in it."""

    element: Element
    around: _Statement | None
    relation: str
    level: int
    ids: frozenset[str]
    inner: list[_Statement]

    def all(self) -> Iterator[_Statement]:
        """The statement and those below it."""
        yield self
        for one in self.inner:
            yield from one.all()

    def chain(self) -> Iterator[_Statement]:
        """The statement and those around it."""
        one: _Statement | None = self
        while one is not None:
            yield one
            one = one.around

    def status(self, alone: bool = False) -> tuple[Status, str]:
        """Whether it holds, by its own mood and state and, unless ``alone``, by the negations
        around it."""
        code = inside(self.element, "statusCode")
        state = "" if code is None else code.get("code", "")
        status, words = classify([state, self.element.get("moodCode", "")])
        chain = (self,) if alone else self.chain()
        denied = [one for one in chain if one.element.get("negationInd") == "true"]
        if denied and status is not Status.RETRACTED:
            return Status.NEGATED, _NEGATED.get(tag_of(denied[0].element), "negated")
        return status, words

    def time(self) -> tuple[datetime | None, str]:
        """The first moment of its time, else of that of the statement around it, and its date as
        exact as it is stated."""
        for one in self.chain():
            for stamp in each(one.element, "effectiveTime"):
                ends = (stamp, *(inside(stamp, tag) for tag in ("low", "center", "high")))
                for end in ends:
                    time = (None, "") if end is None else parse_ts(end.get("value", ""))
                    if time[0] is not None:
                        return time
        return None, ""

    def state(self) -> str:
        """A state that is neither the usual one nor has words of its own."""
        code = inside(self.element, "statusCode")
        state = "" if code is None else code.get("code", "")
        return "" if state in ("completed", "active") or classify([state])[1] else state

    def line(self) -> str:
        """What it and those related to it say; "" where it was taken back."""
        status, words = self.status(alone=True)
        if status is Status.RETRACTED:
            return ""
        text = "; ".join(filter(None, (*_parts(self.element), self.state())))
        nested = (
            f"{_NESTED.get(one.relation, '')} {line}".strip()
            for one in self.inner
            if one.relation != "component" and (line := one.line())
        )
        return "; ".join(filter(None, (stated(words, text) if text else "", *nested)))


def _build(element: Element, around: _Statement | None, relation: str, level: int) -> _Statement:
    ids: set[str] = set()
    statements: list[tuple[Element, str]] = []
    pending = [(element, "")]
    while pending:
        parent, related = pending.pop()
        others: list[tuple[Element, str]] = []
        for child in parent:
            tag = tag_of(child)
            if tag in _STATEMENTS:
                statements.append((child, related))
                continue
            if tag == "reference" and child.get("value"):
                ids.add(child.get("value", "").strip().lstrip("#"))
            component = "component" if tag == "component" else ""
            others.append((child, component or child.get("typeCode", "") or related))
        pending += reversed(others)
    one = _Statement(element, around, relation, level, frozenset(ids), [])
    if level < _MOST_LEVELS:
        one.inner = [_build(child, one, related, level + 1) for child, related in statements]
    return one


def statements_of(section: Element) -> list[_Statement]:
    """The statements of a section's entries."""
    return [
        _build(child, None, "", 0)
        for entry in each(section, "entry")
        for child in entry
        if tag_of(child) in _STATEMENTS
    ]


class SectionEntries:
    """The entries of a section, joined to the lines of its narrative.

    ``counts`` is increased by the entries: said by the narrative, shown, and not shown by reason.
    ``denied`` lines are negated by their entries alone.
    """

    def __init__(self, section: Element, counts: Counter[str]) -> None:
        self._tops = statements_of(section)
        self._by_id: dict[str, list[_Statement]] = {}
        for top in self._tops:
            for one in top.all():
                for id in one.ids:
                    self._by_id.setdefault(id, []).append(one)
        self.ids = frozenset(self._by_id)
        self.denied = 0
        self._counts = counts
        self._said: set[int] = set()

    def joined(self, line: str, ids: Iterable[str]) -> tuple[datetime | None, str]:
        """The time of the entry of a narrative line, and the line with what the entry adds."""
        linked = [one for id in sorted(ids) for one in self._by_id.get(id, ())]
        if not linked:
            return None, line
        linked.sort(key=lambda one: (one.level, _is_dated_otherwise(line, one.time()[0])))
        main = linked[0]
        self._said |= {id(one) for joined in linked for one in joined.chain()}
        status, words = main.status()
        known_words = _words_of(line)
        opening = ""
        if status in _OPENS and not (_words_of(words) <= known_words or _SAYS_NO.search(line)):
            opening = f"{words.upper()} (coded entry)"
            self.denied += 1
        values = list(self._values(main, linked, known_words))
        time, date = main.time()
        of_another = any(map(str.isdecimal, "".join(values))) or _is_dated_otherwise(line, time)
        if of_another and time is not None:
            values.append(f"dated {date}")
            time = None
        added = [f"{part} (coded entry)" for part in (*values, *self._reasons(main, known_words))]
        return time, "; ".join(filter(None, (opening, line, *added)))

    def _values(
        self, main: _Statement, linked: Sequence[_Statement], known_words: frozenset[str]
    ) -> Iterator[str]:
        """Values of the entry of a line that the line does not have: numbers and findings."""
        for one in {id(one): one for one in (main, *linked)}.values():
            about = (*_products(one.element), *_players(one.element))
            for value in map(_value, each(one.element, "value")) if not any(about) else ():
                words = _words_of(value)
                is_code = value.isdecimal() and len(value) > 4
                if value and not (is_code or words & known_words or words <= _TYPES):
                    yield value

    def _reasons(self, main: _Statement, known_words: frozenset[str]) -> Iterator[str]:
        """Why something was not done, where its line does not say so."""
        for one in main.inner if main.status()[0] is Status.NEGATED else ():
            reason = one.line() if one.relation == "RSON" else ""
            if reason and not _words_of(reason) <= known_words:
                self._said.add(id(one))
                yield f"because {reason}"

    def rest(self, narrative: str) -> Iterator[tuple[datetime | None, str]]:
        """Time and line of each entry, or member of one, that the narrative does not say."""
        known_words = _words_of(narrative)
        for top in self._tops:
            lines = list(self._unsaid(top, known_words))
            yield from lines
            if lines or top.status()[0] is not Status.RETRACTED:
                states = lines or any(one.line() for one in top.all())
                self._counts["shown" if states else "states nothing"] += 1
            else:
                self._counts["was cancelled or entered in error"] += 1

    def _unsaid(
        self, one: _Statement, known_words: frozenset[str]
    ) -> Iterator[tuple[datetime | None, str]]:
        if one.status()[0] is Status.RETRACTED:
            return
        members = [inner for inner in one.inner if inner.relation == "component"]
        is_said = any(id(inner) in self._said for inner in one.all() if inner not in members)
        heads = members and not any(True for _ in each(one.element, "value"))
        line = "" if heads else one.line()
        if not is_said and line and not (known_words and _is_said(one, known_words)):
            yield one.time()[0], line
        for member in members:
            yield from self._unsaid(member, known_words)


def _is_dated_otherwise(line: str, time: datetime | None) -> bool:
    """Whether a line states dates, and none of them is the date of ``time`` (a day apart counts as
    the same, as entries may be in UTC)."""
    dates = [date for one in _DATE.findall(line) if (date := parse_time(one)) is not None]
    if time is None or not (dates or _YEAR.search(line)):
        return False
    if dates:
        return all(abs((date.date() - time.date()).days) > 1 for date in dates)
    return str(time.year) not in _YEAR.findall(line)


def _is_said(one: _Statement, known_words: frozenset[str]) -> bool:
    """Whether a narrative has the words of what a statement is about: its product or substance,
    else its value, else its name."""
    elements = [inner.element for inner in one.all()]
    about = (
        [text for e in elements for text in (*_products(e), *_players(e))],
        [_value(value) for e in elements for value in each(e, "value")],
        [_label(e) for e in elements],
    )
    named = (text for texts in about for text in texts if text)
    return _words_of(next(named, "")) <= known_words
