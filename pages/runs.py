"""Runs: the list, what can be done with those selected, and a new one."""

import streamlit as st

from midchart.pages.ui import guard
from midchart.pages.ui.runs import compare, compose, monitor

guard.page("Runs")

with guard.readable("The runs cannot be read"):
    if chosen := st.query_params.get_all("runs"):
        compare.compare(chosen)
    elif guard.view((compose.LIST, compose.NEW)) == compose.NEW:
        compose.compose()
    else:
        monitor.monitor()
