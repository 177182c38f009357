"""Parts of figures: lines with intervals, bands, reference lines, axes, labels at line ends."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from midchart.core.figures.style import GLYPHS, LABEL, MIDDLE, Look, ink, rgba
from midchart.core.format import for_screen


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
    """A line with markers, and an interval (``bars``: low, high) at each point.

    ``scale`` multiplies y and the intervals; missing values leave a gap.
    """
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


def shade_middle(figure: go.Figure, named: bool = False) -> None:
    """Shade the middle of the record on an x axis of per cent."""
    faint = ink().faint
    figure.add_vrect(
        x0=MIDDLE[0], x1=MIDDLE[1], fillcolor=faint, opacity=0.09, line_width=0, layer="below",
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


def diagonal(figure: go.Figure) -> None:
    """The dotted diagonal of a calibration plot or a ROC curve."""
    figure.add_trace(
        go.Scatter(
            x=[0, 1], y=[0, 1], mode="lines", hoverinfo="skip", showlegend=False,
            line={"color": ink().faint, "dash": "dot", "width": 1},
        )
    )  # fmt: skip


def caption(figure: go.Figure, text: str, right: bool = False, colour: str = "") -> None:
    """A line of text (HTML) above the plot, at its left or right end."""
    side = "right" if right else "left"
    figure.add_annotation(
        x=1 if right else 0, y=1, xref="paper", yref="paper", xanchor=side, yanchor="bottom",
        showarrow=False, text=text, font={"size": 12, "color": colour or ink().text},
    )  # fmt: skip


def key(figure: go.Figure, items: Mapping[str, Look]) -> None:
    """Which series is which, by colour and symbol, above the plot."""
    caption(
        figure,
        "   ".join(
            f'<span style="color:{look.colour}">{GLYPHS[look.symbol]} '
            f"{for_screen(name, html=True)}</span>"
            for name, look in items.items()
        ),
    )


def spread(
    heights: Sequence[float], gap: float = 6.0, span: tuple[float, float] = (-2.0, 102.0)
) -> list[float]:
    """Heights in ascending order, moved so that neighbours are at least ``gap`` apart.

    They are moved up, and where that would leave ``span`` down again: Plotly does not draw a label
    outside the axis. Where there are too many for the gap they share the span evenly.
    """
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


def percent_ticks(*values: int) -> dict[str, Any]:
    """Ticks at these percentages. Plotly draws no suffix on ticks that are given."""
    return {"tickvals": list(values), "ticktext": [f"{value} %" for value in values]}


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
