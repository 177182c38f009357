"""User questions on page Patient: keep, answer, withdraw; evidence is marked in the record.

The section is a fragment: an answer draws it alone. What answers and marks change on the rest of
the page is shown when the reader of the page asks for it.
"""

from __future__ import annotations

from functools import partial

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.sign_in import lacking, later

PREFIX = "own-"
ANNOTATOR = "annotator"


def is_own(choice: Choice) -> bool:
    """Whether the question is one that people keep with the cohort."""
    return choice.instruction.id.startswith(PREFIX)


def section(choice: Choice) -> None:
    """Of a typed question the button that keeps it, of a kept one its answer and evidence; and how
    often the reader is wrong."""
    if is_own(choice):
        _edit(choice)
    elif choice.instruction.id.startswith("typed-"):
        _keep_button(choice)


def _keep_button(choice: Choice) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Keep this question", icon=":material/bookmark_add:", key="own_keep",
            on_click=_keep, args=(choice,), disabled=bool(lacking(api.keep_question)),
            help=lacking(api.keep_question) or None,
        )  # fmt: skip
        st.caption("Saved with the cohort: mark its evidence and answer, then runs judge by it.")
    problem = st.session_state.pop("own_problem", "")
    if problem:
        st.error(for_screen(problem))


def _keep(choice: Choice) -> None:
    question = choice.instruction.question
    try:
        id = api.keep_question(choice.cohort.path, choice.record.id, question, annotator())
    except MidchartError as error:
        st.session_state["own_problem"] = str(error)
    else:
        st.session_state["patient_question"] = id


def annotator() -> str:
    """The code of the person who marks; "" for the account."""
    return str(st.session_state.get(ANNOTATOR) or "")


@st.fragment
def _edit(choice: Choice) -> None:
    """Answer and evidence of a kept question, editable."""
    if st.session_state.pop("own_results", False):
        st.rerun(scope="app")
    question = api.own_question(choice.cohort.path, choice.instruction.id)
    with st.expander(
        "Your question: answer and evidence", icon=":material/edit_note:", expanded=True
    ):
        if problem := lacking(api.mark_evidence):
            st.caption(problem)
        try:
            _answer(choice, question)
            _actions(choice, question)
            _others(choice, question)
        except MidchartError as error:
            st.error(for_screen(str(error)))


def _own_answer(question: api.KeptQuestion, by: str) -> tuple[str, bool, tuple[api.Span, ...]]:
    """An annotator's answer, whether there is one in the chart, and the marked spans."""
    names = list(question.annotations)
    by = by or next((n for n in names if n == question.by), names[0] if names else "")
    annotation = question.annotations.get(by)
    return (
        (annotation.answer, annotation.documented, annotation.spans)
        if annotation
        else ("", True, ())
    )


def _answer(choice: Choice, question: api.KeptQuestion) -> None:
    answer, documented, _ = _own_answer(question, annotator())
    shown = for_terminal(answer)
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    with right:
        st.text_input(
            "Annotator", key=ANNOTATOR, max_chars=32, placeholder="your account",
            persist_state="session", help="A code such as 'reviewer-2' where several people mark.",
        )  # fmt: skip
    with left:
        absent = st.checkbox("Not documented in this chart", not documented, key=_key("none"))
        written = st.text_input(
            "Reference answer", shown, key=_key("answer"), max_chars=10_000, disabled=absent
        )
    text = answer if written == shown else written
    if absent == documented or (not absent and text.strip() != answer):
        api.answer_question(choice.cohort.path, question.id, text, not absent, annotator())
        st.rerun(scope="fragment")


def _key(name: str) -> str:
    return f"own_{name}_{annotator()}"


def marked_spans(choice: Choice, by: str) -> tuple[api.Span, ...]:
    """What an annotator has marked as the question's evidence."""
    return _own_answer(api.own_question(choice.cohort.path, choice.instruction.id), by)[2]


def _actions(choice: Choice, question: api.KeptQuestion) -> None:
    st.caption("Mark its evidence in the record below: click the sentences that hold it.")
    with st.container(horizontal=True):
        st.button(
            "Show what the arms kept of it", type="primary", key="own_show",
            icon=":material/refresh:", on_click=_show_results,
        )  # fmt: skip
        table = partial(api.questions_table, choice.cohort.path)
        st.download_button(
            "Own questions (MedAlign TSV)",
            later(api.download, "own_questions.tsv", table), "own_questions.tsv",
            "text/tab-separated-values", key="own_table", on_click="ignore",
            icon=":material/download:",
        )  # fmt: skip
        st.button(
            "Withdraw this question", type="tertiary", key="own_withdraw", on_click=_withdraw,
            args=(choice, question.id),
        )  # fmt: skip


def _withdraw(choice: Choice, id: str) -> None:
    try:
        api.withdraw_question(choice.cohort.path, id, annotator())
    except MidchartError as error:
        st.session_state["own_problem"] = str(error)
        return
    st.session_state.pop("patient_question", None)
    _show_results()


def _show_results() -> None:
    st.session_state["own_results"] = True


def _others(choice: Choice, question: api.KeptQuestion) -> None:
    """Agreement with the other annotators, disagreements first."""
    rows = [
        row
        for row in api.marking_agreement(choice.cohort.path, choice.protocol)
        if row["id"] == question.id
    ]
    by_id = {unit.id: unit for unit in api.sentences(choice.record, choice.protocol)}
    for row in rows:
        kappa = "not defined" if row["kappa"] is None else f"{row['kappa']:.2f}"
        st.markdown(
            for_screen(
                f"{row['first']} and {row['second']}: {row['both']} sentences marked by both, "
                f"{len(row['disagreements'])} by one only; Cohen's kappa {kappa}."
            )
        )
        for sentence in row["disagreements"]:
            st.caption(for_screen(f"Disagreement: {by_id[sentence].text[:300]}"))
