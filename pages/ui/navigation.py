"""The list of pages, with group and URL, for the menu and for links.

Streamlit also serves the folder ``pages/`` by itself until ``st.navigation`` is first called in the
process. A deep link on a cold server therefore runs a page without ``app.py``;
:func:`midchart.pages.ui.guard.page` detects it by :func:`declared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

FOLDER = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Place:
    """A page: its group in the menu, its name (the address, and the stem of its file in this
    folder), its title there, and the question that it answers; ``file``: where a page of an
    installed package is.

    No icon: Streamlit would make it the tab's icon, and fetch that from a font server.
    """

    group: str
    name: str
    title: str
    question: str
    file: Path | None = None


PLACES = tuple(
    Place(group, *words)
    for group, places in {
        "": (("home", "Home", "What does a model miss in the middle of a chart?"),),
        "Chart": (
            ("patient", "Patient", "What was kept of this chart?"),
            ("questions", "Questions", "What do all the charts say?"),
            ("review", "Review", "Is this answer right?"),
        ),
        "Results": (
            ("curve", "Curve", "Is accuracy lower in the middle of the chart?"),
            ("arms", "Arms", "Which way of selecting sentences answers best?"),
            ("gate", "Gate", "What does a trained gate add?"),
            ("forecast", "Forecast", "Which attention forecasts best?"),
            ("replication", "Paper", "Do the paper's results hold here?"),
            ("results", "Others", "What did other experiments find?"),
        ),
        "Work": (
            ("runs", "Runs", "What has been run, and what next?"),
            ("data", "Data", "Whose charts are here, and for what use?"),
        ),
    }.items()
    for words in places
) + tuple(point.load() for point in entry_points(group="midchart.pages"))
"""The pages of this folder, and those that installed packages name as a :class:`Place` each."""

_state = {"declared": False}


def place(name: str) -> Place:
    """A page by its short name, also with a capital."""
    return next(place for place in PLACES if place.name == name.lower())


def declared() -> bool:
    """Whether this process has called ``st.navigation`` yet."""
    return _state["declared"]


def _page(place: Place) -> Page:
    return st.Page(
        place.file or FOLDER / f"{place.name}.py",
        title=place.title,
        url_path="start" if place.name == "home" else place.name,
        default=place.name == "home",
        help=place.question,
        # Opened by a run of page Runs alone: without a plug-in's experiment there is none.
        visibility="hidden" if place.name == "results" else "visible",
    )


def declare() -> Page:
    """Register the pages with Streamlit; returns the one of the URL."""
    groups: dict[str, list[Any]] = {}
    for place in PLACES:
        groups.setdefault(place.group, []).append(_page(place))
    # Streamlit serves the default page at "/" alone; a hidden twin answers at "/home" too.
    home = PLACES[0]
    twin = st.Page(FOLDER / "home.py", title=home.title, url_path=home.name, visibility="hidden")
    groups[home.group].append(twin)
    current = st.navigation(groups)
    _state["declared"] = True
    return current


def switch(name: str) -> None:
    """Open one of the pages, by its short name; ends this run of the page."""
    st.switch_page(_page(place(name)))


GOES_TO = "page_that_a_click_opens"
"""Session key of the page that the last click on a table or chart opens, with its address."""


def on_click(name: str, **query: str) -> None:
    """Open one of the pages at an address once the page is drawn again; for callbacks, in which
    Streamlit cannot switch pages."""
    st.session_state[GOES_TO] = (name, query)


def follow() -> None:
    """Open the page that the last click asked for (:func:`on_click`), if any."""
    if GOES_TO in st.session_state:
        name, query = st.session_state.pop(GOES_TO)
        st.switch_page(_page(place(name)), query_params=query)


def link(name: str, label: str, **options: Any) -> None:
    """A link to one of the pages, by its short name."""
    st.page_link(_page(place(name)), label=label, **options)
