"""Inhibition: does attention that subtracts flatten the curve? Small decoders, trained here."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation, state
from pages.ui.inhibition import start, view
from pages.ui.runs import panel as runs

guard.page("Inhibition", needs_cohort=False)

VIEWS = {
    "Depth": view.depth,
    "Length": view.length,
    "Distractors": view.distractors,
    "Attention": view.attention,
    "Comparison": view.comparison,
    "Training": view.training,
}

runs.panel()
if not state.runs((start.KIND,)):
    start.no_run()
    st.stop()
try:
    run = state.pick_run(kinds=(start.KIND,))
    report = state.report(run)
    runs.line(run, report)
    if state.active(run):
        st.info("This run is at work: what is shown is partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        runs.resume(run, start.KIND)
    if report["tables"].get("inhibition"):
        view.verdict(report)
        shown = st.segmented_control(
            "View",
            list(VIEWS),
            default="Depth",
            required=True,
            key="view",
            bind="query-params",
            label_visibility="collapsed",
        )
        VIEWS[shown](run, report)
        view.notes(report)
    else:
        st.info("No decoder is examined yet. Results appear here as they come.")
        start.shipped()
    view.failures(run, report)
    with st.expander("Train and compare again"):
        start.begin()
except MidchartError as error:
    st.error(str(error), title="This run cannot be read")
    navigation.link("home", "Back to Home")
