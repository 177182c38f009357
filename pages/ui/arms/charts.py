"""Figures of the Arms page other than forest plots: bands, sweeps over k, hits, failure types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from midchart.pages.ui.shared import chart, formats, results
from midchart.pages.ui.shared.marks import safe

SHIFT = 0.07
"""Distance between the lines of a chart, in categories."""


def _share_lines(
    frames: Mapping[str, pd.DataFrame],
    looks: Mapping[str, chart.Look],
    value: str,
    low: str,
    high: str,
    title: str,
) -> go.Figure:
    """Shares over 0, 1, 2 …, one line per frame, side by side, each named at its end.

    Recall has its chance level as a dash of the same colour at each point. Points of which one is
    of a single question are not joined.
    """
    figure = go.Figure()
    ends: list[tuple[float, str, str]] = []
    for shift, (name, rows) in zip(chart.shifts(len(frames), SHIFT), frames.items(), strict=True):
        look = looks[name]
        x = np.arange(len(rows)) + shift
        hover = f"{safe(name)}: %{{y:.1f}} %, n=%{{customdata[0]}}<extra></extra>"
        bars = (rows[low], rows[high])
        known = rows[rows[value].notna()]
        figure.add_trace(
            chart.line(
                x,
                rows[value],
                look,
                name,
                bars,
                100,
                customdata=_opened(rows),
                hovertemplate=hover,
                mode="lines+markers" if known["n"].gt(1).all() else "markers",
            )
        )
        if value == "recall" and "chance" in rows and rows["chance"].notna().any():
            figure.add_trace(
                go.Scatter(
                    x=x,
                    y=100 * rows["chance"].astype(float),
                    mode="markers",
                    name=f"chance, {safe(name)}",
                    showlegend=False,
                    marker={
                        "symbol": "line-ew-open", "size": 12, "color": look.colour,
                        "line": {"width": 2, "color": look.colour},
                    },
                    hovertemplate=f"chance, {safe(name)}: %{{y:.1f}} %<extra></extra>",
                )
            )  # fmt: skip
        if len(known):
            ends.append((100 * float(known[value].iloc[-1]), name, look.colour))
    chart.end_labels(figure, ends)
    figure.update_layout(height=400)
    figure.update_yaxes(range=list(chart.PERCENT), ticksuffix=" %", title=safe(title))
    return figure


def _opened(rows: pd.DataFrame) -> list[list[Any]]:
    """Custom data of markers: n, and what the questions behind them are chosen by."""
    bands = rows.index if rows.index.name == "band" else [None] * len(rows)
    return [
        [n, label] if band is None else [n, label, band]
        for n, label, band in zip(rows["n"].fillna(0), rows["label"].fillna(""), bands, strict=True)
    ]


def by_band(frame: pd.DataFrame, value: str, low: str, high: str, title: str) -> go.Figure:
    """Arms over the position bands with intervals.

    ``frame`` has ``label``, ``band``, ``n`` and the three named columns (shares in [0, 1]).
    """
    bands = [band for band in results.BAND_ORDER[:6] if band in set(frame["band"])]
    frames = {
        title: rows.set_index("band").reindex(bands)
        for title, rows in frame.groupby("title", sort=False)
    }
    looks = dict(
        zip(frames, chart.distinct_looks(results.choices(frame, "label")).values(), strict=True)
    )
    figure = _share_lines(frames, looks, value, low, high, title)
    counts = next(iter(frames.values()))["n"].fillna(0)
    names = [f"{band}<br>n={int(counts[band])}" for band in bands]
    axis = chart.category_axis(names, 0.5)
    figure.update_xaxes(title="evidence position in the record, %", **axis)
    return figure


def by_k(
    frames: Mapping[str, pd.DataFrame], value: str, low: str, high: str, title: str
) -> go.Figure:
    """Shares over k, one line per frame (all with the same k in the same order)."""
    looks = {name: chart.series_look(index) for index, name in enumerate(frames)}
    figure = _share_lines(frames, looks, value, low, high, title)
    ks = [str(int(k)) for k in next(iter(frames.values()))["k"]]
    axis = chart.category_axis(ks)
    figure.update_xaxes(title="k, sentences kept in addition to the most recent events", **axis)
    return figure


def hit_and_miss(frame: pd.DataFrame, low: str, high: str, title: str) -> go.Figure:
    """Accuracy of each arm given a hit (filled) and given a miss (hollow), with intervals."""
    labels = results.choices(frame, "title")
    colours = chart.series()
    looks = {
        "evidence present": chart.Look(colours[0]),
        "absent": chart.Look(colours[3], "diamond-open"),
    }
    figure = go.Figure()
    texts: dict[str, list[str]] = {label: [] for label in labels}
    for (name, look), hit, shift in zip(looks.items(), (True, False), (0.14, -0.14), strict=True):
        rows = frame[frame["hit"] == hit].set_index("title").reindex(labels)
        height = np.arange(len(labels), 0, -1) + shift
        share, lower, upper = (100 * rows[column].astype(float) for column in
                               ("accuracy", low, high))  # fmt: skip
        n = rows["n"].fillna(0).astype(int)
        opened = [[int(count), label, hit] for count, label in zip(n, rows["label"], strict=True)]
        hover = f"{name}: %{{x:.1f}} %, n=%{{customdata[0]}}<extra></extra>"
        figure.add_trace(
            chart.estimates(
                share, height, lower, upper, look, customdata=opened, hovertemplate=hover
            )
        )
        for label in labels:
            accuracy = formats.percent(rows.loc[label, "accuracy"])
            glyph = chart.GLYPHS[look.symbol]
            texts[label].append(f"{glyph} {accuracy} (n {n[label]})")
    figure.update_xaxes(
        range=list(chart.PERCENT), ticksuffix=" %", title=safe(title), zeroline=False
    )
    chart.row_axis(figure, labels, ["  ".join(pair) for pair in texts.values()])
    chart.key(figure, looks)
    return figure


def failure_types(frame: pd.DataFrame, types: Sequence[str]) -> go.Figure:
    """Arms down, failure types across: the share of incorrect answers as shade and number."""
    labels = results.choices(frame, "title")
    wide = frame.pivot(index="title", columns="kind", values="share").astype(float)
    shares = 100 * wide.reindex(index=labels, columns=list(types))
    n = frame.drop_duplicates("title").set_index("title")["n"]
    figure = chart.heatmap(
        shares.fillna(0.0).to_numpy(),
        [kind.replace(" ", "<br>") for kind in types],
        [f"{safe(label)} (n {int(n[label])})" for label in labels],
        [["0" if np.isnan(v) else f"{v:.0f} %" for v in row] for row in shares.to_numpy()],
        cell=30,
        clicked=[[arm, kind] for arm in results.choices(frame, "label") for kind in types],
    )
    figure.update_layout(height=110 + 30 * max(len(labels), 2))
    figure.update_xaxes(side="top")
    return figure
