"""What the Patient page shows: the choice, the pieces of gold evidence, each arm's result.

Whether a piece of evidence is kept, in the prompt, cut or dropped is derived here from sentence
ids, once for the cards, the timeline, the evidence panel and the export.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from midchart.core import api
from midchart.core.types import Kept
from midchart.pages.ui.shared import marks

KEPT, PARTLY, CUT, DROPPED = "kept", "partly kept", "cut", "dropped"
"""Statuses of evidence, with respect to the reader's prompt; without a reader, to the selection."""
HIDDEN = "not selectable"


@dataclass(frozen=True)
class Choice:
    """What the page's controls select.

    ``cohort_key`` identifies the cohort's files in caches; ``gold`` is None without a reference.
    ``run``: the run whose answers of ``reader`` are shown; "" where they are computed.
    """

    cohort_key: str
    cohort: api.Cohort
    record: api.Record
    instruction: api.Instruction
    gold: api.Gold | None
    arms: tuple[str, ...]
    reader: str
    judges: tuple[str, ...]
    protocol: api.Protocol
    run: str = ""
    reader_title: str = ""


@dataclass(frozen=True)
class Piece:
    """One located piece of gold evidence.

    ``ids`` are the sentences that hold it under the protocol's unit (empty where the protocol
    leaves its event out), ``at`` its position in the record, 0 to 1, by event order. ``parts``: the
    evidence in each sentence of its question, other pieces included.
    """

    number: int
    span: api.Span
    ids: frozenset[str]
    at: float
    time: datetime | None
    parts: Mapping[str, tuple[api.Span, ...]]

    @property
    def event(self) -> int:
        return self.span.event

    def status(self, ids: frozenset[str]) -> str:
        """Whether sentences hold the piece: all that it is in, or some."""
        if not self.ids:
            return HIDDEN
        held = self.ids & ids
        return KEPT if held == self.ids else PARTLY if held else DROPPED

    def selected(self, selection: api.Selection | None) -> str:
        """Whether a selection holds the piece, before any prompt limit; of a sentence that the arm
        compressed at least half of the evidence must be left."""
        if selection is None or selection.lines is None:
            return self.status(kept_ids(selection))
        return self.shown(selection.lines)

    def shown(self, lines: Iterable[api.ContextLine]) -> str:
        """Whether lines of a context hold the piece, as a run counts it."""
        return self.status(api.evidence_sentences(lines, self.parts) or frozenset())


@dataclass(frozen=True)
class Rank:
    """The place of a piece of evidence in an arm's ranking: ``rank`` of ``ranked`` sentences (0:
    not ranked), and why it was not kept, or was kept otherwise than by its score."""

    rank: int
    ranked: int
    why: str = ""


@dataclass(frozen=True)
class ArmView:
    """One arm's result on one question: selection, prompt, answer, verdicts, or its problem.

    ``ranks``: piece number → its place, of arms that score each sentence.
    """

    name: str
    title: str
    selection: api.Selection | None = None
    prompt: api.Prompt | None = None
    answer: api.Answer | None = None
    verdicts: Mapping[str, api.Verdict] = field(default_factory=dict)
    """Judge → its verdict; the one that decides first."""
    problem: str = ""
    reading_problem: str = ""
    reader: str = ""
    """Title of the reader that answered, or would have."""
    only_quotes: bool = False
    """Whether that reader only quotes its context."""
    pending: bool = False
    """Not computed, because it is slow on this record and was not requested."""
    running: bool = False
    """Being computed."""
    ranks: Mapping[int, Rank] = field(default_factory=dict)
    cut_words: str = ""
    """Where the prompt lost what was selected; "" where its length did it."""

    @property
    def kept(self) -> tuple[Kept, ...]:
        return self.selection.kept if self.selection else ()

    @property
    def summarised(self) -> bool:
        """Whether the arm wrote summaries: the share of the evidence in them is unknown."""
        return bool(self.selection and self.selection.lines is not None and not self.kept)

    @cached_property
    def ids(self) -> frozenset[str]:
        """Ids of the sentences kept."""
        return kept_ids(self.selection)

    @cached_property
    def shown(self) -> frozenset[str]:
        """Ids of the kept sentences of which the prompt shows at least half; all of them without
        a prompt."""
        if self.prompt is None or self.selection is None:
            return self.ids
        return _shown_ids(self.selection, self.prompt.context)

    @cached_property
    def cut(self) -> str:
        """At how many tokens the prompt was cut, in words; "" where it was not."""
        if self.prompt is None or self.selection is None:
            return ""
        if not api.was_cut(self.prompt, self.selection):
            return ""
        return self.cut_words or f"cut at {self.prompt.tokens:,} tokens"

    def status(self, piece: Piece) -> str:
        """Whether a piece of evidence is in the prompt (kept), was cut from it, or was dropped;
        without a prompt, whether it was selected."""
        selected = piece.selected(self.selection)
        if self.prompt is None:
            return selected
        prompted = piece.shown(self.prompt.context)
        return CUT if prompted == DROPPED != selected else prompted

    def status_words(self, piece: Piece) -> str:
        """The status, with the length at which the prompt was cut."""
        status = self.status(piece)
        return self.cut or CUT if status == CUT else status

    def held(self, pieces: Iterable[Piece]) -> int:
        """Number of pieces that are present."""
        return sum(self.status(piece) == KEPT for piece in pieces)


def with_selection(views: Iterable[ArmView]) -> list[ArmView]:
    """The arms that have a selection."""
    return [view for view in views if view.selection is not None]


def kept_ids(selection: api.Selection | None) -> frozenset[str]:
    """Ids of the sentences of a selection; of a compressed one at least half must be left."""
    if selection is None:
        return frozenset()
    if selection.lines is None:
        return frozenset(k.sentence.id for k in selection.kept)
    return _shown_ids(selection, selection.lines)


def _shown_ids(selection: api.Selection, lines: Iterable[api.ContextLine]) -> frozenset[str]:
    """Ids of the selected sentences of which ``lines`` show at least half of the characters."""
    length = {k.sentence.id: len(k.sentence.text) for k in selection.kept}
    shown = {
        line.sentence_id: length[line.sentence_id]
        if line.shown is None
        else sum(span.end - span.start for span in line.shown)
        for line in lines
        if line.sentence_id in length
    }
    return frozenset(id for id, characters in shown.items() if 2 * characters >= length[id])


def position(record: api.Record, event: int) -> float:
    """Position of an event in its record, 0 to 1, by order."""
    return event / max(len(record.events) - 1, 1)


def evidence_pieces(
    record: api.Record, gold: api.Gold | None, protocol: api.Protocol
) -> tuple[Piece, ...]:
    """The located pieces of evidence in record order; none without gold or without a location."""
    if gold is None:
        return ()
    spans = [s for s in gold.spans if 0 <= s.event < len(record.events)]
    pieces: list[Piece] = []
    parts = api.evidence_parts(api.sentences(record, protocol), spans)
    for number, span in enumerate(sorted(spans, key=lambda s: (s.event, s.start)), 1):
        event = record.events[span.event]
        ids = api.gold_ids(record, replace(gold, spans=(span,)), protocol)
        at = position(record, span.event)
        pieces.append(Piece(number, span, ids, at, event.time, parts))
    return tuple(pieces)


def gold_ids(pieces: Iterable[Piece]) -> frozenset[str]:
    """Ids of the sentences that hold evidence."""
    return frozenset(id for piece in pieces for id in piece.ids)


def evidence_note(gold: api.Gold | None) -> str:
    """What is missing of the evidence annotation; "" where it is complete."""
    if gold is None:
        return "No reference answer: evidence and answers of this question cannot be evaluated."
    total = len(set(gold.snippets))
    if not gold.spans:
        if total:
            return (
                "The evidence of this question could not be located in the record: kept "
                "sentences are shown, dropped evidence is not."
            )
        return "The reference answer has no evidence annotation: dropped evidence cannot be shown."
    missing = total - len(gold.spans)
    if missing > 0:
        return f"{missing} of {total} pieces of evidence could not be located in the record."
    return ""


def percent(at: float) -> str:
    """A position in words: "47 %"."""
    return f"{100 * at:.0f} %"


def size_words(view: ArmView, sentences: int, tokens: int, unit: str) -> str:
    """How much an arm kept of a record of ``sentences`` units and ``tokens``."""
    selection = view.selection
    if selection is None:
        return ""
    size = f"{selection.tokens:,} of {tokens:,} tokens"
    if view.summarised:
        lines = len(selection.lines or ())
        noun = "summary" if lines == 1 else "summaries"
        return f"{lines:,} {noun} in place of {sentences:,} {unit}s, {size}"
    part = "words of " if selection.lines is not None else ""
    recent = sum(k.kept_by == "recency" for k in selection.kept)
    scored = len(selection.kept) - recent
    by = f" ({scored:,} by score, {recent:,} most recent)" if scored and recent else ""
    return f"{part}{len(selection.kept):,} of {sentences:,} {unit}s kept{by}, {size}"


def lost_words(view: ArmView, pieces: Sequence[Piece]) -> str:
    """How many pieces of evidence are absent: "dropped", "2 of 4 cut"; "" for none."""
    by_status: dict[str, int] = {}
    for piece in pieces:
        status = view.status(piece)
        if status != KEPT:
            by_status[status] = by_status.get(status, 0) + 1
    if len(pieces) == 1:
        return next(iter(by_status), "")
    return ", ".join(f"{n} of {len(pieces)} {status}" for status, n in by_status.items())


def arms_showing(views: Iterable[ArmView]) -> dict[str, list[str]]:
    """Sentence id → titles of the arms whose prompt shows it (without prompts, that kept it)."""
    table: dict[str, list[str]] = {}
    for view in views:
        for sentence_id in view.shown:
            table.setdefault(sentence_id, []).append(view.title)
    return table


def first_event(pieces: Sequence[Piece], view: ArmView | None) -> int | None:
    """The event to open first: absent evidence, else any evidence, else the best kept sentence."""
    if pieces:
        absent = (p for p in pieces if view is None or view.status(p) != KEPT)
        return next(absent, pieces[0]).event
    if view and view.kept:
        best = max(view.kept, key=lambda k: (k.score is not None, k.score or 0.0))
        return best.sentence.span.event
    return None


# An entry of the record in words, and its marks for an arm.


def label_of(view: ArmView, sentence_id: str, gold: bool) -> str:
    """How a sentence is marked for an arm (:mod:`pages.ui.shared.marks`); "" where it is not."""
    return marks.label(sentence_id in view.shown, sentence_id in view.ids, gold)


def marks_of(
    units: Sequence[api.Sentence],
    view: ArmView,
    gold: frozenset[str],
    arms: Mapping[str, Sequence[str]],
) -> list[marks.Mark]:
    """The marks of an event's sentences for one arm; ``arms``: :func:`model.arms_showing`."""
    recent = {k.sentence.id for k in view.kept if k.kept_by == "recency"}
    result: list[marks.Mark] = []
    for unit in units:
        is_gold = unit.id in gold
        label = label_of(view, unit.id, is_gold)
        if not label:
            continue
        others = ", ".join(t for t in arms.get(unit.id, ()) if t != view.title) if is_gold else ""
        words = [view.cut.removeprefix("cut ")] if label in (marks.CUT, marks.CUT_EVIDENCE) else []
        words += [f"kept by {others}"] if others else []
        words += ["recent"] if unit.id in recent and not is_gold else []
        note = ", ".join(filter(None, words))
        result.append(marks.Mark(unit.span.start, unit.span.end, label, note))
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
