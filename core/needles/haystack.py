"""A record cut to a length: the latest stretch of whole events that holds 90 to 100 % of it.

What is cut off is the record's beginning and, where a long note would not let whole events make
up the length, some of its end. A record shorter than the length is refused and told, never
padded. A length is in tokens of :func:`core.text.count_tokens` of the lines a reader would be
shown, their dates included; needle and distractors come on top of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.packing import line_text
from core.protocol import Protocol
from core.text import count_tokens, cut_event, sentences
from core.types import Event, Record

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
