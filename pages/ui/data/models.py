"""Models and arms as the Data page shows them: here, or missing with its size and its command."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core import api
from pages.ui import state
from pages.ui.shared import tables


def weights() -> None:
    """The weights the program can use: a table, and the command for each that is missing."""
    found = api.models()
    frame = pd.DataFrame(
        {
            "model": [model["name"] for model in found],
            "state": [_state(model) for model in found],
            "size (MB)": [model["size_mb"] for model in found],
            "used by": [model["used_by"] for model in found],
            "where": [model["where"] for model in found],
        }
    )
    tables.table(
        frame,
        "models",
        "Models: here or missing, size, what uses them, and where they lie or go",
        download=pd.DataFrame(found),
    )
    missing = [model for model in found if not model["here"]]
    if missing:
        with st.expander(f"How to get the missing ones ({len(missing)})"):
            st.write(
                "Nothing is fetched by itself. Run the command where there is a network, or copy "
                "the folder to the place named above."
            )
            for model in missing:
                st.caption(f"{model['name']}, {model['size_mb']:,} MB")
                st.code(model["command"], language="bash", wrap_lines=True)


def _state(model: dict[str, object]) -> str:
    if model["here"]:
        return f"here ({model['how']})" if model["how"] else "here"
    return "missing"


def arms() -> None:
    """Every arm, reader and judge: here, or away with the reason."""
    rows = [
        {
            "family": family,
            "name": name,
            "what it is": title,
            "state": "away" if problem else "here",
            "what is missing": problem,
        }
        for family in ("arm", "reader", "judge")
        for name, title, problem in state.members(family)
    ]
    frame = pd.DataFrame(rows)
    if not frame["what is missing"].any():
        frame = frame.drop(columns="what is missing")
    tables.table(frame, "families", "Arms, readers and judges: here or away", height="content")
