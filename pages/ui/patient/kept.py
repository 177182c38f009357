"""What was kept and what was dropped, in plain values and in words.

The Patient page asks one thing of every arm: which pieces of the gold evidence does its selection
hold? The answer is worked out here once, from sentence ids, and shown by the cards, the timeline,
the evidence panel and the export alike. Nothing here draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from core import api

KEPT, PARTLY, DROPPED, HIDDEN = "kept", "partly kept", "dropped", "not selectable"


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

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the sentences kept."""
        return kept_ids(self.selection)

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the sentences kept that the reader's prompt shows whole; all that were kept where
        nobody read."""
        if self.prompt is None or self.selection is None:
            return self.ids
        if self.selection.lines is not None:
            return self.ids - frozenset(self.prompt.cut)
        whole = {line.sentence_id for line in self.prompt.context if line.shown is None}
        return self.ids & whole

    @property
    def cut(self) -> str:
        """What the prompt lost, in words; "" where nothing was cut."""
        if self.prompt is None or not self.prompt.cut:
            return ""
        return f"cut at {self.prompt.tokens:,} tokens"


def kept_ids(selection: api.Selection | None) -> frozenset[str]:
    """Ids of the sentences of a selection; of a compressed one at least half must be left."""
    if selection is None:
        return frozenset()
    ids = frozenset(k.sentence.id for k in selection.kept)
    if selection.lines is None:
        return ids
    whole = {k.sentence.id: len(k.sentence.text) for k in selection.kept}
    left = {
        line.sentence_id: sum(span.end - span.start for span in line.shown or ())
        for line in selection.lines
    }
    return frozenset(id for id in ids if 2 * left.get(id, 0) >= whole[id])


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
        return "No reference answer: evidence and answers of this question cannot be judged."
    if not gold.spans:
        if gold.snippets:
            return (
                "The evidence of this question could not be located in the record: what was kept "
                "is shown, what was dropped cannot be."
            )
        return "The reference answer names no evidence: what was dropped cannot be shown."
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


def evidence_words(found: Sequence[Piece], ids: frozenset[str]) -> str:
    """Which pieces of evidence a selection holds, as one or two sentences; "" without evidence."""
    if not found:
        return ""
    status = {p.number: p.status(ids) for p in found}
    held = sum(word == KEPT for word in status.values())
    total = len(found)
    noun = "piece" if total == 1 else "pieces"
    words = f"It holds {held} of {total} {noun} of evidence"
    parts: list[str] = []
    for word, phrase in ((DROPPED, "dropped"), (PARTLY, "partly kept"), (HIDDEN, "left out")):
        those = [p for p in found if status[p.number] == word]
        if those:
            what = f"the {phrase} one is" if len(those) == 1 else f"the {phrase} ones are"
            parts.append(f"{what} at {_places(those)} of the record")
    return words + ("; " + "; ".join(parts) if parts else "") + "."


def headline(
    title: str,
    selection: api.Selection,
    found: Sequence[Piece],
    sentences: int,
    tokens: int,
    unit: str,
    shown: frozenset[str] | None = None,
) -> str:
    """What an arm did, in words a clinician reads once. ``shown``: ids of the sentences that the
    reader's prompt shows, where somebody read."""
    kept = len(selection.kept)
    noun = unit if sentences == 1 else f"{unit}s"
    size = f"{selection.tokens:,} of {tokens:,} tokens"
    if selection.lines is not None and not kept:
        written = len(selection.lines)
        return (
            f"{title} wrote {written:,} {'summary' if written == 1 else 'summaries'} in place of "
            f"{sentences:,} {noun} ({size}). What a summary holds of the evidence is not known."
        )
    part = "words of " if selection.lines is not None else ""
    words = f"{title} kept {part}{kept:,} of {sentences:,} {noun} ({size})"
    recent = sum(k.kept_by == "recency" for k in selection.kept)
    words += f", {recent:,} of them only as most recent." if 0 < recent < kept else "."
    ids = kept_ids(selection)
    evidence = evidence_words(found, ids if shown is None else shown)
    if shown is not None:
        evidence = evidence.replace("It holds", "The prompt holds", 1)
        lost = [p for p in found if p.status(ids) == KEPT != p.status(shown)]
        if lost:
            evidence += f" Kept, but cut from the prompt: {len(lost)}."
    return f"{words} {evidence}".strip()


def who_kept(views: Iterable[ArmView]) -> dict[str, list[str]]:
    """Sentence id to the titles of the arms that kept it."""
    table: dict[str, list[str]] = {}
    for view in views:
        for sentence_id in view.ids:
            table.setdefault(sentence_id, []).append(view.title)
    return table


def first_event(found: Sequence[Piece], view: ArmView | None) -> int | None:
    """What to open first: the first dropped evidence, else the first, else what was kept best."""
    if found:
        ids = view.ids if view else frozenset()
        dropped = [p for p in found if p.status(ids) != KEPT]
        return (dropped or list(found))[0].event
    if view and view.selection and view.selection.kept:
        best = max(view.selection.kept, key=lambda k: (k.score is not None, k.score or 0.0))
        return best.sentence.span.event
    return None
