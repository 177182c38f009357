"""Palette, looks of series, and the one Plotly template of all figures.

Four series colours that colour-blind readers can distinguish (UK Government Analysis Function
palette), with lighter twins for dark backgrounds. An arm also has a marker shape and a dash, and is
labelled directly, so nothing rests on colour alone (WCAG 1.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from zlib import crc32

import plotly.graph_objects as go

from midchart.core.arms import ARMS
from midchart.core.results.titles import split_label

SERIES = (
    ("#12436D", "#28A197", "#801650", "#F46A25"),
    ("#7FB2E5", "#3DBFB4", "#D98AB8", "#F7925C"),
)
"""The series colours on a light and on a dark background; the latter keep the hue and reach 3:1."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
GLYPHS = {
    "circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲", "cross": "✚", "x": "✖",
    "circle-open": "○", "square-open": "□", "diamond-open": "◇", "triangle-up-open": "△",
    "cross-open": "✛", "x-open": "✕",
}  # fmt: skip
"""Marker symbols as characters."""
DASHES = ("solid", "dash", "dot", "dashdot")
SCORES = "Cividis"
"""Colour scale for scores."""
ORDER = (
    *("full", "bm25", "dense", "oracle", "qccs", "bm25_filtered", "bm25_ranked", "mmr"),
    *(
        "cross_encoder",
        "llmlingua2",
        "map_reduce",
        "qccs_plus",
        "hybrid",
        "certain",
        "bm25_temporal",
    ),
)
"""Arms in the order of the palette; controls are drawn hollow and grey."""
ROW = 40
"""Height of a row of a forest plot in pixels: a name and a line of numbers under it."""
PERCENT = (-3.0, 103.0)
"""Range of an axis of percentages."""
LABEL = 20
"""Longest line of a label in characters."""
MIDDLE = (30, 70)
"""The middle of a record in per cent."""


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, marker symbol and dash of a series."""

    colour: str
    symbol: str = "circle"
    dash: str = "solid"


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours of text, lines and grid on the current background."""

    text: str
    faint: str
    grid: str
    paper: str


INKS = (
    Ink("#1B2733", "#5B6773", "#DDE2E7", "#FFFFFF"),
    Ink("#E8EBEF", "#A3ADB8", "#343C47", "#11151A"),
)
"""Colours on a light and on a dark background."""


@cache
def controls() -> tuple[str, ...]:
    """Names of the arms that are baselines, sorted."""
    return tuple(name for name in sorted(ARMS.names()) if getattr(ARMS.get(name), "control", False))


def is_control(label: str) -> bool:
    """Whether the arm of a label is one of the controls, whatever its options."""
    return split_label(label)[0] in controls()


_theme: list[Callable[[], bool]] = [lambda: False]


def use_theme(is_dark: Callable[[], bool]) -> None:
    """Say how a figure learns whether its viewer's background is dark; light by default."""
    _theme[0] = is_dark


def dark() -> bool:
    """Whether the viewer's background is dark."""
    return _theme[0]()


def ink() -> Ink:
    """Text and line colours for the viewer's theme."""
    return INKS[dark()]


def series() -> tuple[str, ...]:
    """The four series colours for the viewer's theme."""
    return SERIES[dark()]


def rgba(colour: str, opacity: float) -> str:
    """A "#rrggbb" colour with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def series_look(index: int) -> Look:
    """The look of a chart's series number ``index``."""
    return Look(series()[index % 4], SYMBOLS[index % len(SYMBOLS)], DASHES[index % len(DASHES)])


def look_of(label: str) -> Look:
    """Colour, symbol and dash of an arm by its label; the same on every page and in every run."""
    base, options = split_label(label)
    k = options.get("k", "")
    if base in controls():
        place = controls().index(base) % len(SYMBOLS)
        return Look(ink().faint, SYMBOLS[place] + "-open", DASHES[1 + place % (len(DASHES) - 1)])
    place = ORDER.index(base) if base in ORDER else crc32(base.encode()) % 24
    colours = series()
    ring = place // len(colours)
    dash = DASHES[1 + int(k) % 3] if k.isdigit() else DASHES[ring % len(DASHES)]
    return Look(colours[place % len(colours)], SYMBOLS[(place + place // 12) % len(SYMBOLS)], dash)


def distinct_looks(labels: Sequence[str]) -> dict[str, Look]:
    """Looks for a few arms in one chart, no two of the same colour or marker.

    An arm keeps its colour unless an earlier one has it; then it takes one that is free.
    """
    looks: dict[str, Look] = {}
    free = list(series())
    for label in labels:
        look = look_of(label)
        if look.colour in free:
            free.remove(look.colour)
        elif look.colour != ink().faint and free:
            look = Look(free.pop(), look.symbol, look.dash)
        taken = {(other.symbol, other.dash) for other in looks.values()}
        symbols = (s for s in (look.symbol, *SYMBOLS) if s not in {t for t, _ in taken})
        dashes = (d for d in (look.dash, *DASHES) if d not in {t for _, t in taken})
        looks[label] = Look(look.colour, next(symbols, look.symbol), next(dashes, look.dash))
    return looks


def leading(labels: Sequence[str], most: int) -> list[str]:
    """The arms to begin with where only a few fit: those that lead the palette, else the first."""
    known = [label for label in ORDER if label in labels]
    return (known + [label for label in labels if label not in known])[:most]


def style(figure: go.Figure) -> go.Figure:
    """Give a figure the template of the viewer's theme; what it sets itself has priority."""
    figure.layout.template = _template(dark())
    return figure


@lru_cache(maxsize=2)
def _template(dark: bool) -> go.layout.Template:
    """Fonts, grid, margins and hover of every figure on a light or dark background."""
    shade = INKS[dark]
    axis = {
        "gridcolor": shade.grid,
        "zerolinecolor": shade.grid,
        "linecolor": shade.grid,
        "tickfont": {"color": shade.text, "size": 12},
        "title": {"font": {"color": shade.faint, "size": 12}},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": '"Source Sans", sans-serif', "size": 13, "color": shade.text},
            "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
            "hoverlabel": {
                "bgcolor": shade.paper,
                "bordercolor": shade.faint,
                "font": {"color": shade.text},
            },
            "colorway": SERIES[dark],
            "legend": {"orientation": "h", "y": -0.2, "font": {"color": shade.text}},
            "dragmode": False,
            "xaxis": axis,
            "yaxis": axis,
        }
    )
