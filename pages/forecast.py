"""Forecast: models that differ only in their attention, compared on laboratory forecasts."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.forecast import attention, view
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import empty

guard.page("Forecast")

# View: the table that it needs, and what draws it.
VIEWS = {
    "Comparison": ("summary", view.comparison),
    "Curves": ("roc", view.curves),
    "Training": ("epochs", view.training),
    "Gate health": ("gate", view.gate),
    "Sparsity": ("sparsity", view.sparsity),
    "Attention map": ("forecast", attention.view),
}

if not state.runs((view.KIND,)):
    view.no_run()
    st.stop()
with guard.readable("This run cannot be read"):
    run, report = picker.opened((view.KIND,), "forecast")
    if report["tables"].get("forecast"):
        task = view.pick_task(report)
        view.verdict(report, task)
        chosen = guard.view(VIEWS)
        table, draw = VIEWS[chosen]
        frame = view.rows_of(report, table, task)
        if frame.empty:
            empty.no_table(chosen.lower())
        else:
            draw(run, report, task, frame)
        panel.notes(report["warnings"])
    else:
        empty.no_results("model has been evaluated")
    panel.failures(report, "fit")
    with st.expander("Train and compare again"):
        view.start()
