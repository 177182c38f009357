"""The keys of each page: what "?" lists, and the controls that single keys press.

Single keys can be switched off in that list (WCAG 2.1.4); the choice stays in the browser.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

_FILES = Path(__file__).parent / "assets"
SCRIPT = (_FILES / "keys.js").read_text(encoding="utf-8")
STYLE = (_FILES / "keys.css").read_text(encoding="utf-8")
EVERYWHERE = (
    ("Tab", "next control; Shift+Tab: the one before"),
    ("Enter", "press a button, open a list; Space: choose"),
    ("← → ↑ ↓", "move within options, lists and tables; Enter opens a table's cell"),
    ("Esc", "close a list or a message"),
    ("?", "this list"),
)
"""Keys that browsers and Streamlit give every page: (key, what it does)."""


def _steps(does: str, name: str) -> list[dict[str, Any]]:
    """The keys [ and ] step through the options of the control ``name`` (or one named so first)."""
    return [
        {
            "key": key,
            "does": f"{which} {does}",
            "selector": f"[class*=st-key-{name}] button",
            "step": step,
        }
        for key, which, step in (("[", "previous", -1), ("]", "next", 1))
    ]


PAGES: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(
        ("Arms", "Curve", "Forecast", "Gate", "Inhibition", "Runs"), _steps("view", "view")
    ),
}
"""Page → its own keys."""


def button(title: str) -> None:
    """The button "?" of a page, which lists its keys."""
    keys = [*PAGES.get(title, ()), *({"key": key, "does": does} for key, does in EVERYWHERE)]
    st.components.v2.component("page_keys", js=SCRIPT, css=STYLE)(
        key="page_keys", data={"keys": keys}, width="content"
    )
