"""Figures made with Plotly for pages, notebooks and documents: the palette and the looks of series,
the one template, and parts of figures.

Four series colours that colour-blind readers can distinguish (UK Government Analysis Function
palette), with lighter twins for dark backgrounds. An arm also has a marker shape and a dash, and is
labelled directly, so nothing rests on colour alone (WCAG 1.4.1).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import plotly.graph_objects as go

from midchart.core.arms import ARMS
from midchart.core.format import for_screen
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
        "bm25_analysed",
    ),
)
"""Arms in the order of the palette; controls are drawn hollow and grey."""
ROW = 36
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
class StepLook:
    """Fill, pattern and colour of the number of a segment of a bar."""

    fill: str
    pattern: str
    text: str


_STEPS = {
    "never selected": ("#801650", "#A8477C", ""),
    "cut from the prompt": ("#F46A25", "#F7925C", "/"),
    "there, not quoted": ("#F2C14E", "#E8B339", "."),
    "quoted, answer wrong": ("#B8C0C8", "#8792A0", "x"),
    "there, not used": ("#F2C14E", "#E8B339", "."),
    "right without it": ("#9CCFC9", "#3DBFB4", "\\"),
    "heading alone": ("#B8C0C8", "#8792A0", "x"),
    "found no answer": ("#DDE3E9", "#4A5562", ""),
    "failed": ("#F46A25", "#F7925C", "/"),
}
"""Steps of the funnel, and states of an answer without one: fill on a light and on a dark
background, and pattern; all others are what is left."""


def step_looks(steps: Sequence[str]) -> dict[str, StepLook]:
    """The look of each step of the funnel."""
    left = ("#12436D", "#7FB2E5", "")
    looks: dict[str, StepLook] = {}
    for step in steps:
        light, night, pattern = _STEPS.get(step, left)
        fill = night if dark() else light
        bright = sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) > 360
        looks[step] = StepLook(fill, pattern, "#101820" if bright else "#FFFFFF")
    return looks


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
    """Looks for a few arms in one chart, no two of the same colour or marker. An arm keeps its
    colour unless an earlier one has it; then it takes one that is free."""
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


# Parts: lines with intervals, bands, reference lines, axes, labels at line ends.


def error_bars(
    value: Any, low: Any, high: Any, colour: str, scale: float = 1, **shape: Any
) -> dict[str, Any]:
    """Plotly error bars from the ends of intervals (array-likes); a missing end has no bar."""
    middle, lower, upper = (scale * np.asarray(v, dtype=float) for v in (value, low, high))
    return {
        "type": "data",
        "symmetric": False,
        "array": upper - middle,
        "arrayminus": middle - lower,
        "color": colour,
        "thickness": 1.5,
        "width": 4,
        **shape,
    }


def line(
    x: Any,
    y: Any,
    look: Look,
    name: str = "",
    bars: tuple[Any, Any] | None = None,
    scale: float = 1,
    **options: Any,
) -> go.Scatter:
    """A line with markers, and an interval (``bars``: low, high) at each point. ``scale``
    multiplies y and the intervals; missing values leave a gap."""
    y = np.asarray(y, dtype=float)
    error = {"error_y": error_bars(y, *bars, look.colour, scale)} if bars else {}
    defaults = {
        "mode": "lines+markers",
        "name": for_screen(name, html=True),
        "showlegend": False,
        "connectgaps": False,
        "line": {"color": look.colour, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.symbol, "size": 8, "color": look.colour},
    }
    return go.Scatter(x=x, y=scale * y, **{**defaults, **error, **options})


def band(x: Sequence[float], low: Any, high: Any, colour: str, **options: Any) -> go.Scatter:
    """A ribbon between ``low`` and ``high`` over ``x``."""
    x, low, high = list(x), list(low), list(high)
    return go.Scatter(
        x=x + x[::-1],
        y=high + low[::-1],
        **{
            "fill": "toself",
            "fillcolor": rgba(colour, 0.18),
            "line": {"width": 0},
            "mode": "lines",
            "hoverinfo": "skip",
            "showlegend": False,
            **options,
        },
    )


def shade_middle(
    figure: go.Figure, named: bool = False, ends: tuple[float, float] = MIDDLE
) -> None:
    """Shade the middle of the record on an x axis of per cent, or between ``ends``."""
    faint = ink().faint
    figure.add_vrect(
        x0=ends[0], x1=ends[1], fillcolor=faint, opacity=0.09, line_width=0, layer="below",
        annotation_text="middle of the record" if named else "", annotation_position="top",
        annotation_font={"size": 11, "color": faint},
    )  # fmt: skip


def dotted(figure: go.Figure, x: float | None = None, y: float | None = None) -> None:
    """A dotted reference line at ``x`` or ``y``."""
    look = {"color": ink().faint, "width": 1.5, "dash": "dot"}
    if x is not None:
        figure.add_vline(x=x, line=look)
    if y is not None:
        figure.add_hline(y=y, line=look)


def spread(
    heights: Sequence[float], gap: float = 6.0, span: tuple[float, float] = (-2.0, 102.0)
) -> list[float]:
    """Heights in ascending order, moved so that neighbours are at least ``gap`` apart. They are
    moved up, and where that would leave ``span`` down again: Plotly does not draw a label outside
    the axis. Where there are too many for the gap they share the span evenly."""
    low, high = span
    gap = min(gap, (high - low) / max(len(heights) - 1, 1))
    moved: list[float] = []
    for height in heights:
        moved.append(height if not moved else max(height, moved[-1] + gap))
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], high)
        high = moved[place] - gap
    return moved


def end_labels(figure: go.Figure, ends: Sequence[tuple[float, str, str]], gap: float = 6.0) -> None:
    """Names at the right end of lines: (height in per cent, text, colour), none over another."""
    ends = sorted(ends)
    # Long names are wrapped: on a narrow screen they would leave no room for the lines.
    names = [textwrap.wrap(for_screen(text, html=True), LABEL) for _, text, _ in ends]
    heights = spread([end[0] for end in ends], gap * max(map(len, names), default=1))
    for height, name, (_, _, colour) in zip(heights, names, ends, strict=True):
        figure.add_annotation(
            x=1, xref="paper", xanchor="left", y=height, text="<br>".join(name), align="left",
            showarrow=False, font={"color": colour, "size": 12},
        )  # fmt: skip
    longest = max((len(part) for name in names for part in name), default=0)
    figure.update_layout(margin={"r": 12 + 7 * longest})


def category_axis(labels: Sequence[str], margin: float = 0.4) -> dict[str, Any]:
    """An x axis of categories at 0, 1, 2 …, so that series can be shifted side by side."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [for_screen(label, html=True) for label in labels],
        "tickangle": 0,
        "range": [-margin, len(labels) - 1 + margin],
        "showgrid": False,
        "zeroline": False,
    }


def shifts(count: int, step: float) -> list[float]:
    """Offsets of ``count`` series around a category."""
    return [step * (place - (count - 1) / 2) for place in range(count)]


# Rows of forest plots and bars.


NAME, LINE = 30, 17
"""Longest line of a row's name in characters, and the height of a further line in pixels."""


MOST_ABOVE = 8
"""Rows of a figure whose axis is below it; that of a longer one is above, within the screen."""


def axis_side(rows: int) -> dict[str, Any]:
    """Where the x axis of so many rows is."""
    return {"side": "top"} if rows > MOST_ABOVE else {}


def row_axis(figure: go.Figure, names: Sequence[str], texts: Sequence[str] = ()) -> None:
    """The y axis of rows from top to bottom: row i is at height len(names) - i. ``texts``: numbers
    under each name, as HTML; lines are separated by "<br>"."""
    small = f'<span style="font-size:11px;color:{ink().faint}">'
    under = [f"<br>{small}{text}</span>" if text else "" for text in texts] or [""] * len(names)
    # Long names are wrapped: on a narrow screen they would leave no room for the marks.
    wrapped = [textwrap.wrap(name, NAME) or [""] for name in names]
    lines = [len(name) + text.count("<br>", 4) for name, text in zip(wrapped, under, strict=True)]
    tall = ROW + LINE * (max(lines, default=1) - 1)
    figure.update_layout(height=70 + tall * max(len(names), 2))
    figure.update_yaxes(
        tickvals=[len(names) - place for place in range(len(names))],
        ticktext=[
            f"<b>{'<br>'.join(for_screen(line, html=True) for line in lines)}</b>{text}"
            for lines, text in zip(wrapped, under, strict=True)
        ],
        range=[0.4, len(names) + 0.6],
        showgrid=True,
        zeroline=False,
    )
