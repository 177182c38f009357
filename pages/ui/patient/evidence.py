"""The evidence panel: one event of the record in full, its marks in place, its neighbours in short.

A note is shown whole, structured events around it as a compact list. What the prompt
shows of the chosen arm's selection, what was cut from it and the gold evidence that was dropped are
marked alike, in the text (:mod:`pages.ui.shared.marks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core import api
from pages.ui.patient import kept
from pages.ui.patient.kept import ArmView, Piece
from pages.ui.shared import marks
from pages.ui.shared.marks import DROPPED_EVIDENCE, Mark

AROUND = 5
"""Neighbours listed before and after the open event."""
BRIEF = 140


def _others(sentence_id: str, view: ArmView, who: Mapping[str, Sequence[str]]) -> str:
    names = [name for name in who.get(sentence_id, ()) if name != view.title]
    return ", ".join(names)


def label_of(view: ArmView, sentence_id: str, gold: bool) -> str:
    """How a sentence is marked for an arm (:mod:`pages.ui.shared.marks`); "" where it is not."""
    if sentence_id in view.shown:
        return marks.THERE[view.prompt is not None, gold]
    if sentence_id in view.ids:
        return marks.LOST[gold]
    return DROPPED_EVIDENCE if gold else ""


def marks_of(
    event: int,
    units: Sequence[api.Sentence],
    view: ArmView,
    gold: frozenset[str],
    who: Mapping[str, Sequence[str]],
) -> list[Mark]:
    """The marks of one event for one arm; ``units`` are the sentences of that event."""
    read = view.prompt is not None
    kept_here = view.selection.kept if view.selection else ()
    recent = {k.sentence.id for k in kept_here if k.kept_by == "recency"}
    found: list[Mark] = []
    for unit in units:
        span = (unit.span.start, unit.span.end)
        if unit.span.event != event:
            continue
        is_gold = unit.id in gold
        others = _others(unit.id, view, who) if is_gold else ""
        elsewhere = f"{'in the prompt of' if read else 'kept by'} {others}" if others else ""
        label = label_of(view, unit.id, is_gold)
        if label == DROPPED_EVIDENCE:
            found.append(Mark(*span, label, elsewhere))
        elif label in marks.LOST.values():
            at = view.cut.removeprefix("cut ")
            found.append(Mark(*span, label, f"{at}, {elsewhere}" if elsewhere else at))
        elif label:
            extra = f"also {others}" if others else "recent" if unit.id in recent else ""
            found.append(Mark(*span, label, extra))
    return found


def when(event: api.Event) -> str:
    """An event's date, and its time of day where it has one."""
    if event.time is None:
        return "undated"
    midnight = event.time.hour == event.time.minute == 0
    return event.time.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M")


def title(event: api.Event) -> str:
    """What kind of entry it is: for a note its type, else the kind and its name."""
    word = kept.kind_word(event.kind).capitalize()
    return f"{word}: {event.name}" if event.name else word


def _row(event: api.Event, event_marks: Sequence[Mark]) -> str:
    text = api.event_text(event)
    if event.kind == "note" and len(text) > BRIEF:
        labels = [m.label for m in event_marks]
        body = f"{marks.safe(event.name or 'note')} ({marks.words_in(text):,} words) "
        body += " ".join(
            marks.tag(f"{labels.count(label)} × {label}") for label in dict.fromkeys(labels)
        )
    else:
        end = min(len(text), 4 * BRIEF)
        body = marks.marked(text, event_marks, end=end) + ("…" if end < len(text) else "")
    dim = "" if event_marks else ' class="mc-dim"'
    return (
        f"<li{dim}><span>{when(event)}</span>"
        f"<span>{marks.safe(kept.kind_word(event.kind))}</span><span>{body}</span></li>"
    )


def neighbours(record: api.Record, event: int) -> tuple[range, range]:
    """Numbers of the events listed before and after the open one."""
    before = range(max(event - AROUND, 0), event)
    return before, range(event + 1, min(event + 1 + AROUND, len(record.events)))


def panel(
    record: api.Record,
    event: int,
    view: ArmView,
    views: Sequence[ArmView],
    found: Sequence[Piece],
    units: Sequence[api.Sentence],
    whole: bool = False,
) -> str:
    """The panel's inside as HTML. ``units``: the record's sentences (those near are enough)."""
    gold = frozenset(i for p in found for i in p.ids)
    who = kept.who_shows(views)
    before, after = neighbours(record, event)
    near: dict[int, list[api.Sentence]] = {}
    for unit in units:
        if before.start <= unit.span.event < after.stop:
            near.setdefault(unit.span.event, []).append(unit)

    def here(number: int) -> list[Mark]:
        return marks_of(number, near.get(number, []), view, gold, who)

    def listed(numbers: range) -> str:
        rows = "".join(_row(record.events[i], here(i)) for i in numbers)
        return f'<ul class="mc-rows">{rows}</ul>' if rows else ""

    entry = record.events[event]
    exact = [(p.span.start, p.span.end) for p in found if p.event == event]
    text = api.event_text(entry)
    place = f"{event + 1:,} of {len(record.events):,}"
    at = kept.percent(kept.position(record, event))
    size = f" · {marks.words_in(text):,} words" if entry.kind == "note" else ""
    head = (
        f'<div class="mc-head"><b>{marks.safe(title(entry))}</b> <span>· {when(entry)} · '
        f"event {place}, at {at} of the record{size}</span></div>"
    )
    inside = marks.note_html(text, here(event), exact, whole)
    return f'{listed(before)}<div class="mc-open">{head}{inside}</div>{listed(after)}'


def status_line(found: Sequence[Piece], event: int, view: ArmView) -> str:
    """Which piece of evidence is open and where it is under the arm, in words."""
    here = [p for p in found if p.event == event]
    if not here:
        return ""
    words = [
        f"Evidence {p.number} of {len(found)}, at {kept.percent(p.at)}, under {view.title}: "
        f"{view.status_words(p)}"
        for p in here
    ]
    return "; ".join(words) + "."


def stops(found: Sequence[Piece], view: ArmView) -> list[int]:
    """The events to step over: those with evidence; where none is marked, those the arm kept."""
    if found:
        return sorted({piece.event for piece in found})
    kept_here = view.selection.kept if view.selection else ()
    return sorted({k.sentence.span.event for k in kept_here})


def step(events: Sequence[int], event: int | None, forward: bool) -> int | None:
    """The next (or previous) of ``events``, ascending, from the open one; goes round at the end."""
    if not events:
        return None
    if event is None:
        return events[0]
    if forward:
        return next((e for e in events if e > event), events[0])
    return next((e for e in reversed(events) if e < event), events[-1])
