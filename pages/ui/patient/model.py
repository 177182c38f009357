"""What the Patient page shows: the choice, the pieces of gold evidence, each arm's result; behind
them the calls of the engine, cached, and what the session has opened.

Whether a piece of evidence is kept, in the prompt, cut or dropped is derived here from sentence
ids, once for the cards, the map, the record and the export. An arm that cannot run is never
replaced: its view carries the reason.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from midchart.core import api, figures
from midchart.core.errors import MidchartError, UnknownName
from midchart.core.types import Kept
from midchart.pages.ui import state
from midchart.pages.ui.shared import marks
from midchart.pages.ui.sign_in import later
from midchart.pages.ui.state import cached

SLOW = {"dense", "hybrid", "certain", "mmr", "qccs", "cross_encoder", "llmlingua2",
        "map_reduce"}  # fmt: skip
"""Arms whose first run on a record takes seconds, on a long one minutes."""
DEFAULT_ARMS = ("bm25", "qccs", "recency", "oracle")
NEEDS_EVIDENCE = frozenset({"oracle"})
MOST_ARMS = 4
QUICK_READERS = frozenset({"extractive"})
"""Readers that answer at once; others answer a question when asked to."""
FACTS_AT_ONCE = 60
"""Cohorts up to this size list each patient's facts."""

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
class ArmView:
    """One arm's result on one question: selection, prompt, answer, verdicts, or its problem."""

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
    running: bool = False
    """Being computed."""
    ranks: Mapping[int, str] = field(default_factory=dict)
    """Number of a piece of evidence → its rank, and why it was not kept, or was kept otherwise than
    by its score; of arms that score each sentence."""
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
        if not api.was_cut(self.prompt):
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


def is_method(arm: str) -> bool:
    """Whether an arm is a method: no control, and not given the evidence."""
    return not figures.is_control(arm) and arm not in NEEDS_EVIDENCE


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


def size_words(choice: Choice, view: ArmView) -> str:
    """How much an arm kept of the record, in units and tokens."""
    selection, unit = view.selection, choice.protocol.unit
    if selection is None:
        return ""
    of = units(choice)
    size = f"{selection.tokens:,} of {of.tokens:,} tokens"
    if view.summarised:
        lines = api.counted(len(selection.lines or ()), "line")
        return f"{lines} written by the arm in place of {len(of.sentences):,} {unit}s, {size}"
    part = "words of " if selection.lines is not None else ""
    recent = sum(k.kept_by == "recency" for k in selection.kept)
    scored = len(selection.kept) - recent
    by = f" ({scored:,} by score, {recent:,} most recent)" if scored and recent else ""
    return f"{part}{len(selection.kept):,} of {len(of.sentences):,} {unit}s kept{by}, {size}"


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


# Scores as arrays


BY_ITS_SCORE = "yes, by score"


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each score [n], 1 the best, ties to the earlier sentence; 0 where unranked."""
    result = np.zeros(len(values), np.int64)
    order = np.argsort(-values, kind="stable")  # NaN goes last
    order = order[: int(np.count_nonzero(~np.isnan(values)))]
    result[order] = np.arange(1, len(order) + 1)
    return result


def why_kept(arm: api.ArmScores, at: int) -> str:
    """Whether an arm kept a sentence and why."""
    if arm.kept[at]:
        return BY_ITS_SCORE if arm.picked[at] else "only as recent"
    if arm.picked[at]:
        return "no, the token budget was full"
    if np.isnan(arm.values[at]):
        return "no, not ranked"
    if arm.threshold is None:
        return "no"
    ahead = int(ranks(arm.values)[at]) - int(arm.picked.sum())
    return f"no, {ahead:,} place{'' if ahead == 1 else 's'} too low"


def constant(values: NDArray[np.float64]) -> bool:
    """Whether no two scores differ."""
    return len(np.unique(values[~np.isnan(values)])) < 2


# Calls of the engine


@cached(
    lambda key, cohort, record_id: (key, record_id),
    entries=12,
    spinner="Reading the record",
    shared=True,
)
def record(cohort_key: str, cohort: api.Cohort, record_id: str) -> api.Record:
    """A patient's record; raises DataError where it cannot be read."""
    return cohort.records[record_id]


def facts(record: api.Record) -> str:
    """Age at the record's end, sex, number of events and the years they span."""
    known = {name.lower(): value for name, value in record.facts}

    def fact(*names: str) -> str:
        return next((known[name] for name in names if known.get(name)), "")

    years = [event.time.year for event in record.events if event.time is not None]
    birth = fact("birthdate", "birth_date", "birth", "birth_datetime", "dob")
    parts: list[str] = []
    if birth[:4].isdigit() and years:
        parts.append(f"{max(years) - int(birth[:4])} y")
    elif age := fact("age"):
        parts.append(f"{age} y")
    if sex := fact("gender", "sex"):
        parts.append(sex.lower())
    parts.append(f"{len(record.events):,} events")
    if years:
        parts.append("–".join(map(str, sorted({min(years), max(years)}))))
    return " · ".join(parts)


LONGEST_NUMBER = 20
"""Characters of a patient's number that people read; of a longer one (a UUID, an object identifier)
the place in the cohort is shown."""


@cached(
    lambda key, cohort: (key, len(cohort.instructions)),
    entries=4,
    spinner="Reading the patients",
    shared=True,
)
def patients(cohort_key: str, cohort: api.Cohort) -> dict[str, str]:
    """Id → label of every patient; one that cannot be read stays in the list and says so."""
    questions = Counter(instruction.record_id for instruction in cohort.instructions)
    labels: dict[str, str] = {}
    for record_id, name in names(cohort).items():
        if len(cohort.records) > FACTS_AT_ONCE:
            about = api.counted(questions[record_id], "question")
        else:
            try:
                about = facts(cohort.records[record_id])
            except MidchartError:
                about = "cannot be read"
        labels[record_id] = f"{name} · {about}"
    return labels


def names(cohort: api.Cohort) -> dict[str, str]:
    """Id → what a patient is called on a page: the id, or the place in the cohort where nobody
    could read the id."""
    many = len(cohort.records)
    return {
        id: id if len(id) <= LONGEST_NUMBER else f"patient {number:,} of {many:,}"
        for number, id in enumerate(cohort.records, 1)
    }


def _pieces_key(choice: Choice) -> tuple[str, ...]:
    spans = repr(choice.gold and choice.gold.spans)
    return choice.record.digest, repr(choice.protocol), spans, repr(choice.instruction.cutoff)


@cached(_pieces_key, entries=64, shared=True)
def pieces(choice: Choice) -> tuple[Piece, ...]:
    """The located pieces of evidence."""
    return evidence_pieces(choice.record, choice.gold, choice.protocol)


@dataclass(frozen=True)
class Units:
    """The sentences of a record by the protocol's unit, their ``tokens``, the ``places`` of their
    ids in the record, and those of each event."""

    sentences: tuple[api.Sentence, ...]
    tokens: int
    places: dict[str, int]
    by_event: dict[int, list[api.Sentence]]


@cached(lambda choice: (choice.record.digest, repr(choice.protocol)), entries=24, shared=True)
def units(choice: Choice) -> Units:
    """The units of selection of the record."""
    sentences = tuple(api.sentences(choice.record, choice.protocol))
    by_event: dict[int, list[api.Sentence]] = {}
    for sentence in sentences:
        by_event.setdefault(sentence.span.event, []).append(sentence)
    places = {sentence.id: at for at, sentence in enumerate(sentences)}
    return Units(sentences, sum(one.tokens for one in sentences), places, by_event)


@cached(_pieces_key, entries=64, shared=True)
def other_values(choice: Choice) -> tuple[api.OtherValue, ...]:
    """Passages with another value or date of the evidence's item, oldest first."""
    spans = [piece.span for piece in pieces(choice)]
    cutoff = choice.instruction.cutoff
    return api.other_values(choice.record, spans, choice.protocol, cutoff)


def question_key(choice: Choice) -> tuple[str, ...]:
    """What a selection depends on, but for its arm."""
    instruction = choice.instruction
    return (
        choice.cohort_key,
        choice.record.digest,
        instruction.id,
        instruction.question,
        repr(choice.gold and (choice.gold.answer, choice.gold.spans)),
        repr(choice.protocol),
    )


@cached(lambda choice, arm, title: (*question_key(choice), arm), entries=96, shared=True)
def _selected(choice: Choice, arm: str, title: str) -> ArmView:
    selection = api.select(choice.cohort, choice.record, choice.instruction, arm, choice.protocol)
    return ArmView(arm, title, selection, ranks=_evidence_ranks(choice, arm))


def _evidence_ranks(choice: Choice, arm: str) -> dict[int, str]:
    """Each piece's place in the arm's ranking: that of its lowest sentence, dropped ones first."""
    if arm not in state.scored_arms() or not pieces(choice):
        return {}
    scored = usable_scores(choice, arm)
    if scored is None:
        return {}
    rank, index = ranks(scored.values), units(choice).places
    result: dict[int, str] = {}
    for piece in pieces(choice):
        places = [index[id] for id in piece.ids if id in index]
        if places:
            at = max(places, key=lambda i: (not scored.kept[i], rank[i] == 0, rank[i]))
            why = why_kept(scored, at).removeprefix("no, ").removeprefix("no")
            words = [f"rank {rank[at]:,} of {(rank > 0).sum():,}"] if rank[at] else []
            result[piece.number] = ", ".join(words + [why] * (why not in ("", BY_ITS_SCORE)))
    return result


@cached(
    lambda choice, selected: (*question_key(choice), choice.reader, selected.name),
    entries=96,
    shared=True,
)
def _read(choice: Choice, selected: ArmView) -> ArmView:
    instruction, reader, protocol = choice.instruction, choice.reader, choice.protocol
    assert selected.selection is not None
    try:
        prompt, answer = api.ask(instruction, selected.selection, reader, protocol)
    except MidchartError as error:
        return replace(selected, reading_problem=str(error))
    verdicts: dict[str, api.Verdict] = {}
    if choice.gold is not None and answer.status == "ok":
        for judge in choice.judges:
            try:
                verdicts[judge] = api.judge(instruction, choice.gold, answer, judge, protocol)
            except MidchartError as error:
                verdicts[judge] = api.Verdict("failed", reason=str(error))
    return replace(selected, prompt=prompt, answer=answer, verdicts=verdicts)


@cached(
    lambda choice: (state.finished_key(choice.run), choice.instruction.id),
    entries=24,
    spinner="Reading the run",
    shared=True,
)
def _run_rows(choice: Choice) -> list[dict[str, Any]]:
    return api.item(choice.run, choice.instruction.id)["arms"]


def in_run(choice: Choice) -> bool:
    """Whether the run whose answers are wanted asks this question."""
    try:
        return bool(_run_rows(choice))
    except UnknownName:
        return False


def _of_run(choice: Choice, selected: ArmView) -> ArmView:
    """The run's answer where its arm kept the same sentences; else the reason why there is none."""
    if not in_run(choice):
        return replace(selected, reading_problem="the run does not ask this question")
    rows = _run_rows(choice)
    row = next(
        (r for r in rows if (r["label"], r["reader"]) == (selected.name, choice.reader)), None
    )
    if row is None or selected.selection is None:
        return replace(selected, reading_problem="the run has no answer of this arm")
    if {one["id"] for one in row["selection"] or ()} != {k.sentence.id for k in selected.kept}:
        why = "the run's arm kept other sentences (its protocol, k or records are different)"
        return replace(selected, reading_problem=why)
    return _answered(choice, selected, row)


def _answered(choice: Choice, selected: ArmView, row: Mapping[str, Any]) -> ArmView:
    """An arm's view with the prompt, answer and verdicts of its row in a run."""
    if row["status"] != "ok":
        return replace(selected, answer=api.Answer("", "failed", row["reason"] or ""))
    if "answer" not in row or selected.selection is None:
        return selected
    cut = tuple(row["cut"] or ())
    context = api.context_lines(selected.selection, choice.protocol)
    lines = tuple(line for line in context if line.sentence_id not in cut)
    prompt = api.Prompt(
        *(row["prompt"] or "", choice.instruction.question, lines, row["prompt_tokens"] or 0, cut),
        question_survived=row["question_survived"] is not False,
    )
    primary = state.result(choice.run, api.primary_judge, choice.run)
    verdicts = {
        one["judge"]: api.Verdict(
            one["outcome"] or "failed", bool(one["refusal"]), one["raw"] or "", one["reason"] or ""
        )
        for one in sorted(row["verdicts"], key=lambda one: one["judge"] != primary)
    }
    shown = replace(selected, prompt=prompt, verdicts=verdicts)
    if row["answer"] is None:
        return replace(shown, reading_problem="the run was exported without the text of answers")
    sources, ended = tuple(row["sources"] or ()), row.get("ended") or "stop"
    return replace(shown, answer=api.Answer(row["answer"], sources=sources, ended=ended))


def view_of_row(choice: Choice, row: Mapping[str, Any]) -> ArmView:
    """An arm of a run on a question (a row of :func:`core.api.item`); of a context that the arm
    wrote itself the share of the evidence in it is unknown."""
    sentences = {unit.id: unit for unit in units(choice).sentences}
    picks = tuple(
        Kept(sentences[one["id"]], one["score"], one["kept_by"])
        for one in row["selection"] or ()
        if one["id"] in sentences
    )
    lines = row["lines"] and tuple(
        api.ContextLine(line["id"], line["text"], ()) for line in row["lines"]
    )
    selection = api.Selection(
        *(choice.record.id, choice.instruction.id, row["label"], () if lines else picks),
        row["selection_tokens"] or 0, lines=lines or None,
    )  # fmt: skip
    title, reader = api.title("arm", row["label"]), row.get("reader") or ""
    view = ArmView(row["label"], title, selection, reader=reader and api.title("reader", reader))
    return _answered(choice, view, row)


def problem(choice: Choice, arm: str) -> str:
    """Why an arm cannot be run on the question; "" where it can."""
    problems = {name: problem for name, _, problem in state.members("arm")}
    if arm in NEEDS_EVIDENCE and not pieces(choice):
        return problems[arm] or "it selects located evidence, which this question does not have"
    return problems[arm]


def work(choice: Choice, arm: str, title: str, reads: bool) -> ArmView:
    """An arm's selection and, with ``reads``, the reader's answer; once, then from the cache."""
    selected = _selected(choice, arm, title)
    return _read(choice, selected) if reads else selected


def reads(choice: Choice) -> bool:
    """Whether the reader answers without being asked to."""
    return bool(choice.reader) and not choice.run and not reading_waits(choice)


def view(choice: Choice, arm: str, title: str, answered: bool = True) -> ArmView:
    """An arm's selection, prompt, answer and verdicts, or the reason why it has none.

    Not ``answered``: the reader is at work."""
    try:
        result = work(choice, arm, title, answered and reads(choice))
        if choice.run:
            result = _of_run(choice, result)
    except MidchartError as error:
        return ArmView(arm, title, problem=str(error))
    return replace(result, reader=choice.reader_title)


def reading_waits(choice: Choice) -> bool:
    """Whether the reader is so slow that it answers a question only on request."""
    key = (choice.record.digest, choice.instruction.id, choice.reader)
    slow = not choice.run and choice.reader not in QUICK_READERS
    return slow and key not in st.session_state.get(ASKED, ())


def ask_reader(choice: Choice) -> None:
    """Let the reader answer the question in this session."""
    key = (choice.record.digest, choice.instruction.id, choice.reader)
    st.session_state.setdefault(ASKED, set()).add(key)


ASKED = "patient_asked"


# Slow arms, in a thread


MOMENT_S = 0.3
"""How long a page waits for its arms before it is drawn without them."""
WAITING, SELECTED, READ = range(3)
"""How far an arm is: not run, its sentences selected, and answered by the reader."""


class Reading:
    """The arms of a choice, run in a thread: the quick ones first, selections before answers, and
    at last the scores of the map's heat.

    ``titles``: arm → title. ``reads``: whether the reader answers too; ``heat``: an arm, or "".
    """

    def __init__(
        self, choice: Choice, titles: Mapping[str, str], reads: bool, heat: str = ""
    ) -> None:
        self.stage = dict.fromkeys((*titles, *filter(None, [HEAT * bool(heat)])), WAITING)
        work = later(self._work, choice, titles, reads, heat)
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> dict[str, int]:
        """How far each arm is, after ``seconds`` or once all are done."""
        self._thread.join(seconds)
        return dict(self.stage)

    def _work(self, choice: Choice, titles: Mapping[str, str], reads: bool, heat: str) -> None:
        steps = [(arm in SLOW, stage, arm) for arm in titles for stage in (SELECTED, READ)]
        try:
            for _, stage, arm in sorted(steps, key=lambda step: step[:2]):
                try:
                    work(choice, arm, titles[arm], reads and stage == READ)
                except (MidchartError, OSError):
                    stage = READ  # the page does the same at once, and names the reason
                self.stage[arm] = stage
            if heat:
                with suppress(MidchartError, OSError):
                    scores(choice, heat)
        finally:
            self.stage = dict.fromkeys(self.stage, READ)


HEAT = "heat of the map"
"""The step of the map's scores among the arms."""


@cached(
    lambda choice, titles, reads, heat: (
        *question_key(choice), choice.reader, *titles, reads, heat,
    ),
    entries=24,
    shared=True,
)  # fmt: skip
def reading(choice: Choice, titles: Mapping[str, str], reads: bool, heat: str) -> Reading:
    """The one :class:`Reading` of these arms on this question."""
    return Reading(choice, titles, reads, heat)


@cached(lambda choice, arm: (*question_key(choice), arm), entries=48, shared=True)
def scores(choice: Choice, arm: str) -> api.ScoreTable:
    """Every sentence's score by an arm."""
    return api.scores(choice.cohort, choice.record, choice.instruction, (arm,), choice.protocol)


def usable_scores(choice: Choice, arm: str) -> api.ArmScores | None:
    """An arm's scores; None where it has a problem, or gave every sentence the same one."""
    [scored] = scores(choice, arm).arms
    return None if scored.problem or constant(scored.values) else scored


@cached(
    lambda choice, *arguments: (*question_key(choice), *arguments),
    entries=64,
    spinner="Explaining the score",
    shared=True,
)
def explain(choice: Choice, arm: str, sentence_id: str) -> api.Explanation | None:
    """A sentence's score by contribution; None where the arm's score has no parts."""
    return api.explain(choice.record, choice.instruction, arm, sentence_id, choice.protocol)


OPENED, TIMES = "patient_open", "patient_times_opened"
"""Session keys of the open entry (record, question, event number, sentence id) and of how often one
was opened: the same may be opened again."""


def open_at(
    record: api.Record, instruction: api.Instruction, event: int, sentence: str = ""
) -> None:
    """Open an entry, and a sentence of it, until another is opened in this session."""
    st.session_state[OPENED] = (record.digest, instruction.id, event, sentence)
    st.session_state[TIMES] = times_opened() + 1


def times_opened() -> int:
    """How often something was opened in this session."""
    return st.session_state.get(TIMES, 0)


def opened(choice: Choice) -> tuple[int | None, str]:
    """The event and the sentence opened for this record and question; None and "" without one."""
    digest, question, event, sentence = st.session_state.get(OPENED, ("", "", None, ""))
    is_shown = (digest, question) == (choice.record.digest, choice.instruction.id)
    return (event, sentence) if is_shown else (None, "")
