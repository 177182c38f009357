"""Down to one question: where arms part ways, and every arm's context, answer and verdict abreast.

Questions are told in the URL by a token, not by their id. All text of a record, of an answer and
of a question goes through :mod:`pages.ui.marks` or stands in a cell of a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from pages.ui import arms_view, beside, choose, navigation, results, state, tables, theme

WORDS = {
    "correct": "✓ right",
    "incorrect": "✗ wrong",
    "unparsed": "? unparsed",
    "failed": "– failed",
}
"""An outcome in the table of questions: a sign and a word, no colour."""


def questions(run: dict[str, Any]) -> None:
    """The questions of a run, all or only where arms differ; one of them in full below."""
    verdicts = state.outcomes(run)
    if verdicts.empty:
        st.info("This run has no judged answers yet.")
        return
    cohort = api.open_data(run["data"])
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        reader, judge = arms_view.reader_and_judge(verdicts)
        only = st.toggle("Only where arms differ", value=True, key="differ", bind="query-params")
    rows = results.where(verdicts, reader=reader, judge=judge)
    if only:
        rows = rows[rows["instruction"].isin(state.different(run, reader, judge))]
    if rows.empty:
        st.info("The arms agree on every question. Switch the filter off to see them all.")
        return
    frame = outcome_table(rows, cohort)
    tokens = {choose.token(run["run"], i): i for i in frame.pop("instruction")}
    order = list(tokens)

    def pick() -> None:
        picked = st.session_state["table_questions"]["selection"]["rows"]
        if picked:
            st.session_state["asked"] = order[picked[0]]

    st.caption(
        f"{len(frame):,} of {verdicts['instruction'].nunique():,} questions. "
        "Choose a row to see it in full below."
    )
    tables.table(
        frame,
        "questions",
        "Questions with each arm's outcome by the chosen judge",
        columns={"question": st.column_config.TextColumn(width="large", pinned=True)},
        height="content" if len(frame) <= 15 else "auto",
        on_select=pick,
        selection_mode="single-row",
    )
    if st.session_state.get("asked") not in tokens:
        st.session_state.pop("asked", None)
    asked = st.selectbox(
        "Question in full",
        order,
        key="asked",
        bind="query-params",
        width=320,
        help="The code stands for a question of this run; it means nothing elsewhere.",
    )
    one(run, cohort, tokens[asked])


def outcome_table(rows: pd.DataFrame, cohort: api.Cohort) -> pd.DataFrame:
    """Questions down, arms to the right; each cell an outcome in a word."""
    asked = {i.id: i for i in cohort.instructions}
    wide = rows.assign(
        outcome=rows["outcome"].map(WORDS), label=rows["label"].map(results.label)
    ).pivot(index="instruction", columns="label", values="outcome")
    wide = wide[[results.label(name) for name in results.choices(rows, "label")]]
    bands = rows.drop_duplicates("instruction").set_index("instruction")["band"]
    wide.insert(0, "position", bands)
    wide.insert(
        0,
        "question",
        [asked[i].question if i in asked else "(not in the cohort)" for i in wide.index],
    )
    return wide.reset_index()


def one(run: dict[str, Any], cohort: api.Cohort, instruction: str) -> None:
    """One question: reference, evidence, and the chosen arms side by side."""
    held = api.item(run["run"], instruction)
    asked = api.instruction_for(cohort, instruction)
    gold = cohort.gold.get(instruction)
    record = cohort.records[asked.record_id]
    protocol = api.parse(state.report(run)["protocol"])
    labels = list(dict.fromkeys(row["label"] for row in held["arms"]))
    shown = st.pills(
        "Arms side by side",
        labels,
        selection_mode="multi",
        default=theme.leading(labels, 3),
        format_func=results.label,
        key="abreast",
        persist_state="session",
    )
    st.html(beside.question(asked, gold, held["band"]))
    chosen = [row for row in held["arms"] if row["label"] in shown]
    st.html(beside.arms(chosen, record, gold, protocol))
    name = Path(run["data"]).name
    with st.container(horizontal=True):
        navigation.link(
            "patient",
            "Open this question on the Patient page",
            icon=":material/clinical_notes:",
            query_params={
                "cohort": name,
                "patient": choose.token(name, record.id),
                "question": choose.token(name, instruction),
            },
        )
    with st.expander("The prompts, word for word", on_change="rerun", key="prompts") as prompts:
        if prompts.open:
            for row in chosen:
                st.caption(f"{results.label(row['label'])}, {row['reader']}")
                st.html(beside.prompt(row))
