"""The Inhibition page's views of an inhibition run, each with charts, text and table."""

from __future__ import annotations

from typing import Any

import streamlit as st

from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import empty

KIND = "inhibition"
SPECS = {
    "Quick": "inhibition_quick.toml",
    "Controls": "inhibition_controls.toml",
    "Full comparison": "inhibition.toml",
}
ABOUT = {
    "Quick": "One seed and fewer steps: a demonstration without conclusions.",
    "Controls": "Twelve decoders: separates the effect of subtraction from that of supervision. "
    "Ten minutes on one core.",
    "Full comparison": "Thirty decoders: almost an hour on one core.",
}


# Starting a run


def spec(size: str) -> dict[str, Any]:
    """A preset inhibition run."""
    return presets.spec(SPECS[size])


def no_run() -> None:
    """The empty state: the included run, and the button that starts one."""
    with empty.state(
        "No inhibition run yet",
        "Does subtractive attention read the middle of a record as well as its ends? An "
        "inhibition run trains small decoders from scratch that differ only in their attention, "
        "and asks each for the same fact at every depth of the same synthetic record. It needs "
        "no cohort and no model.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The size and the button."""
    size = st.segmented_control("Size", list(SPECS), default="Quick", required=True, key="size")
    presets.button(
        spec(size), "Train and compare the decoders", KIND, ABOUT[size], file=SPECS[size]
    )


# Views
