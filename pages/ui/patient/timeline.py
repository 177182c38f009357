"""The timeline of a record: evidence, each arm's kept sentences over a heat strip of its scores,
and the record's events by kind.

The figure stays small for any record: strips are binned, rows of more than two thousand markers are
thinned, and hover holds indices, never text of the record. Markers open their entry; the cells of a
heatmap cannot be clicked in Plotly.
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
from midchart.pages.ui.patient.model import CUT, KEPT, ArmView, Piece, percent
from midchart.pages.ui.patient.score_arrays import TIME
from midchart.pages.ui.shared import chart

BINS = 240
MOST_MARKERS = 2000
ROW, STRIP, TOP, BOTTOM = 34, 17, 26, 46
HEAT = (0.27, 0.48)
"""Where, in an arm's row, its heat strip begins and ends; the markers are at 0."""
MIDDLE = (0.3, 0.7)
EVIDENCE_SYMBOLS = {KEPT: "circle-open", CUT: "circle-x-open"}
"""Marker of evidence by status; dropped evidence is a cross."""
Strips = Mapping[str, api.ScoreTable]
"""Arm → its scores alone, of the arms that rank sentences."""

KINDS = (
    ("Notes", ("note",)),
    ("Labs, vitals", ("measurement",)),
    ("Drugs", ("drug_exposure", "drug")),
    ("Vaccinations", ("immunization",)),
    ("Conditions", ("condition", "condition_occurrence")),
    ("Visits", ("visit", "visit_detail", "visit_occurrence")),
    ("Procedures", ("procedure", "procedure_occurrence")),
)
OTHER = "Other"


def evidence_colour() -> str:
    """The colour of evidence in figures, as in the marked text."""
    return "#E8B339" if chart.dark() else "#8A5A00"


def marker(symbol: Any, size: Any, colour: str, width: float, **more: Any) -> dict[str, Any]:
    """Plotly's marker of one colour; symbols and sizes may be lists."""
    line = {"width": width, "color": colour}
    return {"symbol": symbol, "size": size, "color": colour, "line": line, **more}


@dataclass(frozen=True)
class Axis:
    """A record as arrays: position in percent [n], time [n] (NaT where undated), kind index [n]."""

    percent: NDArray[np.float64]
    times: NDArray[np.datetime64]
    kinds: tuple[str, ...]
    kind_index: NDArray[np.int64]

    def x(self, by: str) -> NDArray[Any]:
        """The x of every event, by order in percent or by time."""
        return self.times if by == TIME else self.percent

    @property
    def dated(self) -> NDArray[np.bool_]:
        """Whether each event has a time [n]."""
        return ~np.isnat(self.times)

    @property
    def undated(self) -> int:
        """Number of events without a time, which the time axis cannot show."""
        return int((~self.dated).sum())

    @property
    def timed(self) -> bool:
        """Whether the events span any time."""
        times = self.times[self.dated]
        return bool(len(times)) and times.min() < times.max()


def axis_of(record: api.Record) -> Axis:
    """The arrays of a record's timeline."""
    n = len(record.events)
    group = {name: i for i, (_, names) in enumerate(KINDS) for name in names}
    index = np.fromiter((group.get(e.kind, len(KINDS)) for e in record.events), np.int64, n)
    present, kind_index = np.unique(index, return_inverse=True)
    labels = [*(label for label, _ in KINDS), OTHER]
    times = np.array([e.time or "NaT" for e in record.events], dtype="datetime64[s]")
    percent = 100.0 * np.arange(n) / max(n - 1, 1)
    return Axis(percent, times, tuple(labels[i] for i in present), kind_index)


def density(axis: Axis, by: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Bin centres [bins] and counts [kinds, bins] of events; by time, undated ones are left out."""
    counts = np.zeros((len(axis.kinds), BINS), np.int64)
    centres = (np.arange(BINS) + 0.5) / BINS
    if by == TIME:
        seconds = axis.times[axis.dated].astype(np.int64).astype(np.float64)
        low, span = seconds.min(), np.ptp(seconds)
        share, kinds = (seconds - low) / (span or 1), axis.kind_index[axis.dated]
        x: NDArray[Any] = (low + centres * span).astype(np.int64).astype("datetime64[s]")
    else:
        share, kinds, x = axis.percent / 100.0, axis.kind_index, 100.0 * centres
    np.add.at(counts, (kinds, np.minimum((share * BINS).astype(np.int64), BINS - 1)), 1)
    return x, counts


def _middle(axis: Axis, by: str) -> tuple[Any, Any]:
    if by != TIME:
        return 100 * MIDDLE[0], 100 * MIDDLE[1]
    seconds = axis.times[axis.dated].astype(np.int64)
    low, span = int(seconds.min()), int(np.ptp(seconds))
    ends = np.array([low + int(span * share) for share in MIDDLE]).astype("datetime64[s]")
    return ends[0].item(), ends[1].item()


def thinned(events: NDArray[np.int64], most: int = MOST_MARKERS) -> NDArray[np.int64]:
    """Indices of at most ``most`` markers: all, or the first one of each of ``most`` bins."""
    if len(events) <= most:
        return np.arange(len(events))
    low, high = int(events.min()), int(events.max())
    cell = ((events - low) * most) // max(high - low + 1, 1)
    _, first = np.unique(cell, return_index=True)
    return first


def _trace(
    x: NDArray[Any],
    events: NDArray[np.int64],
    numbers: Any,
    row: int,
    sentences: Any,
    **options: Any,
) -> go.Scatter:
    """Markers of ``events`` on a row; their customdata: event from 0, a number, event from 1, and
    the place of the sentence in the record (-1: none)."""
    opaque = {"marker": {"opacity": 1}}
    options = {"mode": "markers", "selected": opaque, "unselected": opaque} | options
    return go.Scatter(
        x=x[events],
        y=np.full(len(events), row),
        customdata=np.column_stack([events, numbers, events + 1, sentences]),
        **options,
    )


def _kept_trace(view: ArmView, x: NDArray[Any], row: int, places: Mapping[str, int]) -> go.Scatter:
    look, n = chart.look_of(view.name), len(view.kept)
    all_events = np.fromiter((k.sentence.span.event for k in view.kept), np.int64, n)
    index = thinned(all_events)
    thin = len(index) < n
    entries = [view.kept[i] for i in index]
    recent = np.array([k.kept_by == "recency" for k in entries])
    shown = [k.sentence.id in view.shown for k in entries]
    scores = ["as most recent" if k.score is None else f"score {k.score:.3g}" for k in entries]
    note = f" (one marker for several: {n:,} kept)" if thin else ""
    return _trace(
        x,
        all_events[index],
        recent,
        row,
        [places.get(k.sentence.id, -1) for k in entries],
        name=view.title,
        marker=marker(
            np.where(recent, f"{look.symbol.removesuffix('-open')}-open", look.symbol),
            np.where(recent, 9, 10),
            look.colour,
            1.6,
            opacity=np.where(shown, 0.35 if thin else 0.85, 0.15),
        ),
        text=[
            score + ("" if there else f"; {view.cut or 'less than half of it is left'}")
            for score, there in zip(scores, shown, strict=True)
        ],
        hovertemplate=(
            f"<b>{view.title}</b> kept event %{{customdata[2]}}{note}<br>%{{text}}<extra></extra>"
        ),
        selected={"marker": {"opacity": 1, "size": 14}},
        unselected={"marker": {"opacity": 0.7}},
    )


def _evidence_traces(
    pieces: Sequence[Piece], views: Sequence[ArmView], x: NDArray[Any], places: Mapping[str, int]
) -> list[go.Scatter]:
    """The row of evidence, and each piece's status as a marker on the row of each arm."""
    events = np.array([piece.event for piece in pieces])
    numbers = [piece.number for piece in pieces]
    sentences = [min((places.get(id, -1) for id in piece.ids), default=-1) for piece in pieces]
    colour = evidence_colour()
    traces = [
        _trace(
            x,
            events,
            numbers,
            0,
            sentences,
            mode="markers+text",
            name="Evidence",
            marker={"symbol": "star-diamond", "size": 15, "color": colour},
            text=[str(number) for number in numbers],
            textposition="middle right",
            textfont={"color": chart.ink().text, "size": 12},
            cliponaxis=False,
            hovertemplate="<b>Evidence %{customdata[1]}</b><br>event %{customdata[2]}"
            "<extra></extra>",
        )
    ]
    for row, view in enumerate(views, 1):
        if view.selection is None:
            continue
        symbols = [EVIDENCE_SYMBOLS.get(view.status(piece), "x-thin-open") for piece in pieces]
        sizes = [13 if symbol == "x-thin-open" else 19 for symbol in symbols]
        hover = f"<b>Evidence %{{customdata[1]}}</b>, {view.title}: %{{text}}<br>event "
        traces.append(
            _trace(
                x,
                events,
                numbers,
                row,
                sentences,
                name=f"evidence, {view.title}",
                marker=marker(symbols, sizes, colour, 3, opacity=1),
                text=[view.status_words(piece) for piece in pieces],
                hovertemplate=hover + "%{customdata[2]}<extra></extra>",
            )
        )
    return traces


def _heat(rows: Mapping[int, api.ScoreTable], by: str) -> go.Heatmap:
    """The heat strips of all arms as one heatmap; ``rows``: row → an arm's scores. Between two of
    them is an empty row."""
    x, of = score_arrays.columns(next(iter(rows.values())), by)
    shade, raw, edges = [], [], []
    for row, table in sorted(rows.items()):
        values = table.arms[0].values
        gap = np.full(len(x), np.nan, dtype=np.float32)
        shade += [gap, score_arrays.highest(score_arrays.shades(values), of, len(x))]
        raw += [gap, score_arrays.highest(values, of, len(x))]
        edges += [row + HEAT[0], row + HEAT[1]]
    return go.Heatmap(
        x=x, y=edges, z=np.array(shade[1:]), customdata=np.array(raw[1:]), zmin=0, zmax=1,
        colorscale=chart.SCORES, showscale=False, hoverongaps=False,
        hovertemplate="highest score here %{customdata:.4g}<extra></extra>",
    )  # fmt: skip


def _density_strip(axis: Axis, by: str) -> go.Heatmap:
    x, counts = density(axis, by)
    rgb = "190,200,210" if chart.dark() else "60,75,90"
    return go.Heatmap(
        x=x,
        y=[f"s{i}" for i in range(len(axis.kinds))],
        z=np.log1p(counts).astype(np.float32),
        customdata=counts.astype(np.int32),
        colorscale=[[0, f"rgba({rgb},0)"], [0.001, f"rgba({rgb},.16)"], [1, f"rgba({rgb},.85)"]],
        showscale=False,
        ygap=3,
        yaxis="y2",
        hovertemplate="%{customdata} events<extra></extra>",
    )


def figure(
    axis: Axis,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    by: str,
    strips: Strips,
    places: Mapping[str, int],
) -> go.Figure:
    """The timeline; every marker's ``customdata[0]`` is its event, counted from 0, and
    ``customdata[3]`` its sentence by ``places`` (sentence id → place in the record)."""
    first = int(bool(pieces))
    rows = max(len(views) + first, 1)
    upper, lower = (ROW + 12 * bool(strips)) * rows, STRIP * len(axis.kinds)
    split = lower / (upper + lower + 10)
    x = axis.x(by)
    fig = go.Figure([_density_strip(axis, by)] if axis.kinds else [])
    heat = {row: strips[v.name] for row, v in enumerate(views, first) if v.name in strips}
    if heat:
        fig.add_trace(_heat(heat, by))
    if pieces:
        fig.add_traces(_evidence_traces(pieces, views, x, places))
    fig.add_traces(
        [_kept_trace(view, x, row, places) for row, view in enumerate(views, first) if view.kept]
    )
    chart.style(fig)
    fig.update_layout(
        height=int(upper + lower + 10 + TOP + BOTTOM), showlegend=False, hovermode="closest",
        margin={"l": 8, "r": 22, "t": TOP, "b": BOTTOM - 8}, clickmode="event+select",
    )  # fmt: skip
    fig.update_xaxes(zeroline=False, fixedrange=True, anchor="y2", showgrid=True)
    fig.update_yaxes(zeroline=False, fixedrange=True)
    if by == TIME:
        fig.update_xaxes(type="date")
    else:
        fig.update_xaxes(
            range=[-1.5, 101.5], dtick=20, ticksuffix=" %", tickangle=0,
            title={"text": "Position in the record (by event order)", "standoff": 6},
            minor={"dtick": 10, "showgrid": True, "gridcolor": "rgba(128,140,155,.18)"},
        )  # fmt: skip
    low, high = _middle(axis, by)
    fig.add_shape(
        type="rect", x0=low, x1=high, y0=0, y1=1, yref="paper", layer="below",
        fillcolor="rgba(128,140,155,.13)", line_width=0,
    )  # fmt: skip
    fig.add_annotation(
        x=low, y=1, yref="paper", yanchor="bottom", xanchor="left", showarrow=False,
        text="middle, 30–70 %", font={"size": 11, "color": chart.ink().faint},
    )  # fmt: skip
    for at in {x[piece.event].item() for piece in pieces} - {None}:
        fig.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", layer="below",
            line={"color": evidence_colour(), "width": 1.4, "dash": "dash"},
        )  # fmt: skip
    labels = ["<b>Evidence</b>"] * first
    labels += [
        view.title.split(" (")[0]
        + (" (not run)" if view.pending or view.running else " (n/a)" if view.problem else "")
        for view in views
    ]
    fig.update_layout(
        yaxis={
            "domain": [min(split + 0.03, 1), 1], "range": [rows - 0.5, -0.5], "showgrid": not heat,
            "tickvals": list(range(len(labels))), "ticktext": labels,
        },
        yaxis2={
            "domain": [0, split], "autorange": "reversed", "showgrid": False, "anchor": "x",
            "tickvals": [f"s{i}" for i in range(len(axis.kinds))], "ticktext": list(axis.kinds),
            "zeroline": False, "fixedrange": True,
        },
    )  # fmt: skip
    return fig


def alt(views: Sequence[ArmView], pieces: Sequence[Piece], events: int) -> str:
    """The timeline in words."""
    parts = [f"Timeline of {events:,} events"]
    if pieces:
        parts.append("evidence at " + ", ".join(percent(piece.at) for piece in pieces))
    for view in views:
        if view.selection is None:
            continue
        words = f"{view.title} kept {len(view.kept):,}"
        if pieces:
            words += f", {view.held(pieces)} of {len(pieces)} evidence"
        parts.append(words + (f", {view.cut}" if view.cut else ""))
    return "; ".join(parts)
