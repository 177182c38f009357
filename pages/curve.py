"""Curve: is anything really lost in the middle? Accuracy by evidence position, compared with
chance, and the controlled experiment with a synthetic fact at every depth.
"""

import streamlit as st

from midchart.pages.ui import navigation, state
from midchart.pages.ui.curve import needles, observed
from midchart.pages.ui.shared.pickers import pick_linked

navigation.page("Curve")

VIEWS = {"observed": observed.observed, "needles": needles.needles}
TITLES = {"observed": "Model responses of a cohort", "needles": "The same fact at every depth"}

asked = st.query_params.get("run")
of_needles = asked and asked in {run["run"] for run in state.runs((needles.KIND,))}
with st.sidebar:
    view = pick_linked(
        "curve", "Curve of", sorted(VIEWS, reverse=not of_needles), TITLES.__getitem__,
        unlinked="needles" if of_needles else "observed",
    )  # fmt: skip
with navigation.readable("This cannot be read"):
    VIEWS[view]()
