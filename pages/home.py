"""Home: where evidence is lost in one picture, three doors, what is loaded and what runs."""

import streamlit as st

from midchart.pages.ui import home_view, navigation

navigation.page("Home")

with navigation.readable("The latest results cannot be read"):
    home_view.picture()
home_view.ways_in()
left, right = st.columns(2, gap="large")
with left:
    st.header("Loaded", anchor=False)
    home_view.loaded()
with right:
    st.header("Runs", anchor=False)
    home_view.runs()
