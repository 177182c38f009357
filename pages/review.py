"""Review: a person judges answers, blind to their arm; and how far the judges agree with people."""

import streamlit as st

from core import api
from pages.ui import guard, navigation, state
from pages.ui.review import view
from pages.ui.runs import panel as runs
from pages.ui.runs import pick as runs_pick

guard.page("Review")

KINDS = tuple(kind["name"] for kind in api.kinds() if kind["answers"])
OTHERS = tuple(kind["name"] for kind in api.kinds() if not kind["answers"])
WITHOUT = (
    f"Runs of kind {' and '.join(KINDS)} have answers to judge. Those of kind {', '.join(OTHERS)} "
    "have none; the human verdicts of a curve are the clinicians' that came with its cohort."
)

runs.panel()
if not state.runs(KINDS):
    with st.container(border=True):
        st.subheader("No answers to review yet", anchor=False)
        st.write(
            "Once a run has answers, they can be judged here one by one, without seeing which arm "
            "or reader gave them; then each judge's agreement with people is shown."
        )
        navigation.link("home", "Start a run on Home", icon=":material/arrow_forward:")
        st.caption(WITHOUT)
    st.stop()
with guard.readable("This cannot be shown"):
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        run = runs_pick.pick_run(kinds=KINDS)
        typed = st.text_input(
            "Your code as a reviewer",
            key="reviewer",
            persist_state="session",
            placeholder="reviewer-1",
            max_chars=32,
            width=220,
            help="Your verdicts are kept under it, and your order of answers is your own. Not a "
            "full name: it is part of a file's name.",
        )
    st.caption(WITHOUT)
    shown = guard.view(("Judge", "Agreement"))
    if run is None:
        st.stop()
    if shown == "Agreement":
        view.agreement(run)
    elif not typed:
        st.info("Type a code to judge under; the same code brings you back to where you were.")
    else:
        view.judge(run, api.reviewer_name(typed))
