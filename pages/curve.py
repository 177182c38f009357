"""Curve: is anything really lost in the middle? Answers by the position of their evidence, what
chance alone would give, and the controlled experiment with a made-up fact at every depth.
"""

import streamlit as st

from core.errors import MidchartError
from pages.ui import curve_needles, curve_view, guard, navigation, runs

guard.page("Curve")

VIEWS = {"Observed": curve_view.observed, "Needles": curve_needles.needles}

runs.panel()
view = st.segmented_control(
    "View",
    list(VIEWS),
    default="Observed",
    required=True,
    key="view",
    bind="query-params",
    label_visibility="collapsed",
)
try:
    VIEWS[view]()
except MidchartError as error:
    st.error(str(error), title="This cannot be read")
    navigation.link("home", "Back to Home")
