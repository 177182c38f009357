"""One patient and one question: which sentences each arm kept, which evidence it dropped, and what
the reader made of it. The page lays out; everything it shows is worked out in ``pages/ui``.
"""

import streamlit as st

from pages.ui import guard
from pages.ui.patient import choose
from pages.ui.patient import scores as scores_view
from pages.ui.patient import state as patient_state
from pages.ui.patient import tabs as patient_tabs
from pages.ui.patient import view as patient_view

guard.page("Patient")

choice = choose.choose()
patient_view.question(choice)
if not choice.record.events:
    st.info("This record has no events.")
    st.stop()

found = patient_state.pieces(choice.record, choice.gold, choice.protocol)
views = patient_view.summary(choice, found)
patient_view.record_timeline(choice, views, found)
panel = patient_view.evidence_panel(choice, views, found)

st.subheader("More", anchor=False)
scores, given, compared, saved = st.tabs(
    [
        "Sentence scores",
        "Reader prompt",
        "Arm comparison",
        "Table and export",
    ],
    on_change="rerun",
    key="patient_more",
)
if scores.open:
    with scores:
        scores_view.section(choice, found)
if given.open:
    with given:
        patient_tabs.reader(choice, views, found)
if compared.open:
    with compared:
        patient_tabs.two_arms(choice, views, found)
if saved.open:
    with saved:
        patient_tabs.export(choice, views, found, panel)
