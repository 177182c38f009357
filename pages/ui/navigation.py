"""The list of pages, with group and URL, for the menu and for links.

Streamlit also serves the folder ``pages/`` by itself until ``st.navigation`` is first called in the
process. A deep link on a cold server therefore runs a page without ``app.py``;
:func:`midchart.pages.ui.guard.page` detects it by :func:`declared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

FOLDER = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Place:
    """A page: its group in the menu, file (its stem is the address), title and purpose.

    No icon: Streamlit would make it the tab's icon, and fetch that from a font server.
    """

    group: str
    name: str
    title: str
    purpose: str


PLACES = (
    Place("Inspect", "home", "Home", "Loaded cohorts, active runs and latest results."),
    Place(
        *("Inspect", "patient", "Patient"),
        "One patient and one question: what each arm kept, what it dropped, what was answered.",
    ),
    Place(
        *("Inspect", "questions", "Questions"),
        "The same questions asked of every patient, with each answer's source.",
    ),
    Place("Results", "curve", "Curve", "Accuracy by evidence position, compared with chance."),
    Place(
        *("Results", "arms", "Arms"),
        "Comparison of a run's arms, from overall accuracy to single questions.",
    ),
    Place(
        *("Results", "gate", "Gate"),
        "The QCCS gate: training, calibration, ablations and effect of each published fault.",
    ),
    Place(
        *("Results", "forecast", "Forecast"),
        "Attention variants compared on laboratory forecasts, with count-based baselines.",
    ),
    Place(
        *("Results", "inhibition", "Inhibition"),
        "Does subtractive attention read the middle better? Small decoders trained locally.",
    ),
    Place(
        *("Results", "replication", "Replication"),
        "The paper's tables compared with this installation's, and the effect of each published "
        "fault.",
    ),
    Place(
        *("Work", "review", "Review"),
        "Judge answers blind to their arm; agreement of judges with human reviewers.",
    ),
    Place("Work", "runs", "Runs", "Compose, estimate, start, monitor and compare runs."),
    Place(
        *("Work", "data", "Data & models"),
        "Cohorts with checks and data-use tags; models installed and not installed.",
    ),
)

_state = {"declared": False}


def place(title: str) -> Place:
    """The page with a title."""
    return next(place for place in PLACES if place.title == title)


def declared() -> bool:
    """Whether this process has called ``st.navigation`` yet."""
    return _state["declared"]


def _page(place: Place) -> Page:
    return st.Page(
        FOLDER / f"{place.name}.py",
        title=place.title,
        url_path="start" if place.name == "home" else place.name,
        default=place.name == "home",
        help=place.purpose,
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
    st.switch_page(_page(next(place for place in PLACES if place.name == name)))


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
        page = _page(next(place for place in PLACES if place.name == name))
        st.switch_page(page, query_params=query)


def link(name: str, label: str, **options: Any) -> None:
    """A link to one of the pages, by its short name."""
    place = next(place for place in PLACES if place.name == name)
    st.page_link(_page(place), label=label, **options)
