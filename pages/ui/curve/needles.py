"""Needle runs: a synthetic fact, or the note with the evidence, at every depth of the same record,
so only its position changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.curve.observed import no_questions
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import messages
from midchart.pages.ui.shared.formats import missing
from midchart.pages.ui.shared.marks import for_screen

KIND = "needles"
SPECS = {"fact": "needles.toml", "note": "real_position.toml"}
MOVED = {"fact": "A synthetic fact", "note": "The note with the evidence"}


def needles() -> None:
    """The needle runs of this installation: what depth does, and the items behind a number."""
    if not state.runs((KIND,)):
        with messages.empty(
            "No needle run yet",
            "In an observed curve, questions about one part of a record may be harder for other "
            "reasons. A needle run places the same synthetic fact (a dose, a laboratory value, a "
            "date, a negation) at every depth of the same record, cut to several lengths, and "
            "asks for it. Only the position changes.",
        ):
            presets.included(KIND)
            _start()
        return
    shown = kit.page((KIND,), "curve", opens=open_cell)
    if shown is not None:
        _items(shown.run, {name: str(shown.chosen[name]) for name in ("label", "reader", "judge")})
    with st.expander("Run needles again"):
        _start()


def open_cell(_: kit.Shown, view: api.View, key: Mapping[str, Any]) -> None:
    """Show the items behind a value, by the columns of their planned place."""
    show_items(**{name: key[name] for name in view.opens if key.get(name) is not None})


def spec(cohort: str, moved: str = "fact") -> dict[str, Any]:
    """The preset needle run on a cohort, with the installed arms; ``moved``: a key of MOVED."""
    return presets.spec(SPECS[moved], cohort, f"needles on {cohort}")


def _start() -> None:
    """The picker of a cohort with questions, and the start button."""
    if not state.question_cohorts():
        no_questions()
        return
    cohort = state.pick_cohort("Cohort")
    moved = st.segmented_control(
        "At every depth", list(MOVED), default="fact", required=True, key="needle_moved",
        format_func=MOVED.__getitem__,
        help="A synthetic fact inserted into a record, or the real note that holds the evidence of "
        "one of its questions, among other notes of the record; the dates of notes stay.",
    )  # fmt: skip
    needle_spec = spec(cohort, moved)
    facts = "facts in" if moved == "fact" else "questions on"
    about = (
        "{needles} {facts} each of {patients} records, {depths} depths, {lengths} lengths, "
        "{arms} arms, read by {readers}, judged by {judges}."
    ).format(
        facts=facts,
        needles=needle_spec["needles"],
        patients=needle_spec["patients"],
        **{name: len(needle_spec[name]) for name in ("depths", "lengths", "arms")},
        **{name: " and ".join(needle_spec[name]) for name in ("readers", "judges")},
    )
    presets.button(needle_spec, "Run needles", "needles", about, file=SPECS[moved])


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
    """The items of the chosen cell of this arm, reader and judge; nothing before one is chosen."""
    cell = st.session_state.get(CELL)
    if not cell:
        return
    wanted = {**by, **cell}
    st.header("Items behind this number", anchor=False)
    words = [WORDS[name].format(cell[name]) for name in NUMBERS if name in cell]
    words += [f"fact: {cell['fact']}"] if "fact" in cell else []
    where = ", ".join([api.title("arm", wanted["label"]), *words])
    st.write(for_screen(where))
    st.button("Close", key="needle_close", icon=":material/close:", on_click=show_items)
    rows = pd.DataFrame(api.needle_items(run["run"], **wanted))
    if rows.empty:
        st.info("No item of this run is in this cell.")
        return
    try:
        cohort = state.cohort_of(run)
    except MidchartError as error:
        st.error(for_screen(str(error)), title="The items cannot be read")
        return
    instructions = list(rows["instruction"])
    frame = pd.DataFrame(
        {
            "question": questions.question_texts(cohort, instructions),
            "fact": rows["fact"],
            **{name: rows[name] for name in NUMBERS},
            "outcome": [questions.OUTCOMES.get(one, one) for one in rows["outcome"]],
            "all evidence in the prompt": rows["evidence_all_in_prompt"].map(
                {True: "yes", False: "no"}
            ),
        }
    )
    chosen = questions.choose_question(
        run["run"], frame, instructions, ("needle_items", ITEM), f"Items: {where}",
        f"{len(frame):,} items. Click a row to open it.", width="large",
    )  # fmt: skip
    if chosen is not None:
        questions.one(
            run,
            cohort,
            chosen,
            by["reader"],
            (wanted["label"],),
        )
