"""Home: what is loaded, what is running, the latest results, and three ways in."""

import streamlit as st

from midchart.pages.ui import guard, home_view, state, tour

guard.page("Home")

with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
    st.markdown(
        "See what a language model misses in the middle of a patient's chart.", width="content"
    )
    tour.offer(guard.go)
home_view.ways_in()

left, right = st.columns((7, 3), gap="large")
with left:
    st.header("Latest results", anchor=False)
    with guard.readable("The latest results cannot be read"):
        home_view.latest(state.runs(state.COMPARING))
with right:
    st.header("Loaded", anchor=False)
    home_view.loaded()
