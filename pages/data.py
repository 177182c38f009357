"""Data & models: cohorts, their checks and permitted uses, and what is not installed.

The import of a cohort; cohorts with their data-use tag in plain words, their check and evidence
positions; then the models and arms, each installed or with the command that installs it.
"""

import streamlit as st

from midchart.pages.ui import guard, sign_in, state
from midchart.pages.ui.data import cohort, import_form, models

guard.page("Data & models", needs_cohort=False)

imported = import_form.result()  # in the place of the form, so that it is in view
if problem := sign_in.lacking("import_cohort"):
    st.caption(f"Import and removal of cohorts: {problem}")
elif not imported:
    import_form.section()
import_form.left_runs()
if not state.cohorts():
    guard.no_cohort()
else:
    cohort.problems()
    name = imported or state.pick_cohort(forecasts=True)
    if name:
        with guard.readable("This cohort cannot be read"):
            cohort.cohort(name, check_first=bool(imported))
        if name in state.imported() and not sign_in.lacking("remove_cohort"):
            import_form.removal(name)

st.header("Models and arms", anchor=False)
models.weights()
models.components()
