"""What is in the prompt, what was cut from it and what was dropped, in plain values and in words.

The Patient page asks one thing of every arm: which pieces of the gold evidence does the reader's
prompt hold (its selection, where nobody read)? The answer is worked out here once, from sentence
ids, and shown by the cards, the timeline, the evidence panel and the export alike. Nothing here
draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from core import api

KEPT, PARTLY, DROPPED, HIDDEN = "kept", "partly kept", "dropped", "not selectable"
SHOWN, PARTLY_SHOWN, CUT = "in the prompt", "partly in the prompt", "kept, but cut"
HELD = (KEPT, SHOWN)
"""What counts as evidence that is there: in the prompt, or kept where nobody read."""


@dataclass(frozen=True)
class Piece:
    """One located piece of gold evidence.

    ``ids`` are the sentences that hold it under the protocol's unit (empty where the protocol
    leaves its event out), ``at`` its position in the record, 0 to 1, by event order.
    """

    number: int
    span: api.Span
    ids: frozenset[str]
    at: float
    time: datetime | None
    kind: str

    @property
    def event(self) -> int:
        return self.span.event

    def status(self, kept_ids: frozenset[str]) -> str:
        """Whether a selection with these ids holds the piece, in one word or two."""
        if not self.ids:
            return HIDDEN
        held = self.ids & kept_ids
        return KEPT if held == self.ids else PARTLY if held else DROPPED


@dataclass(frozen=True)
class ArmView:
    """One arm on one question: what it kept, what the reader made of it, or why it is away."""

    name: str
    title: str
    selection: api.Selection | None = None
    prompt: api.Prompt | None = None
    answer: api.Answer | None = None
    verdicts: Mapping[str, api.Verdict] = field(default_factory=dict)
    problem: str = ""
    reading_problem: str = ""
    reader: str = ""
    """Title of the reader that answered, or would have."""
    only_quotes: bool = False
    """Whether that reader only quotes its context."""
    pending: bool = False
    """Not computed yet, because it takes long and nobody asked."""

    @cached_property
    def ids(self) -> frozenset[str]:
        """Ids of the sentences kept."""
        return kept_ids(self.selection)

    @cached_property
    def shown(self) -> frozenset[str]:
        """Ids of the sentences kept that the reader's prompt shows, by at least half; all that were
        kept where nobody read."""
        if self.prompt is None or self.selection is None:
            return self.ids
        return _shown_ids(self.selection, self.prompt.context)

    @cached_property
    def cut(self) -> str:
        """What the prompt lost, in words; "" where nothing was cut."""
        if self.prompt is None or self.selection is None:
            return ""
        if not api.was_cut(self.prompt, self.selection):
            return ""
        return f"cut at {self.prompt.tokens:,} tokens"

    def status(self, piece: Piece) -> str:
        """Where a piece of evidence is: in the reader's prompt, kept and then cut from it, or
        dropped; where nobody read, whether it was kept."""
        selected = piece.status(self.ids)
        if self.prompt is None:
            return selected
        seen = piece.status(self.shown)
        if seen == DROPPED != selected:
            return CUT
        return {KEPT: SHOWN, PARTLY: PARTLY_SHOWN}.get(seen, seen)

    def status_words(self, piece: Piece) -> str:
        """The status, with the length at which this prompt was cut."""
        word = self.status(piece)
        return f"kept, but {self.cut}" if word == CUT else word


def kept_ids(selection: api.Selection | None) -> frozenset[str]:
    """Ids of the sentences of a selection; of a compressed one at least half must be left."""
    if selection is None:
        return frozenset()
    if selection.lines is None:
        return frozenset(k.sentence.id for k in selection.kept)
    return _shown_ids(selection, selection.lines)


def _shown_ids(selection: api.Selection, lines: Iterable[api.ContextLine]) -> frozenset[str]:
    """Ids of the sentences of a selection of which lines show at least half of the characters."""
    length = {k.sentence.id: len(k.sentence.text) for k in selection.kept}
    shown: dict[str, int] = {}
    for line in lines:
        if line.sentence_id in length:
            own = length[line.sentence_id]
            left = own if line.shown is None else sum(s.end - s.start for s in line.shown)
            shown[line.sentence_id] = left
    return frozenset(id for id, left in shown.items() if 2 * left >= length[id])


def position(record: api.Record, event: int) -> float:
    """Place of an event in its record, 0 to 1, by order."""
    return event / max(len(record.events) - 1, 1)


def pieces(record: api.Record, gold: api.Gold | None, protocol: api.Protocol) -> tuple[Piece, ...]:
    """The located pieces of evidence in record order; none without gold or without a location."""
    if gold is None:
        return ()
    found: list[Piece] = []
    inside = [s for s in gold.spans if 0 <= s.event < len(record.events)]
    for number, span in enumerate(sorted(inside, key=lambda s: (s.event, s.start)), 1):
        event = record.events[span.event]
        ids = api.gold_ids(record, replace(gold, spans=(span,)), protocol)
        at = position(record, span.event)
        found.append(Piece(number, span, ids, at, event.time, event.kind))
    return tuple(found)


def unlocated(gold: api.Gold) -> int:
    """Snippets of the evidence that no place in the record could be found for."""
    return max(len(set(gold.snippets)) - len(gold.spans), 0)


def evidence_note(gold: api.Gold | None) -> str:
    """What must be said about the evidence before anything is judged by it; "" when all is well."""
    if gold is None:
        return "No reference answer: evidence and answers of this question cannot be evaluated."
    if not gold.spans:
        if gold.snippets:
            return (
                "The evidence of this question could not be located in the record: kept "
                "sentences are shown, dropped evidence is not."
            )
        return "The reference answer has no evidence annotation: dropped evidence cannot be shown."
    missing = unlocated(gold)
    if missing:
        total = len(set(gold.snippets))
        return f"{missing} of {total} pieces of evidence could not be located in the record."
    return ""


def percent(at: float) -> str:
    """A position as readers see it: "47 %"."""
    return f"{100 * at:.0f} %"


def kind_word(kind: str) -> str:
    """A kind of event in plain words."""
    return kind.replace("_", " ") or "event"


def _places(found: Sequence[Piece]) -> str:
    where = [percent(p.at) for p in found]
    return where[0] if len(where) == 1 else ", ".join(where[:-1]) + " and " + where[-1]


def evidence_words(view: ArmView, found: Sequence[Piece]) -> str:
    """Which pieces of evidence the prompt (or the selection, where nobody read) holds, in one or
    two sentences; "" without evidence."""
    if not found:
        return ""
    status = {p.number: view.status(p) for p in found}
    held = sum(word in HELD for word in status.values())
    total = len(found)
    noun = "piece" if total == 1 else "pieces"
    who = "It holds" if view.prompt is None else "The prompt holds"
    words = f"{who} {held} of {total} {noun} of evidence"
    parts: list[str] = []
    for word, phrase in (
        (DROPPED, "dropped"),
        (PARTLY, "partly kept"),
        (PARTLY_SHOWN, "partly shown"),
        (HIDDEN, "left out"),
    ):
        those = [p for p in found if status[p.number] == word]
        if those:
            what = f"the {phrase} one is" if len(those) == 1 else f"the {phrase} ones are"
            parts.append(f"{what} at {_places(those)} of the record")
    words += ("; " + "; ".join(parts) if parts else "") + "."
    lost = [p for p in found if status[p.number] == CUT]
    if lost:
        words += f" Kept, but {view.cut}: {len(lost)}, at {_places(lost)} of the record."
    return words


def headline(view: ArmView, found: Sequence[Piece], sentences: int, tokens: int, unit: str) -> str:
    """What an arm did, in words a clinician reads once; "" where it did nothing."""
    selection, title = view.selection, view.title
    if selection is None:
        return ""
    kept = len(selection.kept)
    noun = unit if sentences == 1 else f"{unit}s"
    size = f"{selection.tokens:,} of {tokens:,} tokens"
    if selection.lines is not None and not kept:
        written = len(selection.lines)
        return (
            f"{title} wrote {written:,} {'summary' if written == 1 else 'summaries'} in place of "
            f"{sentences:,} {noun} ({size}). The share of the evidence in a summary is unknown."
        )
    part = "words of " if selection.lines is not None else ""
    words = f"{title} kept {part}{kept:,} of {sentences:,} {noun} ({size})"
    recent = sum(k.kept_by == "recency" for k in selection.kept)
    words += f", {recent:,} of them only as most recent." if 0 < recent < kept else "."
    return f"{words} {evidence_words(view, found)}".strip()


def who_shows(views: Iterable[ArmView]) -> dict[str, list[str]]:
    """Sentence id to the titles of the arms whose prompt shows it (that kept it, where nobody
    read)."""
    table: dict[str, list[str]] = {}
    for view in views:
        for sentence_id in view.shown:
            table.setdefault(sentence_id, []).append(view.title)
    return table


def first_event(found: Sequence[Piece], view: ArmView | None) -> int | None:
    """What to open first: the first evidence that is not there, else the first, else what was kept
    best."""
    if found:
        missing = [p for p in found if view is None or view.status(p) not in HELD]
        return (missing or list(found))[0].event
    if view and view.selection and view.selection.kept:
        best = max(view.selection.kept, key=lambda k: (k.score is not None, k.score or 0.0))
        return best.sentence.span.event
    return None
