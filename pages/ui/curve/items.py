"""The items of a needle run behind a number: those of a cell, a point or an arm, one in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state
from pages.ui.arms import questions
from pages.ui.shared import results
from pages.ui.shared.formats import missing
from pages.ui.shared.marks import plain
from pages.ui.shared.pickers import new_in_url, write_url

CELL, ITEM = "needle_cell", "needle_item"
NUMBERS = ("length", "depth", "distractors")
WORDS = {"length": "{:,} tokens", "depth": "depth {} %", "distractors": "{} distractors"}


def show(**cell: Any) -> None:
    """Show the items of a cell, from the next drawing of the page on."""
    st.session_state[CELL] = {
        name: int(value) if name in NUMBERS else value
        for name, value in cell.items()
        if not missing(value)
    }
    st.session_state[ITEM] = questions.LIST


def section(run: dict[str, Any], by: Mapping[str, str]) -> None:
    """The items of the chosen cell of this arm, reader and judge; nothing before one is chosen."""
    _restore(run)
    cell = st.session_state.get(CELL)
    if not cell:
        st.caption("Click a number or a marker to read the items behind it.")
        return
    wanted = {**by, **cell}
    st.header("Items behind this number", anchor=False)
    words = [WORDS[name].format(cell[name]) for name in NUMBERS if name in cell]
    words += [f"fact: {cell['fact']}"] if "fact" in cell else []
    where = ", ".join([api.title("arm", wanted["label"]), *words])
    st.write(plain(where))
    st.button("Close", key="needle_close", icon=":material/close:", on_click=show)
    rows = pd.DataFrame(api.needle_items(run["run"], **wanted))
    if rows.empty:
        st.info("No item of this run is in this cell.")
        return
    try:
        cohort = state.cohort_of(run)
    except MidchartError as error:
        st.error(plain(str(error)), title="The items cannot be read")
        return
    instructions = list(rows["instruction"])
    frame = pd.DataFrame(
        {
            "question": questions.question_texts(cohort, instructions),
            "fact": rows["fact"],
            **{name: rows[name] for name in NUMBERS},
            "outcome": [questions.OUTCOMES.get(one, one) for one in rows["outcome"]],
            "evidence in the prompt": rows["evidence_in_prompt"].map({True: "yes", False: "no"}),
        }
    )
    chosen = questions.choose_question(
        run["run"], frame, instructions, ("needle_items", ITEM), f"Items: {where}",
        f"{len(frame):,} items. Click a row to open it.", width="large",
    )  # fmt: skip
    if chosen is not None:
        questions.one(run, cohort, chosen, by["reader"], (wanted["label"],), by["judge"])


def _restore(run: dict[str, Any]) -> None:
    """Take the cell over that the address names, or write the present one into it."""
    wanted = new_in_url(CELL)
    if wanted is not None:
        heatmap = results.frame_of(state.report(run), "heatmap")
        facts = results.frame_of(state.report(run), "facts")
        known = {
            f"{name}:{value}": (name, value)
            for name in (*NUMBERS, "label")
            for value in heatmap[name].unique().tolist()
        } | {f"fact:{fact}": ("fact", fact) for fact in facts.get("fact", ())}
        st.session_state[CELL] = dict(known[one] for one in wanted if one in known)
    cell = st.session_state.get(CELL) or {}
    write_url(CELL, [f"{name}:{value}" for name, value in cell.items()])
