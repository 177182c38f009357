"""A tour of the demo in five steps: a bar under the title of a page, until it is left.

The session holds the number of the step and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import streamlit as st

from midchart.pages.ui import navigation, state

Go = Callable[..., None]
"""Opens a page by its short name with choices made (:func:`midchart.pages.ui.guard.go`)."""
STEP = "tour_step"
COHORT = "demo"


@dataclass(frozen=True)
class Step:
    """A page, what to look at there, and the session's values of its choices."""

    page: str
    title: str
    text: str
    choices: dict[str, str] = field(default_factory=dict)


STEPS = (
    Step(
        "patient",
        "Evidence kept",
        "Each arm selects the sentences of the record that a reader is given. The table has a row "
        "for each arm: whether it **kept** the evidence of the question, at which rank, and the "
        "answer with its source. In the timeline below, a ring marks evidence in the prompt.",
        {"patient_dropped": "all"},
    ),
    Step(
        "patient",
        "Evidence dropped",
        "These are the questions of which BM25 **dropped** the evidence. The first line says which "
        "arm did. *Read around the evidence* (key a) opens the note, and what was dropped has a "
        "dashed border. *Next question* opens the next one.",
        {"patient_dropped": "bm25"},
    ),
    Step(
        "patient",
        "What the reader saw",
        "Under *More*, *Reader prompt* shows the context line by line as the reader was given it, "
        "how many tokens it had, and what was cut. What an arm dropped is not in it.",
        {"patient_dropped": "bm25", "patient_more": "Reader prompt"},
    ),
    Step(
        "curve",
        "Accuracy by position, and chance",
        "Is accuracy lower where the evidence is in the middle of the record? Each point has its "
        "interval and n. The **shaded band** is what chance alone would show: a curve inside it "
        "shows no effect of position.",
    ),
    Step(
        "home",
        "Start a run",
        "*Run the demo comparison* asks every question of the demo with every arm. What it does, "
        "and whether anything leaves this machine, is stated before it starts; page Runs shows its "
        "progress, and page Arms compares its results.",
    ),
)  # fmt: skip


def offer(go: Go) -> None:
    """The button that starts the tour, where the demo is installed."""
    if COHORT not in state.question_cohorts() or STEP in st.session_state:
        return
    if st.button("Tour of the demo: five steps", icon=":material/tour:", type="tertiary"):
        _open(0, go)


def bar(title: str, go: Go) -> None:
    """The step at hand with its buttons; nothing without a tour."""
    number = st.session_state.get(STEP)
    if number is None:
        return
    step = STEPS[number]
    page = _title(step)
    with st.container(border=True, key="tour"):
        st.markdown(f"**{number + 1} of {len(STEPS)} · {step.title}.** {step.text}")
        with st.container(horizontal=True, gap="small"):
            if title != page and st.button(f"Go to page {page}", key="tour_go"):
                _open(number, go)
            if st.button("Back", key="tour_back", disabled=number == 0):
                _open(number - 1, go, title)
            last = number == len(STEPS) - 1
            if not last and st.button("Next", key="tour_next", type="primary"):
                _open(number + 1, go, title)
            st.button("End the tour" if last else "Leave the tour", key="tour_leave",
                      on_click=lambda: st.session_state.pop(STEP))  # fmt: skip


def _open(number: int, go: Go, title: str = "") -> None:
    """Open a step's page, if it is not that of ``title``, with its choices."""
    step = STEPS[number]
    st.session_state[STEP] = number
    for key, value in step.choices.items():
        st.session_state[key] = value
    if title == _title(step):
        st.rerun()
    go(step.page, cohort=COHORT)


def _title(step: Step) -> str:
    return next(place.title for place in navigation.PLACES if place.name == step.page)
