"""Runs: compose one, see what it will do before it starts, watch it, compare it with others."""

import streamlit as st

from core.errors import MidchartError
from pages.ui import guard, navigation
from pages.ui.runs import compare as runs_compare
from pages.ui.runs import compose as runs_compose
from pages.ui.runs import watch as runs_watch

guard.page("Runs")

VIEWS = {
    runs_compose.WATCH: runs_watch.watch,
    "Compose": runs_compose.compose,
    "Compare": runs_compare.compare,
}

view = st.segmented_control(
    "View",
    list(VIEWS),
    default=runs_compose.WATCH,
    required=True,
    key="view",
    bind="query-params",
    label_visibility="collapsed",
)
try:
    VIEWS[view]()
except MidchartError as error:
    st.error(str(error), title="The runs cannot be read")
    navigation.link("home", "Back to Home")
