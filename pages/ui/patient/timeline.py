"""The timeline of a whole record: what happened, what each arm kept and the prompt shows of it,
where the evidence lies.

Two parts share one axis (place in the record, or calendar time): rows of markers that can be
clicked, evidence first and then one row an arm, and under them a quiet strip of how much of each
kind of event there is. The figure stays small whatever the record's length: the strip is binned,
a row of more than two thousand markers is thinned, arrays are numpy, and hover holds an index,
never text of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core import api
from pages.ui.patient.kept import CUT, HELD, ArmView, Piece

ORDER, TIME = "Event order", "Time"
BINS = 240
MOST_MARKERS = 2000
ROW, STRIP, TOP, BOTTOM = 34, 17, 26, 46
EVIDENCE_COLOUR = ("#8A5A00", "#E8B339")
"""Of evidence, on a light and on a dark background; on the timeline as in the marked text."""
MIDDLE = (0.3, 0.7)

KINDS = (
    ("Notes", ("note",)),
    ("Labs, vitals", ("measurement",)),
    ("Drugs", ("drug_exposure", "drug")),
    ("Conditions", ("condition", "condition_occurrence")),
    ("Visits", ("visit", "visit_detail", "visit_occurrence")),
    ("Procedures", ("procedure", "procedure_occurrence")),
)
OTHER = "Other"


@dataclass(frozen=True)
class Axis:
    """A record as arrays: position in percent [n], time [n] (NaT where undated), kind index [n]."""

    percent: NDArray[np.float64]
    times: NDArray[np.datetime64]
    kinds: tuple[str, ...]
    kind_index: NDArray[np.int64]

    def where(self, by: str) -> NDArray[Any]:
        """The x of every event, by order in percent or by time."""
        return self.times if by == TIME else self.percent

    @property
    def undated(self) -> int:
        """Events without a time, which the time axis cannot show."""
        return int(np.isnat(self.times).sum())

    @property
    def timed(self) -> bool:
        """Whether the events span any time at all."""
        dated = self.times[~np.isnat(self.times)]
        return bool(len(dated)) and dated.min() < dated.max()


@dataclass(frozen=True)
class Look:
    """How a row is drawn: colour and marker symbol."""

    colour: str
    symbol: str


@dataclass(frozen=True)
class Shades:
    """Colours of the ground the figure stands on."""

    text: str
    faint: str
    evidence: str
    dark: bool = False


def axis_of(record: api.Record) -> Axis:
    """The arrays a record's timeline needs."""
    n = len(record.events)
    group = {name: i for i, (_, names) in enumerate(KINDS) for name in names}
    index = np.fromiter((group.get(e.kind, len(KINDS)) for e in record.events), np.int64, n)
    labels = [label for label, _ in KINDS] + [OTHER]
    present = [i for i in range(len(labels)) if n and bool((index == i).any())]
    renumber = np.zeros(len(labels), np.int64)
    renumber[present] = np.arange(len(present))
    times = np.array([e.time or "NaT" for e in record.events], dtype="datetime64[s]")
    percent = 100.0 * np.arange(n) / max(n - 1, 1)
    return Axis(percent, times, tuple(labels[i] for i in present), renumber[index])


def density(axis: Axis, by: str, bins: int = BINS) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Bin centres [bins] and counts [kinds, bins] of events; by time, undated ones are left out."""
    counts = np.zeros((len(axis.kinds), bins), np.int64)
    if by == TIME:
        dated = ~np.isnat(axis.times)
        seconds = axis.times[dated].astype(np.int64).astype(np.float64)
        low, high = seconds.min(), seconds.max()
        place = (seconds - low) / (high - low) if high > low else np.zeros_like(seconds)
        kinds = axis.kind_index[dated]
        centres = low + (np.arange(bins) + 0.5) * (high - low) / bins
        x: NDArray[Any] = centres.astype(np.int64).astype("datetime64[s]")
    else:
        place, kinds = axis.percent / 100.0, axis.kind_index
        x = 100.0 * (np.arange(bins) + 0.5) / bins
    column = np.minimum((place * bins).astype(np.int64), bins - 1)
    np.add.at(counts, (kinds, column), 1)
    return x, counts


def _middle(axis: Axis, by: str) -> tuple[Any, Any]:
    if by != TIME:
        return 100 * MIDDLE[0], 100 * MIDDLE[1]
    dated = axis.times[~np.isnat(axis.times)].astype(np.int64)
    low, span = int(dated.min()), int(dated.max() - dated.min())
    ends = np.array([low + int(span * share) for share in MIDDLE]).astype("datetime64[s]")
    return ends[0].item(), ends[1].item()


def _plain(x: Any) -> Any:
    """One x value as Plotly takes it in a shape."""
    return x.item() if isinstance(x, np.generic) else x


def thinned(events: NDArray[np.int64], most: int = MOST_MARKERS) -> NDArray[np.int64]:
    """Indices of at most ``most`` markers: all, or the first one of each of ``most`` bins."""
    if len(events) <= most:
        return np.arange(len(events))
    low, high = int(events.min()), int(events.max())
    cell = ((events - low) * most) // max(high - low + 1, 1)
    _, first = np.unique(cell, return_index=True)
    return first


def _kept_trace(view: ArmView, look: Look, axis: Axis, by: str, y: int) -> go.Scatter | None:
    if view.selection is None or not view.selection.kept:
        return None
    kept = view.selection.kept
    events = np.fromiter((k.sentence.span.event for k in kept), np.int64, len(kept))
    scores = np.array([np.nan if k.score is None else k.score for k in kept])
    recent = np.array([k.kept_by == "recency" for k in kept])
    shown = np.array([k.sentence.id in view.shown for k in kept])
    some = thinned(events)
    events, scores, recent, shown = events[some], scores[some], recent[some], shown[some]
    base = look.symbol.removesuffix("-open")
    thin = len(some) < len(kept)
    note = f" (one marker for several: {len(kept):,} kept)" if thin else ""
    return go.Scatter(
        x=axis.where(by)[events],
        y=np.full(len(events), y),
        mode="markers",
        name=view.title,
        marker={
            "symbol": np.where(recent, f"{base}-open", look.symbol),
            "size": np.where(recent, 9, 10),
            "color": look.colour,
            "line": {"width": 1.6, "color": look.colour},
            "opacity": np.where(shown, 0.35 if thin else 0.85, 0.15),
        },
        customdata=np.column_stack([events, recent, events + 1]),
        text=[
            ("as most recent" if np.isnan(s) else f"score {s:.3g}")
            + ("" if there else f"; {view.cut or 'less than half of it is left'}")
            for s, there in zip(scores, shown, strict=True)
        ],
        hovertemplate=(
            f"<b>{view.title}</b> kept event %{{customdata[2]}}{note}<br>%{{text}}<extra></extra>"
        ),
        selected={"marker": {"opacity": 1, "size": 14}},
        unselected={"marker": {"opacity": 0.7}},
    )


def _evidence_trace(
    found: Sequence[Piece], view: ArmView, axis: Axis, by: str, y: int, shades: Shades
) -> go.Scatter:
    """On an arm's own row: a ring round evidence that is in the prompt, a crossed ring where it was
    kept and then cut, a cross where it was dropped."""
    words = [view.status(p) for p in found]
    symbols = {**dict.fromkeys(HELD, "circle-open"), CUT: "circle-x-open"}
    events = np.array([p.event for p in found])
    return go.Scatter(
        x=axis.where(by)[events],
        y=np.full(len(found), y),
        mode="markers",
        name=f"evidence, {view.title}",
        marker={
            "symbol": [symbols.get(w, "x-thin-open") for w in words],
            "size": [19 if w in symbols else 13 for w in words],
            "color": shades.evidence,
            "line": {"width": 3, "color": shades.evidence},
            "opacity": 1,
        },
        customdata=np.column_stack([events, [p.number for p in found], events + 1]),
        text=[view.status_words(p) for p in found],
        hovertemplate=(
            f"<b>Evidence %{{customdata[1]}}</b>, {view.title}: %{{text}}<br>"
            "event %{customdata[2]}<extra></extra>"
        ),
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
    )


def _gold_row(found: Sequence[Piece], axis: Axis, by: str, y: int, shades: Shades) -> go.Scatter:
    events = np.array([p.event for p in found])
    return go.Scatter(
        x=axis.where(by)[events],
        y=np.full(len(found), y),
        mode="markers+text",
        name="Evidence",
        marker={"symbol": "star-diamond", "size": 15, "color": shades.evidence},
        text=[str(p.number) for p in found],
        textposition="middle right",
        textfont={"color": shades.text, "size": 12},
        cliponaxis=False,
        customdata=np.column_stack([events, [p.number for p in found], events + 1]),
        hovertemplate=("<b>Evidence %{customdata[1]}</b><br>event %{customdata[2]}<extra></extra>"),
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
    )


def _strip(axis: Axis, by: str, top: int, shades: Shades) -> go.Heatmap:
    x, counts = density(axis, by)
    rgb = "190,200,210" if shades.dark else "60,75,90"
    return go.Heatmap(
        x=x,
        y=[f"s{i}" for i in range(len(axis.kinds))],
        z=np.log1p(counts).astype(np.float32),
        customdata=counts.astype(np.int32),
        colorscale=[[0, f"rgba({rgb},0)"], [0.001, f"rgba({rgb},.16)"], [1, f"rgba({rgb},.85)"]],
        showscale=False,
        xgap=0,
        ygap=3,
        yaxis="y2",
        hovertemplate="%{customdata} events<extra></extra>",
    )


def figure(
    axis: Axis,
    views: Sequence[ArmView],
    found: Sequence[Piece],
    looks: Sequence[Look],
    by: str,
    shades: Shades,
) -> go.Figure:
    """The timeline; every marker's ``customdata[0]`` is its event, counted from 0."""
    rows = len(views) + bool(found)
    upper, lower = ROW * max(rows, 1), STRIP * len(axis.kinds)
    split = lower / (upper + lower + 10)
    traces: list[Any] = [_strip(axis, by, rows, shades)] if axis.kinds else []
    labels: list[str] = []
    if found:
        traces.append(_gold_row(found, axis, by, 0, shades))
        labels.append("<b>Evidence</b>")
    for view, look in zip(views, looks, strict=True):
        y = len(labels)
        state = " (not run)" if view.pending else " (away)" if view.problem else ""
        labels.append(view.title.split(" (")[0] + state)
        if found and view.selection is not None:
            traces.append(_evidence_trace(found, view, axis, by, y, shades))
        kept = _kept_trace(view, look, axis, by, y)
        if kept is not None:
            traces.append(kept)
    fig = go.Figure(traces)
    low, high = _middle(axis, by)
    fig.add_shape(
        type="rect", x0=low, x1=high, y0=0, y1=1, yref="paper", layer="below",
        fillcolor="rgba(128,140,155,.13)", line_width=0,
    )  # fmt: skip
    fig.add_annotation(
        x=low, y=1, yref="paper", yanchor="bottom", xanchor="left", showarrow=False,
        text="middle, 30–70 %", font={"size": 11, "color": shades.faint},
    )  # fmt: skip
    for x in {_plain(axis.where(by)[p.event]) for p in found}:
        if x is not None:
            fig.add_shape(
                type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", layer="below",
                line={"color": shades.evidence, "width": 1.4, "dash": "dash"},
            )  # fmt: skip
    fig.update_layout(
        height=int(upper + lower + 10 + TOP + BOTTOM),
        showlegend=False,
        clickmode="event+select",
        hovermode="closest",
        yaxis={
            "domain": [min(split + 0.03, 1), 1], "range": [max(rows, 1) - 0.5, -0.5],
            "tickvals": list(range(len(labels))), "ticktext": labels,
            "fixedrange": True, "zeroline": False, "showgrid": True,
        },
        yaxis2={
            "domain": [0, split], "autorange": "reversed", "fixedrange": True, "showgrid": False,
            "tickvals": [f"s{i}" for i in range(len(axis.kinds))],
            "ticktext": list(axis.kinds), "anchor": "x", "zeroline": False,
        },
        xaxis=_x_axis(by),
    )  # fmt: skip
    return fig


def _x_axis(by: str) -> dict[str, Any]:
    base: dict[str, Any] = {"anchor": "y2", "zeroline": False, "fixedrange": True}
    if by == TIME:
        return base | {"type": "date", "showgrid": True}
    return base | {
        "type": "linear", "range": [-1.5, 101.5], "dtick": 20, "ticksuffix": " %", "tickangle": 0,
        "minor": {"dtick": 10, "showgrid": True, "gridcolor": "rgba(128,140,155,.18)"},
        "title": {"text": "Place in the record (by event order)", "standoff": 6},
    }  # fmt: skip


def opened(selection: Any) -> int | None:
    """The number of the event whose marker was clicked; None where none was."""
    points = (selection or {}).get("points") or []
    for point in points:
        data = point.get("customdata")
        if data is None:
            continue
        value = data.get("0") if isinstance(data, dict) else data[0]
        if value is not None:
            return int(value)
    return None


def alt(views: Sequence[ArmView], found: Sequence[Piece], events: int) -> str:
    """The timeline in words."""
    parts = [f"Timeline of {events:,} events"]
    if found:
        parts.append("evidence at " + ", ".join(f"{100 * p.at:.0f} %" for p in found))
    for view in views:
        if view.selection is not None:
            held = sum(view.status(p) in HELD for p in found)
            where = " in the prompt" if view.prompt is not None else ""
            of = f", {held} of {len(found)} evidence{where}" if found else ""
            of += f", {view.cut}" if view.cut else ""
            parts.append(f"{view.title} kept {len(view.selection.kept):,}{of}")
    return "; ".join(parts)
