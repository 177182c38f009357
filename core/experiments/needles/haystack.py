"""A record cut to a length, and a needle inserted at a depth with its distractors.

The cut is the latest stretch of whole events that holds 90 to 100 % of the length; its beginning
is left out and, where a long note would not let whole events make up the length, some of its end.
A shorter record is refused, never padded. Lengths are tokens of :func:`core.text.count_tokens` of
the lines of a prompt, dates included; needle and distractors come on top of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from core.protocol import Protocol
from core.synthetic.needles import Needle, seeded
from core.text import count_tokens, cut_event, sentences
from core.text.prompt import line_text
from core.types import Event, Record, Span

LEAST = 0.9
"""Share of a length that a stretch must hold."""
NAME = "Outside information"
"""Name of the note of a needle or distractor."""


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """Before event number ``event`` of the haystack, or, with ``at``, inside that event, a note, at
    the line end with this character; ``before`` are the tokens that precede it."""

    event: int
    at: int | None
    before: float


@dataclass(frozen=True, slots=True)
class Haystack:
    """Events ``first`` to ``last`` (excluded) of a record, the tokens of each, and its insertion
    points in order: before, between and after its events, and at the line ends of its notes."""

    record: Record
    length: int
    first: int
    last: int
    tokens: tuple[int, ...]
    points: tuple[InsertionPoint, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the stretch."""
        return self.record.events[self.first : self.last]

    @property
    def total(self) -> int:
        """Tokens of the stretch."""
        return sum(self.tokens)


class Measured:
    """A record with the tokens of its events, to be cut to any length."""

    def __init__(self, record: Record, protocol: Protocol) -> None:
        self.record, self._longest = record, protocol.sentence_tokens
        per_event: Counter[int] = Counter()
        for sentence in sentences(record, protocol):
            per_event[sentence.span.event] += count_tokens(line_text(sentence))
        self.tokens = tuple(per_event[event.order] for event in record.events)
        self._before = np.concatenate([[0], np.cumsum(self.tokens)]).astype(np.int64)
        self.total = int(self._before[-1])

    def cut(self, length: int) -> Haystack | str:
        """The record cut to ``length`` tokens (≥ 1), or why it cannot be."""
        before = self._before
        if self.total < length:
            return f"the record holds {self.total} tokens"
        for last in range(len(self.tokens), 0, -1):
            first = int(np.searchsorted(before, before[last] - length, side="left"))
            if before[last] - before[first] >= LEAST * length:
                tokens = self.tokens[first:last]
                return Haystack(self.record, length, first, last, tokens, self._points(first, last))
        return f"no stretch of whole events holds {LEAST:.0%} to 100%"

    def _points(self, first: int, last: int) -> tuple[InsertionPoint, ...]:
        points: list[InsertionPoint] = []
        before = 0.0
        for i, event in enumerate(self.record.events[first:last]):
            points.append(InsertionPoint(i, None, before))
            tokens = self.tokens[first + i]
            if event.kind == "note" and tokens:
                points += [
                    InsertionPoint(i, at, before + share * tokens)
                    for at, share in _line_ends(event, self._longest)
                ]
            before += tokens
        return (*points, InsertionPoint(last - first, None, before))


def _line_ends(note: Event, longest: int) -> list[tuple[int, float]]:
    """Line ends of a note between two of its pieces, and the share of its tokens before each."""
    pieces = cut_event(note, "sentence", longest)
    costs = np.cumsum([count_tokens(line_text(piece)) for piece in pieces])
    ends = [note.text.find("\n", a.span.end, b.span.start) for a, b in pairwise(pieces)]
    return [(at, float(cost / costs[-1])) for at, cost in zip(ends, costs, strict=False) if at >= 0]


@dataclass(frozen=True, slots=True)
class NeedleRecord:
    """A record with a needle: ``span`` of the needle, spans of its ``distractors``; ``reached``:
    share of the haystack's tokens that precede the needle."""

    record: Record
    span: Span
    distractors: tuple[Span, ...]
    reached: float


def insert(
    id: str, haystack: Haystack, needle: Needle, depth: float, distractors: int, seed: int
) -> NeedleRecord:
    """The record called ``id``: the haystack with the needle at the insertion point nearest to
    ``depth`` in [0, 1] (0 the first, 1 the last), and its first ``distractors`` distractors at
    random ones."""
    points = haystack.points
    before = np.array([point.before for point in points])
    chosen = int(np.argmin(np.abs(before - depth * haystack.total)))
    if depth in (0.0, 1.0):
        chosen = 0 if depth == 0.0 else len(points) - 1
    rng = seeded(seed, "gaps", haystack.record.id, needle.id, str(haystack.length))
    drawn: list[int] = rng.integers(0, len(points), size=len(needle.distractors)).tolist()
    statements: dict[int, list[str]] = {chosen: [needle.statement]}
    for other, statement in zip(drawn[:distractors], needle.distractors, strict=False):
        if other == chosen:
            other = chosen + 1 if chosen + 1 < len(points) else chosen - 1
        statements.setdefault(other, []).append(statement)

    events, spans = _with_statements(haystack, statements)
    digest = blake2b(f"{haystack.record.digest} {seed} {id}".encode(), digest_size=16)
    for number in sorted(statements):
        # The same statements at another point make another record.
        point = points[number]
        digest.update(f"\n{number} {point.event} {point.at}\n".encode())
        digest.update("\n".join(statements[number]).encode())
    record = replace(haystack.record, id=id, events=events, digest=digest.hexdigest())
    others = tuple(span for number, of in spans.items() if number != chosen for span in of)
    return NeedleRecord(record, spans[chosen][0], others, points[chosen].before / haystack.total)


def _with_statements(
    haystack: Haystack, statements: dict[int, list[str]]
) -> tuple[tuple[Event, ...], dict[int, list[Span]]]:
    """The haystack's events with statements inserted, and the spans of each point's statements."""
    old = haystack.events
    between: dict[int, list[int]] = defaultdict(list)
    inside: dict[int, list[int]] = defaultdict(list)
    for number in sorted(statements):
        point = haystack.points[number]
        (between if point.at is None else inside)[point.event].append(number)
    events: list[Event] = []
    spans: dict[int, list[Span]] = defaultdict(list)
    for i in range(len(old) + 1):
        for number in between[i]:
            for statement in statements[number]:
                spans[number].append(Span(len(events), 0, len(statement)))
                time = _nearest_time(old, i)
                events.append(Event(len(events), time, "note", name=NAME, text=statement))
        if i == len(old):
            break
        text, written = "", 0
        for number in inside[i]:
            at = haystack.points[number].at
            text += old[i].text[written:at]
            written = at or 0
            for statement in statements[number]:
                text += "\n" + statement
                spans[number].append(Span(len(events), len(text) - len(statement), len(text)))
        events.append(replace(old[i], order=len(events), text=text + old[i].text[written:]))
    return tuple(events), spans


def _nearest_time(events: Sequence[Event], index: int) -> datetime | None:
    """The time of the nearest dated event before event number ``index``, else after it."""
    near = [*reversed(events[:index]), *events[index:]]
    return next((event.time for event in near if event.time is not None), None)
