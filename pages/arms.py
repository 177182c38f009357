"""Arms: the arms of a run compared overall, by position and in pairs, down to a single question."""

import streamlit as st

from midchart.pages.ui import navigation, state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import presets

navigation.page("Arms")

if not state.runs(state.COMPARING):
    presets.Offer(
        "arms", presets.FIRST, "Compare a few arms", "No run yet",
        "A run asks every question of a cohort with every arm and judges the answers. This "
        "page then compares the arms. The demo comparison takes a few minutes.", state.pick_cohort,
    ).empty()  # fmt: skip
    st.stop()

READ = kit.Extra(questions.VIEW, "Which questions, one by one?", questions.questions)
shown = kit.page(state.COMPARING, "arms", lambda _: [READ], questions.open_behind)
if shown is not None and "view" not in st.query_params:
    if shown.run["imported"] and shown.run["cohort_here"] != "same":
        st.caption("Its questions are listed here once the run's cohort is on this machine.")
    else:
        with navigation.readable("The questions cannot be read"):
            questions.questions(shown)
