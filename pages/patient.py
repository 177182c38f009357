"""Patient: which sentences each arm kept for a question, which evidence it dropped, and what the
reader answered."""

import streamlit as st

from midchart.pages.ui import guard, parts
from midchart.pages.ui.patient import cached, controls, own_question, record_view, view

guard.page("Patient")

body, end = st.container(), st.container()
drawer = end.expander(
    "Settings and files", icon=":material/tune:", on_change="rerun", key="patient_drawer"
)
choice = controls.choose(body, drawer)
with body:
    if not choice.record.events:
        st.info("This record has no events.")
        st.stop()
    if not choice.instruction.question:
        record_view.section(choice, (), ())
        st.stop()
    pieces = cached.pieces(choice)
    with (
        st.container()
    ):  # so that what follows keeps its place on the page, and the record its position
        views = view.first_screen(choice, pieces)
        own_question.section(choice)
    others = [other for marks_of in parts.parts("patient") if (other := marks_of(choice))]
    views = [*(other.view for other in others), *views]
    view.details(choice, views, pieces)
    for other in others:
        other.section()
if drawer.open:
    with drawer:
        view.files(choice, views, pieces)
