"""The table patients × questions of a run: filters, pages, downloads, and each cell's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from pages.ui import guard, sign_in, state
from pages.ui.patient import cached as patient
from pages.ui.patient import controls
from pages.ui.questions import sets
from pages.ui.runs import panel, picker
from pages.ui.shared import formats, tables
from pages.ui.shared.cache import cached
from pages.ui.shared.marks import plain, visible
from pages.ui.shared.pickers import pick, pick_linked

PAGE = 50
"""Patients shown at a time."""
LONGEST_CELL = 160
SIGNS = {
    "not documented": "– not documented",
    "failed": "failed",
    "not asked yet": "…",
}
"""What a cell shows in place of an answer."""
EVIDENCE = {
    "in the prompt": "✓ evidence kept",
    "cut": "✗ evidence cut",
    "dropped": "✗ evidence dropped",
}
FILTERS = {
    "all patients": lambda cells: pd.Series(True, cells.index),
    "an answer": lambda cells: cells["state"] == "answered",
    "a question not documented": lambda cells: cells["state"] == "not documented",
    "evidence dropped or cut": lambda cells: cells["evidence"].isin(["dropped", "cut"]),
    "evidence marked": lambda cells: cells["evidence"].notna(),
    "a failed answer": lambda cells: cells["state"] == "failed",
}
"""Filter → which cells satisfy it; a patient with one such cell is shown."""


def _marked(run: dict[str, Any]) -> str:
    """The annotations of the cohort's questions, as part of a cache key."""
    return repr([(one.id, one.annotations) for one in api.own_questions(run["data"])])


@cached(
    lambda run, label, reader: state.run_key(run, label, reader, _marked(run)),
    entries=4,
    spinner="Reading the answers",
    shared=True,
)
def _cells(run: dict[str, Any], label: str, reader: str) -> list[dict[str, Any]]:
    return api.answer_cells(run["run"], label, reader)


def section(cohort: str, chosen: api.QuestionSet) -> None:
    """The answers of one of the set's runs."""
    runs = {run["run"]: run for run in sets.runs_of(cohort) if sets.asked(run) == chosen.questions}
    if not runs:
        st.info("This set has not been asked yet.")
        return
    titles = picker.titles(runs.values())
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        run = runs[
            pick_linked("run", "Answers of", list(runs), titles.__getitem__, key="run", width=420)
        ]
        report = api.run_entries(run["run"])
        label = pick("Arm", report["labels"], "set_label")
        reader = pick("Reader of the answers", report["readers"], "set_answers_by")
    if example := panel.example(run["run"]):
        st.caption(formats.sentence(example))
    if state.active(run):
        st.info(
            "This run is not finished: results are partial and are read again when it ends.",
            icon=":material/hourglass_top:",
        )
    elif run["status"] != "done":
        panel.resume(run, "questions")
    cells = _cells(run, label, reader)
    _table(cohort, run, pd.DataFrame(cells, dtype=object), chosen.questions, label, reader)
    _summary(run, cells, chosen.questions)


def _summary(run: dict[str, Any], cells: list[dict[str, Any]], questions: Sequence[str]) -> None:
    rows = pd.DataFrame(api.answer_summary(cells, questions))
    if not rows["evidence marked"].any():
        rows = rows.drop(columns=["evidence marked", "in the prompt", "cut", "dropped"])
    st.header("By question", anchor=False)
    column = {"question": st.column_config.TextColumn(pinned=True, width=380)}
    tables.table(
        rows.rename(columns={"in the prompt": "evidence in prompt"}),
        f"{run['run']}-questions",
        "How many patients have an answer to each question",
        columns=column,
    )


def _table(
    cohort: str,
    run: dict[str, Any],
    cells: pd.DataFrame,
    questions: Sequence[str],
    label: str,
    reader: str,
) -> None:
    st.header("Patients × questions", anchor=False)
    numbers = list(range(len(questions)))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        columns = st.multiselect(
            "Questions shown", numbers, format_func=lambda i: f"{i + 1}. {visible(questions[i])}",
            key="set_columns", placeholder="all", persist_state="page", width=360,
        ) or numbers  # fmt: skip
        rule = st.selectbox("Patients with", list(FILTERS), key="set_filter", width=240)
        words = st.text_input(
            "Find in patient ids and answers", key="set_find", max_chars=200, width=260
        )
    shown = cells[cells["question"].isin(columns)]
    wanted = FILTERS[rule](shown)
    if words.strip():
        text = shown["record"].astype(str) + "\n" + shown["answer"].fillna("")
        wanted &= text.str.contains(words.strip(), case=False, regex=False)
    everyone = list(dict.fromkeys(shown["record"]))
    matching = set(shown.loc[wanted, "record"])
    records = [record for record in everyone if record in matching]
    if not records:
        st.info("No patient matches. Change the filters to see others.")
        return
    pages = -(-len(records) // PAGE)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        number = int(
            st.number_input("Page", 1, pages, key="set_page", width=130) if pages > 1 else 1
        )
        st.caption(
            f"{len(records):,} of {len(everyone):,} patients"
            + (f", {PAGE} a page ({pages} pages)" if pages > 1 else "")
            + ". Select a cell to open the patient at the source sentence."
        )
    on_page = records[(number - 1) * PAGE : number * PAGE]
    part = shown[shown["record"].isin(on_page)]
    wide = _wide(part, on_page, columns)
    selected = st.dataframe(
        tables.visible_frame(wide),
        hide_index=True,
        column_config={
            "patient": st.column_config.TextColumn(pinned=True, width=130),
            **{
                name: st.column_config.TextColumn(
                    f"{i + 1}. {visible(questions[i])}", help=plain(questions[i]), width=260
                )
                for name, i in zip(wide.columns[1:], columns, strict=True)
            },
        },
        key=f"set_table_{run['run']}_{number}",
        on_select="rerun",
        selection_mode="single-cell",
        height=min(38 + 35 * len(wide), 640),
        alt="Answers, a row a patient and a column a question",
    )
    _downloads(
        run, cells[cells["record"].isin(matching) & cells["question"].isin(columns)], questions
    )
    picked = selected["selection"]["cells"]
    if picked:
        row, column = picked[0]
        record = on_page[row]
        question = (
            columns[list(wide.columns[1:]).index(column)] if column != "patient" else columns[0]
        )
        cell = part[(part["record"] == record) & (part["question"] == question)].iloc[0]
        open_source(cohort, run, record, questions[question], cell["event"], label, reader)


def _wide(cells: pd.DataFrame, records: Sequence[str], columns: Sequence[int]) -> pd.DataFrame:
    """A row a patient in the order of ``records``, a column a question, each cell its text."""
    texts = cells.assign(text=[cell_text(row) for row in cells.to_dict("records")])
    wide = texts.pivot(index="record", columns="question", values="text").reindex(records)
    wide = wide[list(columns)].rename(columns=lambda number: f"q{number + 1}")
    return wide.rename_axis("patient", axis=0).rename_axis(None, axis=1).reset_index()


def cell_text(cell: Mapping[str, Any]) -> str:
    """What a cell shows: the answer or why there is none, and where marked evidence is."""
    answer = " ".join(str(cell["answer"] or "").split()) if cell["state"] == "answered" else ""
    text = SIGNS.get(cell["state"], answer)
    if len(text) > LONGEST_CELL:
        text = text[: LONGEST_CELL - 1] + "…"
    evidence = cell["evidence"]
    return f"{EVIDENCE[evidence]} · {text}" if evidence in EVIDENCE else text


def _downloads(run: dict[str, Any], cells: pd.DataFrame, questions: Sequence[str]) -> None:
    rows, name = cells.to_dict("records"), f"{run['run']}-answers.csv"
    st.download_button(
        "CSV", sign_in.later(api.download, name, partial(api.answers_csv, rows, questions)), name,
        "text/csv", key="set_csv", type="tertiary", icon=":material/download:", on_click="ignore",
        help="A row a patient and question, as filtered, all pages. It contains text of records.",
    )  # fmt: skip


def open_source(
    cohort: str,
    run: dict[str, Any],
    record: str,
    question: str,
    event: Any,
    label: str,
    reader: str,
) -> None:
    """Open page Patient with the answer of a finished run, at its source where there is one."""
    opened = api.open_data(cohort)
    about = opened.records[record]
    known = {i.question: i for i in opened.instructions if i.record_id == record}
    instruction = known.get(question) or api.typed_question(about, question)
    st.session_state["patient_patient"] = record
    st.session_state["patient_question"] = instruction.id if question in known else controls.TYPED
    st.session_state["patient_typed"] = question
    st.session_state["patient_dropped"] = controls.ALL
    arm = label.split(" ")[0]
    others = [name for name in patient.DEFAULT_ARMS if name != arm]
    st.session_state["patient_arms"] = [arm, *others][: patient.MOST_ARMS]
    of_run = run["status"] == "done" and question not in known
    st.session_state["patient_reader"] = (
        (run["run"], reader) if of_run else ("", reader.split(" ")[0])
    )
    if not pd.isna(event):
        patient.open_at(patient.EVENT, about, instruction, int(event))
    guard.go("patient", cohort=cohort)
