"""Figures of the Arms page: a forest of arms, and arms over position bands."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.ui import results, theme


def forest(frame: pd.DataFrame, value: str, low: str, high: str, what: str) -> go.Figure:
    """One line an arm: its share as a marker, its interval as a bar, labelled with its number.

    ``frame`` has ``label``, ``arm``, ``n`` and the three named columns (shares in [0, 1]).
    The best stands on top; controls are hollow.
    """
    figure = go.Figure()
    rows = frame.sort_values(value, ascending=True, na_position="first").to_dict("records")
    for row in rows:
        look = theme.look_of(row["arm"])
        share, start, end = (100 * float(row[c]) for c in (value, low, high))
        figure.add_trace(
            go.Scatter(
                x=[share],
                y=[row["label"]],
                mode="markers+text",
                text=[f"{share:.0f} %"],
                textposition="top center",
                textfont={"size": 11},
                cliponaxis=False,
                marker={
                    "color": look.colour,
                    "symbol": look.symbol,
                    "size": 11,
                    "line": {"width": 2, "color": look.colour},
                },
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [end - share],
                    "arrayminus": [share - start],
                    "color": look.colour,
                    "thickness": 2,
                    "width": 5,
                },
                hovertemplate=(
                    f"{row['label']}: {share:.1f} % [{start:.1f}, {end:.1f}], "
                    f"n={int(row['n'])}<extra></extra>"
                ),
                showlegend=False,
            )
        )
    figure.update_layout(height=90 + 36 * max(len(rows), 2))
    figure.update_xaxes(range=[-3, 103], title=what, ticksuffix=" %", dtick=25)
    figure.update_yaxes(showgrid=True, type="category")
    return figure


def forest_alt(frame: pd.DataFrame, value: str, what: str) -> str:
    """The forest in a sentence: how many arms, the best and the worst."""
    known = frame.dropna(subset=[value]).sort_values(value)
    if known.empty:
        return f"Forest plot of {what}: nothing to show yet."
    worst, best = known.iloc[0], known.iloc[-1]
    return (
        f"Forest plot of {what} for {len(known)} arms; highest {best['label']} at "
        f"{results.percent(best[value])}, lowest {worst['label']} at "
        f"{results.percent(worst[value])}."
    )


def by_band(frame: pd.DataFrame, value: str, low: str, high: str, what: str) -> go.Figure:
    """The chosen arms over the position bands, intervals drawn, each line named at its end."""
    bands = [b for b in results.BAND_ORDER[:6] if b in set(frame["band"])]
    figure = go.Figure()
    for label, rows in frame.groupby("label", sort=False):
        rows = rows[rows["band"].isin(bands)].set_index("band").reindex(bands).reset_index()
        look = theme.look_of(str(label))
        shares = 100 * rows[value].astype(float)
        figure.add_trace(
            go.Scatter(
                x=rows["band"],
                y=shares,
                mode="lines+markers",
                name=str(label),
                line={"color": look.colour, "dash": look.dash, "width": 2},
                marker={"symbol": look.symbol, "size": 9, "color": look.colour},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": 100 * rows[high].astype(float) - shares,
                    "arrayminus": shares - 100 * rows[low].astype(float),
                    "thickness": 1,
                    "width": 3,
                    "color": look.colour,
                },
                customdata=rows["n"],
                hovertemplate=f"{label}, %{{x}} %: %{{y:.1f}} %, n=%{{customdata}}<extra></extra>",
            )
        )
    figure.update_layout(height=380, legend={"y": -0.25})
    figure.update_yaxes(range=[-3, 103], ticksuffix=" %", title=what)
    figure.update_xaxes(title="where the evidence lies in the record, %", type="category")
    return figure
