"""Forecast: attentions that differ in nothing else, compared on laboratory forecasts."""

import streamlit as st

from pages.ui import guard, state
from pages.ui.forecast import attended
from pages.ui.forecast import start as forecast_start
from pages.ui.forecast import view as forecast_view
from pages.ui.runs import panel as runs
from pages.ui.runs import pick as runs_pick
from pages.ui.shared import empty

guard.page("Forecast")

VIEWS = {
    "Comparison": forecast_view.comparison,
    "Curves": forecast_view.curves,
    "Training": forecast_view.training,
    "Gate health": forecast_view.gate,
    "Sparsity": forecast_view.sparsity,
    "Attention map": attended.view,
}

runs.panel()
if not state.runs((forecast_start.KIND,)):
    forecast_start.no_run()
    st.stop()
with guard.readable("This run cannot be read"):
    run, report = runs_pick.opened((forecast_start.KIND,), "forecast")
    if report["tables"].get("forecast"):
        task = forecast_view.pick_task(report)
        forecast_view.verdict(report, task)
        view = guard.view(VIEWS)
        VIEWS[view](run, report, task)
        runs.notes(report["warnings"])
    else:
        empty.no_results("model has been evaluated")
    runs.failed_trainings(report, "fit")
    with st.expander("Train and compare again"):
        forecast_start.begin()
