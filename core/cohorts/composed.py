"""Records put together from notes of a cohort: in another order, or among other patients' notes.

Notes keep their dates and texts; only which are there and their order change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeVar

from midchart.core.text.evidence import place_of
from midchart.core.types import Event, Gold, Record, Span

T = TypeVar("T")


def evidence_notes(gold: Gold) -> list[int]:
    """The numbers of the events that hold a question's evidence, ascending."""
    return sorted({span.event for span in gold.spans})


def composed(id: str, source: Record, notes: Sequence[Event]) -> tuple[Record, dict[int, int]]:
    """The record called ``id`` of these events in this order, and where each event of ``source``
    is in it, by its number there."""
    by_number = dict(enumerate(source.events))
    places = {
        note.order: place for place, note in enumerate(notes) if by_number.get(note.order) is note
    }
    events = tuple(replace(note, order=place) for place, note in enumerate(notes))
    digest = blake2b(f"{source.digest} {id}".encode(), digest_size=16)
    for event in events:
        digest.update(f"\n{event.time} {event.kind} {event.name}\n{event.text}".encode())
    return replace(source, id=id, events=events, digest=digest.hexdigest(), analysed=None), places


def moved(gold: Gold, id: str, record: Record, places: Mapping[int, int]) -> Gold:
    """The gold of a question whose events were moved to ``places`` of a record."""
    spans = tuple(Span(places[s.event], s.start, s.end) for s in gold.spans if s.event in places)
    order, time, token = place_of(record, spans[0]) if spans else (None, None, None)
    return replace(gold, instruction_id=id, spans=spans, order=order, time=time, token=token)
