"""Review: a person judges answers, blind to their arm; and how far the judges agree with people."""

import streamlit as st

from midchart.core import api
from midchart.pages.ui import guard, navigation, sign_in, state
from midchart.pages.ui.review import view
from midchart.pages.ui.runs import picker, presets
from midchart.pages.ui.shared import empty

guard.page("Review")

KINDS = tuple(kind["name"] for kind in api.kinds() if kind["answers"])
OTHERS = tuple(kind["name"] for kind in api.kinds() if not kind["answers"])
WITHOUT = (
    f"Runs of kind {' and '.join(KINDS)} have answers to judge. Those of kind {', '.join(OTHERS)} "
    "have none; the human verdicts of a curve are the clinicians' verdicts included in its cohort."
)

if not state.runs(KINDS):
    with empty.state(
        "No answers to review yet",
        "Answers of a run are judged here one at a time, blind to arm and reader. The page "
        "then reports each judge's agreement with human reviewers.",
    ):
        presets.included(*KINDS)
        navigation.link("home", "Start a run on Home", icon=":material/arrow_forward:")
        st.caption(WITHOUT)
    st.stop()
with guard.readable("Reviews cannot be shown"):
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        run = picker.pick_run(kinds=KINDS)
        typed = st.text_input(
            "Your code as a reviewer",
            key="reviewer",
            persist_state="session",
            placeholder="reviewer-1",
            max_chars=32,
            width=220,
            help="Verdicts are saved under this code, and it determines the order of answers. Do "
            "not use a full name: the code is part of a file name.",
        )
    st.caption(WITHOUT)
    shown = guard.view(("Judge", "Agreement"))
    if run is None:
        st.stop()
    if shown == "Agreement":
        view.agreement(run)
    elif problem := sign_in.lacking("add_review"):
        st.info(problem)
    elif not typed:
        st.info("Enter a reviewer code. The same code resumes where you stopped.")
        view.example(state.runs(KINDS))
    else:
        view.judge(run, api.reviewer_name(typed))
