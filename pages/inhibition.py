"""Inhibition: does subtractive attention flatten the position curve? Small trained decoders."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.inhibition import view
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import empty

guard.page("Inhibition", needs_cohort=False)

VIEWS = {
    "Depth": view.depth,
    "Length": view.length,
    "Distractors": view.distractors,
    "Attention": view.attention,
    "Comparison": view.comparison,
    "Training": view.training,
}

if not state.runs((view.KIND,)):
    view.no_run()
    st.stop()
with guard.readable("This run cannot be read"):
    run, report = picker.opened((view.KIND,), view.KIND)
    if report["tables"].get("inhibition"):
        view.verdict(report)
        VIEWS[guard.view(VIEWS)](run, report)
        panel.notes(report["warnings"])
    else:
        empty.no_results("decoder has been evaluated")
    panel.failures(report, "decoder")
    with st.expander("Train and compare again"):
        view.start()
