"""The Patient page's controls: the question above the answer, all others in the sidebar, and rarely
used settings in the drawer at the page's end.

The URL holds opaque tokens only: Streamlit would write a bound selectbox's label there, and these
labels contain ages and questions. Of a typed question too the URL has a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.patient import model
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import (
    known_in_url,
    new_in_url,
    pick_linked,
    pick_several,
    segments,
    token,
    write_url,
)

TYPED = "typed"
"""The option "type a question" among the cohort's own questions."""
OPTIONS_JUDGE = "choice"
"""The judge of questions with options; it fails on all others."""
PATIENT = "Patient (type to search)"
LISTED_PATIENTS = 500
"""Patients that are listed at once; a list of all patients of a large cohort takes seconds."""
MOST_TYPED = 1000
"""Typed questions that addresses can name at once."""


def _pick(name: str, label: str, titles: Mapping[str, str], cohort: str, **extra: Any) -> str:
    """One of the keys of ``titles``; in the URL as a token, but for :data:`TYPED`."""
    return pick_linked(
        name, label, titles, key=f"patient_{name}", unlinked=TYPED,
        token=lambda option: token(cohort, option), **extra,
    )  # fmt: skip


def _known(name: str, options: Iterable[str], cohort: str, present: str) -> None:
    """Stop the page where its address names another patient or question."""
    if not new_in_url(name):
        return
    ids = [option for option in options if option != TYPED]
    known_in_url(name, {*ids, *(token(cohort, id) for id in ids)}, name, present)


def _pick_cohort() -> tuple[str, api.Cohort]:
    names = state.question_cohorts()
    if not names:
        for name, _, problem in state.cohorts():
            if problem:
                st.error(for_screen(problem), title=f"Cohort {for_screen(name)} cannot be opened")
            else:
                st.info(
                    f"{for_screen(name)} has labels to forecast but no questions about records."
                )
        st.stop()
    known_in_url(
        "cohort", names, "cohort with questions named", f"there are {api.names_in_words(names)}."
    )
    with st.sidebar:
        name = state.pick_cohort() if len(names) > 1 else names[0]
    try:
        return state.opened(name)
    except MidchartError as error:
        st.error(for_screen(str(error)), title="This cohort cannot be read")
        st.stop()


def _readers(cohort: api.Cohort) -> dict[str, str]:
    """RUN:READER → title: the readers that can answer now (run ""), and those of the cohort's
    finished runs, whose answers are there."""
    titles = state.titles("reader")
    readers = {f":{name}": title for name, title in state.installed_readers().items()}
    for run in state.answered_on(cohort):
        for label in api.answered_by(run["run"]):
            name, _, options = label.partition(" ")
            words = (titles.get(name, name), options, f"of run {run['name']}")
            readers[f"{run['run']}:{label}"] = " ".join(filter(None, words))
    return readers


def _pick_reader(cohort: api.Cohort) -> tuple[str, str, str]:
    """The run (or "") and the name of a reader, and its title; a link shows the same answers."""
    readers = _readers(cohort) or {":": ""}
    chosen = pick_linked(
        "reader", "Reader", readers, key=READER,
        help="Answers of a finished run are shown where its arm kept the same sentences.",
    )  # fmt: skip
    run, _, reader = chosen.partition(":")
    return run, reader, readers[chosen]


READER = "patient_reader"


def _pick_protocol(drawer: DeltaGenerator) -> api.Protocol:
    """The protocol: k here, preset and unit in the drawer."""
    with drawer, st.container(horizontal=True, gap="medium"):
        preset = segments(
            "Protocol", list(api.PRESETS), "preset", width="content",
            help="corrected: recommended settings. published: the settings of the paper's run.",
        )  # fmt: skip
        base = api.PRESETS[preset]
        units = ["preset default", "sentence", "event"]
        by = f"The {preset} protocol selects by {base.unit}."
        unit = segments("Unit of selection", units, "unit", help=by, width="content")
    k = st.number_input(
        "k, units kept by score", 0, 10_000, base.k, key="k", bind="query-params",
        help=f"Each arm keeps these in addition to the {base.recency} most recent events.",
    )  # fmt: skip
    changes = {"preset": preset, "k": int(k)}
    if unit != units[0]:
        changes["unit"] = unit
    return api.parse(changes)


def _pick_arms() -> tuple[str, ...]:
    titles = state.titles("arm")
    chosen = pick_several(
        "arms", "Arms (up to four)", list(titles), titles.__getitem__, key="patient_arms",
        default=[name for name in model.DEFAULT_ARMS if name in titles],
        max_selections=model.MOST_ARMS,
        help="Arms select what the reader sees. Dense arms take some seconds on a new record.",
    )  # fmt: skip
    return tuple(chosen)


def _pick_patient(patients: Mapping[str, str], cohort: str) -> str:
    """One of the patients (id → label); of a large cohort the list holds some of them, and the
    field above it lists others."""
    if len(patients) <= LISTED_PATIENTS:
        return _pick("patient", PATIENT, patients, cohort)
    words = st.text_input(
        "Find a patient", key="patient_find", max_chars=100, persist_state="session",
        placeholder="part of the id", help="Held in memory only; not in the page's address.",
    ).strip().casefold()  # fmt: skip
    matching = [id for id, label in patients.items() if words in label.casefold()]
    present = [_linked_patient(patients, cohort), st.session_state.get("patient_patient")]
    first = next((id for id in present if id in patients), next(iter(patients)))
    shown = dict.fromkeys([first, *matching[:LISTED_PATIENTS]])
    chosen = _pick("patient", PATIENT, {id: patients[id] for id in shown}, cohort)
    more = len(matching) - LISTED_PATIENTS
    if more > 0:
        of = f"of {len(patients):,}" if not words else f"of {len(matching):,} found"
        st.caption(
            f"The first {LISTED_PATIENTS:,} {of} patients are listed; {more:,} more: type a part "
            "of the id."
        )
    elif words:
        st.caption(f"{api.counted(len(matching), 'patient')} of {len(patients):,} found.")
    return chosen


def _linked_patient(patients: Mapping[str, str], cohort: str) -> str | None:
    wanted = new_in_url("patient")
    if not wanted:
        return None
    return next((id for id in patients if wanted[0] in (id, token(cohort, id))), None)


def _pick_question(cohort: api.Cohort, name: str, record_id: str, arms: tuple[str, ...]) -> str:
    """The id of one of the patient's questions, those with located evidence first, or TYPED."""
    offered = [one for one in cohort.instructions if one.record_id == record_id]
    there = f"this patient has {len(offered)} questions; choose one on page Patient."
    _known("question", [one.id for one in offered], name, there)
    located = {id for one in offered if (gold := cohort.gold.get(id := one.id)) and gold.spans}
    offered.sort(key=lambda one: one.id not in located)
    dots = _dots(cohort, [one.id for one in offered], arms)
    titles = {
        one.id: f"{dots.get(one.id, '')} {' '.join(one.question.split())}".strip()
        for one in offered
    }
    titles[TYPED] = "Type a question…"
    if not offered:
        return TYPED
    st.session_state.setdefault("patient_question", offered[0].id)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown("**Questions**")
        order = list(titles)
        for label, step, icon in (
            ("Previous question", -1, ":material/arrow_upward:"),
            ("Next question", 1, ":material/arrow_downward:"),
        ):
            st.button(
                "", icon=icon, help=label, key=f"patient_step_{step}", on_click=_step,
                args=(order, step), type="tertiary", disabled=len(order) < 2,
            )  # fmt: skip
    chosen = _pick(
        "question", "Question", titles, name, label_visibility="collapsed",
        below=len(titles) <= MOST_BELOW,
    )  # fmt: skip
    if dots:
        named = api.names_in_words([api.title("arm", arm) for arm in arms])
        st.caption(f"● right, ○ wrong, – not judged in the newest run, under {named}.")
    return chosen


MOST_BELOW = 16
"""Questions that are listed below each other; more are in a menu."""


def _step(order: list[str], step: int) -> None:
    now = st.session_state.get("patient_question")
    at = order.index(now) if now in order else 0
    st.session_state["patient_question"] = order[(at + step) % len(order)]


_DOTS = {"correct": "●", "incorrect": "○"}


def _dots(cohort: api.Cohort, asked: list[str], arms: tuple[str, ...]) -> dict[str, str]:
    """Question → a dot for the verdict under each arm, of the newest finished run that asks one."""
    for run in state.answered_on(cohort):
        verdicts = _verdicts(run)
        dots = {
            id: "".join(_DOTS.get(verdicts[id].get(arm, ""), "–") for arm in arms)
            for id in asked
            if id in verdicts
        }
        if dots:
            return dots
    return {}


def _verdicts(run: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Question → arm → the outcome by the primary judge, of the run's first reader."""
    asked = api.answered_by(run["run"])[0], api.primary_judge(run["run"])
    table: dict[str, dict[str, str]] = {}
    for row in state.of_run(run, api.outcomes, *asked):
        table.setdefault(row["instruction"], {})[row["label"]] = row["outcome"]
    return table


@st.cache_resource
def _typed_texts() -> dict[str, str]:
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
    cohort: api.Cohort, name: str, record: api.Record, question: str, top: DeltaGenerator
) -> api.Instruction:
    """The instruction asked; one without id and question while none is typed."""
    if question != TYPED:
        write_url(TYPED, [])
        return api.instruction_for(cohort, question)
    text = top.text_input(
        "Your question", key="patient_typed", persist_state="session", max_chars=2000,
        placeholder="Type a question about this record. For example: when was metformin stopped?",
        help="Held in memory only; the page's address has a code for it, never its text.",
    )  # fmt: skip
    if not text.strip():
        write_url(TYPED, [])
        return api.Instruction("", record.id, "")
    instruction = api.typed_question(record, text)
    write_url(TYPED, [_remember_typed(name, instruction)])
    return instruction


def choose(
    top: DeltaGenerator, bench: DeltaGenerator, drawer: DeltaGenerator
) -> tuple[Choice, DeltaGenerator, DeltaGenerator]:
    """Draw the controls: a typed question at the ``top``, the record's own in the first column of
    the ``bench``, rarely used ones in ``drawer``, the others in the sidebar; stops the page with a
    message where something cannot be read. Gives the choice and the bench's other columns.

    A question that the chosen run does not ask is answered by the run's reader now, if it is
    installed. On a narrow screen the columns are below each other.
    """
    key, cohort = _pick_cohort()
    place = st.sidebar.container()
    name = cohort.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    patients = model.patients(key, cohort)
    if not patients:
        st.info("This cohort has no records.")
        st.stop()
    many = f"cohort {name} has {len(patients):,} patients; choose one on page Patient."
    _known("patient", patients, name, many)
    _open_first(cohort, key)
    with st.sidebar:
        navigation.link("data", "Import a cohort", icon=":material/upload_file:")
        arms = _pick_arms()
        run, reader, reader_title = _pick_reader(cohort)
        protocol = _pick_protocol(drawer)
    cohort = api.gold_under(cohort, protocol)
    with place:
        record_id = _pick_patient(patients, name)
    asked = any(one.record_id == record_id for one in cohort.instructions)
    *left, middle, right = bench.columns((5, 12, 7) if asked else (15, 8), gap="medium")
    with left[0] if left else top:
        try:
            record = model.record(key, cohort, record_id)
        except MidchartError as error:
            st.error(for_screen(str(error)), title="This record cannot be read")
            st.stop()
        _restore_typed()
        question = _pick_question(cohort, name, record_id, arms)
        instruction = _instruction(cohort, name, record, question, top)
    judges = [
        one for one in state.installed_judges() if instruction.options or one != OPTIONS_JUDGE
    ]
    if not arms:
        st.info("Choose at least one arm.")
        st.stop()
    about = key, cohort, record, instruction, cohort.gold.get(instruction.id)
    choice = Choice(*about, arms, reader, tuple(judges), protocol, run, reader_title)
    installed, name = state.installed_readers(), reader.partition(" ")[0]
    if run and instruction.question and not model.in_run(choice) and name in installed:
        choice = replace(choice, run="", reader=name, reader_title=installed[name])
    return choice, middle, right


# The question that the page opens on: one from the middle of a record that was answered wrongly,
# so that what is lost there is seen at once.


OPENED = "patient_opened"
"""Session key: the cohort's key, the question that the page chose, and why."""
_NO_GOLD = api.Gold("", "")
NO_WRONG_ANSWER = (
    "No finished run on this cohort has a wrong answer to a question from the middle of a record: "
    "the first question with located evidence is shown."
)


def _open_first(cohort: api.Cohort, key: str) -> None:
    """Choose patient and question where neither the address nor this session names one."""
    named = any(name in st.query_params for name in ("patient", "question", "typed"))
    patient = st.session_state.get("patient_patient")
    if named or patient in cohort.records or st.session_state.get(OPENED, ("",))[0] == key:
        return
    question, why = _of_runs(cohort)
    if not question:
        located = (one.id for one in cohort.instructions if cohort.gold.get(one.id, _NO_GOLD).spans)
        question = next(located, "")
    if question:
        record = next(one.record_id for one in cohort.instructions if one.id == question)
        st.session_state["patient_patient"] = record
        st.session_state["patient_question"] = question
    st.session_state[OPENED] = (key, question, why)


def _of_runs(cohort: api.Cohort) -> tuple[str, str]:
    """The id of the question by the newest finished run that has one, and why; "" where none has.

    Sets the reader: one that answers at once where the run has it, else the run's.
    """
    known = {one.id for one in cohort.instructions}
    arms = tuple(name for name in model.DEFAULT_ARMS if model.is_method(name))
    for run in state.answered_on(cohort):
        answered = api.answered_by(run["run"])
        # Of a slow reader the run's own answers are shown, which are there at once.
        quick = [name for name in state.installed_readers() if name in model.QUICK_READERS]
        live = [name for name in quick if name in answered]
        for reader in live or answered:
            rows = [
                row
                for row in state.of_run(run, api.wrong_in_the_middle, reader, arms)
                if row["instruction"] in known
            ]
            if rows:
                st.session_state[READER] = f"{'' if live else run['run']}:{reader}"
                why = (
                    "Opened on a question from the middle of its record that the run "
                    f"{run['name']} answered wrongly under {rows[0]['wrong']} of {len(arms)} arms; "
                    f"it has {len(rows):,} such questions."
                )
                return rows[0]["instruction"], why
    return "", NO_WRONG_ANSWER


def why_opened(instruction: api.Instruction, key: str) -> str:
    """Why this question is shown, while it is the one that the page chose; else ""."""
    opened, question, words = st.session_state.get(OPENED, ("", "", ""))
    return words if opened == key and instruction.id == question else ""
