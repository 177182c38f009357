"""Forest plots and grids of percentages."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import plotly.graph_objects as go

from midchart.core.figures.parts import dotted, error_bars
from midchart.core.figures.style import PERCENT, ROW, SCORES, Look, ink, series
from midchart.core.format import for_screen

NAME, LINE = 30, 17
"""Longest line of a row's name in characters, and the height of a further line in pixels."""


@dataclass(frozen=True)
class ForestRow:
    """A row: its title, estimate and interval (in the axis' unit), and its numbers as text.

    ``chance``: the chance level of the row, drawn as a tick; NaN where it has none. ``label``: the
    arm's id, which a click on the marker gives back.
    """

    name: str
    value: float
    low: float
    high: float
    text: str
    control: bool = False
    symbol: str = "circle"
    chance: float = float("nan")
    label: str = ""


def estimates(x: Any, y: Any, low: Any, high: Any, look: Look, **options: Any) -> go.Scatter:
    """Markers with horizontal intervals."""
    tint = look.colour
    return go.Scatter(
        x=x,
        y=y,
        error_x=error_bars(x, low, high, tint, thickness=2, width=5),
        **{
            "mode": "markers",
            "cliponaxis": False,
            "marker": {
                "color": tint, "symbol": look.symbol, "size": 10,
                "line": {"width": 2, "color": tint},
            },
            "showlegend": False,
            **options,
        },
    )  # fmt: skip


def row_axis(figure: go.Figure, names: Sequence[str], texts: Sequence[str] = ()) -> None:
    """The y axis of rows from top to bottom: row i is at height len(names) - i.

    ``texts``: numbers under each name, as HTML; lines are separated by "<br>".
    """
    small = f'<span style="font-size:11px;color:{ink().faint}">'
    under = [f"<br>{small}{text}</span>" if text else "" for text in texts] or [""] * len(names)
    # Long names are wrapped: on a narrow screen they would leave no room for the marks.
    wrapped = [textwrap.wrap(name, NAME) or [""] for name in names]
    tall = ROW + LINE * (max(map(len, wrapped), default=1) - 1)
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


def forest(
    rows: Sequence[ForestRow],
    title: str,
    span: tuple[float, float] = PERCENT,
    suffix: str = " %",
    zero: bool = False,
) -> go.Figure:
    """A forest plot, rows from top to bottom as given; ``zero`` draws the line of no difference."""
    figure = go.Figure()
    shade, colour = ink(), series()[0]
    height = {id(row): len(rows) - place for place, row in enumerate(rows)}
    for control, symbol in dict.fromkeys((row.control, row.symbol) for row in rows):
        alike = [
            row
            for row in rows
            if (row.control, row.symbol) == (control, symbol) and not isnan(row.value)
        ]
        look = Look(shade.faint if control else colour, f"{symbol}-open" if control else symbol)
        figure.add_trace(
            estimates(
                [row.value for row in alike],
                [height[id(row)] for row in alike],
                [row.low for row in alike],
                [row.high for row in alike],
                look,
                text=[
                    f"{for_screen(row.name, html=True)}: {for_screen(row.text, html=True)}"
                    for row in alike
                ],
                customdata=[[row.label] for row in alike],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    by_chance = [row for row in rows if not isnan(row.chance)]
    if by_chance:
        figure.add_trace(
            go.Scatter(
                x=[row.chance for row in by_chance],
                y=[height[id(row)] for row in by_chance],
                mode="markers",
                name="chance",
                cliponaxis=False,
                marker={
                    "symbol": "line-ns-open", "size": 16, "color": shade.faint,
                    "line": {"width": 2, "color": shade.faint},
                },
                hovertemplate="chance %{x:.1f} %<extra></extra>",
                showlegend=False,
            )
        )  # fmt: skip
    if zero:
        dotted(figure, x=0)
    figure.update_xaxes(
        range=list(span), title=for_screen(title, html=True), ticksuffix=suffix, zeroline=False
    )
    row_axis(figure, [row.name for row in rows], [for_screen(row.text, html=True) for row in rows])
    return figure


def symmetric_span(rows: Sequence[ForestRow], least: float = 5.0) -> tuple[float, float]:
    """An axis around 0 that holds every row, and at least ``least`` on either side."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if not isnan(end)]
    reach = 1.08 * max([least, *ends])
    return -reach, reach


def forest_alt(rows: Sequence[ForestRow], title: str) -> str:
    """A forest plot in a sentence: how many rows, the highest and the lowest."""
    known = sorted((row for row in rows if not isnan(row.value)), key=lambda row: row.value)
    if not known:
        return f"Forest plot of {title}: nothing to show yet."
    return (
        f"Forest plot of {title}, {len(known)} rows; highest {known[-1].name}: {known[-1].text}; "
        f"lowest {known[0].name}: {known[0].text}."
    )


def heatmap(
    values: Any,
    columns: Sequence[str],
    rows: Sequence[str],
    text: Any,
    hover: Any = None,
    hovertemplate: str = "",
    cell: int = 28,
    bar: str = "",
    clicked: Sequence[Sequence[Any]] = (),
) -> go.Figure:
    """Percentages as shade and number: ``values``, ``text`` and ``hover`` are [row][column].

    The first row is on top. ``bar``: title of a colour bar; empty for none. ``clicked``: the custom
    data that a click on a cell selects, in the order of the rows.
    """
    shade = ink()
    colour_bar = {
        "title": {"text": bar, "font": {"size": 11, "color": shade.faint}},
        "thickness": 9,
        "tickvals": [0, 50, 100],
        "tickfont": {"size": 11, "color": shade.text},
        "outlinewidth": 0,
        "len": 0.9,
    }
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=list(columns),
            y=list(rows),
            zmin=0,
            zmax=100,
            colorscale=SCORES,
            text=text,
            customdata=hover,
            hovertemplate=None if clicked else hovertemplate or None,
            hoverinfo=None if hovertemplate and not clicked else "skip",
            xgap=2,
            ygap=2,
            showscale=bool(bar),
            colorbar=colour_bar if bar else None,
        )
    )
    for row, values_of_row in enumerate(values):
        for column, value in enumerate(values_of_row):
            dark_text = value > 42  # Cividis is dark below
            figure.add_annotation(
                x=column, y=row, showarrow=False, text=text[row][column],
                font={"size": 12, "color": "#101820" if dark_text else "#F4F6F8"},
            )  # fmt: skip
    if clicked:  # a heatmap reports no clicks; invisible markers over its cells do
        figure.add_scatter(
            x=list(columns) * len(rows), y=[row for row in rows for _ in columns],
            customdata=clicked, mode="markers", showlegend=False,
            text=[one for row in hover for one in row] if hover else None,
            hovertemplate=hovertemplate.replace("%{customdata}", "%{text}") or None,
            hoverinfo=None if hovertemplate else "skip",
            marker={"size": 26, "symbol": "square", "opacity": 0},
            selected={"marker": {"opacity": 0}}, unselected={"marker": {"opacity": 0}},
        )  # fmt: skip
        figure.update_layout(hovermode="closest", hoverdistance=120)
    figure.update_layout(height=80 + cell * max(len(rows), 3))
    figure.update_xaxes(type="category", showgrid=False, tickangle=0)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return figure
