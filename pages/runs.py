"""Runs: the list, what can be done with those selected, and a new one."""

import streamlit as st

from midchart.pages.ui import navigation
from midchart.pages.ui.runs import compare, compose, monitor

navigation.page("Runs")

with navigation.readable("The runs cannot be read"):
    if chosen := st.query_params.get_all("runs"):
        compare.compare(chosen)
    elif navigation.view((compose.LIST, compose.NEW)) == compose.NEW:
        compose.compose()
    else:
        monitor.monitor()
