"""The Forecast page's views of a forecast run, each with chart, text and table."""

from __future__ import annotations

from typing import Any

import streamlit as st

from midchart.pages.ui import state
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import messages
from midchart.pages.ui.shared.pickers import pick_listed

KIND = "forecast"
SPEC = "forecast.toml"


# Starting a run


def spec(cohort: str) -> dict[str, Any]:
    """The preset forecast run on a cohort: the preset's tasks on its own cohort, on another all."""
    preset = presets.spec(SPEC, cohort, f"forecasts on {cohort}")
    if presets.spec(SPEC)["data"] != cohort:
        preset.pop("tasks", None)
    return preset


def no_run() -> None:
    """The empty state with the button that starts a run."""
    with messages.empty(
        "No forecast run yet",
        "A forecast run trains small sequence models that differ only in their attention, with "
        "several seeds, on the official split of patients. Each is evaluated on held-out "
        "patients and compared with two count-based models.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The cohort and the button; without a cohort of labels, how to make one."""
    with_questions = set(state.question_cohorts())
    cohorts = [n for n, _, problem in state.cohorts() if not problem and n not in with_questions]
    if not cohorts:
        st.info("No installed cohort has labels to forecast. Create the laboratory cohort, or "
            "place EHRSHOT or a MEDS folder among the cohorts:")  # fmt: skip
        st.code("midchart demo --laboratory ehrshot", language=None, wrap_lines=True)
        return
    cohort = pick_listed("Cohort", cohorts, "cohort")
    if cohort:
        presets.button(spec(cohort), "Train and compare the attentions", KIND, file=SPEC)


# Tables of a report


# Views
