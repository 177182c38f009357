"""Models and arms as the Data page shows them: here, or missing with its size and its command."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core import api
from pages.ui import state
from pages.ui.shared import tables
from pages.ui.shared.plain import plain


def weights() -> None:
    """The weights the program can use: a table, and the command for each that is missing."""
    found = api.models()
    frame = pd.DataFrame(
        {
            "model": [model["name"] for model in found],
            "state": [_state(model) for model in found],
            "size (MB)": [model["size_mb"] for model in found],
            "used by": [model["used_by"] for model in found],
        }
    )
    tables.table(
        frame,
        "models",
        "Models: here or missing, size, and what uses them",
        download=pd.DataFrame(found),
        height="content",
    )
    missing = [model for model in found if not model["here"]]
    if missing:
        with st.expander(f"How to get the missing ones ({len(missing)})"):
            st.write(
                "Nothing is fetched by itself. Run the command where there is a network, or copy "
                "the folder to the place that is named."
            )
            for model in missing:
                st.caption(
                    f"**{plain(model['name'])}**, {model['size_mb']:,} MB, goes to "
                    f"{plain(model['where'])}"
                )
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
    tables.table(
        frame.drop(columns="what is missing"),
        "families",
        "Arms, readers and judges: here or away",
        download=frame,
        height="content",
    )
    away = [row for row in rows if row["what is missing"]]
    if away:
        with st.expander(f"Why some are away ({len(away)})"):
            # In full: a cell of a table would cut a sentence off.
            for row in away:
                st.caption(
                    f"{row['family']} **{plain(row['name'])}**: {plain(row['what is missing'])}"
                )
