"""Downloads of a figure for a paper: SVG, PDF and PNG with a caption, drawn by this machine's own
Chrome or Chromium through kaleido. Nothing is loaded from elsewhere: the browser is given a proxy
that does not exist."""

from __future__ import annotations

import textwrap
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.sign_in import later

FORMATS = {"SVG": "image/svg+xml", "PDF": "application/pdf", "PNG": "image/png"}
WIDTH, HEIGHT = 900, 480
"""Pixels of a figure without a height; PNG has twice as many."""
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


def captioned(figure: go.Figure, caption: str, background: str) -> go.Figure:
    """A copy on an opaque background with the caption under it."""
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
def export(figure: go.Figure, alt: str, key: str, background: str) -> None:
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
                st.download_button(
                    kind,
                    later(
                        api.download,
                        f"{key}.{kind.lower()}",
                        partial(image, captioned(figure, caption, background), kind),
                    ),
                    f"{key}.{kind.lower()}",
                    mime,
                    key=f"{kind}_{key}",
                    on_click="ignore",
                )
