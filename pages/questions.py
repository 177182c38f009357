"""Questions: the same questions asked of every patient of a cohort, as a table with sources."""

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.questions import view
from midchart.pages.ui.shared.pickers import known_in_url

navigation.page("Questions")

names = state.question_cohorts()
if not names:
    st.info("No cohort with records to ask is open. Import one on page Data.")
    st.stop()
known_in_url(
    "cohort", names, "cohort with questions named", f"there are {api.names_in_words(names)}."
)
with st.sidebar:
    name = state.pick_cohort()
    navigation.link("data", "Import a cohort", icon=":material/upload_file:")
with navigation.readable("This cohort cannot be read"):
    runs = view.runs_of(name)
    chosen = view.choose(name, runs)
    if chosen is None:
        view.new_set(name)
    else:
        view.drawer(name, chosen, view.section(name, chosen, runs))
