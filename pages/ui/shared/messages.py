"""What a page says above its figures or in their place: a conclusion, an empty state, progress."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import for_screen


def conclude(first: str, below: Iterable[str] = (), place: DeltaGenerator | None = None) -> None:
    """Draw a conclusion and what it rests on, the lines under it (plain text)."""
    inside = f'<p class="mc-headline">{_unbroken(first)}</p>' if first else ""
    inside += "".join(f'<p class="mc-basis">{_unbroken(line)}</p>' for line in below if line)
    if inside:
        (place or st).html(marks.block(inside))


def _unbroken(text: str) -> str:
    return for_screen(marks.unbroken(text), html=True)


def empty(title: str, about: str) -> DeltaGenerator:
    """A bordered container with a heading and a paragraph (markdown); buttons are added to it."""
    box = st.container(border=True)
    box.header(title, anchor=False)
    box.markdown(about)
    return box
