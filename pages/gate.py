"""Gate: how the QCCS gate learns, how well its scores are calibrated, and what each choice does."""

import streamlit as st

from midchart.pages.ui import guard, navigation, state
from midchart.pages.ui.gate import text, view
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import conclusion, empty, results

guard.page("Gate")

VIEWS = {
    "Ablation": view.ablation,
    "Training": view.training,
    "Calibration": view.calibration,
    "Scores": view.scores,
    "Faults": view.faults,
}
OTHERS = {"Real text": view.real_text, "Checkpoints": view.checkpoints}

if not state.runs((view.KIND,)):
    chosen = guard.view(("Runs", *OTHERS))
    OTHERS.get(chosen, view.no_run)()
    st.stop()
with guard.readable("This run cannot be read"):
    run, report = picker.opened((view.KIND,), "gate")
    first, below = text.conclusion(report["tables"])
    conclusion.of_run(report, first, [*below, f"{text.part_text(report, 'test')}."])
    chosen = guard.view([*VIEWS, *OTHERS])
    if chosen in OTHERS:
        OTHERS[chosen]()
        st.stop()
    frame = results.frame_of(report, chosen.lower())
    if not report["items"]["done"]:
        empty.no_results("gate has been trained")
    elif frame.empty:
        empty.no_table(chosen.lower())
    else:
        VIEWS[chosen](run, report, frame)
    if report["items"]["failed"]:
        panel.failures(report, "variant")
    navigation.link(
        "patient",
        "See the gate's scores on a patient (Sentence scores and Score matrix)",
        icon=":material/arrow_forward:",
        query_params=[("arms", "qccs"), ("arms", "bm25")],
    )
    with st.expander("Train and evaluate again"):
        view.start()
