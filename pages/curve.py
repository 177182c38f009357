"""Curve: is anything really lost in the middle? Answers by the position of their evidence, what
chance alone would give, and the controlled experiment with a made-up fact at every depth.
"""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation
from pages.ui.curve import needles as curve_needles
from pages.ui.curve import view as curve_view
from pages.ui.runs import panel as runs

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
