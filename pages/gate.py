"""Gate: the QCCS gate's shapes and faults, its training and calibration, and its checkpoints."""

import streamlit as st

from midchart.pages.ui import navigation, state
from midchart.pages.ui.gate import view
from midchart.pages.ui.results import kit

navigation.page("Gate")

OWN = [
    kit.Extra("real", "Does it keep more on real text?", lambda _: view.real_text()),
    kit.Extra("checkpoints", "Which gates are trained here?", lambda _: view.checkpoints()),
]
if state.runs((view.OFFER.kind,)):
    kit.page((view.OFFER.kind,), "gate", lambda _: OWN)
    navigation.link("patient", "The gate's scores on a patient's chart",
                    icon=":material/arrow_forward:", query_params={"heat": "qccs"})  # fmt: skip
else:
    view.OFFER.empty()
    for extra in OWN:
        with st.expander(extra.title, on_change="rerun", key=f"own_{extra.name}") as drawer:
            if drawer.open:
                extra.draw(None)
