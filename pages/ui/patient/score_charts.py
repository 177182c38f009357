"""Figures of scores: heat strips of a whole record, arm under arm, and how each arm's scores lie.

The strips are one heatmap (whose cells cannot be clicked) with a row of markers above each strip
(which can): what the arm kept, what just missed, and the evidence, told apart by shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core import api
from pages.ui.patient import score_data
from pages.ui.patient.score_data import SENTENCE, TIME, Columns
from pages.ui.patient.timeline import Look, Shades, thinned

ROW, TOP, BOTTOM = 58, 8, 76
MARKER_Y, STRIP_LOW, STRIP_HIGH = 0.26, 0.46, 0.94
"""Where, in an arm's row from 0 (top) to 1, its markers stand and its strip lies."""
BINS = 48


@dataclass(frozen=True)
class Strip:
    """One arm's row: its scores, its words and its look."""

    arm: api.ArmScores
    title: str
    look: Look


def _rows(strips: Sequence[Strip], where: Columns, how: str) -> tuple[Any, Any, list[float]]:
    """Shades and raw scores, one row for a strip and an empty one between two; the rows' edges."""
    shade: list[NDArray[np.float32]] = []
    raw: list[NDArray[np.float32]] = []
    edges = [STRIP_LOW]
    empty = np.full(len(where.x), np.nan, dtype=np.float32)
    for i, strip in enumerate(strips):
        if i:
            shade.append(empty)
            raw.append(empty)
            edges.append(i + STRIP_LOW)
        shade.append(score_data.highest(score_data.shades(strip.arm.values, how), where))
        raw.append(score_data.highest(strip.arm.values, where))
        edges.append(i + STRIP_HIGH)
    return np.array(shade), np.array(raw), edges


def _heat(strips: Sequence[Strip], where: Columns, how: str) -> go.Heatmap:
    shade, raw, edges = _rows(strips, where, how)
    return go.Heatmap(
        x=where.x,
        y=edges,
        z=shade,
        customdata=raw,
        zmin=0,
        zmax=1,
        colorscale="Cividis",
        showscale=False,
        hoverongaps=False,
        hovertemplate="highest score here %{customdata:.4g}<extra></extra>",
    )


def _markers(
    strip: Strip,
    row: int,
    places: NDArray[np.intp],
    x: NDArray[Any],
    words: str,
    table: api.ScoreTable,
    style: Mapping[str, Any],
) -> go.Scatter:
    places = places[thinned(places)]
    rank = score_data.ranks(strip.arm.values)[places]
    values = strip.arm.values[places]
    return go.Scatter(
        x=x[places],
        y=np.full(len(places), row + MARKER_Y, dtype=np.float32),
        mode="markers",
        name=f"{words}, {strip.title}",
        customdata=np.column_stack([places, places + 1, table.events[places] + 1]),
        text=[
            "no score" if not r else f"score {v:.4g}, rank {r:,}"
            for v, r in zip(values, rank, strict=True)
        ],
        hovertemplate=(
            f"<b>{strip.title}</b>: {words}<br>%{{text}}<br>sentence %{{customdata[1]}}, "
            "event %{customdata[2]}<extra></extra>"
        ),
        marker=style,
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 0.85}},
        cliponaxis=False,
        showlegend=False,
    )


def positions(table: api.ScoreTable, where: Columns, by: str) -> NDArray[Any]:
    """The x of each sentence [n] on the strips' axis."""
    if by == TIME:
        return table.times
    if by == SENTENCE:
        return np.arange(len(table.sentences), dtype=np.float64)
    return 100 * table.order


def strips_figure(
    table: api.ScoreTable,
    strips: Sequence[Strip],
    gold: Sequence[int],
    by: str,
    how: str,
    shades: Shades,
    open_at: int | None = None,
) -> go.Figure:
    """The heat strips; every marker's ``customdata[0]`` is its sentence,
    counted from 0; what people read is counted from 1.

    ``gold``: sentences that hold evidence. ``open_at``: the sentence that is shown below, which a
    thin line crosses all strips at.
    """
    where = score_data.columns(table, by)
    x = positions(table, where, by)
    evidence = np.array(sorted(gold), dtype=np.intp)
    traces: list[Any] = [_heat(strips, where, how)]
    for row, strip in enumerate(strips):
        arm, colour = strip.arm, strip.look.colour
        recent = np.flatnonzero(arm.kept & ~arm.picked)
        line = {"width": 1.5, "color": colour}
        groups = (
            ("just below threshold", score_data.missed(arm),
             {"symbol": "line-ns-open", "size": 8, "color": shades.faint,
              "line": {"width": 1.5, "color": shades.faint}}),
            ("kept as most recent", recent,
             {"symbol": "circle-open", "size": 5, "color": colour, "line": {"width": 1.2}}),
            ("kept", np.flatnonzero(arm.kept & arm.picked),
             {"symbol": "triangle-down", "size": 10, "color": colour, "line": line}),
            ("evidence, kept", evidence[arm.kept[evidence]],
             {"symbol": "circle-open", "size": 18, "color": shades.evidence,
              "line": {"width": 2.5, "color": shades.evidence}}),
            ("evidence, dropped", evidence[~arm.kept[evidence]],
             {"symbol": "x-thin-open", "size": 12, "color": shades.evidence,
              "line": {"width": 3, "color": shades.evidence}}),
        )  # fmt: skip
        traces += [
            _markers(strip, row, places, x, words, table, style)
            for words, places, style in groups
            if len(places)
        ]
    figure = go.Figure(traces)
    if open_at is not None and not (by == TIME and np.isnat(x[open_at])):
        _line_at(figure, x[open_at], len(strips), shades)
    figure.update_layout(
        height=ROW * len(strips) + TOP + BOTTOM,
        margin={"l": 8, "r": 22, "t": TOP, "b": BOTTOM - 8},
        showlegend=False,
        clickmode="event+select",
        hovermode="closest",
        yaxis={
            "range": [len(strips), 0],
            "tickvals": [i + (STRIP_LOW + STRIP_HIGH) / 2 for i in range(len(strips))],
            "ticktext": [strip.title.split(" (")[0] for strip in strips],
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
        },
        xaxis=_x_axis(table, by),
    )
    return figure


def _line_at(figure: go.Figure, x: Any, rows: int, shades: Shades) -> None:
    plain = x.item() if isinstance(x, np.generic) else x
    figure.add_shape(
        type="line", x0=plain, x1=plain, y0=0, y1=rows, layer="below",
        line={"color": shades.faint, "width": 1, "dash": "dot"},
    )  # fmt: skip


def _x_axis(table: api.ScoreTable, by: str) -> dict[str, Any]:
    base: dict[str, Any] = {"zeroline": False, "fixedrange": True, "showgrid": False}
    if by == TIME:
        return base | {"type": "date"}
    if by != SENTENCE:
        title = {"text": "Place in the record (by event order)", "standoff": 6}
        return base | {"range": [-1, 101], "dtick": 20, "ticksuffix": " %", "title": title}
    n = len(table.sentences)
    at = np.unique(np.linspace(0, max(n - 1, 0), 5).round().astype(np.int64)) if n else []
    years = [
        "" if np.isnat(table.times[i]) else f"<br>{table.times[i].astype('datetime64[M]')!s}"
        for i in at
    ]
    return base | {
        "range": [-0.5 - n / 100, n - 0.5 + n / 100],
        "tickvals": list(at),
        "ticktext": [f"{i + 1:,}{year}" for i, year in zip(at, years, strict=True)],
        "tickangle": 0,
        "title": {"text": "Sentence, in record order", "standoff": 10},
    }


def alt(table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int]) -> str:
    """The strips in words."""
    words = [f"Heat strips of the scores of {len(table.sentences):,} sentences"]
    for strip in strips:
        rank = score_data.ranks(strip.arm.values)
        said = f"{strip.title} kept {int(strip.arm.kept.sum()):,}"
        places = [f"{rank[i]:,}" if rank[i] else "unranked" for i in sorted(gold)[:5]]
        words.append(f"{said}, evidence at rank {', '.join(places)}" if places else said)
    return "; ".join(words)


def histogram(strip: Strip, gold: Sequence[int], shades: Shades) -> go.Figure:
    """How an arm's scores lie: counts of kept and left-out sentences, threshold, evidence.

    Counts are on a logarithmic scale that begins at none, so that one sentence can be seen
    beside thousands.
    """
    arm = strip.arm
    known = ~np.isnan(arm.values)
    edges = np.histogram_bin_edges(arm.values[known], bins=BINS)
    low, width = edges[:-1], np.diff(edges)
    out, _ = np.histogram(arm.values[known & ~arm.picked], edges)
    kept, _ = np.histogram(arm.values[known & arm.picked], edges)
    heights = [np.log10(1 + out), np.log10(1 + out + kept) - np.log10(1 + out)]
    figure = go.Figure()
    for words, counts, height, colour, pattern in (
        ("left out", out, heights[0], shades.faint, ""),
        ("kept", kept, heights[1], strip.look.colour, "/"),
    ):
        figure.add_trace(
            go.Bar(
                x=low + width / 2, y=height, width=width, customdata=counts, name=words,
                marker={"color": colour, "line": {"width": 0},
                        "opacity": 0.55 if words == "left out" else 1,
                        "pattern": {"shape": pattern, "size": 5, "solidity": 0.35}},
                hovertemplate=f"%{{customdata:,}} {words}, score %{{x:.4g}}<extra></extra>",
                showlegend=False,
            )
        )  # fmt: skip
    top = max(float((heights[0] + heights[1]).max()), 1.0)
    _evidence_ticks(figure, arm, gold, top, shades)
    if arm.threshold is not None:
        middle = arm.threshold > (edges[0] + edges[-1]) / 2
        figure.add_vline(
            x=arm.threshold, line={"color": shades.text, "width": 1.5, "dash": "dash"},
            annotation_text=f"kept from {arm.threshold:.4g}",
            annotation_position="top left" if middle else "top right",
            annotation_font={"size": 11, "color": shades.text},
        )  # fmt: skip
    counts = [0, 1, 10, 100, 1_000, 10_000, 100_000]
    figure.update_layout(
        barmode="stack", bargap=0, height=230,
        yaxis={"range": [-0.24 * top if len(gold) else 0, 1.2 * top], "zeroline": True,
               "tickvals": [float(np.log10(1 + c)) for c in counts],
               "ticktext": [f"{c:,}" for c in counts], "title": "sentences", "fixedrange": True},
        xaxis={"title": f"score by {strip.title.split(' (')[0]}", "zeroline": False,
               "fixedrange": True},
    )  # fmt: skip
    return figure


def _evidence_ticks(
    figure: go.Figure, arm: api.ArmScores, gold: Sequence[int], top: float, shades: Shades
) -> None:
    there = [i for i in sorted(gold) if not np.isnan(arm.values[i])]
    if not there:
        return
    kept = arm.kept[there]
    rank = score_data.ranks(arm.values)
    figure.add_trace(
        go.Scatter(
            x=arm.values[there],
            y=np.full(len(there), -0.12 * top),
            mode="markers",
            marker={
                "symbol": ["circle-open" if k else "x-thin-open" for k in kept],
                "size": [13 if k else 11 for k in kept],
                "color": shades.evidence,
                "line": {"width": 2.5, "color": shades.evidence},
            },
            text=[
                f"evidence, {'kept' if k else 'dropped'}: rank {rank[i]:,}"
                for i, k in zip(there, kept, strict=True)
            ],
            hovertemplate="%{text}<br>score %{x:.4g}<extra></extra>",
            cliponaxis=False,
            showlegend=False,
        )
    )


def histogram_alt(strip: Strip, gold: Sequence[int]) -> str:
    """A histogram in words."""
    arm = strip.arm
    known = int((~np.isnan(arm.values)).sum())
    words = f"{strip.title}: scores of {known:,} sentences"
    if arm.threshold is not None:
        words += f"; kept from {arm.threshold:.4g}"
    values = [f"{arm.values[i]:.4g}" for i in sorted(gold) if not np.isnan(arm.values[i])]
    return words + (f"; evidence at {', '.join(values[:5])}" if values else "")
