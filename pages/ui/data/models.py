"""Models and components on the Data page: installed or not, with the command that installs them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui.shared import tables
from midchart.pages.ui.shared.marks import for_screen


def weights() -> None:
    """The weights the program can use: a table, and the command for each that is missing."""
    frame = pd.DataFrame(api.models())
    how = frame["how"].fillna("").map(lambda how: f"installed ({how})" if how else "installed")
    shown = pd.DataFrame(
        {
            "model": frame["name"],
            "state": how.where(frame["here"], "not installed"),
            "size (MB)": frame["size_mb"],
            "used by": frame["used_by"],
        }
    )
    alt = "Models: installed or not, size, and what uses them"
    tables.table(shown, "models", alt, download=frame)
    missing = frame[~frame["here"]].to_dict("records")
    if not missing:
        return
    st.write(
        "Nothing is downloaded automatically. Run a model's command with network access, or copy "
        "its folder to the path shown."
    )
    for model in missing:
        st.caption(
            f"**{for_screen(model['name'])}**, {model['size_mb']:,} MB, goes to "
            f"{for_screen(model['where'])}"
        )
        st.code(model["command"], language=None, wrap_lines=True)


def components() -> None:
    """Every arm, reader and judge: installed or not, or what a spec must name for it."""
    rows = [
        {
            "family": family,
            "name": card.name,
            "description": card.title,
            "state": _state(card),
            "requirement": card.problem,
        }
        for family in ("arm", "reader", "judge")
        for card in api.members(family)
    ]
    frame = pd.DataFrame(rows)
    alt = "Arms, readers and judges: installed or not"
    tables.table(frame.drop(columns="requirement"), "families", alt, download=frame)
    # In full: a cell of a table would cut a sentence off.
    for row in rows:
        if row["requirement"]:
            st.caption(
                f"{row['family']} **{for_screen(row['name'])}**, {row['state']}: "
                f"{for_screen(row['requirement'])}"
            )


def _state(card: api.MemberCard) -> str:
    if not card.installed:
        return "not installed"
    return "set in a run's spec" if card.problem else "installed"
