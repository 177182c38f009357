"""The list of pages, for the menu and for links; the start of every page, and the choice of a view.

``navigation.page("Patient")`` is the first statement of each page. It draws the title and the
research-use notice, asks for a sign-in where one is set up, and offers the demo where no cohort is
installed. Streamlit also serves the folder ``pages/`` by itself until ``st.navigation`` is first
called in the process: a deep link on a cold server runs a page without ``app.py``, and restores the
menu.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import sign_in, state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import chart, messages, pickers
from midchart.pages.ui.shared.marks import for_screen

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
"""Whether this process has called ``st.navigation`` yet."""


def place(name: str) -> Place:
    """A page by its short name, also with a capital."""
    return next(place for place in PLACES if place.name == name.lower())


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


# The start of a page


_ASSETS = Path(__file__).resolve().parent / "assets"
STYLE, TEXT_STYLE = _ASSETS / "page.css", _ASSETS / "text.css"
SCRIPT = (_ASSETS / "page.js").read_text(encoding="utf-8")
_PICTURE = (_ASSETS / "midchart.png").read_bytes()
ICON = "data:image/png;base64," + base64.b64encode(_PICTURE).decode()
"""In the page itself: a file that Streamlit serves may be gone when another session ends before
the browser asks for it."""
SHARED = (
    "view", "run", "cohort", "measure", "position", "by", "reader", "judge", "layer",
)  # fmt: skip
"""Keys that several pages use with different options."""
COHORTS = {"Forecast": "labels", "Data": "all"}
"""Pages that offer other cohorts than those with questions."""
WITHOUT_QUEUE = ("Review",)
"""Pages without the line on the queue: nothing moves while a person judges."""
PAGE = "page_shown"
NOTICE = "Research use only. Not for clinical decisions."
KEYS = {
    "Tab": "next control; Shift+Tab: the one before",
    "Enter": "press a button, open a list; Space: choose",
    "← → ↑ ↓": "move within options, lists and tables; Enter opens a table's cell",
    "Esc": "close a list or a message",
    "?": "this list",
}
"""Keys of every page, listed by "?" (page.js)."""


def page(name: str, needs_cohort: bool = True) -> None:
    """Begin a page by its short name: menu, configuration, research-use notice and title.

    With ``needs_cohort``, a page without any cohort shows the empty state and stops here.
    """
    if not _state["declared"]:
        declare()
        st.rerun()
    page = place(name)
    st.set_page_config(page_title=f"{page.title} · Midchart", page_icon=ICON, layout="wide")
    st.logo(ICON, size="large")
    st.html(STYLE)
    st.html(TEXT_STYLE)
    with st.container(horizontal=True, width="content", vertical_alignment="center", key="notice"):
        st.badge(NOTICE, color="gray")
        if st.button("Copy link", type="tertiary", icon=":material/link:", key="copy_link",
                     help="The address of what this page shows"):  # fmt: skip
            st.toast("Link copied", icon=":material/check:")  # by page.js
        with st.popover("?", type="tertiary", help="Keys of this page", key="keys"):
            st.markdown("\n".join(f"- **{key}** {does}" for key, does in KEYS.items()))
    st.title(f"{page.title} :small[{page.question}]", anchor=False)
    st.components.v2.component("page", js=SCRIPT, isolate_styles=False)(key="page_script")
    sign_in.gate()
    follow()
    if page.title not in WITHOUT_QUEUE and api.any_active():
        # In a container, so that elements below keep their position when the line is removed:
        # Streamlit rebuilds a moved element and discards text that is being typed into it.
        with st.container():
            panel.status_line()
    _arrive(page.title)
    api.reading.set(state.ReadingBar())
    chart.forget_source()
    if needs_cohort and not state.cohorts():
        no_cohort()
        st.stop()


def _arrive(title: str) -> None:
    """On another page than before, restore that page's choices in place of those of the last.

    Pages share the names of some choices (all have a ``view``), and Streamlit keeps a choice by its
    name alone. The URL takes precedence.
    """
    before = st.session_state.get(PAGE)
    st.session_state[PAGE] = title
    if before == title:
        return
    state.forget_cohorts()
    if before is None:
        return
    for name in SHARED:
        left, entered = _place(name, before), _place(name, title)
        if left == entered:
            continue
        if name in st.session_state:
            st.session_state[left] = st.session_state[name]
        # Replaced, not removed and set: so Streamlit writes it to the URL too.
        if entered in st.session_state:
            st.session_state[name] = st.session_state[entered]
        elif name in st.session_state:
            del st.session_state[name]
    pickers.forget()


def go(page: str, **choices: str) -> None:
    """Open another page with some of its choices made, such as its cohort; ends this run."""
    title = place(page).title
    for name, value in choices.items():
        st.session_state[_place(name, title)] = value
    st.switch_page(_page(place(page)))


def _place(name: str, page: str) -> str:
    """Session key of a page's choice; pages that offer the same cohorts share one."""
    return f"of_{COHORTS.get(page, 'questions') if name == 'cohort' else page}_{name}"


@contextmanager
def readable(what: str) -> Generator[None]:
    """Show an error of the enclosed part of a page in one line, titled ``what``."""
    try:
        yield
    except MidchartError as error:
        st.error(for_screen(str(error)), title=what)
        link("home", "Back to Home")


def view(names: Iterable[str]) -> str:
    """The view chosen on a page, the first by default; in the URL."""
    known = list(names)
    return pickers.pick("View", known, "view", abreast=True, label_visibility="collapsed")


def no_cohort() -> None:
    """The empty state: nothing is loaded; make the demo, or bring records."""
    with messages.empty(
        "No records yet",
        "Midchart works on a folder of patient records. Start with the demo: forty synthetic "
        "patients with questions, answers and marked evidence, and finished runs on them. Nothing "
        "is downloaded.",
    ):
        demo_button()
        link("data", "Import a cohort", icon=":material/upload_file:")


def demo_button() -> None:
    """The button that installs the demo cohorts and the included runs, with a progress bar."""
    problem = sign_in.lacking(api.prepare_first_start)
    if not st.button("Install the demo", type="primary", key="make_demo", disabled=bool(problem),
                     help=problem or None):  # fmt: skip
        return
    meter = st.progress(0.0, "Installing the demo")
    try:
        api.prepare_first_start(lambda done, planned: meter.progress(done / max(planned, 1)))
    except (MidchartError, OSError) as error:
        st.error(for_screen(str(error)), title="The demo could not be installed")
    else:
        state.forget_cohorts()
        st.rerun()
