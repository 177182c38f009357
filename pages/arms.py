"""Arms: the arms of a run compared overall, by position and in pairs, down to a single question."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import arms_view, guard, navigation, questions_view, runs, state

guard.page("Arms")

VIEWS = ("Overall", "By position", "Pairs", "Questions")

runs.panel()
known = state.runs(state.COMPARING)
if not known:
    arms_view.no_runs()
    st.stop()

try:
    run = state.pick_run()
    report = state.report(run)
    runs.line(run, report)
    if state.active(run):
        st.info("This run is at work: what is shown is partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        runs.resume(run, "arms")
    view = st.segmented_control(
        "View",
        VIEWS,
        default=VIEWS[0],
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    if not report["items"]["done"]:
        st.info("No item is done yet. Results appear here as they come.")
    elif view == "Questions":
        questions_view.questions(run)
    else:
        {"Overall": arms_view.overall, "By position": arms_view.bands, "Pairs": arms_view.pairs}[
            view
        ](run, report)
    if report["items"]["failed"]:
        runs.failures(report)
except MidchartError as error:
    st.error(str(error), title="This run cannot be read")
    navigation.link("home", "Back to Home")
