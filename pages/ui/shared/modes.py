"""The three ways to read charts (one patient, all patients, one answer after another) as one line:
the page's question, and links to the others."""

from __future__ import annotations

import streamlit as st

from midchart.pages.ui import navigation

QUESTIONS = {
    "patient": "What was kept of this chart?",
    "questions": "What do all the charts say?",
    "review": "Is this answer right?",
}
"""Page → the question that it answers."""


def line(name: str) -> None:
    """The question of page ``name``, and the links."""
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center",
        gap="small", key="modes",
    ):  # fmt: skip
        st.header(QUESTIONS[name], anchor=False, width="content")
        with st.container(horizontal=True, width="content", gap="small"):
            for page in QUESTIONS:
                navigation.link(page, page.capitalize(), width="content")
