"""Figures of the Arms page: a forest of arms, and arms over position bands."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.ui import results, theme

APART = 0.07
"""How far apart the lines of a band chart stand, in bands."""


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
    """The chosen arms over the position bands with intervals; lines stand a little apart.

    Each line is named at its end; names that would collide are moved apart.
    """
    bands = [b for b in results.BAND_ORDER[:6] if b in set(frame["band"])]
    labels = list(dict.fromkeys(frame["label"]))
    figure = go.Figure()
    ends: list[tuple[float, str]] = []
    for place, label in enumerate(labels):
        rows = frame[frame["label"] == label].set_index("band").reindex(bands)
        look = theme.look_of(label)
        shares = 100 * rows[value].astype(float)
        shift = APART * (place - (len(labels) - 1) / 2)
        figure.add_trace(
            go.Scatter(
                x=[i + shift for i in range(len(bands))],
                y=shares,
                mode="lines+markers",
                name=label,
                showlegend=False,
                line={"color": look.colour, "dash": look.dash, "width": 2},
                marker={"symbol": look.symbol, "size": 9, "color": look.colour},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": 100 * rows[high].astype(float) - shares,
                    "arrayminus": shares - 100 * rows[low].astype(float),
                    "thickness": 1.2,
                    "width": 3,
                    "color": look.colour,
                },
                customdata=list(zip(bands, rows["n"], strict=True)),
                hovertemplate=(
                    f"{label}, %{{customdata[0]}} %: %{{y:.1f}} %, "
                    "n=%{customdata[1]}<extra></extra>"
                ),
            )
        )
        if shares.notna().any():
            ends.append((float(shares.dropna().iloc[-1]), label))
    for height, (_, label) in zip(spread([e for e, _ in sorted(ends)]), sorted(ends), strict=True):
        figure.add_annotation(
            x=1.0,
            xref="paper",
            xanchor="left",
            y=height,
            text=label,
            showarrow=False,
            font={"color": theme.colour_of(label), "size": 12},
        )
    longest = max(len(label) for label in labels)
    figure.update_layout(height=400, margin={"r": 12 + 7 * longest})
    figure.update_yaxes(range=[-3, 103], ticksuffix=" %", title=what)
    counts = frame[frame["label"] == labels[0]].set_index("band")["n"]
    figure.update_xaxes(
        title="where the evidence lies in the record, %",
        tickvals=list(range(len(bands))),
        ticktext=[f"{b}<br>n={int(counts.get(b, 0))}" for b in bands],
        range=[-0.5, len(bands) - 0.5],
        showgrid=False,
        zeroline=False,
    )
    return figure


def spread(heights: list[float], gap: float = 6.0) -> list[float]:
    """Heights in ascending order, moved up so that none stands closer than ``gap`` to the last."""
    moved: list[float] = []
    for height in heights:
        moved.append(height if not moved else max(height, moved[-1] + gap))
    return moved
