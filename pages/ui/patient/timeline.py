"""The chart as a map: evidence, what each arm kept, where its answer is from, and the heat of a
score; and scores of a whole record as arrays.

The figure stays small for any record: the strip is binned, rows of more than two thousand markers
are thinned, and hover holds indices, never text of the record. Markers open their entry; the cells
of a heatmap cannot be clicked in Plotly. A strip has at most :data:`MOST_COLUMNS` columns; a column
shows the highest score in it, so that a single high score is never averaged away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from midchart.core import api, figures
from midchart.pages.ui.patient.model import CUT, KEPT, ArmView, Piece, percent
from midchart.pages.ui.state import cached

ORDER, TIME = "Event order", "Time"
"""Axes of the figures of a record."""
MOST_COLUMNS = 600
"""More could not be distinguished on a screen."""
TIME_COLUMNS = 240
"""Fewer by time, where most columns are empty and the others must be visible."""


MOST_MARKERS = 2000
ROW, TOP, BOTTOM = 21, 20, 40
"""Pixels of a row, above the first and below the last."""
MIDDLE = (0.3, 0.7)
EVIDENCE_SYMBOLS = {KEPT: "circle-open", CUT: "circle-x-open"}
"""Marker of evidence by status; dropped evidence is a cross."""


def evidence_colour() -> str:
    """The colour of evidence in figures, as in the marked text."""
    return "#E8B339" if figures.dark() else "#8A5A00"


def marker(symbol: Any, size: Any, colour: str, width: float, **more: Any) -> dict[str, Any]:
    """Plotly's marker of one colour; symbols and sizes may be lists."""
    line = {"width": width, "color": colour}
    return {"symbol": symbol, "size": size, "color": colour, "line": line, **more}


@dataclass(frozen=True)
class Axis:
    """A record as arrays: position in percent [n], time [n] (NaT where undated)."""

    percent: NDArray[np.float64]
    times: NDArray[np.datetime64]

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


@cached(lambda record: record.digest, entries=12, shared=True)
def axis_of(record: api.Record) -> Axis:
    """The arrays of a record."""
    times = np.array([e.time or "NaT" for e in record.events], dtype="datetime64[s]")
    return Axis(100.0 * np.arange(len(times)) / max(len(times) - 1, 1), times)


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


def _kept_trace(
    view: ArmView, x: NDArray[Any], row: int, places: Mapping[str, int], source: str
) -> go.Scatter:
    """What an arm kept, as ticks; the sentence that its answer is from is larger."""
    look, n = figures.look_of(view.name), len(view.kept)
    all_events = np.fromiter((k.sentence.span.event for k in view.kept), np.int64, n)
    index = thinned(all_events)
    thin = len(index) < n
    entries = [view.kept[i] for i in index]
    recent = np.array([k.kept_by == "recency" for k in entries])
    shown = [k.sentence.id in view.shown for k in entries]
    scores = ["as most recent" if k.score is None else f"score {k.score:.3g}" for k in entries]
    note = f" (one marker for several: {n:,} kept)" if thin else ""
    is_source = np.array([k.sentence.id == source for k in entries])
    symbols = np.where(recent, f"{look.symbol.removesuffix('-open')}-open", look.symbol)
    return _trace(
        x,
        all_events[index],
        recent,
        row,
        [places.get(k.sentence.id, -1) for k in entries],
        name=view.title,
        marker=marker(
            np.where(is_source, "triangle-down", symbols),
            np.where(is_source, 13, np.where(recent, 7, 8)),
            look.colour,
            1.2,
            opacity=np.where(shown, 0.4 if thin else 0.9, 0.2),
        ),
        text=[
            score
            + ("" if there else f"; {view.cut or 'less than half of it is left'}")
            + ("; the answer is from here" if from_here else "")
            for score, there, from_here in zip(scores, shown, is_source, strict=True)
        ],
        hovertemplate=(
            f"<b>{view.title}</b> kept event %{{customdata[2]}}{note}<br>%{{text}}<extra></extra>"
        ),
        selected={"marker": {"opacity": 1, "size": 13}},
        unselected={"marker": {"opacity": 0.75}},
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
            x, events, numbers, 0, sentences, name="Evidence",
            marker={"symbol": "star", "size": 14, "color": colour}, cliponaxis=False,
            hovertemplate="<b>Evidence %{customdata[1]}</b><br>event %{customdata[2]}"
            "<extra></extra>",
        )
    ]  # fmt: skip
    for row, view in enumerate(views, 1):
        if view.selection is None:
            continue
        symbols = [EVIDENCE_SYMBOLS.get(view.status(piece), "x-thin-open") for piece in pieces]
        sizes = [11 if symbol == "x-thin-open" else 16 for symbol in symbols]
        hover = f"<b>Evidence %{{customdata[1]}}</b>, {view.title}: %{{text}}<br>event "
        traces.append(
            _trace(
                x, events, numbers, row, sentences, name=f"evidence, {view.title}",
                marker=marker(symbols, sizes, colour, 2.5, opacity=1),
                text=[view.status_words(piece) for piece in pieces],
                hovertemplate=hover + "%{customdata[2]}<extra></extra>",
            )
        )  # fmt: skip
    return traces


def _heat(table: api.ScoreTable, by: str, row: int) -> go.Heatmap:
    """The score of every sentence as a strip."""
    values = table.arms[0].values
    x, of = columns(table, by)
    return go.Heatmap(
        x=x, y=[row - 0.42, row + 0.42], z=[highest(shades(values), of, len(x))],
        customdata=[highest(values, of, len(x))], zmin=0, zmax=1,
        colorscale=figures.SCORES, showscale=False, hoverongaps=False,
        hovertemplate="highest score here %{customdata:.4g}<extra></extra>",
    )  # fmt: skip


def figure(
    axis: Axis,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    by: str,
    heat: tuple[str, api.ScoreTable | None],
    places: Mapping[str, int],
    sources: Mapping[str, str],
) -> go.Figure:
    """The map; every marker's ``customdata[0]`` is its event, counted from 0, and
    ``customdata[3]`` its sentence by ``places`` (sentence id → place in the record).

    ``heat``: the title of a score and its values, None while they are computed; ``sources``: arm →
    the sentence that its answer is from.
    """
    first = int(bool(pieces))
    labels = ["<b>Evidence</b>"] * first
    labels += [
        view.title.split(" (")[0] + (" …" if view.running else " (n/a)" if view.problem else "")
        for view in views
    ]
    fig, x, strip = go.Figure(), axis.x(by), len(labels)
    title, table = heat
    if title:
        labels.append(f"<i>{title.split(' (')[0]}{'' if table is not None else ' …'}</i>")
    if table is not None:
        fig.add_trace(_heat(table, by, strip))
    fig.add_traces(
        [
            _kept_trace(view, x, row, places, sources.get(view.name, ""))
            for row, view in enumerate(views, first)
            if view.kept
        ]
    )
    if pieces:
        fig.add_traces(_evidence_traces(pieces, views, x, places))
    rows = max(len(labels), 1)
    figures.style(fig)
    fig.update_layout(
        height=TOP + BOTTOM + ROW * rows, showlegend=False, hovermode="closest",
        margin={"l": 8, "r": 14, "t": TOP, "b": BOTTOM - 6}, clickmode="event+select",
    )  # fmt: skip
    fig.update_xaxes(zeroline=False, fixedrange=True, showgrid=True)
    fig.update_yaxes(zeroline=False, fixedrange=True)
    if by == TIME:
        fig.update_xaxes(type="date")
    else:
        fig.update_xaxes(
            range=[-1, 101], tickvals=[0, 30, 50, 70, 100], tickangle=0,
            ticktext=["0 %", "30 %", "50 %", "70 %", "100 %"],
        )  # fmt: skip
    low, high = _middle(axis, by)
    fig.add_shape(
        type="rect", x0=low, x1=high, y0=0, y1=1, yref="paper", layer="below",
        fillcolor="rgba(128,140,155,.13)", line_width=0,
    )  # fmt: skip
    fig.add_annotation(
        x=low, y=1, yref="paper", yanchor="bottom", xanchor="left", showarrow=False,
        text="middle of the chart", font={"size": 11, "color": figures.ink().faint},
    )  # fmt: skip
    for at in {x[piece.event].item() for piece in pieces} - {None}:
        fig.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", layer="below",
            line={"color": evidence_colour(), "width": 1.4, "dash": "dash"},
        )  # fmt: skip
    fig.update_layout(
        yaxis={
            "range": [rows - 0.5, -0.5], "showgrid": True, "tickvals": list(range(rows)),
            "ticktext": labels,
        }
    )  # fmt: skip
    return fig


def alt(views: Sequence[ArmView], pieces: Sequence[Piece], events: int) -> str:
    """The map in words."""
    parts = [f"Map of a chart of {events:,} events"]
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


# Scores as arrays


def shades(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores as shades [n] in 0 to 1, NaN where unranked: 1 for the best, 0 for the last, by the
    logarithm of the rank, so that the top ranks differ most. Equal scores share the last rank among
    them."""
    result = np.full(len(values), np.nan)
    known = ~np.isnan(values)
    scored = values[known]
    if len(scored):
        last = len(scored) - np.searchsorted(np.sort(scored), scored)
        result[known] = 1 - np.log(last) / max(np.log(len(scored)), 1e-9)
    return result


def columns(table: api.ScoreTable, by: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The columns of a strip over all sentences of ``table``: their centres [m], in per cent of the
    record or as times, and the column of each sentence [n], -1 for an undated one by time."""
    timed = by == TIME
    x = 100 * table.order
    low, high, count = 0.0, 100.0, max(min(len(np.unique(table.events)), MOST_COLUMNS), 1)
    if timed:
        x = np.where(
            np.isnat(table.times), np.nan, table.times.astype("datetime64[s]").astype(float)
        )
        low, high, count = np.nanmin(x, initial=np.inf), np.nanmax(x, initial=-np.inf), TIME_COLUMNS
        low, high = (low, max(high, low + 1)) if np.isfinite(low) else (0.0, 1.0)
    of, known = np.full(len(x), -1, np.int64), ~np.isnan(x)
    width = (high - low) / count
    of[known] = np.minimum((x[known] - low) // width, count - 1).astype(np.int64)
    centres = low + (np.arange(count) + 0.5) * width
    return centres.astype("datetime64[s]") if timed else centres, of


def highest(values: NDArray[np.float64], of: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """The highest of ``values`` [n] in each of ``count`` columns, ``of`` [n] the column of each;
    NaN where a column holds none."""
    result = np.full(count, np.nan)
    on = of >= 0
    np.fmax.at(result, of[on], values[on])
    return result.astype(np.float32)
