"""Question sets of a cohort: saved, chosen, removed, asked of every patient."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state
from pages.ui.runs import panel
from pages.ui.shared import reader_rates
from pages.ui.shared.cache import cached
from pages.ui.shared.marks import plain
from pages.ui.shared.pickers import pick_linked
from pages.ui.sign_in import lacking

EXAMPLE = "Does the patient smoke?\nWhich allergies are documented?\nWhen was warfarin stopped?"
SLOW_ARMS = frozenset({"map_reduce", "llmlingua2", "oracle"})
"""Arms that are not offered: they need a reader, a download or marked evidence."""


@cached(lambda run: run["run"], entries=256)
def asked(run: dict[str, Any]) -> tuple[str, ...]:
    """The question set that a run asks; none in a run of other questions."""
    return api.asked_questions(run["run"])


def runs_of(cohort: str) -> list[dict[str, Any]]:
    """The runs that ask a question set of this cohort's patients, newest first."""
    path = api.open_data(cohort).path
    return [run for run in state.runs(("answers",)) if run["data"] == path and asked(run)]


def choose(cohort: str) -> api.QuestionSet | None:
    """The question set chosen on this page; None where the cohort has none.

    Saved sets come first, then those that only an imported run asks, under the run's id.
    """
    sets = {one.id: one for one in api.question_sets(cohort)}
    known = {one.questions for one in sets.values()}
    for run in runs_of(cohort):
        if run["imported"] and asked(run) not in known:
            known.add(asked(run))
            unsaved = api.QuestionSet(run["run"], run["name"], asked(run), "", run["created"])
            sets[run["run"]] = unsaved
    if not sets:
        return None
    id = pick_linked(
        "set", "Question set", list(sets), lambda id: _title(sets[id]), key="question_set",
        width=420,
    )  # fmt: skip
    return sets[id]


def forms(cohort: str, chosen: api.QuestionSet | None) -> None:
    """The form for a new question set, and the questions of the chosen one."""
    problem = lacking("save_question_set")
    with st.expander("New question set", icon=":material/playlist_add:", expanded=chosen is None):
        if problem:
            st.caption(problem)
        else:
            _new(cohort)
    if chosen is not None:
        with st.expander(f"{len(chosen.questions)} questions", icon=":material/list:"):
            st.markdown("\n".join(f"{i}. {plain(q)}" for i, q in enumerate(chosen.questions, 1)))
            if not chosen.by:
                st.caption(plain(f"Not saved with the cohort; asked by run {chosen.id}."))
                return
            st.caption(plain(f"Saved by {chosen.by} on {chosen.time[:10]}."))
            st.button(
                "Remove this set from the list", key="set_remove", icon=":material/delete:",
                on_click=_remove, args=(cohort, chosen.id), disabled=bool(problem),
                help=problem or "Its runs and answers stay.",
            )  # fmt: skip


def _title(questions: api.QuestionSet) -> str:
    return f"{questions.name} · {len(questions.questions)} questions"


def _new(cohort: str) -> None:
    """The form: questions typed, pasted or from a file, and the name of the set."""
    st.write(
        "One question a line; or a file: text, JSON, or a table (TSV, CSV) with a column "
        "`question`. The set is saved with the cohort, in its private folder."
    )
    left, right = st.columns([3, 2])
    with left:
        typed = st.text_area(
            "Questions", key="set_typed", placeholder=EXAMPLE, height=160, persist_state="session"
        )
    with right:
        file = st.file_uploader(
            "or a file of questions", type=["txt", "tsv", "csv", "json"], key="set_file",
            max_upload_size=1,
        )  # fmt: skip
        name = st.text_input("Name of the set", key="set_name", max_chars=80)
    problem = st.session_state.pop("set_problem", "")
    if problem:
        st.error(plain(problem))
    st.button(
        "Save the question set", key="set_save", icon=":material/save:",
        disabled=not name.strip() or not (typed.strip() or file),
        on_click=_save, args=(cohort, name, file.getvalue() if file else typed),
    )  # fmt: skip


def _save(cohort: str, name: str, content: bytes | str) -> None:
    try:
        id = api.save_question_set(cohort, name, api.read_questions(content))
    except MidchartError as error:
        st.session_state["set_problem"] = str(error)
    else:
        st.session_state["question_set"] = id
        st.session_state["set_typed"] = st.session_state["set_name"] = ""


def _remove(cohort: str, id: str) -> None:
    try:
        api.withdraw_question_set(cohort, id)
    except MidchartError as error:
        st.session_state["set_problem"] = str(error)


def ask(cohort: str, chosen: api.QuestionSet) -> None:
    """Start a run that asks every patient."""
    patients = len(api.open_data(cohort).records)
    arms = {
        name: title
        for name, title, problem in state.members("arm")
        if not problem and name not in SLOW_ARMS
    }
    readers = reader_rates.installed()
    with st.container(border=True):
        left, middle, right = st.columns([2, 2, 2], vertical_alignment="bottom")
        with left:
            names = st.multiselect(
                "Arms (each selects what the reader sees)", list(arms), default=["bm25"],
                format_func=arms.__getitem__, key="set_arms", persist_state="session",
            )  # fmt: skip
        with middle:
            reader = st.selectbox(
                "Reader", list(readers), format_func=readers.__getitem__, key="set_reader",
                persist_state="session",
            )  # fmt: skip
        answers = patients * len(chosen.questions) * len(names)
        with right:
            panel.button(
                f"Ask all {patients:,} patients ({answers:,} answers)", "set_ask", "enqueue",
                _start, cohort, chosen, names, reader, disabled=not names, type="primary",
                icon=":material/play_arrow:",
            )  # fmt: skip
        reader_rates.caption(reader)
        st.caption("Nothing leaves this machine. Closing the page does not stop the run.")


def _start(cohort: str, chosen: api.QuestionSet, arms: list[str], reader: str) -> None:
    path = api.open_data(cohort).path
    spec = api.question_set_spec(path, chosen.name, chosen.questions, arms, reader)
    st.session_state["run"] = api.enqueue(spec)
