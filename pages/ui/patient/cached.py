"""Engine calls of the Patient page, cached, and what its session remembers.

Selections, prompts and timelines are immutable and are cached as they are. An arm that cannot run
is never replaced: its view carries the reason.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError, UnknownName
from midchart.pages.ui import state
from midchart.pages.ui.patient import timeline
from midchart.pages.ui.patient.model import ArmView, Choice, Piece, Rank, evidence_pieces
from midchart.pages.ui.shared.cache import cached
from midchart.pages.ui.sign_in import later

EMBEDDING = {"dense", "hybrid", "certain", "mmr", "qccs_plus"}
READING = frozenset(EMBEDDING | {"cross_encoder", "llmlingua2", "map_reduce"})
"""Arms whose first run on a record takes seconds, on a long one minutes."""
SLOW = READING | {"qccs"}
"""Arms that are slow on a first run; the gate among them trains once and is quick afterwards."""
DEFAULT_ARMS = ("bm25", "qccs", "recency", "oracle")
NEEDS_EVIDENCE = frozenset({"oracle"})
MOST_ARMS = 4
QUICK_READERS = frozenset({"extractive"})
"""Readers that answer at once; others answer a question when asked to."""
UNITS_AT_ONCE = 3000
"""On records with more units of selection slow arms run only on request."""
FACTS_AT_ONCE = 60
"""Cohorts up to this size list each patient's facts."""


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
            n = questions[record_id]
            about = f"{n} question{'' if n == 1 else 's'}"
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


@cached(lambda record: record.digest, entries=12, shared=True)
def axis(record: api.Record) -> timeline.Axis:
    """The record as arrays for its timeline."""
    return timeline.axis_of(record)


def _pieces_key(choice: Choice) -> tuple[str, ...]:
    spans = repr(choice.gold and choice.gold.spans)
    return choice.record.digest, repr(choice.protocol), spans, repr(choice.instruction.cutoff)


@cached(_pieces_key, entries=64, shared=True)
def pieces(choice: Choice) -> tuple[Piece, ...]:
    """The located pieces of evidence."""
    return evidence_pieces(choice.record, choice.gold, choice.protocol)


@cached(lambda c: (c.record.digest, repr(c.protocol)), entries=24, shared=True)
def size(choice: Choice) -> tuple[int, int]:
    """How many units of selection the record has, and their tokens."""
    units = api.sentences(choice.record, choice.protocol)
    return len(units), sum(unit.tokens for unit in units)


@cached(lambda c: (c.record.digest, repr(c.protocol)), entries=24, shared=True)
def places(choice: Choice) -> dict[str, int]:
    """Sentence id → its place in the record."""
    return {s.id: at for at, s in enumerate(api.sentences(choice.record, choice.protocol))}


@cached(lambda c: (c.record.digest, repr(c.protocol)), entries=24, shared=True)
def _by_event(choice: Choice) -> dict[int, list[api.Sentence]]:
    table: dict[int, list[api.Sentence]] = {}
    for sentence in api.sentences(choice.record, choice.protocol):
        table.setdefault(sentence.span.event, []).append(sentence)
    return table


def near(choice: Choice, event: int) -> list[api.Sentence]:
    """The sentences of an event."""
    return _by_event(choice).get(event, [])


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


def _view_key(choice: Choice, arm: str) -> tuple[str, ...]:
    return (*question_key(choice), choice.reader, arm)


@cached(lambda choice, arm, title: (*question_key(choice), arm), entries=96, shared=True)
def _selected(choice: Choice, arm: str, title: str) -> ArmView:
    selection = api.select(choice.cohort, choice.record, choice.instruction, arm, choice.protocol)
    return ArmView(arm, title, selection, ranks=_ranks(choice, arm))


def _ranks(choice: Choice, arm: str) -> dict[int, Rank]:
    """Each piece's place in the arm's ranking: that of its lowest sentence, dropped ones first."""
    if arm not in api.scored_arms() or not pieces(choice):
        return {}
    table = scores(choice, arm)
    [scored] = table.arms
    if scored.problem or timeline.constant(scored.values):
        return {}
    rank = timeline.ranks(scored.values)
    index = {sentence.id: at for at, sentence in enumerate(table.sentences)}
    result: dict[int, Rank] = {}
    for piece in pieces(choice):
        places = [index[id] for id in piece.ids if id in index]
        if places:
            at = max(places, key=lambda i: (not scored.kept[i], rank[i] == 0, rank[i]))
            why = timeline.why_kept(scored, at).removeprefix("no, ").removeprefix("no")
            why = "" if why == timeline.BY_ITS_SCORE else why
            result[piece.number] = Rank(int(rank[at]), int((rank > 0).sum()), why)
    return result


@cached(lambda choice, selected: _view_key(choice, selected.name), entries=96, shared=True)
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
    if row["status"] != "ok":
        return replace(selected, answer=api.Answer("", "failed", row["reason"] or ""))
    cut = tuple(row["cut"] or ())
    shown = api.context_lines(selected.selection, choice.protocol)
    lines = tuple(line for line in shown if line.sentence_id not in cut)
    prompt = api.Prompt(
        *(row["prompt"] or "", choice.instruction.question, lines, row["prompt_tokens"] or 0, cut),
        question_survived=row["question_survived"] is not False,
    )
    verdicts = {
        one["judge"]: api.Verdict(
            one["outcome"] or "failed", bool(one["refusal"]), one["raw"] or "", one["reason"] or ""
        )
        for one in row["verdicts"]
    }
    answer = api.Answer(row["answer"] or "", sources=tuple(row["sources"] or ()))
    return replace(selected, prompt=prompt, answer=answer, verdicts=verdicts)


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
    reader = choice.reader.partition(" ")[0]
    known = reader in {name for name, _, _ in state.members("reader")}
    only_quotes = known and api.only_quotes(reader)
    return replace(result, reader=choice.reader_title, only_quotes=only_quotes)


def waits(record: api.Record, units: int, arm: str) -> bool:
    """Whether an arm is so slow on this record that it runs only on request."""
    slow = arm in READING and units > UNITS_AT_ONCE
    return slow and (record.digest, arm) not in _requested()


def reading_waits(choice: Choice) -> bool:
    """Whether the reader is so slow that it answers a question only on request."""
    key = (choice.record.digest, choice.instruction.id, choice.reader)
    slow = not choice.run and choice.reader not in QUICK_READERS
    return slow and key not in _requested()


def request(record: api.Record, *work: tuple[str, ...]) -> None:
    """Let slow arms (name), or a reader of a question (id, name), run in this session."""
    _requested().update((record.digest, *item) for item in work)


def _requested() -> set[tuple[str, ...]]:
    return st.session_state.setdefault("patient_asked", set())


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


def strips(choice: Choice, views: Sequence[ArmView]) -> dict[str, api.ScoreTable]:
    """Arm → its scores, of the arms that have run and rank sentences."""
    names = [view.name for view in views if view.selection and view.name in api.scored_arms()]
    tables = {name: scores(choice, name) for name in names}
    return {
        name: table
        for name, table in tables.items()
        if not table.arms[0].problem and not timeline.constant(table.arms[0].values)
    }


@cached(
    lambda choice, *arguments: (*question_key(choice), *arguments),
    entries=64,
    spinner="Explaining the score",
    shared=True,
)
def explain(choice: Choice, arm: str, sentence_id: str) -> api.Explanation | None:
    """A sentence's score by contribution; None where the arm's score has no parts."""
    return api.explain(choice.record, choice.instruction, arm, sentence_id, choice.protocol)


EVENT, SENTENCE = "patient_open", "patient_sentence"
"""Session keys of the open entry (event number) and the open sentence (id)."""
TIMES = "patient_times_opened"


def open_item(key: str, choice: Choice, item: int | str | None) -> None:
    """Open an event or sentence until another is opened in this session."""
    open_at(key, choice.record, choice.instruction, item)


def open_sentence(choice: Choice, sentence: api.Sentence) -> None:
    """Open a sentence and its entry."""
    open_item(SENTENCE, choice, sentence.id)
    open_item(EVENT, choice, sentence.span.event)


def open_at(
    key: str, record: api.Record, instruction: api.Instruction, item: int | str | None
) -> None:
    """:func:`open_item` for a record and question that are not shown yet."""
    st.session_state[key] = (record.digest, instruction.id, item)
    st.session_state[TIMES] = times_opened() + 1


def times_opened() -> int:
    """How often something was opened in this session: the same may be opened again."""
    return st.session_state.get(TIMES, 0)


def opened_item(key: str, choice: Choice) -> Any:
    """The event or sentence opened for this record and question; None without one."""
    *question, item = st.session_state.get(key, (None,))
    return item if question == [choice.record.digest, choice.instruction.id] else None
