"""Gate: how the QCCS gate learns, how far its scores can be trusted, and what each choice does."""

import streamlit as st

from pages.ui import guard, navigation, state
from pages.ui.gate import start as gate_start
from pages.ui.gate import view as gate_view
from pages.ui.runs import panel as runs
from pages.ui.runs import pick as runs_pick
from pages.ui.shared import empty

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
view = guard.view([*VIEWS, CHECKPOINT])
if view == CHECKPOINT:
    gate_start.cards()
    st.stop()
if not state.runs((gate_start.KIND,)):
    gate_start.no_run()
    st.stop()
with guard.readable("This run cannot be read"):
    run, report = runs_pick.opened((gate_start.KIND,), "gate")
    if report["items"]["done"]:
        VIEWS[view](run, report)
    else:
        empty.no_results("gate has been trained")
    if report["items"]["failed"]:
        runs.failed_trainings(report, "variant")
    navigation.link(
        "patient", "See the gate's scores on a patient", icon=":material/arrow_forward:"
    )
    with st.expander("Train and evaluate again"):
        gate_start.start(state.pick_cohort("Cohort"))
