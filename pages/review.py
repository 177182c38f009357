"""Review: a person judges answers, blind to their arm; and how far the judges agree with people."""

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.review import view
from midchart.pages.ui.runs import picker
from midchart.pages.ui.shared import messages
from midchart.pages.ui.shared.pickers import known_in_url

navigation.page("Review")

kinds = (*view.KINDS, *view.WITH_CARDS)
runs = picker.titles(state.runs(kinds))
if not runs:
    with messages.empty(
        "No answers to review yet",
        "Answers of a run are judged here one at a time, blind to arm and reader. The page "
        "then reports each judge's agreement with human reviewers.",
    ):
        navigation.link("home", "Start a run on Home", icon=":material/arrow_forward:")
    st.stop()
known_in_url("run", runs, "run with answers to judge named", f"there are {len(runs)} of them.")
with navigation.readable("Reviews cannot be shown"):
    with st.sidebar:
        run = picker.pick_run(kinds=kinds)
        with_cards = run is not None and run["kind"] in view.WITH_CARDS
        shown = "" if with_cards else navigation.view(("Judge", "Agreement"))
        code = "" if sign_in.required() else view.CODE
        typed = st.text_input(
            "Your code as a reviewer", code, key="reviewer", persist_state="session", max_chars=32,
            help="Verdicts are saved under this code, and it determines the order of answers. Do "
            "not use a full name: the code is part of a file name.",
        )  # fmt: skip
    if run is None:
        st.stop()
    if with_cards:
        for mark in state.parts("review"):
            mark(run, typed)
    elif shown == "Agreement":
        view.agreement(run)
    elif problem := sign_in.lacking(api.add_review):
        st.info(problem)
    elif not typed:
        st.info("Enter a reviewer code. The same code resumes where you stopped.")
    else:
        view.judge(run, api.reviewer_name(typed))
