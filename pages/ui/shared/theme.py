"""How figures look: one palette, shape and dash for each arm on every page, in light and in dark.

Four colours that stay apart for colour-blind readers (UK Government Analysis Function palette),
with a lighter twin of the two dark ones for dark backgrounds. An arm is told by its shape and dash
as well as its colour, and is labelled directly, so nothing rests on colour alone (WCAG 1.4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import plotly.graph_objects as go
import streamlit as st

from core import api

LIGHT = ("#12436D", "#28A197", "#801650", "#F46A25")
DARK = ("#7FB2E5", "#3DBFB4", "#D98AB8", "#F7925C")
"""The series colours; the dark twins keep hue and reach 3:1 against the dark background."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
DASHES = ("solid", "dash", "dot", "dashdot")
SCORES = "Cividis"
"""Colour scale for scores."""

ORDER = (
    "full",
    "bm25",
    "dense",
    "oracle",
    "qccs",
    "bm25_filtered",
    "bm25_ranked",
    "mmr",
    "cross_encoder",
    "llmlingua2",
    "map_reduce",
    "qccs_plus",
    "bm25_temporal",
)
"""Arms in the order of the palette; controls are drawn hollow and grey beside them."""


@cache
def controls() -> tuple[str, ...]:
    """Names of the arms that are baselines, sorted."""
    return tuple(card.name for card in api.members("arm") if card.control)


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, marker symbol and dash of an arm."""

    colour: str
    symbol: str
    dash: str


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours of text, lines and grid on the current background."""

    text: str
    faint: str
    grid: str
    paper: str


def dark() -> bool:
    """Whether the viewer's theme is dark."""
    return st.context.theme.type == "dark"


def ink() -> Ink:
    """Text and line colours for the viewer's theme."""
    if dark():
        return Ink("#E8EBEF", "#A3ADB8", "#343C47", "#11151A")
    return Ink("#1B2733", "#5B6773", "#DDE2E7", "#FFFFFF")


def series() -> tuple[str, ...]:
    """The four series colours for the viewer's theme."""
    return DARK if dark() else LIGHT


def look_of(arm: str) -> Look:
    """Colour, symbol and dash of an arm; the same on every page and in every run."""
    base, _, k = arm.partition(" · k=")
    if base in controls():
        place = controls().index(base) % len(SYMBOLS)
        return Look(ink().faint, SYMBOLS[place] + "-open", DASHES[1 + place % (len(DASHES) - 1)])
    place = ORDER.index(base) if base in ORDER else crc32(base.encode()) % 24
    colours = series()
    ring = place // len(colours)
    dash = DASHES[1 + int(k) % 3] if k.isdigit() else DASHES[ring % len(DASHES)]
    return Look(colours[place % len(colours)], SYMBOLS[(place + place // 12) % len(SYMBOLS)], dash)


def apart(labels: Sequence[str]) -> dict[str, Look]:
    """Looks for a few arms in one chart: each its own, but no two of the same colour or marker.

    An arm keeps its colour unless an earlier one has it; then it takes one that is free.
    """
    looks: dict[str, Look] = {}
    free = list(series())
    for label in labels:
        own = look_of(label)
        if own.colour in free:
            free.remove(own.colour)
        elif own.colour != ink().faint and free:
            own = Look(free.pop(), own.symbol, own.dash)
        taken = {(look.symbol, look.dash) for look in looks.values()}
        symbols = (s for s in (own.symbol, *SYMBOLS) if s not in {t for t, _ in taken})
        dashes = (d for d in (own.dash, *DASHES) if d not in {t for _, t in taken})
        looks[label] = Look(own.colour, next(symbols, own.symbol), next(dashes, own.dash))
    return looks


def leading(labels: Sequence[str], most: int) -> list[str]:
    """The arms to begin with where only a few fit: those that lead the palette, else the first."""
    known = [label for label in ORDER if label in labels]
    return (known + [label for label in labels if label not in known])[:most]


def colour_of(arm: str) -> str:
    """The colour of an arm for the viewer's theme."""
    return look_of(arm).colour


def style(figure: go.Figure) -> go.Figure:
    """Fonts, grid, margins and hover of every figure, for the viewer's theme."""
    shade = ink()
    axis = {
        "gridcolor": shade.grid,
        "zerolinecolor": shade.grid,
        "linecolor": shade.grid,
        "tickfont": {"color": shade.text, "size": 12},
        "title": {"font": {"color": shade.faint, "size": 12}},
        "automargin": True,
    }
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": '"Source Sans", sans-serif', "size": 13, "color": shade.text},
        margin={"l": 8, "r": figure.layout.margin.r or 8, "t": 28, "b": 8},
        hoverlabel={
            "bgcolor": shade.paper,
            "bordercolor": shade.faint,
            "font": {"color": shade.text},
        },
        colorway=list(series()),
        legend={"orientation": "h", "y": -0.2, "font": {"color": shade.text}},
        dragmode=False,
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


def show(figure: go.Figure, alt: str, key: str, styled: bool = False, **options: Any) -> Any:
    """Draw a figure in Midchart's style; ``alt`` says in words what it shows.

    ``styled``: the figure is kept from before and has the style of the viewer's theme already.
    """
    return st.plotly_chart(
        figure if styled else style(figure),
        theme=None,
        key=key,
        alt=alt,
        config={"displaylogo": False, "displayModeBar": False},
        **options,
    )
