"""Needle runs: a synthetic fact, or the note with the evidence, at every depth of the same record,
so only its position changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.curve.observed import no_questions
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared.marks import for_screen, missing

KIND = "needles"


def _cohorts() -> str:
    if state.question_cohorts():
        return state.pick_cohort()
    no_questions()
    return ""


FACT = presets.Offer(
    KIND,
    "needles.toml",
    "Run needles",
    "No needle run yet",
    "In an observed curve, questions about one part of a record may be harder for other reasons. A "
    "needle run places the same synthetic fact (a dose, a laboratory value, a date, a negation) at "
    "every depth of the same record, cut to several lengths, and asks for it. Only the position "
    "changes.",
    _cohorts,
)


def needles() -> None:
    """The needle runs of this installation: what depth does, and the items behind a number."""
    if not state.runs((KIND,)):
        FACT.empty()
        return
    shown = kit.page((KIND,), "curve", opens=open_cell)
    if shown is not None:
        _items(shown.run, {name: str(shown.chosen[name]) for name in ("label", "reader", "judge")})


def open_cell(_: kit.Shown, view: api.View, key: Mapping[str, Any]) -> None:
    """Show the items behind a value, by the columns of their planned place."""
    show_items(**{name: key[name] for name in view.opens if key.get(name) is not None})


CELL, ITEM = "needle_cell", "needle_item"
NUMBERS = ("length", "depth", "distractors")
WORDS = {"length": "{:,} tokens", "depth": "depth {} %", "distractors": "{} distractors"}


def show_items(**cell: Any) -> None:
    """Show the items of a cell, from the next drawing of the page on."""
    st.session_state[CELL] = {
        name: int(value) if name in NUMBERS else value
        for name, value in cell.items()
        if not missing(value)
    }
    st.session_state[ITEM] = questions.LIST


def _items(run: dict[str, Any], by: Mapping[str, str]) -> None:
    cell = dict(st.session_state.get(CELL, {}))
    if not cell:
        return
    other = cell.pop("otherwise", "")
    wanted = {"reader": by["reader"], **cell} if other else {**by, **cell}
    words = [WORDS[name].format(cell[name]) for name in NUMBERS if name in cell]
    words += [f"fact: {cell['fact']}"] if "fact" in cell else []
    judges = [api.title("judge", one) for one in (cell["judge"], other)] if other else []
    words += [f"{' and '.join(judges)} differ"] if other else []
    arms = [wanted["label"]] if "label" in wanted else []
    where = ", ".join([*(api.title("arm", arm) for arm in arms), *words])
    st.header("Items behind this number", anchor=False)
    st.write(for_screen(where))
    st.button("Close", key="needle_close", icon=":material/close:", on_click=show_items)
    rows = pd.DataFrame(api.needle_items(run["run"], **wanted))
    if other and len(rows):
        others = pd.DataFrame(api.needle_items(run["run"], **wanted | {"judge": other}))
        rows = rows[questions.differing(rows, others)]
    if rows.empty:
        st.info("No item of this run is in this cell.")
        return
    cohort = state.cohort_of(run)
    frame = pd.DataFrame(
        {
            "instruction": rows["instruction"],
            **({} if arms else {"arm": [api.title("arm", one) for one in rows["label"]]}),
            "fact": rows["fact"],
            **{name: rows[name] for name in NUMBERS},
            "outcome": [questions.OUTCOMES.get(one, one) for one in rows["outcome"]],
            "all evidence in the prompt": rows["evidence_all_in_prompt"].map(
                {True: "yes", False: "no"}
            ),
        }
    )
    chosen = questions.choose_question(
        run["run"], cohort, frame, ITEM, f"Items: {where}",
        f"{len(frame):,} items. Click a row to open it.", width="large",
    )  # fmt: skip
    if chosen is not None:
        questions.one(run, cohort, chosen, by["reader"], arms)
