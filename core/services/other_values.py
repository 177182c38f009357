"""Passages of a record with another value or date of the item that the evidence is about.

:data:`RULE` says how, for readers of a page. The item of a value is the words since the value
before it (where there are none, up to three after it); words count by their rarity in the record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log1p

from midchart.core.access import needs
from midchart.core.judges.values import Day, Quantity, quantity_places, take_dates
from midchart.core.protocol import Protocol
from midchart.core.text import event_text, one_line, sentences
from midchart.core.types import Event, Record, Sentence, Span

RULE = (
    "The item of a number is the words before it, weighted by their rarity in this record. A "
    "passage is listed where it shares more than half of an item with the evidence, the word next "
    "to one of the numbers included, and its number differs (without a number: the dates it "
    "states), or where it is an entry of the same code or name with another value. The rule knows "
    "no synonyms, abbreviations or negation: it can miss passages, and it can list passages about "
    "another item or another person."
)
_SHARE = 0.5
"""Share of the weight of the smaller item's words that two passages on one item have in common."""
_MOST_COMMON = 0.2
"""A word in more than this share of the sentences says nothing about an item."""
_WORDS_AFTER = 3
_DURATIONS = frozenset({"minute", "hour", "day", "week", "month", "year"})
"""Units of ages and intervals, which are no values of an item."""
_MOST_PASSAGES = 200

_WORD = re.compile(r"[^\W\d_]\w*(?:-\w+)*|\d+-[^\W\d_][\w-]*")
_NO_VALUE = re.compile(r"\[[^\]]*\]|(?<![\w.,/-])(?:19|20)\d\d(?![\w.,/-]*\d)")
"""Brackets of code names ("[Mass/volume]") and years."""
_COMMON = """
a about an and are around as at be been bid blood by c clinic continue continued daily date day
days evening every for from had has have he her his in into is it its last latest level levels
mass month monthly morning most nightly no not of on or out p patient per plasma po previous prn
pt q qd qhs qid recent result results s serum she t take takes taking than that the their them
then there they this tid time times to today up value values volume w was we week weekly were when
which who will with x year years
"""
_STOP = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A passage with another value of an item of the evidence.

    ``item``: the words that both have; ``day``: the date that its sentence states, else its entry's
    (None: undated); ``copies``: how often the record has the same words, this passage included, of
    which it is the newest. ``newest``: neither the evidence nor another passage is newer.
    """

    sentence: Sentence
    item: tuple[str, ...]
    day: datetime | None
    copies: int = 1
    newest: bool = False


@dataclass(frozen=True, slots=True)
class _SentenceValue:
    words: frozenset[str]
    nearest: str
    """The word next to the number; "" without a number."""
    quantity: Quantity | None
    days: tuple[Day, ...]

    def comparable(self, other: _SentenceValue) -> bool:
        """Whether both are dates, or numbers whose units do not exclude each other."""
        one, two = self.quantity, other.quantity
        if one is None or two is None:
            return one is two
        return not (one.unit and two.unit) or one.comparable(two)

    def says(self, other: _SentenceValue) -> bool:
        """Whether both are the same value."""
        if self.quantity is not None and other.quantity is not None:
            return self.quantity.says(other.quantity)
        return any(a.says(b) or b.says(a) for a in self.days for b in other.days)


class _ValueIndex:
    """Which sentences of a record have which words, and the values of sentences asked for."""

    def __init__(self, units: Sequence[Sentence]) -> None:
        self.units = units
        self._values: dict[int, list[_SentenceValue]] = {}
        self.of_word: Mapping[str, list[int]] = defaultdict(list)
        for number, unit in enumerate(units):
            for word in set(_words(unit.text)):
                self.of_word[word].append(number)

    def values(self, number: int) -> list[_SentenceValue]:
        """The values of a sentence."""
        if number not in self._values:
            self._values[number] = _values(self.units[number].text)
        return self._values[number]

    def weight(self, item: Iterable[str]) -> float:
        """Sum of the words' rarity; words that are too common weigh nothing."""
        n = len(self.units)
        counts = (len(self.of_word.get(word, ())) for word in item)
        return sum(log1p(n / (1 + count)) for count in counts if count <= max(2, _MOST_COMMON * n))


@needs("viewer")
def other_values(
    record: Record, spans: Sequence[Span], protocol: Protocol, cutoff: datetime | None = None
) -> tuple[OtherValue, ...]:
    """The passages with another value or date of an item of the evidence at ``spans``, oldest
    first. Nothing after ``cutoff`` is looked at. Raises IndexError where there is no such event.
    """
    units = sentences(record, Protocol(sentence_tokens=protocol.sentence_tokens))
    index = _ValueIndex(units)
    items: dict[int, frozenset[str]] = {}
    newest = datetime.min
    for span in spans:
        event = record.events[span.event]
        text = event_text(event)[span.start : span.end]
        newest = max(newest, _day(text, event.time) or newest)
        if event.kind != "note":
            items |= _same_code(record, event, units)
        for value in _values(text):
            for number in {n for word in value.words for n in index.of_word.get(word, ())}:
                both_coded = "note" not in (event.kind, units[number].kind)
                shared = _shared(value, index.values(number), index)
                if shared and number not in items and not both_coded:
                    items[number] = shared
    allowed = [
        number
        for number in items
        if not any(units[number].span.overlaps(span) for span in spans)
        and not (cutoff and (units[number].time or datetime.min) > cutoff)
    ]
    return _distinct(allowed, items, units, newest)


def _same_code(
    record: Record, event: Event, units: Sequence[Sentence]
) -> dict[int, frozenset[str]]:
    """The entries of an event's kind, code and name with another text."""
    name = frozenset(_words(event.name or event.code))
    same = {
        other.order
        for other in record.events
        if (other.kind, other.code, other.name) == (event.kind, event.code, event.name)
        and (other.text.strip(), other.unit) != (event.text.strip(), event.unit)
    }
    return {number: name for number, unit in enumerate(units) if unit.span.event in same}


def _distinct(
    numbers: Sequence[int],
    items: Mapping[int, frozenset[str]],
    units: Sequence[Sentence],
    newest_evidence: datetime,
) -> tuple[OtherValue, ...]:
    """One passage, the newest, of all with the same words; by date."""
    days = {number: _day(units[number].text, units[number].time) for number in numbers}
    same: dict[str, list[int]] = defaultdict(list)
    for number in sorted(numbers, key=lambda n: (days[n] or datetime.min, n)):
        same[one_line(units[number].text).lower()].append(number)
    newest = max((day for day in days.values() if day is not None), default=datetime.min)
    newest = newest if newest > newest_evidence else None
    passages = [
        OtherValue(units[n], tuple(sorted(items[n])), days[n], len(group), days[n] == newest)
        for group in same.values()
        for n in group[-1:]
    ]
    return tuple(sorted(passages, key=lambda p: p.day or datetime.min)[-_MOST_PASSAGES:])


def _day(text: str, moment: datetime | None) -> datetime | None:
    """The one complete date that a text states, else the moment of its entry."""
    days = [day for day in take_dates(text)[0] if day.day is not None]
    if len(days) == 1:
        day = days[0]
        return datetime(day.year, day.month, day.day or 1)
    return moment


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]


def _values(text: str) -> list[_SentenceValue]:
    """The values of a text, each with the words around it; without a number its dates, with all."""
    days, rest = take_dates(text)
    rest = _NO_VALUE.sub(lambda match: " " * len(match.group()), rest)
    values: list[_SentenceValue] = []
    before, item = 0, [""]
    for quantity, start, end in quantity_places(rest):
        if quantity.unit in _DURATIONS:
            continue
        # "93 (2007), 104 (2008)": a value without words is of the item before it.
        item = _words(rest[before:start]) or (item if values else _following(rest[end:])) or item
        before = end
        values.append(_SentenceValue(frozenset(item), item[-1], quantity, ()))
    if not values and days:
        values.append(_SentenceValue(frozenset(_words(rest)), "", None, tuple(days)))
    return values


def _following(text: str) -> list[str]:
    """The words right after a value, up to the next punctuation mark or number, last first."""
    clause = re.split(r"[^\w\s-]|\d", text, maxsplit=1)[0]
    return _words(clause)[:_WORDS_AFTER][::-1]


def _shared(
    value: _SentenceValue, others: list[_SentenceValue], index: _ValueIndex
) -> frozenset[str]:
    """The words that make ``value`` and one of ``others`` values of one item; none where they are
    not, or where one of them states the same value."""
    matching: list[tuple[_SentenceValue, frozenset[str]]] = []
    for other in others:
        shared = value.words & other.words
        near = (
            len(shared) > 1 if value.quantity is None else {value.nearest, other.nearest} & shared
        )
        if near and value.comparable(other):
            smaller = min(index.weight(value.words), index.weight(other.words))
            if index.weight(shared) > _SHARE * smaller:
                matching.append((other, shared))
    if not matching or any(value.says(other) for other, _ in matching):
        return frozenset()
    return max((shared for _, shared in matching), key=lambda words: index.weight(words))
