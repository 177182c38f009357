"""The start of every page, the choice of a view, and the message on unreadable results.

``guard.page("Patient")`` is the first statement of each page. It restores the menu after a deep
link on a cold server, draws the title and the research-use notice, asks for a
sign-in where one is set up, and offers the demo where no cohort is installed.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import chart, messages, pickers
from midchart.pages.ui.shared.marks import for_screen

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
    if not navigation.declared():
        navigation.declare()
        st.rerun()
    place = navigation.place(name)
    st.set_page_config(page_title=f"{place.title} · Midchart", page_icon=ICON, layout="wide")
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
    st.title(f"{place.title} :small[{place.question}]", anchor=False)
    st.components.v2.component("page", js=SCRIPT, isolate_styles=False)(key="page_script")
    sign_in.gate()
    navigation.follow()
    if place.title not in WITHOUT_QUEUE:
        # A container of its own: when the line goes, nothing below moves up a place, for Streamlit
        # would draw that anew and lose what a person has begun to type.
        with st.container():
            panel.status_line()
    _arrive(place.title)
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
    if before is None or before == title:
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
    """Open another page with some of its choices made, such as its cohort."""
    title = navigation.place(page).title
    for name, value in choices.items():
        st.session_state[_place(name, title)] = value
    navigation.switch(page)


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
        navigation.link("home", "Back to Home")


def view(names: Iterable[str]) -> str:
    """The view chosen on a page, the first by default; in the URL."""
    known = list(names)
    return pickers.pick("View", known, "view", abreast=True, label_visibility="collapsed")


def no_cohort() -> None:
    """The empty state: nothing is loaded; make the demo, or bring records."""
    with messages.empty(
        "No records yet",
        "Midchart works on a folder of patient records. Start with the demo: forty synthetic "
        "patients with questions, answers and marked evidence. Nothing is downloaded.",
    ):
        demo_button()
        navigation.link("data", "Import a cohort", icon=":material/upload_file:")


def demo_button() -> None:
    """The button that creates the demo cohort."""
    problem = sign_in.lacking(api.prepare_demo)
    if st.button("Create the demo cohort", type="primary", key="make_demo",
                 disabled=bool(problem), help=problem or None):  # fmt: skip
        make_demo()


def make_demo() -> None:
    """Create the demo cohort with a progress bar, then draw the page again."""
    meter = st.progress(0.0, "Creating the demo cohort")

    def step(done: int, planned: int) -> None:
        meter.progress(done / max(planned, 1), f"Creating patient {done} of {planned}")

    try:
        api.prepare_demo(progress=step)
    except (MidchartError, OSError) as error:
        st.error(for_screen(str(error)), title="The demo could not be created")
    else:
        state.forget_cohorts()
        st.rerun()
