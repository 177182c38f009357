"""Figures of the Curve page: accuracy over evidence position, and needle heatmaps and margins.

Rows come from the engine's tables, one per bin or cell, and are only drawn here.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from midchart.pages.ui.shared import chart, formats

LARGE, SMALL = (-9, 104), (-18, 105)
"""The y axis of large and small curves: per cent, with room for n under 0."""
OBSERVED, PAPER, CHANCE = "observed", "paper", "chance"
"""Labels at the right end of the lines."""


def curve(
    rows: pd.DataFrame, paper: pd.DataFrame, title: str, selected: int | None = None
) -> go.Figure:
    """One curve with its interval, the band that chance alone would fill, and the paper's curve.

    ``rows`` has ``bin``, ``low``, ``high`` (shares of the record), ``n``, ``clusters``,
    ``accuracy`` and both bands; ``paper`` may be empty, else ``low``, ``high``, ``accuracy``,
    ``ci_low``, ``ci_high``; ``selected`` is the bin whose marker is ringed.
    """
    published = [_paper(paper)] if len(paper) else []
    observed = _observed(rows, 11, selected)
    figure = go.Figure([*_null_bands(rows), *published, observed, _counts(rows, 11, -4.5)])
    chart.shade_middle(figure, named=True)
    figure.update_layout(
        height=430, clickmode="event+select", showlegend=False, hovermode="closest"
    )
    _axes(figure, title, "evidence position in the record, %")
    ends: list[tuple[float, str, str]] = []
    colours = chart.series()
    for frame, name, colour in ((rows, OBSERVED, colours[0]), (paper, PAPER, colours[3])):
        known = frame["accuracy"].dropna() if len(frame) else frame
        if len(known):
            ends.append((100 * float(known.iloc[-1]), name, colour))
    null = rows[["null_low", "null_high"]].dropna().astype(float)
    if len(null):
        ends.append((100 * float(null.iloc[-1].mean()), CHANCE, colours[1]))
    chart.end_labels(figure, ends, 6.5)
    return figure


def panel(rows: pd.DataFrame, layout: go.Layout | None = None) -> go.Figure:
    """A small curve with interval, null band and n; all panels have the same axes.

    ``layout``: one of :func:`panel_layout` made before; making it costs more than the traces.
    """
    traces = [*_null_bands(rows), _observed(rows, 7, None), _counts(rows, 9, -11)]
    return go.Figure(traces, layout or panel_layout().layout)


def panel_layout() -> go.Figure:
    """The axes and the shaded middle that all panels share, without a trace."""
    figure = go.Figure()
    chart.shade_middle(figure)
    figure.update_layout(height=210, showlegend=False, hovermode="closest")
    _axes(figure, "", "position, %")
    figure.update_xaxes(tickvals=[0, 30, 70, 100])
    figure.update_yaxes(range=list(SMALL), **chart.percent_ticks(0, 50, 100))
    return figure


def _axes(figure: go.Figure, y: str, x: str) -> None:
    figure.update_yaxes(
        range=list(LARGE), title=y, zeroline=False, **chart.percent_ticks(0, 20, 40, 60, 80, 100)
    )
    figure.update_xaxes(
        range=[-1, 101], title=x, tickvals=list(range(0, 101, 10)), tickangle=0,
        showgrid=False, zeroline=False,
    )  # fmt: skip


def _centres(rows: pd.DataFrame) -> pd.Series:
    """The middle of each bin, in per cent of the record."""
    return 50 * (rows["low"] + rows["high"])


def _null_bands(rows: pd.DataFrame) -> list[go.Scatter]:
    """The null band as ribbons with a step per bin; a bin without a band leaves a gap."""
    known = rows[rows["null_low"].notna() & rows["null_high"].notna()]
    colour = chart.series()[1]
    outline = {"color": colour, "width": 1, "dash": "dot"}
    return [
        chart.band(
            100 * piece[["low", "high"]].to_numpy(float).ravel(),
            100 * piece["null_low"].astype(float).repeat(2),
            100 * piece["null_high"].astype(float).repeat(2),
            colour,
            line=outline,
            name=CHANCE,
        )
        for _, piece in known.groupby((known["bin"].diff() != 1).cumsum())
    ]


def _paper(paper: pd.DataFrame) -> go.Scatter:
    look = chart.Look(chart.series()[3], "diamond-open", "dash")
    return chart.line(
        _centres(paper),
        paper["accuracy"],
        look,
        PAPER,
        scale=100,
        # No number first: these markers open no questions.
        customdata=[[None, ends] for ends in formats.intervals(paper, "ci_low", "ci_high")],
        hovertemplate="the paper: %{y:.1f} % %{customdata[1]}<extra></extra>",
    )


def _observed(rows: pd.DataFrame, size: int, selected: int | None) -> go.Scatter:
    """Line, intervals and markers (which carry their bin); a bin without answers is a gap."""
    look = chart.Look(chart.series()[0])
    ringed = rows["bin"] == (-1 if selected is None else selected)
    details = [
        [int(row["bin"]), formats.interval(row["ci_low"], row["ci_high"]), int(row["n"]),
         int(row["clusters"]), span(row["low"], row["high"])]
        for row in rows.to_dict("records")
    ]  # fmt: skip
    return chart.line(
        _centres(rows),
        rows["accuracy"],
        look,
        OBSERVED,
        (rows["ci_low"], rows["ci_high"]),
        100,
        marker={
            "symbol": "circle",
            "opacity": 1,
            "size": [size + 5 if ring else size for ring in ringed],
            "color": look.colour,
            "line": {"color": chart.ink().text, "width": [3 if ring else 0 for ring in ringed]},
        },
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        customdata=details,
        hovertemplate=(
            "%{customdata[4]}: %{y:.1f} % %{customdata[1]}<br>"
            "%{customdata[2]:,} answers, %{customdata[3]:,} questions<extra></extra>"
        ),
    )


def _counts(rows: pd.DataFrame, size: int, height: float) -> go.Scatter:
    """n of every bin under its marker."""
    return go.Scatter(
        x=_centres(rows),
        y=[height] * len(rows),
        mode="text",
        text=[formats.short(n) for n in rows["n"]],
        textfont={"size": size, "color": chart.ink().faint},
        hoverinfo="skip",
        cliponaxis=False,
        name="n",
    )


def span(low: Any, high: Any) -> str:
    """A bin as text: "20–30 %"."""
    return f"{100 * float(low):.0f}–{100 * float(high):.0f} %"


def curve_alt(rows: pd.DataFrame, title: str) -> str:
    """A curve in a sentence."""
    known = rows[rows["accuracy"].notna()]
    if known.empty:
        return f"{title} by position: nothing to show."
    points = "; ".join(
        f"{span(row['low'], row['high'])}: "
        f"{formats.share(row['accuracy'], row['ci_low'], row['ci_high'])}, n {int(row['n']):,}"
        for row in known.to_dict("records")
    )
    return f"Line: {title} by position in the record, with intervals and a null band. {points}."


# Needles
