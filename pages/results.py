"""Results: a run of any kind without another page, such as an experiment of a plug-in."""

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import picker

navigation.page("Results", needs_cohort=False)

kinds = tuple(kind["name"] for kind in api.kinds() if kind["name"] not in picker.RESULTS)
if not kinds or not state.runs(kinds):
    st.info("No run of another kind yet. Runs that compare arms, gates or attentions have other "
            "pages.")  # fmt: skip
    navigation.link("runs", "All runs", icon=":material/arrow_forward:")
    st.stop()
kit.page(kinds, "results", opens=next(iter(state.parts("results")), None))
