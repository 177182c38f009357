"""An entry of the record in words, and its marks for an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midchart.core import api
from midchart.pages.ui.patient.model import (
    ArmView,
    Piece,
    arms_showing,
    gold_ids,
    percent,
    position,
)
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import DROPPED_EVIDENCE, Mark


def label_of(view: ArmView, sentence_id: str, gold: bool) -> str:
    """How a sentence is marked for an arm (:mod:`pages.ui.shared.marks`); "" where it is not."""
    if sentence_id in view.shown:
        return marks.THERE[view.prompt is not None, gold]
    if sentence_id in view.ids:
        return marks.LOST[gold]
    return DROPPED_EVIDENCE if gold else ""


def marks_of(
    units: Sequence[api.Sentence],
    view: ArmView,
    gold: frozenset[str],
    arms: Mapping[str, Sequence[str]],
) -> list[Mark]:
    """The marks of an event's sentences for one arm; ``arms``: :func:`model.arms_showing`."""
    recent = {k.sentence.id for k in view.kept if k.kept_by == "recency"}
    result: list[Mark] = []
    for unit in units:
        is_gold = unit.id in gold
        label = label_of(view, unit.id, is_gold)
        if not label:
            continue
        others = ", ".join(t for t in arms.get(unit.id, ()) if t != view.title) if is_gold else ""
        verb = "kept by" if view.prompt is None else "in the prompt of"
        elsewhere = f"{verb} {others}" if others else ""
        if label == DROPPED_EVIDENCE:
            extra = elsewhere
        elif label in marks.LOST.values():
            extra = ", ".join(part for part in (view.cut.removeprefix("cut "), elsewhere) if part)
        else:
            extra = f"also {others}" if others else "recent" if unit.id in recent else ""
        result.append(Mark(unit.span.start, unit.span.end, label, extra))
    return result


def when(event: api.Event) -> str:
    """An event's date, and its time of day where it has one."""
    if event.time is None:
        return "undated"
    midnight = event.time.hour == event.time.minute == 0
    return event.time.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M")


def title(event: api.Event) -> str:
    """What kind of entry it is: for a note its type, else the kind and its name."""
    word = kind_of(event).capitalize()
    return f"{word}: {event.name}" if event.name else word


def kind_of(event: api.Event) -> str:
    """The kind of an entry in words."""
    return event.kind.replace("_", " ") or "event"


def panel(
    record: api.Record,
    event: int,
    view: ArmView,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    units: Sequence[api.Sentence],
) -> str:
    """An entry with its marks for one arm as HTML. ``units``: sentences of the record."""
    entry, events = record.events[event], len(record.events)
    exact = [(p.span.start, p.span.end) for p in pieces if p.event == event]
    text = api.event_text(entry)
    units = [unit for unit in units if unit.span.event == event]
    marked = marks_of(units, view, gold_ids(pieces), arms_showing(views))
    size = f" · {marks.words_in(text):,} words" if entry.kind == "note" else ""
    head = (
        f'<div class="mc-head"><b>{marks.safe(title(entry))}</b> <span>· {when(entry)} · '
        f"event {event + 1:,} of {events:,}, at {percent(position(record, event))} of the "
        f"record{size}</span></div>"
    )
    return f'<div class="mc-open">{head}{marks.note_html(text, marked, exact)}</div>'


def status_line(pieces: Sequence[Piece], event: int, view: ArmView) -> str:
    """Which pieces of evidence the open event holds, and their status under the arm."""
    words = [
        f"Evidence {p.number} of {len(pieces)}, at {percent(p.at)}, under {view.title}: "
        f"{view.status_words(p)}"
        for p in pieces
        if p.event == event
    ]
    return "; ".join(words) + "." if words else ""


def stops(pieces: Sequence[Piece], view: ArmView) -> list[int]:
    """The events to step over: those with evidence; without evidence, those the arm kept."""
    if pieces:
        return sorted({piece.event for piece in pieces})
    return sorted({k.sentence.span.event for k in view.kept})
