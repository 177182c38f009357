"""Replication: the paper's tables beside this installation's, and what each of its faults does."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation, state
from pages.ui.arms.pick import pick
from pages.ui.curve import view as curve_view
from pages.ui.replication import begin, view
from pages.ui.runs import panel as runs
from pages.ui.shared import results

guard.page("Replication")

runs.panel()
if not state.asking():
    curve_view.no_questions()
    st.stop()
with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
    cohort = state.pick_cohort()
    reader = pick("Read by", begin.readers(), "reader")
    settings = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
if not cohort:
    st.stop()
try:
    found = state.replication(cohort, reader)
    there = [run for run in found["runs"] if run]
    published, corrected = found["runs"][0], found["runs"][-1]
    if not there:
        with st.container(border=True):
            st.subheader("No replication yet", anchor=False)
            st.write(
                "A replication runs the paper's arms under the protocol it really used, then takes "
                "its faults away one at a time, down to the corrected protocol: so that each "
                "fault's effect can be seen by itself, on the same questions."
            )
            begin.begin(cohort, reader, found)
    else:
        arms, judges = state.arms_and_judges(there[-1])
        with settings:
            first = [arm for arm in view.FIRST if arm in arms]
            order = [*first, *(arm for arm in arms if arm not in first)]
            shown = {arm: results.label(arm) for arm in order}
            arm = pick("Arm", order, "arm", shown)
            judge = pick("Judge", judges, "judge")
        rows = state.beside(published, corrected, judge)
        said = view.verdict(rows, arm, reader, judge)
        if said:
            st.markdown(said)
        view.waterfall(found, arm, judge)
        view.beside(rows)
        with st.expander("The runs behind this", expanded=len(there) < len(found["runs"])):
            begin.begin(cohort, reader, found)
except MidchartError as error:
    st.error(str(error), title="These runs cannot be read")
    navigation.link("home", "Back to Home")
