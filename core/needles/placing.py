"""A needle put into a cut record at a depth, with its distractors, and nothing else changed.

The needle is a line of its own, where the share of the cut record's tokens that stand before it
is nearest to the depth. Between two events it is a short note, dated like the event before it;
where that place lies inside a note, it is a line of that note, between two of its lines, so that
long notes do not make depths coarse. A reader is shown the same line either way, and time order
is kept. Distractors go to gaps drawn from the seed, the same for every depth of the needle, but
for one that would stand beside the needle: it moves on by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b

import numpy as np

from core.needles.facts import Needle, seeded
from core.needles.haystack import Gap, Haystack
from core.types import Event, Record, Span

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
