"""Data: import first, then the cohorts with their state, one of them in full, and the cohort.

A cohort has its data-use tag in plain words, its check and evidence positions; models and arms are
installed or have the command that installs them.
"""

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.data import cohort, import_form

navigation.page("Data", needs_cohort=False)

imported = import_form.result()  # in the place of the form, so that it is in view
if problem := sign_in.lacking(api.import_cohort):
    st.caption(f"Import and removal of cohorts: {problem}")
elif not imported:
    import_form.section()
import_form.left_runs()
if not state.cohorts():
    navigation.no_cohort()
else:
    name = imported or cohort.listing()
    if name:
        with navigation.readable("This cohort cannot be read"):
            cohort.cohort(name)
        if name in state.imported():
            for section in state.parts("data"):
                section(name)
        if name in state.imported() and not sign_in.lacking(api.remove_cohort):
            import_form.removal(name)
with st.expander("Models and components", icon=":material/inventory_2:", key="inventory"):
    cohort.weights()
    cohort.components()
