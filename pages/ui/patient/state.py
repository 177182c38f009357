"""What the Patient page asks of the engine, asked once.

Selections, prompts and timelines are immutable, so they are cached as they are (no copy on each
rerun), keyed on the cohort's key, the record's digest, the instruction, the protocol and the arm.
An arm that cannot run is never replaced: its view carries the reason.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state
from pages.ui.patient import kept, timeline
from pages.ui.patient.kept import ArmView

TRAINED = frozenset({"qccs", "qccs_plus"})
"""Arms that are trained on first use, which takes seconds, and are quick from then on."""
READING = frozenset({"dense", "mmr", "cross_encoder", "llmlingua2", "map_reduce"})
"""Arms whose first look at a record takes seconds, at a long one minutes."""
SLOW = TRAINED | READING
DEFAULT_ARMS = ("bm25", "dense", "recency", "oracle")
MOST_ARMS = 4
UNITS_AT_ONCE = 3000
"""Records with more units of selection than this keep slow arms waiting until asked for."""
FACTS_AT_ONCE = 60
"""Cohorts up to this size show each patient's facts in the list; larger ones on choosing."""


@st.cache_resource(max_entries=12, show_spinner="Reading the record")
def _record(key: str, record_id: str, _cohort: api.Cohort) -> api.Record:
    return _cohort.records[record_id]


def record(cohort_key: str, cohort: api.Cohort, record_id: str) -> api.Record:
    """A patient's record; raises DataError where it cannot be read."""
    return _record(cohort_key, record_id, cohort)


def _fact(record: api.Record, *names: str) -> str:
    facts = {name.lower(): value for name, value in record.facts}
    return next((facts[name] for name in names if facts.get(name)), "")


def facts(record: api.Record) -> str:
    """Age at the record's end, sex, number of events and the years they span."""
    times = [e.time for e in record.events if e.time is not None]
    parts: list[str] = []
    birth = _fact(record, "birthdate", "birth_date", "birth", "birth_datetime", "dob")
    if birth[:4].isdigit() and times:
        parts.append(f"{max(times).year - int(birth[:4])} y")
    elif age := _fact(record, "age"):
        parts.append(f"{age} y")
    if sex := _fact(record, "gender", "sex"):
        parts.append(sex.lower())
    parts.append(f"{len(record.events):,} events")
    if times:
        first, last = min(times).year, max(times).year
        parts.append(f"{first}–{last}" if first != last else str(first))
    return " · ".join(parts)


@st.cache_data(max_entries=4, show_spinner="Reading the patients")
def _patients(key: str, _cohort: api.Cohort) -> list[tuple[str, str]]:
    asked: dict[str, int] = {}
    for instruction in _cohort.instructions:
        asked[instruction.record_id] = asked.get(instruction.record_id, 0) + 1
    rows: list[tuple[str, str]] = []
    few = len(_cohort.records) <= FACTS_AT_ONCE
    for record_id in _cohort.records:
        count = asked.get(record_id, 0)
        label = f"{record_id} · {count} question{'' if count == 1 else 's'}"
        if few:
            try:
                label = f"{record_id} · {facts(_cohort.records[record_id])}"
            except MidchartError:
                label = f"{record_id} · cannot be read"
        rows.append((record_id, label))
    return rows


def patients(cohort_key: str, cohort: api.Cohort) -> list[tuple[str, str]]:
    """(id, label) of every patient; one that cannot be read stays in the list and says so."""
    return _patients(cohort_key, cohort)


@st.cache_resource(max_entries=12, show_spinner=False)
def _axis(digest: str, _record: api.Record) -> timeline.Axis:
    return timeline.axis_of(_record)


def axis(record: api.Record) -> timeline.Axis:
    """The record as arrays for its timeline."""
    return _axis(record.digest, record)


@st.cache_resource(max_entries=64, show_spinner=False)
def _pieces(
    digest: str, protocol: str, gold: str, _args: tuple[Any, ...]
) -> tuple[kept.Piece, ...]:
    return kept.pieces(*_args)


def pieces(
    record: api.Record, gold: api.Gold | None, protocol: api.Protocol
) -> tuple[kept.Piece, ...]:
    """The located pieces of evidence."""
    spans = repr(gold.spans if gold else None)
    return _pieces(record.digest, repr(protocol), spans, (record, gold, protocol))


@st.cache_resource(max_entries=24, show_spinner=False)
def _size(digest: str, protocol: str, _record: api.Record, _protocol: api.Protocol) -> Any:
    found = api.sentences(_record, _protocol)
    return len(found), sum(s.tokens for s in found)


def size(record: api.Record, protocol: api.Protocol) -> tuple[int, int]:
    """How many units of selection a record has, and their tokens."""
    return _size(record.digest, repr(protocol), record, protocol)


@st.cache_resource(max_entries=96, show_spinner=False)
def _view(key: tuple[str, ...], _args: tuple[Any, ...]) -> ArmView:
    cohort, record, instruction, gold, arm, title, reader, judges, protocol = _args
    selection = api.select(cohort, record, instruction, arm, protocol)
    by = {n: t for n, t, _ in state.members("reader")}.get(reader, reader)
    try:
        prompt, answer = api.ask(instruction, selection, reader, protocol)
    except MidchartError as error:
        return ArmView(arm, title, selection, reading_problem=str(error), reader=by)
    verdicts: dict[str, api.Verdict] = {}
    if gold is not None and answer.status == "ok":
        for judge in judges:
            try:
                verdicts[judge] = api.judge(instruction, gold, answer, judge, protocol)
            except MidchartError as error:
                verdicts[judge] = api.Verdict("failed", reason=str(error))
    only = api.only_quotes(reader)
    return ArmView(arm, title, selection, prompt, answer, verdicts, reader=by, only_quotes=only)


def view_key(
    cohort_key: str,
    record: api.Record,
    instruction: api.Instruction,
    arm: str,
    reader: str,
    protocol: api.Protocol,
) -> tuple[str, ...]:
    """What an arm's view depends on."""
    return (
        cohort_key, record.digest, instruction.id, instruction.question, arm, reader,
        repr(protocol),
    )  # fmt: skip


def view(
    cohort_key: str,
    cohort: api.Cohort,
    record: api.Record,
    instruction: api.Instruction,
    arm: str,
    reader: str,
    judges: tuple[str, ...],
    protocol: api.Protocol,
) -> ArmView:
    """An arm's selection, prompt, answer and verdicts, or the reason why it has none."""
    title, problem = {n: (t, p) for n, t, p in state.members("arm")}.get(arm, (arm, ""))
    if problem:
        return ArmView(arm, title, problem=problem)
    key = view_key(cohort_key, record, instruction, arm, reader, protocol)
    gold = cohort.gold.get(instruction.id)
    args = (cohort, record, instruction, gold, arm, title, reader, judges, protocol)
    try:
        found = _view(key, args)
    except MidchartError as error:
        return ArmView(arm, title, problem=str(error))
    st.session_state.setdefault("patient_ready", set()).add(hash(key))
    return found


def long_wait(record: api.Record, units: int, arm: str) -> bool:
    """Whether an arm is so slow on this record that it waits until it is asked for."""
    if arm not in READING or units <= UNITS_AT_ONCE:
        return False
    return (record.digest, arm) not in st.session_state.get("patient_asked", set())


def ask_for(record: api.Record, arms: tuple[str, ...]) -> None:
    """Let slow arms run on this record for the rest of the session."""
    asked = st.session_state.setdefault("patient_asked", set())
    asked.update((record.digest, arm) for arm in arms)


def is_ready(key: tuple[str, ...], arm: str) -> bool:
    """Whether an arm's view will come at once."""
    return arm not in SLOW or hash(key) in st.session_state.get("patient_ready", set())


@st.cache_resource(max_entries=24, show_spinner="Scoring every sentence (a gate trains once)")
def _scores(key: tuple[Any, ...], _args: tuple[Any, ...]) -> api.ScoreTable:
    return api.scores(*_args)


def scores(
    cohort_key: str,
    cohort: api.Cohort,
    record: api.Record,
    instruction: api.Instruction,
    arms: tuple[str, ...],
    protocol: api.Protocol,
) -> api.ScoreTable:
    """Every sentence's score by each of ``arms``."""
    key = (cohort_key, record.digest, instruction.id, instruction.question, arms, repr(protocol))
    return _scores(key, (cohort, record, instruction, arms, protocol))


def open_event(record: api.Record, instruction: api.Instruction, event: int) -> None:
    """Open an entry of the record for the rest of the session, until another is opened."""
    st.session_state["patient_open"] = (record.digest, instruction.id, event)


def opened_event(record: api.Record, instruction: api.Instruction) -> int | None:
    """The number of the entry that was opened for this record and question."""
    held = st.session_state.get("patient_open")
    where = (record.digest, instruction.id)
    if held is not None and held[:2] == where and held[2] < len(record.events):
        return held[2]
    return None


def open_sentence(record: api.Record, instruction: api.Instruction, sentence_id: str) -> None:
    """Open a sentence for the rest of the session, until another is opened."""
    st.session_state["patient_sentence"] = (record.digest, instruction.id, sentence_id)


def opened_sentence(record: api.Record, instruction: api.Instruction) -> str | None:
    """The id of the sentence that was opened for this record and question."""
    held = st.session_state.get("patient_sentence")
    return held[2] if held is not None and held[:2] == (record.digest, instruction.id) else None


@st.cache_data(max_entries=64, show_spinner="Explaining the score")
def _explain(key: tuple[str, ...], sentence_id: str, _args: tuple[Any, ...]) -> Any:
    record, instruction, arm, protocol = _args
    return api.explain(record, instruction, arm, sentence_id, protocol)


def explain(
    record: api.Record,
    instruction: api.Instruction,
    arm: str,
    sentence_id: str,
    protocol: api.Protocol,
) -> api.Explanation | None:
    """A sentence's score taken apart; None where the arm has nothing to take apart."""
    key = (record.digest, instruction.id, instruction.question, arm, repr(protocol))
    return _explain(key, sentence_id, (record, instruction, arm, protocol))


@st.cache_resource(max_entries=24, show_spinner=False)
def _by_event(
    digest: str, protocol: str, _record: api.Record, _protocol: api.Protocol
) -> dict[int, list[api.Sentence]]:
    table: dict[int, list[api.Sentence]] = {}
    for sentence in api.sentences(_record, _protocol):
        table.setdefault(sentence.span.event, []).append(sentence)
    return table


def near(record: api.Record, protocol: api.Protocol, event: int, around: int) -> list[api.Sentence]:
    """The sentences of an event and of its neighbours."""
    table = _by_event(record.digest, repr(protocol), record, protocol)
    numbers = range(max(event - around, 0), event + around + 1)
    return [sentence for number in numbers for sentence in table.get(number, ())]
