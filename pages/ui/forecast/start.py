"""Beginning a forecast run: what it will do, on which cohort, and the button that starts it."""

from __future__ import annotations

import tomllib
from typing import Any

import streamlit as st

from core import api
from pages.ui import navigation, state
from pages.ui.runs import begin as start
from pages.ui.shared import empty

SPEC = navigation.FOLDER.parent / "docs" / "forecast.toml"
KIND = "forecast"


def cohorts() -> list[str]:
    """Names of the cohorts that hold labels to forecast."""
    asking = set(state.asking())
    return [name for name, _, problem in state.cohorts() if not problem and name not in asking]


def spec(cohort: str) -> dict[str, Any]:
    """The ready-made forecast run on a cohort: its tasks are those of the cohort it was written
    for; on another, every task."""
    made = tomllib.loads(SPEC.read_text(encoding="utf-8"))
    if made["data"] != cohort:
        made.pop("tasks", None)
    return {**made, "data": api.open_data(cohort).path, "name": f"forecasts on {cohort}"}


def no_run() -> None:
    """The empty state: what will be here, and the button that begins it."""
    with empty.state(
        "No forecast run yet",
        "A forecast run trains small sequence models that differ only in their attention, with "
        "several seeds, on the official split of patients. Each is evaluated on held-out "
        "patients and compared with two count-based models.",
    ):
        begin()


def begin() -> None:
    """The cohort's picker and the button; without a cohort of labels, how to make one."""
    known = cohorts()
    if not known:
        st.info("No installed cohort has labels to forecast. Create the laboratory cohort, or "
            "place EHRSHOT or a MEDS folder among the cohorts:")  # fmt: skip
        st.code("python -m core demo --laboratory ehrshot", language="bash", wrap_lines=True)
        return
    cohort = st.selectbox("Cohort", known, key="cohort", bind="query-params", width=420)
    if cohort:
        start.begin(spec(cohort), "Train and compare the attentions", "forecast", spec=SPEC.name)
