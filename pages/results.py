"""Results: a run of any kind without another page, such as an experiment of a plug-in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.pages.ui import guard, navigation, state
from midchart.pages.ui.patient import controls
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import picker
from midchart.pages.ui.shared.pickers import token


def open_chart(shown: kit.Shown, _: api.View, row: Mapping[str, Any]) -> None:
    """Open page Patient on the question of a row: the cohort's own, else as it was asked."""
    cohort = api.open_data(shown.run["data"])
    name, record = Path(cohort.path).name, row["record"]
    if row["own_question"]:
        asked = {"patient": token(name, record), "question": token(name, row["own_question"])}
    else:
        asked = controls.typed_address(name, cohort.records[record], row["question"])
    navigation.on_click("patient", cohort=name, **asked)


guard.page("Results", needs_cohort=False)

kinds = tuple(kind["name"] for kind in api.kinds() if kind["name"] not in picker.RESULTS)
if not kinds or not state.runs(kinds):
    st.info("No run of another kind yet. Runs that compare arms, gates or attentions have other "
            "pages.")  # fmt: skip
    navigation.link("runs", "All runs", icon=":material/arrow_forward:")
    st.stop()
kit.page(kinds, "results", opens=open_chart)
