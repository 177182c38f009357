"""Forecast: models that differ only in their attention, compared on laboratory forecasts."""

import streamlit as st

from midchart.pages.ui import guard, state
from midchart.pages.ui.forecast import attention, view
from midchart.pages.ui.results import kit

guard.page("Forecast")

if not state.runs((view.KIND,)):
    view.no_run()
    st.stop()


def extras(shown: kit.Shown) -> list[kit.Extra]:
    """The attention map, of a run whose models are on this machine."""
    if shown.run["imported"]:
        return []
    return [kit.Extra("map", "What did it attend to?", attention.draw)]


kit.page((view.KIND,), "forecast", extras, attention.open_variant)
with st.expander("Train and compare again"):
    view.start()
