"""Gate: how the QCCS gate learns, how far its scores can be trusted, and what each choice does."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation, state
from pages.ui.gate import start as gate_start
from pages.ui.gate import view as gate_view
from pages.ui.runs import panel as runs

guard.page("Gate")

VIEWS = {
    "Ablation": gate_view.ablation,
    "Training": gate_view.training,
    "Calibration": gate_view.calibration,
    "Scores": gate_view.scores,
    "Faults": gate_view.faults,
}
CHECKPOINT = "Checkpoints"

runs.panel()
view = st.segmented_control(
    "View",
    [*VIEWS, CHECKPOINT],
    default="Ablation",
    required=True,
    key="view",
    bind="query-params",
    label_visibility="collapsed",
)
if view == CHECKPOINT:
    gate_start.cards()
    st.stop()
known = state.runs((gate_start.KIND,))
if not known:
    gate_start.no_run()
    st.stop()
try:
    run = state.pick_run(kinds=(gate_start.KIND,))
    report = state.report(run)
    runs.line(run, report)
    if state.active(run):
        st.info("This run is at work: what is shown is partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        runs.resume(run, "gate")
    if report["items"]["done"]:
        VIEWS[view](run, report)
    else:
        st.info("No gate is trained yet. Results appear here as they come.")
    if report["items"]["failed"]:
        gate_view.failures(report)
    navigation.link(
        "patient", "See the gate's scores on a patient", icon=":material/arrow_forward:"
    )
    with st.expander("Train and examine again"):
        gate_start.start(state.pick_cohort("On which cohort"))
except MidchartError as error:
    st.error(str(error), title="This run cannot be read")
    navigation.link("home", "Back to Home")
