"""Evidence: located in a record, its share in a context, lexical hits, position bands.

Three positions exist and are never mixed. *Order* is an event's index over all events divided by
n − 1; *time* is the share of the span between the first and the last dated event that had elapsed;
*token* is the share of the record's tokens before the evidence's first character, the one with a
meaning in records of few long notes (docs/methods.md, Units and positions).

Two scores say how well an event matches a snippet (:attr:`midchart.core.protocol.Protocol.locate`):
"window", how much of it is close together in the event, and the paper's. The plain versions are in
``tests/reference/evidence.py``; the ones here leave out events that share too few words and give
the same result.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text import content_words, count_tokens, cut_note, event_text, words
from midchart.core.types import BANDS, MIDDLE, ContextLine, Record, Sentence, Span

_SHARE_WEIGHT, _RATIO_WEIGHT = 0.6, 0.4
_SNIPPET_HEAD, _TEXT_HEAD = 200, 500
"""Characters of snippet and text that difflib compares (docs/methods.md, Units and positions)."""
_WINDOW = 1.5
"""Longest window around evidence that is not quoted verbatim, in lengths of the evidence."""
_NOT_QUOTED = 0.95
"""Factor of the score "window" where the snippet is not in the event verbatim."""
_NUMBER_WEIGHT = 3
"""Weight of a number in the score "window": values distinguish similar sentences."""

_TERM = re.compile(r"\d+(?:[.,:/]\d+)+|\w+")
_DIGIT = re.compile(r"\d")


class RelativePosition(NamedTuple):
    """The three positions of a place in a record, each in [0, 1].

    An entry without a date has no time. One that comes before every dated entry of a record that
    has dates has no position at all: it is there for want of a date, so its place says nothing.
    """

    order: float | None
    time: float | None
    token: float | None


@dataclass(frozen=True, slots=True)
class Match:
    """A snippet's best event: its order, its score, and the characters in it.

    ``score`` is between the protocol's threshold and 1. ``candidates``: places of the record
    that match equally well, this one (the earliest) included.
    """

    event: int
    score: float
    span: Span
    candidates: int = 1


@dataclass(frozen=True, slots=True)
class Located:
    """Result of :func:`locate`.

    ``matches`` has one entry a snippet (None: unlocated); ``spans`` are theirs, in record order,
    without repeats; ``best`` is the best-scored match and ``place`` its positions.
    """

    matches: tuple[Match | None, ...]
    spans: tuple[Span, ...]
    best: Match | None
    place: RelativePosition | None

    @property
    def unlocated(self) -> int:
        """Snippets that no event matches well enough."""
        return sum(match is None for match in self.matches)


def positions(record: Record) -> tuple[NDArray[np.float64], list[float | None]]:
    """Order position float[n] and time position (None for an undated event) of every event.

    Order is index/(n−1), 0 for a lone event. Time is the share elapsed between the first and
    the last dated event, 0 where they are the same moment (docs/methods.md, Units and positions).
    """
    n = len(record.events)
    order = np.arange(n, dtype=np.float64) / max(n - 1, 1)
    dated = [event.time for event in record.events if event.time is not None]
    if not dated:
        return order, [None] * n
    first = min(dated)
    length = (max(dated) - first).total_seconds()
    share = [
        None if e.time is None else (e.time - first).total_seconds() / length if length else 0.0
        for e in record.events
    ]
    return order, share


class _Events:
    """What every search in one record shares: its events' texts, positions and terms."""

    def __init__(self, record: Record) -> None:
        self.order, self.time = positions(record)
        self.first_dated = next((i for i, at in enumerate(self.time) if at is not None), 0)
        self.texts = [event_text(event) for event in record.events]
        sizes = [count_tokens(text) for text in self.texts]
        self.before = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def place(self, span: Span) -> RelativePosition:
        if span.event < self.first_dated:
            return RelativePosition(None, None, None)
        before = int(self.before[span.event]) + count_tokens(self.texts[span.event][: span.start])
        share = before / max(int(self.before[-1]), 1)
        return RelativePosition(
            float(self.order[span.event]), self.time[span.event], min(share, 1.0)
        )

    @cached_property
    def terms(self) -> list[list[str]]:
        """Of the score "window"."""
        return [terms(text) for text in self.texts]

    @cached_property
    def distinct_terms(self) -> list[frozenset[str]]:
        """The distinct ones of :attr:`terms`."""
        return list(map(frozenset, self.terms))

    @cached_property
    def distinct_words(self) -> list[frozenset[str]]:
        """The terms of the score "paper": lower-cased words."""
        return [frozenset(words(text)) for text in self.texts]

    def best(self, snippet: str, rule: Protocol) -> tuple[list[int], float]:
        """The events with the best score and that score; none, and 0, below the threshold."""
        if rule.locate == "paper":
            wanted, blank = dict.fromkeys(words(snippet), 1), not snippet.strip()
            head = snippet[:_SNIPPET_HEAD]

            def score(i: int, share: float) -> float:
                ratio = SequenceMatcher(None, head, self.texts[i][:_TEXT_HEAD]).ratio()
                return _SHARE_WEIGHT * share + _RATIO_WEIGHT * ratio

            def most(share: float) -> float:
                return _SHARE_WEIGHT * share + _RATIO_WEIGHT
        else:
            snippet_terms = terms(snippet)
            wanted, width = weights(snippet_terms), _width(len(snippet_terms))
            blank = not wanted
            quoted = re.compile(_folded(snippet), re.IGNORECASE)

            def score(i: int, share: float) -> float:
                share = _held(self.terms[i], wanted, width) / total
                return share if quoted.search(self.texts[i]) else _NOT_QUOTED * share

            def most(share: float) -> float:
                return share

        if blank:
            return [], 0.0
        # Events are tried by the share of the terms' weight that they hold, and the search ends
        # where no event can reach the best score.
        distinct = self.distinct_words if rule.locate == "paper" else self.distinct_terms
        total = max(sum(wanted.values()), 1)
        shares = [sum(wanted[t] for t in wanted.keys() & has) / total for has in distinct]
        events: list[int] = []
        best = rule.locate_threshold
        for i in sorted(range(len(shares)), key=lambda i: -shares[i]):
            if most(shares[i]) < best:
                break
            value = score(i, shares[i])
            if value > best or (value == best and not events):
                events, best = [i], value
            elif value == best:
                events.append(i)
        return (sorted(events), best) if events else ([], 0.0)


def terms(text: str) -> list[str]:
    """Lower-cased words and numbers, a number whole with its separators ("7.2", "120/80")."""
    return _TERM.findall(text.lower())


def weights(terms: Iterable[str]) -> dict[str, int]:
    """The distinct terms and what each counts: 3 where it has a digit, else 1."""
    return {term: _NUMBER_WEIGHT if _DIGIT.search(term) else 1 for term in terms}


def _width(count: int) -> int:
    """Longest window for a snippet of ``count`` terms: 1.5 times as many, rounded up."""
    return -int(-_WINDOW * count // 1)


def _held(event_terms: Sequence[str], wanted: Mapping[str, int], width: int) -> int:
    """The most weight of distinct terms of ``wanted`` among any ``width`` neighbours."""
    hits = [(place, term) for place, term in enumerate(event_terms) if term in wanted]
    inside: Counter[str] = Counter()
    most = first = weight = 0
    for place, term in hits:
        if not inside[term]:
            weight += wanted[term]
        inside[term] += 1
        while hits[first][0] <= place - width:
            left = hits[first][1]
            inside[left] -= 1
            if not inside[left]:
                weight -= wanted[left]
            first += 1
        most = max(most, weight)
    return most


def _folded(snippet: str) -> str:
    """A pattern of the snippet with any white space between its words; it must have one."""
    return r"\s+".join(map(re.escape, snippet.split()))


def quotes(text: str, snippet: str, exact_case: bool = False) -> list[tuple[int, int]]:
    """Where ``text`` quotes ``snippet`` verbatim, white space folded, in order; none overlap.

    Occurrences between word boundaries with the same case are preferred, then such in any case,
    then such within longer words; the list is all of the first kind there is. With
    ``exact_case`` any occurrence with the same case counts, as in the published run.
    """
    if not snippet.strip():
        return []
    pattern = _folded(snippet)
    bounded = rf"(?<!\w){pattern}(?!\w)"
    tries = [(bounded, 0), (bounded, re.IGNORECASE), (pattern, re.IGNORECASE)]
    for form, flags in [(pattern, 0)] if exact_case else tries:
        spans = [match.span() for match in re.finditer(form, text, flags)]
        if spans:
            return spans
    return []


def span_in(text: str, snippet: str, exact_case: bool = False) -> tuple[int, int]:
    """Characters of ``text`` that say ``snippet``.

    The first verbatim occurrence (:func:`quotes`), if there is one. Otherwise the run of
    neighbouring sentences (:func:`midchart.core.text.cut_note`) that holds most of the snippet's
    distinct lower-cased words, the shortest and then the earliest among equals; a run of two or
    more may not have more tokens than 1.5 times the snippet's.
    """
    verbatim = quotes(text, snippet, exact_case)
    if verbatim:
        return verbatim[0]
    pieces = cut_note(text) or [(0, len(text))]
    wanted = set(words(snippet))
    held = [wanted.intersection(words(text[a:b])) for a, b in pieces]
    sizes = [count_tokens(text[a:b]) for a, b in pieces]
    limit = _WINDOW * count_tokens(snippet)
    best, chosen = (-1, 0), (0, 0)
    for first in range(len(pieces)):
        if not held[first] and best[0] > 0:
            continue  # a run that opens with nothing is beaten by the run without that piece
        seen: set[str] = set()
        size = 0
        for last in range(first, len(pieces)):
            size += sizes[last]
            if last > first and size > limit:
                break
            seen |= held[last]
            if (len(seen), -size) > best:
                best, chosen = (len(seen), -size), (first, last)
    return pieces[chosen[0]][0], pieces[chosen[1]][1]


_records: LRU[_Events] = LRU(2)


def _events(record: Record) -> _Events:
    return _records.get(record.digest, lambda: _Events(record))


def place_of(record: Record, span: Span) -> RelativePosition:
    """The positions of a span of a record; raises IndexError where there is no such event."""
    if not 0 <= span.event < len(record.events):
        raise IndexError(f"record {record.id} has no event {span.event}")
    return _events(record).place(span)


def locate(record: Record, snippets: Iterable[str], protocol: Protocol | None = None) -> Located:
    """The event and characters that each snippet of evidence comes from.

    An event (:func:`midchart.core.text.event_text`) needs a score of ``protocol.locate_threshold``
    at least; of equal ones the earliest is taken, among events and among snippets. The score
    "window": the largest share of the snippet's distinct terms (:func:`terms`; a number counts as
    three) among neighbouring terms of the event, 1.5 times as many as the snippet has; times .95
    where the event does not quote the snippet, white space folded, case ignored. The score "paper":
    0.6 · share + 0.4 · ratio; share is how many of the snippet's distinct ``\\w+`` words are words
    of the event, ratio is ``difflib.SequenceMatcher(None, snippet[:200], text[:500]).ratio()``
    (docs/methods.md, Units and positions).
    """
    rule, pieces = protocol or Protocol(), tuple(snippets)
    stored = record.analysed.located(locate_rule(rule), pieces) if record.analysed else None
    if stored:
        return stored
    places = [places_of(record, snippet, rule) for snippet in pieces]
    matches = [Match(s[0].event, score, s[0], len(s)) if s else None for s, score in places]
    known = [match for match in matches if match is not None]
    best = max(known, key=lambda match: (match.score, -match.event), default=None)
    spans = sorted({m.span for m in known}, key=lambda s: (s.event, s.start, s.end))
    return Located(tuple(matches), tuple(spans), best, best and place_of(record, best.span))


def locate_rule(protocol: Protocol) -> tuple[str, ...]:
    """What of a protocol decides where evidence is located."""
    return protocol.locate, str(protocol.locate_threshold)


def places_of(record: Record, snippet: str, protocol: Protocol) -> tuple[list[Span], float]:
    """All places of a record that match a snippet best, in record order, and their score; none,
    and 0, below the protocol's threshold. Rules as of :func:`locate`."""
    searched = _events(record)
    events, score = searched.best(snippet, protocol)
    exact_case = protocol.locate == "paper"
    spans: list[Span] = []
    for event in events:
        text = searched.texts[event]
        verbatim = quotes(text, snippet, exact_case)
        spans += [Span(event, *q) for q in verbatim or [span_in(text, snippet, exact_case)]]
    return spans, score


LEAST_SHOWN = 0.5
"""Smallest share of a sentence's evidence in a line that counts as containing it."""

_EDGES = [i / 10 for i in range(1, 10)]


def evidence_parts(
    sentences: Iterable[Sentence], spans: Sequence[Span]
) -> dict[str, tuple[Span, ...]]:
    """The pieces of the evidence in each sentence that shares a character with it, by its id."""
    by_event: dict[int, list[Span]] = {}
    for span in spans:
        by_event.setdefault(span.event, []).append(span)
    parts: dict[str, tuple[Span, ...]] = {}
    for sentence in sentences:
        event, start, end = sentence.span.event, sentence.span.start, sentence.span.end
        inside = tuple(
            Span(event, max(start, span.start), min(end, span.end))
            for span in by_event.get(event, ())
            if max(start, span.start) < min(end, span.end)
        )
        if inside:
            parts[sentence.id] = inside
    return parts


def evidence_in_lines(
    lines: Iterable[ContextLine], parts: Mapping[str, Sequence[Span]]
) -> dict[str, float] | None:
    """Share of each sentence's evidence that is verbatim in lines of a context.

    ``parts`` is what :func:`evidence_parts` gives; shares are of its characters, sentences that
    no line shows are left out. None where a line is a summary: it may state the evidence in other
    words, so whether the context holds it is not known.
    """
    shares: dict[str, float] = {}
    unknown = False
    for line in lines:
        if line.shown == ():
            unknown = True
        elif line.sentence_id in parts:
            wanted = parts[line.sentence_id]
            shares[line.sentence_id] = 1.0 if line.shown is None else covered(wanted, line.shown)
    return None if unknown else shares


def evidence_sentences(
    lines: Iterable[ContextLine], parts: Mapping[str, Sequence[Span]]
) -> frozenset[str] | None:
    """Ids of the sentences of whose evidence lines of a context show at least half verbatim; None
    where a line is a summary. Arguments as of :func:`evidence_in_lines`."""
    shares = evidence_in_lines(lines, parts)
    return None if shares is None else contained(shares)


def contained(shares: Mapping[str, float]) -> frozenset[str]:
    """Ids of the sentences of whose evidence a context contains at least half; ``shares`` as of
    :func:`evidence_in_lines`."""
    return frozenset(id for id, share in shares.items() if share >= LEAST_SHOWN)


def covered(wanted: Sequence[Span], shown: Sequence[Span]) -> float:
    """Share of the characters of ``wanted`` in ``shown``, which does not overlap itself."""
    common = sum(
        max(0, min(w.end, s.end) - max(w.start, s.start))
        for w in wanted
        for s in shown
        if w.overlaps(s)
    )
    return common / sum(span.end - span.start for span in wanted)


def lexical_hits(texts: Iterable[str], answer: str) -> list[bool]:
    """Which of ``texts`` have a content word (four letters or more) of the reference answer.

    An answer without a content word is never hit (docs/methods.md, Stage 1).
    """
    wanted = content_words(answer)
    return [not wanted.isdisjoint(words(text)) for text in texts]


def chance_of_hit(candidates: int, hits: int, draws: float) -> float:
    """Probability that ``draws`` of ``candidates``, at random without replacement, hold a hit.

    ``hits`` of the candidates are hits. A number of draws between two whole ones is either of them
    by chance, so that it is the mean. Hypergeometric (Johnson, Kemp and Kotz, Univariate Discrete
    Distributions, 2005, chapter 6): 1 − C(n − hits, draws) / C(n, draws). Raises ValueError where
    there are more hits than candidates.
    """
    return _mean_over_draws(_chance_of_any, candidates, hits, draws)


def chance_of_all(candidates: int, hits: int, draws: float) -> float:
    """Probability that ``draws`` of ``candidates``, at random without replacement, hold every hit.

    Every piece of evidence is drawn where each sentence of each piece is, so pieces count by the
    union of their sentences, whether they overlap or not: no inclusion and exclusion over pieces
    remains. Hypergeometric as in :func:`chance_of_hit`, the probability of all ``hits``:
    C(n − hits, draws − hits) / C(n, draws) = ∏ (draws − i) / (n − i) for i from 0 to hits − 1. A
    number of draws between two whole ones is the mean of theirs. Raises ValueError where there are
    more hits than candidates.
    """
    return _mean_over_draws(_chance_of_all, candidates, hits, draws)


def _mean_over_draws(
    chance: Callable[[int, int, int], float], candidates: int, hits: int, draws: float
) -> float:
    """``chance`` for a number of draws that need not be whole."""
    if not 0 <= hits <= candidates:
        raise ValueError(f"{hits} hits among {candidates} candidates")
    draws = min(max(draws, 0.0), float(candidates))
    fewer = math.floor(draws)
    more = draws - fewer
    low = chance(candidates, hits, fewer)
    return low if not more else low + more * (chance(candidates, hits, fewer + 1) - low)


def _chance_of_all(candidates: int, hits: int, draws: int) -> float:
    if draws < hits:
        return 0.0
    return math.prod((draws - i) / (candidates - i) for i in range(hits))


def _chance_of_any(candidates: int, hits: int, draws: int) -> float:
    rest = candidates - hits
    if draws > rest:
        return 1.0
    lg = math.lgamma
    miss = lg(rest + 1) - lg(rest - draws + 1) - lg(candidates + 1) + lg(candidates - draws + 1)
    return -math.expm1(min(miss, 0.0))


def _checked(position: float) -> float:
    """Rounded to 12 decimals, so that .1 · 3 or .3 − .1 equals the edge."""
    if not 0.0 <= position <= 1.0 or math.isnan(position):
        raise ValueError(f"a position lies in [0, 1], not {position}")
    return round(position, 12)


def decile_of(position: float) -> int:
    """Decile 0 … 9 of a position in [0, 1]; edges are i/10, left-closed, the last closed."""
    return bisect_right(_EDGES, _checked(position))


def band_of(position: float) -> str:
    """Band of a position ("0-10", …, "90-100"), left-closed, the last closed."""
    position = _checked(position)
    return next(name for name, low, _ in reversed(BANDS) if position >= low)


def is_middle(position: float) -> bool:
    """Whether a position is in the middle, [.3, .7], both ends included."""
    return MIDDLE[0] <= _checked(position) <= MIDDLE[1]
