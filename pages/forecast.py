"""Forecast: attentions that differ in nothing else, compared on laboratory forecasts."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation, state
from pages.ui.forecast import attended
from pages.ui.forecast import start as forecast_start
from pages.ui.forecast import view as forecast_view
from pages.ui.runs import panel as runs

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
known = state.runs((forecast_start.KIND,))
if not known:
    forecast_start.no_run()
    st.stop()
try:
    run = state.pick_run(kinds=(forecast_start.KIND,))
    report = state.report(run)
    runs.line(run, report)
    if state.active(run):
        st.info("This run is at work: what is shown is partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        runs.resume(run, "forecast")
    if report["tables"].get("forecast"):
        task = forecast_view.pick_task(report)
        forecast_view.verdict(report, task)
        view = st.segmented_control(
            "View",
            list(VIEWS),
            default="Comparison",
            required=True,
            key="view",
            bind="query-params",
            label_visibility="collapsed",
        )
        VIEWS[view](run, report, task)
        forecast_view.notes(report)
    else:
        st.info("No model is examined yet. Results appear here as they come.")
    forecast_view.failures(run, report)
    with st.expander("Train and compare again"):
        forecast_start.begin()
except MidchartError as error:
    st.error(str(error), title="This run cannot be read")
    navigation.link("home", "Back to Home")
