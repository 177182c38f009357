"""Where text that somebody else cut from a record comes from in it, without their cooperation.

A text is read against one record in three steps. *Runs*: its words are matched with the record's,
the longest run of equal words first; a run counts with :data:`FEWEST_WORDS` words or more, or where
it is a whole line of the text. White space, punctuation and case do not count, so chunks that
overlap, are cut in the middle, carry headings or come in another order are found. *Lines*: what is
left of a line is searched for as evidence is (:func:`midchart.core.text.evidence.places_of`), which
finds values in another layout and reworded sentences; its errors are measured for each cohort by
``midchart check``. The rest is not in the record.

A text that the record has several times is at all of these places, unless its line states the date
of some of them. Source of the first step: greedy longest common runs as in Ratcliff and
Metzener, Dr. Dobb's Journal, July 1988, with several places for a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text import event_text, word_spans, words
from midchart.core.text.evidence import places_of
from midchart.core.types import Record, Span

FEWEST_WORDS = 6
"""Words of the shortest run within a line that is taken as the record's."""
_SEED = 4
"""Words that are looked up to find where a run may begin; shorter lines are left to the search."""
_MOST_PLACES = 64
"""Places of a run that are kept; text that is there more often says little."""
_GAP = 8
"""Most words, of text and record each, between two runs of one event that are read as changed."""

Source = Literal["same", "changed", "other"]
"""Text of the record as it is there; text of the record in other words or with other values; other
text."""

_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text, characters ``start`` to ``end``, and where it comes from.

    ``spans``: the places in the record, none for other text. ``score``: 1 for the same text, that
    of the search for changed text. ``altered``: the words between two runs of one event that
    differ there, in the text and in the record, as they are written ("": none).
    """

    start: int
    end: int
    source: Source
    spans: tuple[Span, ...] = ()
    score: float = 0.0
    altered: tuple[str, str] = ("", "")


class WordIndex:
    """A record's words in order, with the places of every :data:`_SEED` of them."""

    def __init__(self, record: Record) -> None:
        texts = [event_text(event) for event in record.events]
        words_of_events = [word_spans(text) for text in texts]
        self.texts = texts
        self.event = np.repeat(np.arange(len(texts)), [len(words) for words in words_of_events])
        self.start = np.array([a for words in words_of_events for _, a, _ in words], dtype=np.int64)
        self.end = np.array([b for words in words_of_events for _, _, b in words], dtype=np.int64)
        self.codes = _codes(word for words in words_of_events for word, _, _ in words)
        self.dates = [None if e.time is None else e.time.date() for e in record.events]
        seeds = _seeds(self.codes)
        # A seed lies within one event.
        inside = self.event[: len(seeds)] == self.event[_SEED - 1 :] if len(seeds) else seeds > 0
        at = np.flatnonzero(inside)
        order = np.argsort(seeds[at], kind="stable")
        self._seeds, self._at = seeds[at][order], at[order]
        # Events and titles of notes that are shorter than a seed.
        self._short: dict[str, list[tuple[int, Span | None]]] = {}
        for number, event in enumerate(record.events):
            if len(words_of_events[number]) < _SEED:
                self._call(texts[number], number, Span(number, 0, len(texts[number])))
            if event.kind == "note" and event.name:
                self._call(event.name, number, None)

    def _call(self, text: str, event: int, span: Span | None) -> None:
        self._short.setdefault(" ".join(words(text)), []).append((event, span))

    def called(self, text: str, stated: Set[date], *, alone: bool) -> list[Span] | None:
        """The events that are this text, of a stated date if some are; none where it is a note's
        title; None where it is neither, or a word ``alone`` without its date."""
        events = self._short.get(" ".join(words(text)), [])
        dated = [pair for pair in events if self.dates[pair[0]] in stated]
        chosen = dated if alone else dated or events
        return [span for _, span in chosen[:_MOST_PLACES] if span] if chosen else None

    def seeded(self, seeds: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each seed of a text: the first and the end of its places in :meth:`places`."""
        return (
            np.searchsorted(self._seeds, seeds, "left"),
            np.searchsorted(self._seeds, seeds, "right"),
        )

    def places(self, first: int, end: int) -> NDArray[np.int64]:
        """The numbers of the record's words at which these places begin."""
        return self._at[first:end]

    def span(self, first: int, count: int) -> Span:
        """The characters of ``count`` words of one event."""
        return Span(
            int(self.event[first]), int(self.start[first]), int(self.end[first + count - 1])
        )

    def run(self, codes: NDArray[np.uint64], at: int, place: int) -> int:
        """Number of words that are equal from a text's word ``at`` and the record's ``place`` on,
        within one event."""
        last = int(np.searchsorted(self.event, self.event[place], "right"))
        length = min(len(codes) - at, last - place)
        step, done = 64, 0
        while done < length:
            size = min(step, length - done)
            ours = codes[at + done : at + done + size]
            same = ours == self.codes[place + done : place + done + size]
            if not same.all():
                return done + int(np.argmin(same))
            done, step = done + size, step * 4
        return length


_recent: LRU[WordIndex] = LRU(4)


def words_of(record: Record) -> WordIndex:
    """A record's words; those of the last records are kept."""
    return _recent.get(record.digest, lambda: WordIndex(record))


def _codes(words: Iterable[str]) -> NDArray[np.uint64]:
    """A number for each word, the same in every text of this process."""
    return np.array([hash(word) & 0xFFFFFFFFFFFFFFFF for word in words], dtype=np.uint64)


def _seeds(codes: NDArray[np.uint64], width: int = _SEED) -> NDArray[np.uint64]:
    """A hash of each ``width`` neighbouring words; equal hashes are compared word by word."""
    count = max(0, len(codes) - width + 1)
    mixed = np.zeros(count, dtype=np.uint64)
    for offset in range(width):
        mixed = (mixed ^ codes[offset : offset + count]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


class _Text:
    """A text that is read back: its words, their codes and its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = word_spans(text)
        self.codes = _codes(word for word, _, _ in self.words)
        self.lines = [(match.start(), match.end()) for match in re.finditer(r"[^\r\n]+", text)]
        starts = np.array([start for _, start, _ in self.words], dtype=np.int64)
        # Words of each line, as first and end.
        edges = np.array(self.lines, dtype=np.int64).reshape(-1, 2)
        self.first = np.searchsorted(starts, edges[:, 0])
        self.end = np.searchsorted(starts, edges[:, 1])

    @cached_property
    def line_of(self) -> NDArray[np.int64]:
        """The number of the line of each word."""
        return np.repeat(np.arange(len(self.lines)), self.end - self.first)

    def dates(self, word: int) -> set[date]:
        """The dates that the line of a word states, or the line before it where it has none."""
        at = int(self.line_of[word])
        for line in range(at, max(-1, at - 2), -1):
            stated = set(_dates(self.text[slice(*self.lines[line])]))
            if stated:
                return stated
        return set()


def _dates(text: str) -> Iterator[date]:
    for year, month, day in _ISO.findall(text):
        try:
            yield date(int(year), int(month), int(day))
        except ValueError:
            continue  # digits that are no date


@dataclass(frozen=True, slots=True)
class _Run:
    """Equal words: the text's from ``at`` on, ``count`` of them, and the record's ``places``."""

    at: int
    count: int
    places: tuple[int, ...]


def aligned(text: str, record: Record, protocol: Protocol) -> list[Passage]:
    """The passages of a text in order, where it has words: see the module's description."""
    read, chart = _Text(text), words_of(record)
    runs = _runs(read, chart)
    passages: list[Passage] = []
    gap_from = 0
    for number, run in enumerate(runs):
        passages += _between(read, record, protocol, gap_from, run.at, chart, runs, number)
        passages.append(_passage(read, chart, run))
        gap_from = run.at + run.count
    passages += _between(read, record, protocol, gap_from, len(read.words), chart, runs, len(runs))
    return passages


def _passage(read: _Text, chart: WordIndex, run: _Run) -> Passage:
    spans = tuple(chart.span(place, run.count) for place in run.places)
    start, end = read.words[run.at][1], read.words[run.at + run.count - 1][2]
    return Passage(start, end, "same", spans, 1.0)


def _runs(read: _Text, chart: WordIndex) -> list[_Run]:
    """The runs of a text, from its beginning: at each word the longest one that begins there."""
    first, end = chart.seeded(_seeds(read.codes))
    runs: list[_Run] = []
    at, following = 0, -1
    starts = np.flatnonzero(end > first)
    while True:
        # The next word at which a seed is in the record.
        ahead = np.searchsorted(starts, at)
        if ahead >= len(starts):
            return runs
        at = int(starts[ahead])
        places = chart.places(int(first[at]), int(end[at]))
        lengths = [chart.run(read.codes, at, int(place)) for place in places[: 16 * _MOST_PLACES]]
        longest = max(lengths)
        if longest >= FEWEST_WORDS or _whole_line(read, at, longest):
            best = [int(p) for p, n in zip(places, lengths, strict=False) if n == longest]
            runs.append(_Run(at, longest, _dated(read, chart, at, best, following)))
            at += longest
            following = runs[-1].places[0] + longest
        else:
            at += 1


def _whole_line(read: _Text, at: int, count: int) -> bool:
    """Whether ``count`` words from ``at`` on are all of their line, or all after its date."""
    line = int(read.line_of[at])
    first, end = int(read.first[line]), int(read.end[line])
    if at + count < end:
        return False
    lead = read.text[read.lines[line][0] : read.words[at][1]]
    return at == first or not re.search(r"[^\W\d_]", lead)


def _dated(
    read: _Text, chart: WordIndex, at: int, places: Sequence[int], following: int
) -> tuple[int, ...]:
    """Of equal places: the one that follows the run before, else those of a stated date, else all
    (the first :data:`_MOST_PLACES`)."""
    if len(places) == 1 or following in places:
        return (places[0],) if len(places) == 1 else (following,)
    stated = read.dates(at)
    on_date = [place for place in places if chart.dates[int(chart.event[place])] in stated]
    return tuple((on_date or places)[:_MOST_PLACES])


def _between(
    read: _Text,
    record: Record,
    protocol: Protocol,
    first: int,
    end: int,
    chart: WordIndex,
    runs: Sequence[_Run],
    number: int,
) -> Iterator[Passage]:
    """The passages of the words ``first`` to ``end``, which no run holds."""
    if first >= end:
        return
    # Words that a chunk's edge cuts.
    head = number > 0 and _cut_word(read, chart, runs[number - 1], first, after=True)
    if head:
        yield head
        first += 1
    tail = first < end and number < len(runs) and _cut_word(
        read, chart, runs[number], end - 1, after=False
    )  # fmt: skip
    if tail:
        end -= 1
    # A short gap between two runs of one event is a change of that place.
    between = 0 < number < len(runs) and not head and not tail
    if between and (change := _change(read, chart, runs[number - 1], runs[number])):
        yield change
        return
    # Else line by line.
    if first < end:
        for line in range(int(read.line_of[first]), int(read.line_of[end - 1]) + 1):
            a, b = max(first, int(read.first[line])), min(end, int(read.end[line]))
            if a < b:
                yield from _line(read, record, protocol, a, b, chart)
    if tail:
        yield tail


def _cut_word(
    read: _Text, chart: WordIndex, run: _Run, word: int, *, after: bool
) -> Passage | None:
    """The first letters of the word that follows a run in the record, at the end of a line, or the
    last ones of the word before it, at the beginning of a line; None for another word."""
    line = int(read.line_of[word])
    at_edge = word == (read.end[line] - 1 if after else read.first[line])
    start, end = read.words[word][1:]
    part = read.text[start:end]
    if not at_edge or not any(map(str.isalpha, part)):
        return None
    spans: list[Span] = []
    for place in run.places:
        beyond = place + run.count if after else place - 1
        inside = 0 <= beyond < len(chart.event) and chart.event[beyond] == chart.event[place]
        if not inside:
            continue
        event, first, last = (int(of[beyond]) for of in (chart.event, chart.start, chart.end))
        text_there = chart.texts[event][first:last]
        if after and text_there.startswith(part):
            spans.append(Span(event, first, first + len(part)))
        elif not after and text_there.endswith(part):
            spans.append(Span(event, last - len(part), last))
    return Passage(start, end, "same", tuple(spans), 1.0) if spans else None


def _line(
    read: _Text, record: Record, protocol: Protocol, first: int, end: int, chart: WordIndex
) -> Iterator[Passage]:
    """The passages of a line's words ``first`` to ``end``: as they are, else without the numbers
    before them, a date or time that the log's system put there."""
    stop, stated = read.words[end - 1][2], read.dates(first)
    lead = first
    while lead < end and not any(map(str.isalpha, read.words[lead][0])):
        lead += 1
    for word in dict.fromkeys((first, lead)) if lead < end else ():
        left = read.text[read.words[word][1] : stop]
        alone = end - word == 1  # a word says nothing of where it is from
        spans, score = ([], 0.0) if alone else places_of(record, left, protocol)
        on_date = [span for span in spans if chart.dates[span.event] in stated]
        places, source = on_date or spans, "changed"
        if not spans and word == lead:
            places, source, score = chart.called(left, stated, alone=alone), "same", 1.0
        if places is not None and (spans or source == "same"):
            if first < word:
                yield Passage(read.words[first][1], read.words[word - 1][2], "other")
            start = read.words[word][1]
            yield Passage(start, stop, source, tuple(places[:_MOST_PLACES]), score)
            return
    yield Passage(read.words[first][1], stop, "other")


def _change(read: _Text, chart: WordIndex, before: _Run, after: _Run) -> Passage | None:
    """The gap between two runs as a changed passage; None where it is none."""
    inserted = after.at - (before.at + before.count)
    if inserted > _GAP:
        return None
    # A date or number before a line is the log's system's own.
    first = before.at + before.count
    numbers = not any(any(map(str.isalpha, w)) for w, _, _ in read.words[first : after.at])
    if numbers and read.first[int(read.line_of[first])] == first:
        places = (place + before.count for place in before.places)
        if any(place in after.places for place in places):
            return None
    for place in before.places:
        begin = place + before.count
        for later in after.places:
            there = later - begin
            if 0 <= there <= _GAP and chart.event[place] == chart.event[later]:
                start = read.words[before.at + before.count][1]
                end = read.words[after.at - 1][2]
                event, a = int(chart.event[place]), int(chart.end[begin - 1])
                span = Span(event, a, int(chart.start[later]))
                altered = read.text[start:end], chart.texts[event][a : span.end].strip()
                return Passage(start, end, "changed", (span,), 1.0, altered)
    return None


def shown(passages: Iterable[Passage]) -> list[Span]:
    """The characters of the record that passages give, merged, in record order; changed passages
    count, as what they say is for a judge of the answer."""
    spans = sorted((s.event, s.start, s.end) for p in passages for s in p.spans)
    merged: list[list[int]] = []
    for event, start, end in spans:
        if merged and merged[-1][0] == event and start <= merged[-1][2] + 1:
            merged[-1][2] = max(merged[-1][2], end)
        else:
            merged.append([event, start, end])
    return [Span(*one) for one in merged]


class Shingles:
    """Which patients' records have each :data:`FEWEST_WORDS` neighbouring words of some texts.

    The records of a cohort are compared one after another, so that none has to stay in memory.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._of_text = [_shingles(text) for text in texts]
        empty = np.zeros(0, dtype=np.uint64)
        self._all = np.unique(np.concatenate([empty, *self._of_text]))
        self._records: list[str] = []
        self._patients: list[str] = []
        # The numbers of the first record with a shingle, and of the first of another patient.
        self._first, self._other = np.full((2, len(self._all)), -1, dtype=np.int64)

    def compare(self, record: Record, patient: str) -> None:
        """Look the texts' shingles up in a record of a patient."""
        number = len(self._records)
        self._records.append(record.id)
        self._patients.append(patient)
        parts = [np.zeros(0, dtype=np.uint64), *(_shingles(event_text(e)) for e in record.events)]
        at = np.flatnonzero(np.isin(self._all, np.concatenate(parts)))
        new = at[self._first[at] < 0]
        self._first[new] = number
        same = np.array([p == patient for p in self._patients])
        again = at[(self._first[at] != number) & (self._other[at] < 0)]
        again = again[~same[self._first[again]]]
        self._other[again] = number

    def record_of(self, text: int, least_share: float, fewest: int) -> str:
        """The record that a text (its number) is from; "" where no one record is.

        Of its shingles that one patient's records alone have, ``fewest`` at least and
        ``least_share`` of them must be in one record.
        """
        at = np.searchsorted(self._all, self._of_text[text])
        alone = self._first[at][(self._first[at] >= 0) & (self._other[at] < 0)]
        if len(alone) < fewest:
            return ""
        counts = np.bincount(alone)
        best = int(counts.argmax())
        return self._records[best] if counts[best] >= least_share * len(alone) else ""

    def elsewhere(self, text: str, patient: str) -> bool:
        """Whether a part of one of the texts has a shingle that a record of another patient has."""
        at = np.searchsorted(self._all, _shingles(text))
        numbers = np.concatenate([self._first[at], self._other[at]])
        return any(self._patients[number] != patient for number in numbers[numbers >= 0].tolist())


def _shingles(text: str) -> NDArray[np.uint64]:
    """The distinct shingles of a text, ascending; none within fewer words."""
    return np.unique(_seeds(_codes(word for word, _, _ in word_spans(text)), FEWEST_WORDS))
