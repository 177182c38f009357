"""A record cut to a length: the latest stretch of whole events that holds 90 to 100 % of it.

What is cut off is the record's beginning and, where a long note would not let whole events make
up the length, some of its end. A record shorter than the length is refused and told, never
padded. A length is in tokens of :func:`core.text.count_tokens` of the lines a reader would be
shown, their dates included; needle and distractors come on top of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from core.protocol import Protocol
from core.synthetic.needles import Needle, seeded
from core.text import count_tokens, cut_event, sentences
from core.text.prompt import line_text
from core.types import Event, Record, Span

LEAST = 0.9
"""Share of a length that a stretch must hold."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where a line can be put: before event number ``event`` of the haystack.

    With ``at`` it is inside that event, a note, at the line end with this character; ``before``
    are the tokens that stand before it.
    """

    event: int
    at: int | None
    before: float


@dataclass(frozen=True, slots=True)
class Haystack:
    """Events ``first`` to ``last`` (excluded) of a record, the tokens of each, and its gaps in
    order: before, between and after its events, and at the line ends of its notes."""

    record: Record
    length: int
    first: int
    last: int
    tokens: tuple[int, ...]
    gaps: tuple[Gap, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the stretch, as they are in the record."""
        return self.record.events[self.first : self.last]

    @property
    def total(self) -> int:
        """Tokens of the whole stretch."""
        return sum(self.tokens)


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that cannot be cut to a length, and why; ``tokens`` are all it has."""

    length: int
    tokens: int
    reason: str


Cut = Haystack | Refused


class Measured:
    """A record with the tokens of its events, to be cut to any length."""

    def __init__(self, record: Record, protocol: Protocol) -> None:
        self.record, self._longest = record, protocol.sentence_tokens
        per_event: Counter[int] = Counter()
        for sentence in sentences(record, protocol):
            per_event[sentence.span.event] += count_tokens(line_text(sentence))
        self.tokens = tuple(per_event[event.order] for event in record.events)
        self._before: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.tokens)]).astype(
            np.int64
        )

    def cut(self, length: int) -> Cut:
        """The record cut to ``length`` tokens (≥ 1), or why it cannot be."""
        before, total = self._before, int(self._before[-1])
        if total < length:
            return Refused(length, total, f"the record holds {total} tokens")
        for last in range(len(self.tokens), 0, -1):
            first = int(np.searchsorted(before, before[last] - length, side="left"))
            if before[last] - before[first] >= LEAST * length:
                tokens = self.tokens[first:last]
                return Haystack(self.record, length, first, last, tokens, self._gaps(first, last))
        return Refused(length, total, f"no stretch of whole events holds {LEAST:.0%} to 100%")

    def _gaps(self, first: int, last: int) -> tuple[Gap, ...]:
        found: list[Gap] = []
        before = 0.0
        for i, event in enumerate(self.record.events[first:last]):
            found.append(Gap(i, None, before))
            tokens = self.tokens[first + i]
            if event.kind == "note" and tokens:
                inner = _line_ends(event, self._longest)
                found += [Gap(i, at, before + share * tokens) for at, share in inner]
            before += tokens
        found.append(Gap(last - first, None, before))
        return tuple(found)


def _line_ends(note: Event, longest: int) -> list[tuple[int, float]]:
    """Line ends of a note between two of its pieces, and the share of its tokens before each."""
    pieces = cut_event(note, "sentence", longest)
    costs = np.cumsum([count_tokens(line_text(piece)) for piece in pieces])
    found: list[tuple[int, float]] = []
    for piece, following, cost in zip(pieces, pieces[1:], costs, strict=False):
        at = note.text.find("\n", piece.span.end, following.span.start)
        if at >= 0:
            found.append((at, float(cost / costs[-1])))
    return found


# A needle put into a cut record at a depth, with its distractors, and nothing else changed.


NAME = "Outside information"
"""What a needle's or distractor's own note is called."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The record with its needle.

    ``span`` is where the needle stands, ``distractors`` where the distractors do; ``reached`` is
    the share of the cut record's tokens that stand before the needle.
    """

    record: Record
    span: Span
    distractors: tuple[Span, ...]
    reached: float


def gap_at(haystack: Haystack, depth: float) -> int:
    """The number of the gap nearest to ``depth`` in [0, 1]; at 0 the first, at 1 the last."""
    if depth in (0.0, 1.0):
        return 0 if depth == 0.0 else len(haystack.gaps) - 1
    before = np.array([gap.before for gap in haystack.gaps])
    return int(np.argmin(np.abs(before - depth * haystack.total)))


def place(
    id: str, haystack: Haystack, needle: Needle, depth: float, distractors: int, seed: int
) -> Placed:
    """The record called ``id``: the haystack with the needle at ``depth`` in [0, 1].

    The needle's first ``distractors`` distractors are placed as well.
    """
    gaps = haystack.gaps
    own = gap_at(haystack, depth)
    rng = seeded(seed, "gaps", haystack.record.id, needle.id, str(haystack.length))
    drawn: list[int] = rng.integers(0, len(gaps), size=len(needle.distractors)).tolist()
    put: dict[int, list[str]] = {own: [needle.statement]}
    for other, statement in zip(drawn[:distractors], needle.distractors, strict=False):
        if other == own:
            other = own + 1 if own + 1 < len(gaps) else own - 1
        put.setdefault(other, []).append(statement)

    events, where = _built(haystack, put)
    named = blake2b(f"{haystack.record.digest} {seed} {id}".encode(), digest_size=16)
    for number in sorted(put):
        # The same statements at another gap make another record.
        gap = gaps[number]
        named.update(f"\n{number} {gap.event} {gap.at}\n".encode())
        named.update("\n".join(put[number]).encode())
    record = replace(haystack.record, id=id, events=events, digest=named.hexdigest())
    others = tuple(span for number, spans in where.items() if number != own for span in spans)
    return Placed(record, where[own][0], others, gaps[own].before / haystack.total)


def _built(
    haystack: Haystack, put: dict[int, list[str]]
) -> tuple[tuple[Event, ...], dict[int, list[Span]]]:
    """The haystack's events with statements put into gaps, and where each came to stand."""
    old = haystack.events
    between: dict[int, list[int]] = {}
    within: dict[int, list[int]] = {}
    for number in sorted(put):
        gap = haystack.gaps[number]
        (between if gap.at is None else within).setdefault(gap.event, []).append(number)
    events: list[Event] = []
    where: dict[int, list[Span]] = {}
    for i in range(len(old) + 1):
        for number in between.get(i, ()):
            for statement in put[number]:
                order = len(events)
                where.setdefault(number, []).append(Span(order, 0, len(statement)))
                events.append(Event(order, _fitting(old, i), "note", name=NAME, text=statement))
        if i < len(old):
            inner = [(haystack.gaps[number], number) for number in within.get(i, ())]
            events.append(_with_lines(old[i], len(events), inner, put, where))
    return tuple(events), where


def _with_lines(
    event: Event,
    order: int,
    inner: Sequence[tuple[Gap, int]],
    put: dict[int, list[str]],
    where: dict[int, list[Span]],
) -> Event:
    """An event at its new order, with statements as lines of its text; ``where`` is filled."""
    text, written = "", 0
    for gap, number in inner:
        assert gap.at is not None
        text += event.text[written : gap.at]
        written = gap.at
        for statement in put[number]:
            text += "\n" + statement
            where.setdefault(number, []).append(Span(order, len(text) - len(statement), len(text)))
    return replace(event, order=order, text=text + event.text[written:])


def _fitting(events: Sequence[Event], gap: int) -> datetime | None:
    """A time for what stands before event number ``gap``: that of the nearest dated event."""
    near = [*reversed(events[:gap]), *events[gap:]]
    return next((event.time for event in near if event.time is not None), None)
