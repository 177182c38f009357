"""An entry of the record in words, and its marks for an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midchart.core import api
from midchart.pages.ui.patient.model import (
    ArmView,
)
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import Mark


def label_of(view: ArmView, sentence_id: str, gold: bool) -> str:
    """How a sentence is marked for an arm (:mod:`pages.ui.shared.marks`); "" where it is not."""
    return marks.label(sentence_id in view.shown, sentence_id in view.ids, gold)


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
        words = [view.cut.removeprefix("cut ")] if label in (marks.CUT, marks.CUT_EVIDENCE) else []
        words += [f"kept by {others}"] if others else []
        words += ["recent"] if unit.id in recent and not is_gold else []
        result.append(Mark(unit.span.start, unit.span.end, label, ", ".join(filter(None, words))))
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
    return KIND_WORDS.get(event.kind, event.kind.replace("_", " ")) or "event"


KIND_WORDS = {"drug_exposure": "drug or vaccine", "immunization": "vaccination"}
"""Kinds whose name in the data is not the word that people use."""


def head(event: api.Event) -> str:
    """An event's date and type as text: "2009-07-28 · Note: Progress Note"."""
    return f"{when(event)} · {title(event)}"
