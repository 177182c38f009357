"""Attention: does subtractive attention flatten the position curve? Small trained decoders."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.inhibition import view
from midchart.pages.ui.results import kit

guard.page("Inhibition", needs_cohort=False)

if not state.runs((view.KIND,)):
    view.no_run()
    st.stop()
kit.page((view.KIND,), view.KIND)
with st.expander("Train and compare again"):
    view.start()
