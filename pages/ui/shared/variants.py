"""Figures and tables of trained variants, for the Gate, Forecast and Inhibition pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.pages.ui.shared import chart, tables
from midchart.pages.ui.shared.chart import ForestRow, Look
from midchart.pages.ui.shared.marks import safe


def name_lines(title: str) -> tuple[str, str]:
    """A variant's title and, where it has options, its options; both as HTML."""
    head, _, rest = safe(title).partition(", ")
    return head, rest


def legend_name(title: str) -> str:
    """A variant's title as HTML, its options on a second line."""
    return "<br>".join(part for part in name_lines(title) if part)


def legend_below(figure: go.Figure, height: int, entries: int) -> None:
    """A plot of this height with its legend below, with room for one line per entry."""
    figure.update_layout(
        height=height + 21 * entries, hovermode="closest", legend={"x": 0, "yanchor": "top"}
    )


def padded(values: Sequence[float], least: float, share: float = 0.06) -> tuple[float, float]:
    """A range that holds all known values, with a margin; a span below ``least`` counts as it."""
    known = [value for value in values if not isnan(value)] or [0.0, 1.0]
    margin = share * max(max(known) - min(known), least)
    return min(known) - margin, max(known) + margin


def forest(
    rows: Sequence[ForestRow],
    title: str,
    span: tuple[float, float],
    suffix: str = "",
    zero: bool = False,
) -> go.Figure:
    """A forest plot with each variant's options under its name, to fit a narrow screen."""
    figure = chart.forest(rows, title, span, suffix, zero)
    small = f'<span style="font-size:11px;color:{chart.ink().faint}">'
    labels: list[str] = []
    for row in rows:
        head, options = name_lines(row.name)
        under = "".join(f"<br>{small}{text}</span>" for text in (options, safe(row.text)) if text)
        labels.append(f"<b>{head}</b>{under}")
    figure.update_yaxes(ticktext=labels)
    if any(name_lines(row.name)[1] for row in rows):
        figure.update_layout(height=70 + 54 * max(len(rows), 2))
    return figure


def difference_forest(rows: Sequence[ForestRow]) -> go.Figure:
    """Differences from a reference in percentage points, with the line of no difference."""
    ends = [0.0, *(end for row in rows for end in (row.value, row.low, row.high))]
    return forest(rows, "difference in points", padded(ends, 1), zero=True)


def calibration(
    rows: pd.DataFrame,
    column: str,
    looks: Mapping[str, Look],
    titles: Mapping[str, str],
    alt: str,
    name: str,
    download: pd.DataFrame,
    opens: Callable[[int, str], object] | None = None,
) -> None:
    """A reliability curve (:func:`reliability`) and its numbers side by side.

    ``opens``: what a click on a cell of the numbers does.
    """
    heads = {
        "mean_score": "predicted",
        "positive_rate": "observed",
        "low": "95 % low",
        "high": "95 % high",
    }
    left, right = st.columns(2, gap="medium")
    with left:
        chart.show(reliability(rows, column, looks, titles), alt, "reliability")
    with right:
        tables.table(
            rows[[column, "bin", "n", *heads]].replace({column: dict(titles)}),
            name,
            "Predicted probability and observed event rate by bin",
            {k: st.column_config.NumberColumn(head, format="%.3f") for k, head in heads.items()},
            download,
            opens,
        )


def reliability(
    rows: pd.DataFrame, column: str, looks: Mapping[str, Look], titles: Mapping[str, str]
) -> go.Figure:
    """Observed event rate by predicted probability, with intervals; a line per value of ``column``.

    ``rows`` has mean_score, positive_rate, low, high and n of each bin.
    """
    figure = go.Figure()
    chart.diagonal(figure)
    for value, look in looks.items():
        bins = rows[rows[column] == value].sort_values("mean_score")
        title = titles.get(value, value)
        figure.add_trace(
            chart.line(
                bins["mean_score"],
                bins["positive_rate"],
                look,
                bars=(bins["low"], bins["high"]),
                showlegend=True,
                customdata=bins["n"],
                hovertemplate=f"{safe(title)}: predicted %{{x:.2f}}, observed %{{y:.2f}}"
                "<br>n = %{customdata:,}<extra></extra>",
            ).update(name=legend_name(title))
        )
    legend_below(figure, 400, len(looks))
    figure.update_xaxes(title="mean predicted probability", range=[-0.02, 1.02], zeroline=False)
    figure.update_yaxes(title="observed event rate", range=[-0.02, 1.04], zeroline=False)
    return figure
