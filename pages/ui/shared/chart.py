"""Figures on a page: drawn in the viewer's theme, with an alternative text and their downloads.

SVG, PDF and PNG with a caption are drawn by this machine's own Chrome or Chromium through kaleido,
which loads nothing from elsewhere: it is given a proxy that does not exist.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from midchart.core import api, figures
from midchart.pages.ui import server
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.sign_in import download_button

figures.use_theme(lambda: st.context.theme.type == "dark")


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
    opens: Callable[..., object] | None = None,
) -> None:
    """Draw a figure that has its style; ``alt`` says in words what it shows, ``opens`` what a click
    on a marker does: it gets the marker's custom data."""

    def select() -> None:
        if opens and (point := st.session_state[key].get("point")):
            opens(*point)

    if not isinstance(figure, Drawing):
        figure = Drawing.of(figure)
    plot(figure, alt, key, select if opens else None)
    export(figure.figure, alt, key)


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
            "script": server.ADDRESS,
        },
        **clicks,
    )


# Downloads


FORMATS = {"SVG": "image/svg+xml", "PDF": "application/pdf", "PNG": "image/png"}
WIDTH = 900
"""Pixels of a file; PNG has twice as many."""
SCALE = 2
LINE, LINE_HEIGHT = 130, 15
"""Characters of a line of the caption, and its height in pixels."""
NO_PROXY = "127.0.0.1:9"
SOURCE = "figure_source"


def set_source(run: dict[str, Any], report: dict[str, Any], example: bool) -> None:
    """Name the run that the page's figures and tables show, and whose records it is on, for their
    captions; ``example``: whether it is included with Midchart."""
    items, protocol = report["items"], report["protocol"]
    preset = protocol.get("preset", "custom") if isinstance(protocol, dict) else protocol
    judge = report["judge_agreement"]["short"]
    st.session_state[SOURCE] = (
        f"n = {items['done']:,} of {items['planned']:,} items. Run {run['run']}, protocol {preset}"
        f"{', included example' if example else ''}, on {report['origin']}"
        f"{f', judge {judge}' if judge else ''}."
    )


def set_cohort(cohort: api.Cohort) -> None:
    """Name the cohort that the page's figures show, and whether its records are synthetic."""
    name = cohort.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    kind = "synthetic records" if cohort.manifest.synthetic else "records"
    st.session_state[SOURCE] = f"On {kind} of the cohort {name}."


def source() -> str:
    """What the page's figures and tables show, in a sentence; "" where it is not known."""
    return for_terminal(str(st.session_state.get(SOURCE, "")))


def forget_source() -> None:
    """The page's figures show no run."""
    st.session_state.pop(SOURCE, None)


def caption_of(figure: go.Figure, alt: str) -> str:
    """What the figure shows, its intervals, number of items, run and protocol."""
    has_bars = any(
        getattr(trace, axis, None) is not None and getattr(trace, axis).array is not None
        for trace in figure.data
        for axis in ("error_x", "error_y")
        if axis in trace
    )
    parts = [alt.rstrip(". ") + ".", "Bars: 95 % intervals." if has_bars else ""]
    return " ".join(filter(None, [*parts, source()]))


def captioned(figure: go.Figure, caption: str) -> go.Figure:
    """A copy on an opaque background with the caption under it."""
    background = figures.ink().paper
    lines = textwrap.wrap(caption, LINE)
    copy = go.Figure(figure)
    height, bottom = figure.layout.height or HEIGHT, 70 + LINE_HEIGHT * len(lines)
    copy.update_layout(
        paper_bgcolor=background,
        plot_bgcolor=background,
        width=WIDTH,
        height=height + bottom,
        margin={"l": 60, "r": max(30, figure.layout.margin.r or 0), "t": 40, "b": bottom},
        title={
            "text": "<br>".join(for_screen(line, html=True) for line in lines),
            "font": {"size": 11}, "xref": "container",
            "x": 0.01, "xanchor": "left", "yref": "container", "yanchor": "top",
            "y": (LINE_HEIGHT * len(lines) + 8) / (height + bottom),
        },
    )  # fmt: skip
    return copy


def image(figure: go.Figure, kind: str) -> bytes:
    """The figure as a file of one of :data:`FORMATS`."""
    import kaleido

    options: dict[str, Any] = {"format": kind.lower(), "scale": SCALE if kind == "PNG" else 1}
    return kaleido.calc_fig_sync(
        figure, opts=options, kopts={"mathjax": False, "proxy_server": NO_PROXY}
    )


@st.fragment
def export(figure: go.Figure, alt: str, key: str) -> None:
    """A small button under a figure that opens its downloads."""
    menu = st.popover(
        "Figure",
        key=f"figure_{key}",
        type="tertiary",
        icon=":material/download:",
        help="Download as SVG, PDF or PNG with a caption",
        on_change="rerun",
    )
    if not menu.open:
        return
    from choreographer.browsers.chromium import Chromium

    with menu:
        caption = caption_of(figure, alt)
        st.caption(caption)
        if not Chromium.find_browser(skip_local=False):
            st.info("Export needs Chrome or Chromium, and neither is installed here.")
            return
        with st.container(horizontal=True, gap="small"):
            for kind, mime in FORMATS.items():
                name = f"{key}.{kind.lower()}"
                make = partial(image, captioned(figure, caption), kind)
                download_button(kind, name, mime, make, key=f"{kind}_{key}", icon=None)
