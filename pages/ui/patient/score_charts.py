"""Figures of scores: heat strips of a whole record, arm by arm, and each arm's score distribution.

The strips are one heatmap, whose cells cannot be clicked, with a row of clickable markers above
each: what the arm kept, what just missed, and the evidence, distinguished by shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from midchart.core import api
from midchart.pages.ui.patient import score_arrays
from midchart.pages.ui.patient.score_arrays import SENTENCE, TIME, Columns
from midchart.pages.ui.patient.timeline import evidence_colour, finish, marker, thinned
from midchart.pages.ui.shared import chart

ROW, TOP, BOTTOM = 58, 8, 76
MARKER_Y, STRIP_LOW, STRIP_HIGH = 0.26, 0.46, 0.94
"""Where, in an arm's row from 0 (top) to 1, its markers are and its strip begins and ends."""
BINS = 48


@dataclass(frozen=True)
class Strip:
    """One arm's scores and title."""

    arm: api.ArmScores
    title: str

    @property
    def look(self) -> chart.Look:
        return chart.look_of(self.arm.arm)

    @property
    def short_title(self) -> str:
        return self.title.split(" (")[0]


def _heat(strips: Sequence[Strip], where: Columns, how: str) -> go.Heatmap:
    """One heatmap of all strips, with an empty row between two."""
    gap = np.full(len(where.x), np.nan, dtype=np.float32)
    shade, raw, edges = [], [], []
    for i, strip in enumerate(strips):
        values = strip.arm.values
        shade += [gap, score_arrays.highest(score_arrays.shades(values, how), where)]
        raw += [gap, score_arrays.highest(values, where)]
        edges += [i + STRIP_LOW, i + STRIP_HIGH]
    return go.Heatmap(
        x=where.x,
        y=edges,
        z=np.array(shade[1:]),
        customdata=np.array(raw[1:]),
        zmin=0,
        zmax=1,
        colorscale=chart.SCORES,
        showscale=False,
        hoverongaps=False,
        hovertemplate="highest score here %{customdata:.4g}<extra></extra>",
    )


def _markers(
    strip: Strip,
    row: int,
    sentences: NDArray[np.intp],
    x: NDArray[Any],
    words: str,
    table: api.ScoreTable,
    style: Mapping[str, Any],
) -> go.Scatter:
    sentences = sentences[thinned(sentences)]
    rank = score_arrays.ranks(strip.arm.values)[sentences]
    return go.Scatter(
        x=x[sentences],
        y=np.full(len(sentences), row + MARKER_Y, dtype=np.float32),
        mode="markers",
        name=f"{words}, {strip.title}",
        customdata=np.column_stack([sentences, sentences + 1, table.events[sentences] + 1]),
        text=[
            f"score {v:.4g}, rank {r:,}" if r else "no score"
            for v, r in zip(strip.arm.values[sentences], rank, strict=True)
        ],
        hovertemplate=(
            f"<b>{strip.title}</b>: {words}<br>%{{text}}<br>sentence %{{customdata[1]}}, "
            "event %{customdata[2]}<extra></extra>"
        ),
        marker=style,
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 0.85}},
        cliponaxis=False,
    )


def strips_figure(
    table: api.ScoreTable,
    strips: Sequence[Strip],
    gold: Sequence[int],
    by: str,
    how: str,
    open_at: int | None = None,
) -> go.Figure:
    """The heat strips; every marker's ``customdata[0]`` is its sentence, counted from 0.

    ``gold``: sentences that hold evidence. ``open_at``: the open sentence, marked by a thin line
    across all strips.
    """
    where = score_arrays.columns(table, by)
    x = {TIME: table.times, SENTENCE: np.arange(len(table.sentences), dtype=np.float64)}.get(
        by, 100 * table.order
    )
    faint, gold_colour = chart.ink().faint, evidence_colour()
    evidence = np.array(sorted(gold), dtype=np.intp)
    figure = go.Figure([_heat(strips, where, how)])
    for row, strip in enumerate(strips):
        arm, colour = strip.arm, strip.look.colour
        groups = (
            ("just below threshold", score_arrays.missed(arm),
             marker("line-ns-open", 8, faint, 1.5)),
            ("kept as most recent", np.flatnonzero(arm.kept & ~arm.picked),
             marker("circle-open", 5, colour, 1.2)),
            ("kept", np.flatnonzero(arm.kept & arm.picked),
             marker("triangle-down", 10, colour, 1.5)),
            ("evidence, kept", evidence[arm.kept[evidence]],
             marker("circle-open", 18, gold_colour, 2.5)),
            ("evidence, dropped", evidence[~arm.kept[evidence]],
             marker("x-thin-open", 12, gold_colour, 3)),
        )  # fmt: skip
        figure.add_traces(
            [
                _markers(strip, row, sentences, x, words, table, style)
                for words, sentences, style in groups
                if len(sentences)
            ]
        )
    if open_at is not None and not (by == TIME and np.isnat(x[open_at])):
        at = x[open_at].item()
        figure.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=len(strips), layer="below",
            line={"color": faint, "width": 1, "dash": "dot"},
        )  # fmt: skip
    finish(figure, ROW * len(strips) + TOP + BOTTOM, TOP, BOTTOM, by == TIME)
    figure.update_yaxes(
        range=[len(strips), 0],
        tickvals=[i + (STRIP_LOW + STRIP_HIGH) / 2 for i in range(len(strips))],
        ticktext=[strip.short_title for strip in strips],
        showgrid=False,
    )
    figure.update_xaxes(showgrid=False)
    if by == SENTENCE:
        figure.update_xaxes(_sentence_axis(table))
    return figure


def _sentence_axis(table: api.ScoreTable) -> dict[str, Any]:
    n = len(table.sentences)
    at = np.unique(np.linspace(0, max(n - 1, 0), 5).round().astype(np.int64)) if n else []
    months = [table.times[i].astype("datetime64[M]") for i in at]
    return {
        "range": [-0.5 - n / 100, n - 0.5 + n / 100],
        "dtick": None,
        "ticksuffix": "",
        "tickvals": list(at),
        "ticktext": [
            f"{i + 1:,}" + ("" if np.isnat(month) else f"<br>{month!s}")
            for i, month in zip(at, months, strict=True)
        ],
        "tickangle": 0,
        "title": {"text": "Sentence, in record order", "standoff": 10},
    }


def alt(table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int]) -> str:
    """The strips in words."""
    parts = [f"Heat strips of the scores of {len(table.sentences):,} sentences"]
    for strip in strips:
        rank = score_arrays.ranks(strip.arm.values)
        places = [f"{rank[i]:,}" if rank[i] else "unranked" for i in sorted(gold)[:5]]
        words = f"{strip.title} kept {int(strip.arm.kept.sum()):,}"
        parts.append(words + (f", evidence at rank {', '.join(places)}" if places else ""))
    return "; ".join(parts)


def histogram(strip: Strip, gold: Sequence[int]) -> go.Figure:
    """An arm's score distribution: kept and left-out sentences, threshold, evidence.

    Counts are on a logarithmic scale that begins at 0, so that one sentence is visible among
    thousands.
    """
    arm, ink = strip.arm, chart.ink()
    known = ~np.isnan(arm.values)
    edges = np.histogram_bin_edges(arm.values[known], bins=BINS)
    out, _ = np.histogram(arm.values[known & ~arm.picked], edges)
    picked, _ = np.histogram(arm.values[known & arm.picked], edges)
    base, total = np.log10(1 + out), np.log10(1 + out + picked)
    figure = go.Figure()
    for words, counts, height, colour, opacity, pattern in (
        ("left out", out, base, ink.faint, 0.55, ""),
        ("kept", picked, total - base, strip.look.colour, 1, "/"),
    ):
        figure.add_bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=height,
            width=np.diff(edges),
            customdata=counts,
            name=words,
            marker={
                "color": colour, "line": {"width": 0}, "opacity": opacity,
                "pattern": {"shape": pattern, "size": 5, "solidity": 0.35},
            },
            hovertemplate=f"%{{customdata:,}} {words}, score %{{x:.4g}}<extra></extra>",
            showlegend=False,
        )  # fmt: skip
    top = max(float(total.max()), 1.0)
    if evidence := [i for i in sorted(gold) if known[i]]:
        figure.add_trace(_evidence_ticks(arm, evidence, -0.12 * top))
    if arm.threshold is not None:
        left = arm.threshold > (edges[0] + edges[-1]) / 2
        figure.add_vline(
            x=arm.threshold, line={"color": ink.text, "width": 1.5, "dash": "dash"},
            annotation_text=f"kept from {arm.threshold:.4g}",
            annotation_position="top left" if left else "top right",
            annotation_font={"size": 11, "color": ink.text},
        )  # fmt: skip
    ticks = [0, 1, 10, 100, 1_000, 10_000, 100_000]
    figure.update_layout(barmode="stack", bargap=0, height=230)
    figure.update_yaxes(
        range=[-0.24 * top if len(gold) else 0, 1.2 * top], zeroline=True, title="sentences",
        tickvals=[float(np.log10(1 + tick)) for tick in ticks], fixedrange=True,
        ticktext=[f"{tick:,}" for tick in ticks],
    )  # fmt: skip
    figure.update_xaxes(title=f"score by {strip.short_title}", zeroline=False, fixedrange=True)
    return figure


def _evidence_ticks(arm: api.ArmScores, evidence: Sequence[int], y: float) -> go.Scatter:
    is_kept, rank = arm.kept[evidence], score_arrays.ranks(arm.values)
    colour = evidence_colour()
    return go.Scatter(
        x=arm.values[evidence],
        y=np.full(len(evidence), y),
        mode="markers",
        marker=marker(
            np.where(is_kept, "circle-open", "x-thin-open"), np.where(is_kept, 13, 11), colour, 2.5
        ),
        text=[
            f"evidence, {'kept' if k else 'dropped'}: rank {rank[i]:,}"
            for i, k in zip(evidence, is_kept, strict=True)
        ],
        hovertemplate="%{text}<br>score %{x:.4g}<extra></extra>",
        cliponaxis=False,
        showlegend=False,
    )


def histogram_alt(strip: Strip, gold: Sequence[int]) -> str:
    """A histogram in words."""
    arm = strip.arm
    words = f"{strip.title}: scores of {int((~np.isnan(arm.values)).sum()):,} sentences"
    if arm.threshold is not None:
        words += f"; kept from {arm.threshold:.4g}"
    values = [f"{arm.values[i]:.4g}" for i in sorted(gold) if not np.isnan(arm.values[i])]
    return words + (f"; evidence at {', '.join(values[:5])}" if values else "")
