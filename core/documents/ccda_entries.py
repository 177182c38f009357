"""Coded entries of a C-CDA section: what each says, and the narrative rows that it is the entry of.

The narrative is what a person may rely on (HL7 CDA R2, 4.3.5). An entry refers to the text that
says the same (``text/reference``, ``originalText/reference``): its date is then that of the text,
and what it says in addition or to the contrary (that something was not given, was stopped, has a
value) is written with it. An entry that no text says is a line of its own. Codes stay with their
displayed names; numbers are given as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from functools import cached_property, lru_cache
from itertools import chain
from operator import itemgetter
from xml.etree.ElementTree import Element

from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.status import Status, classify, stated
from midchart.core.fhir.events import Payload
from midchart.core.fhir.values import distinct_texts

_STATEMENTS = frozenset(
    ("act", "observation", "organizer", "procedure", "encounter", "supply",
     "substanceAdministration", "regionOfInterest", "observationMedia")
)  # fmt: skip
_XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_NESTED = {"RSON": "because", "MFST": "manifestation", "CAUS": "caused by"}
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
NO_INFORMATION = {
    "NI": "no information", "NA": "not applicable", "UNK": "unknown", "NASK": "not asked",
    "ASKU": "asked but unknown", "NAV": "temporarily unavailable", "MSK": "masked",
    "OTH": "other", "NP": "not present", "NINF": "no information",
}  # fmt: skip
"""What a null flavour says."""
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


def inside(element: Element | None, *tags: str) -> Element | None:
    """The first element down a path of local names."""
    for tag in tags:
        element = None if element is None else element.find(tag)
    return element


def each(element: Element | None, tag: str) -> list[Element]:
    """The children with a local name."""
    return [] if element is None else element.findall(tag)


def joined(element: Element | None) -> str:
    """All text of an element in one line, a blank between the texts of two elements."""
    return "" if element is None else " ".join(" ".join(element.itertext()).split())


@lru_cache(maxsize=4096)
def parse_ts(value: str) -> tuple[datetime | None, str]:
    """The naive moment of an HL7 time stamp, and its date as ISO 8601 no more exact than written.

    A year or a month alone is its first moment; an offset is dropped, as charts are read in local
    time. (None, "") for what is no time stamp.
    """
    digits = value.strip().partition(".")[0].partition("+")[0].partition("-")[0]
    if not digits.isdecimal() or len(digits) < 4 or len(digits) % 2:
        return None, ""
    padded = digits[:14] + "00000101000000"[len(digits) :]
    try:
        time = datetime.fromisoformat(f"{padded[:8]}T{padded[8:]}")
    except ValueError:
        return None, ""
    return time, "-".join(filter(None, (digits[:4], digits[4:6], digits[6:8])))


def date_of(stamp: Element | None) -> str:
    """The date of an element's time stamp as ISO 8601, or ""."""
    return "" if stamp is None else parse_ts(stamp.get("value", ""))[1]


def code_text(element: Element | None) -> str:
    """What a coded value says: its display names and original text, else the code."""
    if element is None:
        return ""
    if not len(element):  # as most are
        return element.get("displayName", "").strip() or element.get("code", "")
    codings = [element, *each(element, "translation")]
    named = (coding.get("displayName", "").strip() for coding in codings)
    text = distinct_texts((*named, joined(inside(element, "originalText"))))
    qualified = [
        f"{code_text(inside(one, 'name'))} {code_text(inside(one, 'value'))}".strip()
        for one in each(element, "qualifier")
    ]
    text = f"{text} ({', '.join(qualified)})" if any(qualified) else text
    return text or next((c.get("code", "") for c in codings if c.get("code")), "")


def _quantity(element: Element | None) -> str:
    """A quantity, a range of quantities or a ratio of two."""
    if element is None:
        return ""
    unit = element.get("unit", "")
    stated = f"{element.get('value', '')} {'' if unit == '1' else unit}".strip()
    if stated or not len(element):
        return stated
    above, below = (_quantity(inside(element, tag)) for tag in ("numerator", "denominator"))
    between = ":" if above.isdecimal() and below.isdecimal() else " / "
    return _range(element) or (f"{above}{between}{below}" if above and below else "")


def _range(element: Element) -> str:
    low, high = inside(element, "low"), inside(element, "high")
    least, most = _quantity(low), _quantity(high)
    if least and most:
        return f"{least}–{most}"
    is_strict = any(one is not None and one.get("inclusive") == "false" for one in (low, high))
    sign = (">" if least else "<") if is_strict else "≥" if least else "≤"
    return f"{sign} {least or most}" if least or most else ""


def _kind(element: Element) -> str:
    return element.get(_XSI_TYPE, "").rpartition(":")[2]


def _period(stamp: Element) -> str:
    """A date, or the first and last date of a time."""
    low, high = date_of(inside(stamp, "low")), date_of(inside(stamp, "high"))
    ends = f"from {low}" if low and not high else f"until {high}" if high and not low else ""
    return date_of(stamp) or ends or (f"{low} to {high}" if low else "")


_MEALS = {"M": "breakfast", "D": "lunch", "V": "dinner", "": "meals"}
_EVENTS = {
    "HS": "at bedtime", "WAKE": "on waking",
    **{f"{code}{meal}": f"{word} {name}" for meal, name in _MEALS.items()
       for code, word in (("AC", "before"), ("C", "at"), ("IC", "between"), ("PC", "after"))},
}  # fmt: skip
"""Events of the day by which doses are timed (HL7 TimingEvent)."""


def _rhythm(stamp: Element) -> str:
    """How often something is done, or by which event of the day."""
    period, event = _quantity(inside(stamp, "period")), inside(stamp, "event")
    if event is None:
        return f"every {period}" if period else ""
    code = event.get("code", "")
    return f"{_quantity(inside(stamp, 'offset', 'low'))} {_EVENTS.get(code, code)}".strip()


def _inner(element: Element) -> str:
    """The codes, values and text in a condition or specimen."""
    stated = (code_text(one) for one in element.iter() if one.tag in ("value", "code"))
    return distinct_texts((*stated, joined(element)))


def _value(element: Element) -> str:
    if _kind(element).endswith("TS"):
        return _period(element)
    text = code_text(element) or _quantity(element) or joined(element)
    return text or NO_INFORMATION.get(element.get("nullFlavor", ""), "")


def _coded_name(named: Element | None) -> str:
    """What a product, substance or person is, else its name."""
    return code_text(inside(named, "code")) or joined(inside(named, "name"))


def _reference(element: Element) -> str:
    observed = inside(element, "observationRange")
    value = inside(observed, "value")
    return joined(inside(observed, "text")) or ("" if value is None else _value(value))


_DETAILS: tuple[tuple[str, Callable[[Element], str], str], ...] = (
    ("rate", _quantity, "rateQuantity"),
    ("quantity", _quantity, "quantity"),
    ("dose", _quantity, "doseQuantity"),
    ("at most", _quantity, "maxDoseQuantity"),
    ("", _rhythm, "effectiveTime"),
    ("if", _inner, "precondition"),
    ("specimen", _inner, "specimen"),
    ("discharged to", code_text, "dischargeDispositionCode"),
    *(("", code_text, tag) for tag in ("priorityCode", "routeCode", "interpretationCode")),
    *(("site", code_text, tag) for tag in ("approachSiteCode", "targetSiteCode")),
    ("method", code_text, "methodCode"),
    ("form", code_text, "administrationUnitCode"),
    ("reference", _reference, "referenceRange"),
    ("", joined, "text"),
)
"""The further parts of a statement, but for those nested in it and its state: word, reader, tag."""


def _relative(subject: Element) -> str:
    """Which relative a statement is about, and whether that one died."""
    person = inside(subject, "relatedSubject")
    dead = inside(person, "subject", "deceasedInd")
    died = ", deceased" if dead is not None and dead.get("value") == "true" else ""
    return f"{code_text(inside(person, 'code'))}{died}"


def _times(stamps: Iterable[Element]) -> Iterator[tuple[datetime | None, str]]:
    """What time stamps and their ends state."""
    for stamp in stamps:
        for end in (stamp, *(inside(stamp, tag) for tag in ("low", "center", "high"))):
            yield (None, "") if end is None else parse_ts(end.get("value", ""))


@lru_cache(maxsize=4096)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


class _EntryStatement:
    """A statement of an entry: how the one around it is related to it, the IDs of the texts that it
    refers to, the statements in it, and what its parts say.

    ``chain``: ``id`` of it and of those around it, which it does not hold, so that a document is
    freed once it is read.
    """

    def __init__(
        self,
        element: Element,
        read: Payload,
        around: _EntryStatement | None = None,
        relation: str = "",
    ) -> None:
        self.chain: tuple[int, ...] = (id(self), *(() if around is None else around.chain))
        self.relation, self._tag, self._read = relation, element.tag, read
        self.ids, self.inner = set[str](), list[_EntryStatement]()
        parts: dict[str, list[Element]] = {}
        for child in element:
            parts.setdefault(child.tag, []).append(child)
        self._parts = parts
        self._code = next((one.get("code", "") for one in parts.get("statusCode", ())), "")
        self._claim = classify((self._code, element.get("moodCode", "")))
        is_usual = self._code in ("completed", "active") or classify([self._code])[1]
        self._state = "" if is_usual else self._code
        self._is_denied = element.get("negationInd") == "true"
        self._denial: str = "" if around is None else around._denial
        self._whose: str = "" if around is None else around._whose
        for one in parts.get("subject", ()):
            self._whose = _relative(one)
        if self._is_denied:
            self._denial = _NEGATED.get(self._tag, "negated")
        outer = (None, "") if around is None else around.time
        recorded = (stamp for one in parts.get("author", ()) for stamp in each(one, "time"))
        stamps = (*_times(parts.get("effectiveTime", ())), outer, *_times(recorded))
        self.time = next(filter(itemgetter(0), stamps), outer)
        """The first moment of its time, else of that of the statement around it, else when it was
        recorded, and its date as exact as it is stated."""
        self._products = [
            _coded_name(inside(one, "manufacturedProduct", "manufacturedMaterial"))
            for tag in ("consumable", "product") for one in parts.get(tag, ())
        ]  # fmt: skip
        self._players = [
            _coded_name(inside(one, "participantRole", kind))
            for one in parts.get("participant", ()) for kind in ("playingEntity", "playingDevice")
        ]  # fmt: skip
        self.values = [
            self._embedded(one) if one.get("representation") == "B64" else _value(one)
            for one in parts.get("value", ())
        ]
        self._details = [
            f"{name} {text}".strip()
            for name, read, tag in _DETAILS
            if tag in parts and (tag != "quantity" or self._tag == "supply")
            for one in parts[tag] if (text := read(one))
        ]  # fmt: skip
        self._look(element, "")

    def _embedded(self, value: Element) -> str:
        """The text of an encoded value, or why there is none."""
        text, problem = self._read(joined(value), f"{value.get('mediaType', '')};base64")
        return text or f"not read: the value {problem.partition(' — ')[0]}"

    def _look(self, parent: Element, related: str) -> None:
        """Find the statements in it and the texts that it refers to."""
        for child in parent:
            tag = child.tag
            if tag in _STATEMENTS:
                self.inner.append(_EntryStatement(child, self._read, self, related))
            elif len(child):
                named = tag if tag == "component" else child.get("typeCode", "")
                self._look(child, named or related)
            elif tag == "reference" and child.get("value"):
                self.ids.add(child.get("value", "").strip().lstrip("#") or "#")

    def all(self) -> Iterator[_EntryStatement]:
        """The statement and those below it."""
        yield self
        for one in self.inner:
            yield from one.all()

    def status(self, alone: bool = False) -> tuple[Status, str]:
        """Whether it holds, by its own mood and state and, unless ``alone``, by the negations
        around it."""
        denial = "" if alone and not self._is_denied else self._denial
        is_denied = denial and self._claim[0] is not Status.RETRACTED
        return (Status.NEGATED, denial) if is_denied else self._claim

    @cached_property
    def _when(self) -> str:
        """When and for how long."""
        stamps = (one for tag in ("effectiveTime", "time") for one in self._parts.get(tag, ()))
        return ", ".join(filter(None, map(_period, stamps)))

    @cached_property
    def _label(self) -> str:
        """Its product, code and those that take part."""
        code = next(iter(self._parts.get("code", ())), None)
        named = code_text(code)
        if code is not None and not code.get("displayName"):
            named = _CODE_NAMES.get(code.get("code", ""), named)
        return ": ".join(filter(None, (*self._products[:1], named, *self._players)))

    def _measured(self) -> Iterator[str]:
        """Its values, a number with the name of what it is the value of."""
        for value, text in zip(self._parts.get("value", ()), self.values, strict=True):
            yield f"{self._label} {text}" if _quantity(value)[:1].isdigit() else text

    @cached_property
    def name(self) -> str:
        """What it is about: its product or substance, else its value, else its name."""
        inside_it = list(self.all())
        named = chain(
            (text for one in inside_it for text in (*one._products, *one._players)),
            (text for one in inside_it for text in one._measured()),
            (one._label for one in inside_it),
        )
        return next(filter(None, named), "")

    def is_said(self, known_words: frozenset[str]) -> bool:
        """Whether a narrative has the words of what it is about."""
        value = next(iter(self._parts.get("value", ())), None)
        is_number = _quantity(value)[:1].isdigit()
        return _words_of(self.values[0] if is_number else self.name) <= known_words

    def parts(self, main: _EntryStatement) -> list[str]:
        """Its values and details; of one that is not the ``main`` one with its name, where they do
        not say of what they are."""
        if self is main:
            return [*self.values, *self._details, self._whose, self._state]
        counted = (one for one in self._parts.get("value", ()) if _kind(one).endswith("INT"))
        counts = [one.get("value", "") for one in counted]
        named = (f"{self.name} {text}" if text in counts else text
                for text in (*self.values, *self._details))  # fmt: skip
        other_time = self.time[0] not in (None, main.time[0])
        return [*self._products, *self._players, *named, *([self._when] if other_time else [])]

    def line(self) -> str:
        """What it and those related to it say; "" where it was taken back."""
        status, words = self.status(alone=True)
        if status is Status.RETRACTED:
            return ""
        whose = self._whose if self.relation in ("", "component") else ""
        label = ": ".join(filter(None, (whose, self._label)))
        values = ", ".join(filter(None, self.values))
        of_element = (label, values, self._when, *self._details, self._state)
        text = "; ".join(filter(None, of_element))
        nested = (
            f"{_NESTED.get(one.relation, '')} {line}".strip()
            for one in self.inner
            if one.relation != "component" and (line := one.line())
        )
        return "; ".join(filter(None, (stated(words, text) if text else "", *nested)))


class SectionEntries:
    """The entries of a section, joined to the lines of its narrative.

    ``denied`` lines are negated by their entries alone.
    """

    def __init__(self, section: Element, read: Payload) -> None:
        inside_entries = (child for entry in each(section, "entry") for child in entry)
        tops = (_EntryStatement(one, read) for one in inside_entries if one.tag in _STATEMENTS)
        self._tops = {top.chain[0]: top for top in tops}
        self._by_id: dict[str, list[_EntryStatement]] = {}
        for top in self._tops.values():
            for one in top.all():
                for id in one.ids:
                    self._by_id.setdefault(id, []).append(one)
        text = inside(section, "text")
        self._section = _words_of(joined(text)) if self._tops else frozenset[str]()
        elements = () if text is None or not self._by_id else text.iter()
        stated = ((one.get("ID", ""), one) for one in elements)
        self.ids = frozenset(id for id, one in stated if id in self._by_id and joined(one))
        self.denied = 0
        self._said: set[int] = set()

    def joined(self, line: str, ids: Iterable[str]) -> tuple[datetime | None, str]:
        """The time of the entry of a narrative line, and the line with what the entry adds."""
        linked = [one for id in sorted(ids) for one in self._by_id.get(id, ())]
        if not linked:
            return None, line
        dates = _dates_of(line)
        linked.sort(key=lambda one: (len(one.chain), _is_otherwise(dates, one.time[0])))
        main = linked[0]
        self._said.update(*(one.chain for one in linked))
        status, words = main.status()
        known_words = {*_words_of(line)}
        opening = ""
        if status in _OPENS and not (_words_of(words) <= known_words or _SAYS_NO.search(line)):
            opening = f"{words.upper()} (coded entry)"
            self.denied += 1
        time, date = main.time
        contrary = self._numbers(linked, known_words) or _is_otherwise(dates, time)
        if contrary and time is not None:
            time = None
        else:
            date = ""
        name = main.name
        words = _words_of(name)
        is_news = not (words - known_words <= self._section or words <= _TYPES or name.isdecimal())
        known_words |= words
        added = [*self._added(main, linked, known_words, self._section)]
        added += [f"dated {date}"] if date else []
        more = "; ".join(added)
        extra = f"{name or line[:60]}, coded entry: {more}" if more else ""
        if is_news:
            extra = f"coded entry: {'; '.join(filter(None, (name, more)))}"
        return time, "\n".join(filter(None, ("; ".join(filter(None, (opening, line))), extra)))

    def _numbers(self, linked: Sequence[_EntryStatement], known_words: set[str]) -> bool:
        """Whether an entry of a line has a number that the line does not have."""
        values = (value for one in linked for value in one.values)
        return any(
            value[:1].isdigit() and not (value.isdecimal() and len(value) > 4)
            and not _words_of(value) & known_words
            for value in values
        )  # fmt: skip

    def _added(
        self,
        main: _EntryStatement,
        linked: Sequence[_EntryStatement],
        known_words: set[str],
        narrated: frozenset[str],
    ) -> Iterator[str]:
        """What the entry of a line states that its section does not: values, doses, reasons.

        ``linked``: the statements that refer to the line. ``known_words``, which those of the parts
        join, and ``narrated``: the words of the line and of all narrative.
        """
        chains = [one.chain for one in (main, *linked)]
        known = {number for one in chains for number in one}
        pending = [self._tops[top] for top in reversed(dict.fromkeys(one[-1] for one in chains))]
        while pending:
            one = pending.pop()
            if one.status(alone=True)[0] is Status.RETRACTED:
                continue
            pending += reversed(
                [inner for inner in one.inner if id(inner) in known or not self._is_apart(inner)]
            )
            self._said.add(id(one))
            for part in one.parts(main):
                words = _words_of(part)
                if not (words - known_words <= narrated or words <= _TYPES or part.isdecimal()):
                    known_words |= words
                    yield f"{_NESTED.get(one.relation, '')} {part}".strip()

    def _is_apart(self, one: _EntryStatement) -> bool:
        """Whether a statement is a member of its own, or has a line of its own."""
        return one.relation == "component" or any(inner.ids & self.ids for inner in one.all())

    def rest(self, narrative: str) -> Iterator[tuple[datetime | None, str]]:
        """Time and line of each entry, or member of one, that the narrative does not say."""
        known_words = _words_of(narrative)
        for top in self._tops.values():
            yield from self._unsaid(top, known_words)

    def _unsaid(
        self, one: _EntryStatement, known_words: frozenset[str]
    ) -> Iterator[tuple[datetime | None, str]]:
        if one.status()[0] is Status.RETRACTED:
            return
        members = [inner for inner in one.inner if inner.relation == "component"]
        is_said = any(id(inner) in self._said for inner in one.all() if inner not in members)
        heads = members and not one.values
        if is_said or heads or not (line := one.line()):
            pass
        elif not (known_words and one.is_said(known_words)):
            yield one.time[0], line
        else:
            time, date = one.time
            more = list(self._added(one, (), {*_words_of(one.name)}, known_words))
            if time is not None and str(time.year) not in known_words:
                more.append(f"dated {date}")
            if more:
                yield None, f"{one.name}, coded entry: {'; '.join(more)}"
        for member in members:
            yield from self._unsaid(member, known_words)


def _dates_of(line: str) -> tuple[list[date], list[str]]:
    """The dates that a line states, and its years."""
    times = (parse_time(one) for one in _DATE.findall(line))
    return [time.date() for time in times if time is not None], _YEAR.findall(line)


def _is_otherwise(stated: tuple[list[date], list[str]], time: datetime | None) -> bool:
    """Whether the dates that a line states, or its years, are others than that of ``time`` (a day
    apart counts as the same, as entries may be in UTC)."""
    dates, years = stated
    if time is None or not dates:
        return time is not None and years != [] and str(time.year) not in years
    return all(abs((date - time.date()).days) > 1 for date in dates)
