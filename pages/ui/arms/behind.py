"""From a number to the questions behind it: what a click on the Arms page opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

ANY = "any"
FILTERS = ("arm", "outcome", "position", "evidence", "type", "domain", "failure")
"""Filters of the view Questions, each in the session and the URL as ``q_NAME``."""
Behind = Mapping[str, Any]
"""Filter → value."""
CRITERIA = {
    "in prompt": "evidence_in_prompt",
    "evidence-id": "evidence",
    "lexical": "lexical",
    "semantic": "semantic",
}
"""Criterion of a report → the column of a hit."""
CLICK = "Click a number or a marker to read the questions behind it."


def open_questions(**filters: Any) -> None:
    """Show the questions that match the filters, and set no other one."""
    for name in (*FILTERS, "versus"):
        st.session_state[f"q_{name}"] = filters.get(name, ANY)
    st.session_state["differ"] = False
    st.session_state["asked"] = ""
    st.session_state["view"] = "Questions"


def evidence(criterion: str, hit: bool) -> dict[str, str]:
    """The filter of hit or miss by a criterion of the report; none for one with a threshold."""
    column = CRITERIA.get(criterion)
    return {"evidence": f"{column}-{'yes' if hit else 'no'}"} if column else {}


def position(band: str) -> dict[str, str]:
    """The filter of a position band; none for all."""
    return {} if band == "overall" else {"position": band}
