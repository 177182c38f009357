"""The Patient page's controls: cohort, patient, question, filter, arms and settings.

The URL holds opaque tokens only: Streamlit would write a bound selectbox's label there, and these
labels contain ages and questions. Of a typed question too the URL has a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.patient import cached, dropped, opening
from midchart.pages.ui.patient.dropped import DroppedEvidence
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.shared import chart, reader_rates
from midchart.pages.ui.shared.formats import listed
from midchart.pages.ui.shared.marks import plain, visible
from midchart.pages.ui.shared.pickers import (
    new_in_url,
    pick_linked,
    pick_several,
    segments,
    token,
    write_url,
)

TYPED = "typed"
"""The option "type a question" among the cohort's own questions."""
ALL = "all"
OPTIONS_JUDGE = "choice"
"""The judge of questions with options; it fails on all others."""
MOST_TYPED = 1000
"""Typed questions that addresses can name at once."""
LOOKED_AT_ONCE = 200
"""Patients of the cohorts whose dropped evidence is counted before it is asked for: that reads
every record."""
LOOK_S = 0.3
"""Time for dropped evidence of a patient's questions by an arm before the list is drawn."""


def _pick(name: str, label: str, titles: Mapping[str, str], cohort: str) -> str:
    """One of the keys of ``titles``; in the URL as a token, but for :data:`TYPED`."""
    return pick_linked(
        name, label, list(titles), titles.__getitem__, key=f"patient_{name}", unlinked=TYPED,
        token=lambda option: token(cohort, option),
    )  # fmt: skip


def _pick_cohort() -> api.Cohort:
    names = state.question_cohorts()
    if not names:
        for name, _, problem in state.cohorts():
            if problem:
                st.error(plain(problem), title=f"Cohort {plain(name)} cannot be opened")
            else:
                st.info(f"{plain(name)} has labels to forecast but no questions about records.")
        st.stop()
    name = state.pick_cohort() if len(names) > 1 else names[0]
    try:
        return api.open_data(name)
    except MidchartError as error:
        st.error(plain(str(error)), title="This cohort cannot be read")
        st.stop()


def _readers(cohort: api.Cohort) -> dict[tuple[str, str], str]:
    """(run, reader) → title: the readers that can answer now (run ""), and those of the cohort's
    finished runs, whose answers are there."""
    titles = {name: title for name, title, _ in state.members("reader")}
    readers = {("", name): title for name, title in reader_rates.installed().items()}
    for run in state.runs(("answers",)):
        if run["status"] == "done" and run["data"] == cohort.path:
            for label in api.answered_by(run["run"]):
                name, _, options = label.partition(" ")
                words = (titles.get(name, name), options, f"of run {run['name']}")
                readers[run["run"], label] = " ".join(filter(None, words))
    return readers


def _pick_settings(cohort: api.Cohort) -> tuple[api.Protocol, tuple[str, str], str]:
    """Protocol, reader (its run and name), and the reader's title."""
    readers = _readers(cohort)
    with st.popover("Settings", icon=":material/tune:", width="stretch"):
        preset = segments(
            "Protocol", list(api.PRESETS), "preset",
            help="corrected: recommended settings. published: the settings of the paper's run.",
        )  # fmt: skip
        base = api.PRESETS[preset]
        units = ["preset default", "sentence", "event"]
        by = f"The {preset} protocol selects by {base.unit}."
        unit = segments("Unit of selection", units, "unit", help=by)
        k = st.number_input(
            f"k, units kept by each arm in addition to the {base.recency} most recent events",
            0, 10_000, base.k, key="k", bind="query-params",
        )  # fmt: skip
        if st.session_state.get("patient_reader") not in readers:
            st.session_state.pop("patient_reader", None)
        reader = st.selectbox(
            "Reader", list(readers), key="patient_reader", persist_state="session",
            format_func=lambda choice: visible(readers[choice]),
            help="Answers of a finished run are shown where its arm kept the same sentences.",
        ) if readers else ("", "")  # fmt: skip
    changes = {"preset": preset, "k": int(k)}
    if unit != units[0]:
        changes["unit"] = unit
    return api.parse(changes), reader, readers.get(reader, "")


def _pick_arms() -> tuple[str, ...]:
    titles = {name: title for name, title, _ in state.members("arm")}
    chosen = pick_several(
        "arms", "Arms (up to four)", list(titles), titles.__getitem__, key="patient_arms",
        default=[name for name in cached.DEFAULT_ARMS if name in titles],
        max_selections=cached.MOST_ARMS,
        help="Arms select what the reader sees. Dense arms take some seconds on a new record.",
    )  # fmt: skip
    return tuple(chosen)


def _pick_filter(
    cohort: api.Cohort, key: str, arms: tuple[str, ...], protocol: api.Protocol
) -> DroppedEvidence | None:
    """The table of the arm whose dropped evidence is asked for; None for all questions."""
    titles = {name: title for name, title, problem in state.members("arm") if not problem}
    tables = {name: dropped.table(key, name, protocol) for name in titles}
    small = len(cohort.records) <= LOOKED_AT_ONCE
    for name in arms:
        if small and name in tables and name not in cached.SLOW:
            tables[name].look(cohort)

    def words(name: str) -> str:
        if name == ALL:
            return "All questions"
        n = ""
        if small and tables[name].complete(cohort) and not tables[name].unknown(cohort):
            total = len(dropped.with_evidence(cohort))
            n = f" ({len(tables[name].questions(cohort))} of {total})"
        return f"{titles[name]} dropped the evidence{n}"

    first = [name for name in arms if name in titles]
    options = [ALL, *first, *(name for name in titles if name not in first)]
    chosen = pick_linked(
        "dropped", "Show", options, words, key="patient_dropped", unlinked=ALL,
        help="Kept or dropped by the arm's own selection, before any limit of a prompt. Slow arms "
            "are run in the background when chosen.",
    )  # fmt: skip
    if chosen == ALL:
        return None
    tables[chosen].look(cohort, wait_s=0.3)
    return tables[chosen]


@st.fragment(run_every=1.0)
def _progress(looking: DroppedEvidence, cohort: api.Cohort, arm: str) -> None:
    """How far the thread is; draws the page again when it is through."""
    if looking.complete(cohort):
        st.rerun(scope="app")
    total = len(dropped.with_evidence(cohort))
    st.caption(f"{arm}: {looking.seen(cohort):,} of {total:,} questions looked at …")


def _matching(looking: DroppedEvidence, cohort: api.Cohort) -> list[api.Instruction]:
    """The questions of which the arm dropped evidence; all with evidence where there are none."""
    return looking.questions(cohort) or dropped.with_evidence(cohort)


def _steps(looking: DroppedEvidence, cohort: api.Cohort, question: str) -> None:
    """Buttons to step over the questions of the filter, and what is not known."""
    title = next(t for name, t, _ in state.members("arm") if name == looking.arm)
    questions = looking.questions(cohort)
    at = next((i for i, one in enumerate(questions) if one.id == question), -1)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for label, step, icon in (
            ("Previous question", -1, ":material/arrow_back:"),
            ("Next question", 1, ":material/arrow_forward:"),
        ):
            st.button(
                label, icon=icon, key=f"patient_question_{step}", disabled=len(questions) < 2,
                on_click=_open_question,
                args=(questions[(at + step) % len(questions)],) if questions else (),
            )  # fmt: skip
        if at >= 0:
            st.caption(f"{at + 1:,} of {len(questions):,} questions where {title} dropped evidence")
        if not looking.complete(cohort):
            _progress(looking, cohort, title)
    if looking.problem:
        st.error(plain(looking.problem), title=f"{plain(title)}: not every question was looked at")
    elif unknown := looking.unknown(cohort):
        st.info(
            f"Not known of {unknown:,} questions: {plain(title)} cannot select sentences for them, "
            "or wrote a summary. Open one to see why."
        )
    elif not questions and looking.complete(cohort):
        st.info(f"{plain(title)} dropped no evidence in this cohort; all questions are shown.")


def _open_question(instruction: api.Instruction) -> None:
    st.session_state["patient_patient"] = instruction.record_id
    st.session_state["patient_question"] = instruction.id


def _pick_question(
    cohort: api.Cohort,
    name: str,
    record_id: str,
    questions: Sequence[api.Instruction],
    tables: Mapping[str, DroppedEvidence],
    typed: bool,
) -> str:
    """The id of one of the patient's questions, or TYPED; a label says who dropped evidence."""

    def label(one: api.Instruction) -> str:
        text = " ".join(one.question.split())
        if one.id not in cohort.gold:
            return text
        by = [title for title, looking in tables.items() if looking.number(cohort, one)]
        return f"Dropped by {listed(by)} · {text}" if by else text

    titles = {one.id: label(one) for one in questions if one.record_id == record_id}
    if typed:
        titles[TYPED] = "Type a question…"
    return _pick("question", "Question", titles, name)


@st.cache_resource
def _typed_texts() -> dict[str, str]:
    """Token in an address → text that somebody typed; in the server's memory alone."""
    return {}


def _restore_typed() -> None:
    """Take over the typed question that an address names; none where the browser went back."""
    wanted = new_in_url(TYPED)
    if wanted == []:
        st.session_state["patient_typed"] = ""
    if not wanted:
        return
    text = _typed_texts().get(wanted[0])
    st.session_state["patient_question"] = TYPED
    st.session_state["patient_typed"] = text or ""
    if text is None:
        st.info(
            "This address names a typed question, whose text was in memory until the server was "
            "restarted. Type it again; keep it with the cohort for an address that lasts."
        )


def typed_address(name: str, record: api.Record, text: str) -> dict[str, str]:
    """The part of page Patient's address that asks a record of cohort ``name`` a typed question."""
    address = _remember_typed(name, api.typed_question(record, text))
    return {"patient": token(name, record.id), TYPED: address}


def _remember_typed(name: str, instruction: api.Instruction) -> str:
    """The address of a typed question, under which its text is known to this process."""
    texts, address = _typed_texts(), token(name, instruction.id)
    texts.pop(address, None)
    texts[address] = instruction.question
    if len(texts) > MOST_TYPED:
        texts.pop(next(iter(texts)), None)
    return address


def _instruction(
    cohort: api.Cohort, name: str, record: api.Record, question: str
) -> api.Instruction:
    """The instruction asked; one without id and question while none is typed."""
    if question != TYPED:
        write_url(TYPED, [])
        return api.instruction_for(cohort, question)
    text = st.text_input(
        "Your question", key="patient_typed", persist_state="session", max_chars=2000,
        placeholder="For example: when was metformin stopped?",
        help="Held in memory only; the page's address has a code for it, never its text.",
    )  # fmt: skip
    if not text.strip():
        write_url(TYPED, [])
        st.info("Type a question about this record to see what each arm keeps for it.")
        return api.Instruction("", record.id, "")
    instruction = api.typed_question(record, text)
    write_url(TYPED, [_remember_typed(name, instruction)])
    return instruction


def choose() -> Choice:
    """Draw the controls; stops the page with a message where something cannot be read."""
    several = len(state.question_cohorts()) > 1
    places = st.columns([2, 4, 6] if several else [2, 3])
    lower = st.columns([3, 5, 2], vertical_alignment="bottom")
    steps = st.container()
    with places[0]:
        cohort = _pick_cohort()
    key = api.cohort_key(cohort)
    name = cohort.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    patients = cached.patients(key, cohort)
    if not patients:
        st.info("This cohort has no records.")
        st.stop()
    opening.choose(cohort, key)
    with lower[1]:
        arms = _pick_arms()
    with lower[2]:
        protocol, (run, reader), reader_title = _pick_settings(cohort)
    cohort = api.gold_under(cohort, protocol)
    with lower[0]:
        looking = _pick_filter(cohort, key, arms, protocol)
    questions: Sequence[api.Instruction] = cohort.instructions
    if looking is not None:
        questions = _matching(looking, cohort)
        matching = {one.record_id for one in questions}
        patients = {id: label for id, label in patients.items() if id in matching} or patients
    with places[-2]:
        record_id = _pick("patient", "Patient (type to search)", patients, name)
    titles = {name: title for name, title, _ in state.members("arm")}
    tables = {
        titles[arm]: dropped.table(key, arm, protocol) for arm in arms if not chart.is_control(arm)
    }
    for known in tables.values():
        if known.arm not in cached.SLOW:
            known.look_at(cohort, record_id, LOOK_S)
    _restore_typed()
    with places[-1]:
        question = _pick_question(cohort, name, record_id, questions, tables, looking is None)
    if looking is not None:
        with steps:
            _steps(looking, cohort, question)
    try:
        record = cached.record(key, cohort, record_id)
    except MidchartError as error:
        st.error(plain(str(error)), title="This record cannot be read")
        st.stop()
    instruction = _instruction(cohort, name, record, question)
    known = [
        name
        for name, _, problem in state.members("judge")
        if not problem and (instruction.options or name != OPTIONS_JUDGE)
    ]
    judges = tuple(sorted(known, key=lambda name: name != api.default_primary(known)))
    if not arms:
        st.info("Choose at least one arm.")
        st.stop()
    gold = cohort.gold.get(instruction.id)
    return Choice(
        *(key, cohort, record, instruction, gold, arms, reader, judges, protocol, run, reader_title)
    )
