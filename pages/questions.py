"""Questions: the same questions asked of every patient of a cohort, as a table with sources."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.questions import view
from midchart.pages.ui.runs import presets

guard.page("Questions")

names = state.question_cohorts()
if not names:
    st.info("No cohort with records to ask is open. Import one on page Data.")
    st.stop()
left, right = st.columns(2)
with left:
    name = state.pick_cohort()
with guard.readable("This cohort cannot be read"):
    with right:
        chosen = view.choose(name)
    view.forms(name, chosen)
    if chosen is None:
        presets.included("answers", folder="question_set")
    else:
        view.ask(name, chosen)
        view.section(name, chosen)
