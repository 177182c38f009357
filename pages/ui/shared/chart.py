"""Figures on a page: drawn in the viewer's theme, with an alternative text and their downloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import streamlit as st

from midchart.core.figures import (
    GLYPHS,
    SCORES,
    dark,
    ink,
    is_control,
    leading,
    look_of,
    series,
    style,
    use_theme,
)
from midchart.pages.ui import scripts
from midchart.pages.ui.shared import figures

__all__ = [
    "GLYPHS",
    "SCORES",
    "dark",
    "ink",
    "is_control",
    "leading",
    "look_of",
    "series",
    "style",
]

use_theme(lambda: st.context.theme.type == "dark")


_SCRIPT = (Path(__file__).parents[1] / "assets" / "figure.js").read_text(encoding="utf-8")
_PLACE = '<div class="js-plotly-plot"></div>'
HEIGHT = 450
"""Pixels of a figure without a height, which is Plotly's."""


@dataclass(frozen=True)
class Drawing:
    """A figure in its style, and the JSON of it that the browser gets: made once, shown often."""

    figure: go.Figure
    json: str

    @classmethod
    def of(cls, figure: go.Figure) -> Drawing:
        """The drawing of a figure that has its style and is not changed any more."""
        return cls(figure, str(figure.to_json()))


def show(
    figure: go.Figure | Drawing,
    alt: str,
    key: str,
    styled: bool = False,
    opens: Callable[..., object] | None = None,
) -> None:
    """Draw a figure in Midchart's style; ``alt`` says in words what it shows.

    ``styled``: the figure has the style of the viewer's theme already. ``opens``: what a click on a
    marker does; it gets the marker's custom data.
    """

    def select() -> None:
        if opens and (point := st.session_state[key].get("point")):
            opens(*point)

    if not isinstance(figure, Drawing):
        figure = Drawing.of(figure if styled else style(figure))
    plot(figure, alt, key, select if opens else None)
    figures.export(figure.figure, alt, key, ink().paper)


def plot(
    drawing: Drawing,
    alt: str,
    key: str,
    select: Callable[[], object] | None = None,
    follows: bool = False,
) -> None:
    """Hand a figure to the browser, which draws it near the screen, or once the page is at rest
    (``figure.js``).

    ``select`` is called after a click on a marker, whose custom data are then in the session.
    ``follows``: a line shows where the record on the page is.
    """
    clicks = {"on_point_change": select} if select else {}
    st.components.v2.component("figure", html=_PLACE, js=_SCRIPT, isolate_styles=False)(
        key=key,
        data={
            "figure": drawing.json,
            "alt": alt,
            "height": drawing.figure.layout.height or HEIGHT,
            "opens": bool(select),
            "follows": follows,
            "script": scripts.ADDRESS,
        },
        **clicks,
    )
