"""The Forecast page's attention map: the weight of each event before one prediction, by variant.

Sequences are numbered, and times are days before the prediction: the URL holds nothing of a
patient. The sign of a weight is shown by shape and place as well as colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.results.kit import Shown
from midchart.pages.ui.shared import chart, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick, pick_several

MOST = 6
"""Variants side by side: as many as the experiment has attentions."""
MEAN = "mean of heads"
AXES = {"order": "events before the prediction", "days": "time before the prediction"}
PANEL = 118
"""Height of a panel in pixels."""
TICKS = {
    "now": 0.0, "1 day": 1.0, "1 week": 7.0, "1 month": 30.4, "1 year": 365.25, "10 years": 3652.5,
    "80 years": 29220.0,
}  # fmt: skip
"""Days before the prediction that have a tick on the time axis."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A variant's panel: title and detail (plain text) and the weight of each event [n]."""

    title: str
    detail: str
    weights: NDArray[np.float64]


def by_time(days: Sequence[float | None]) -> NDArray[np.float64]:
    """Events on the logarithmic time axis, the prediction at the right end; NaN without a date."""
    return np.array([np.nan if day is None else -np.log10(1 + day) for day in days], np.float64)


def _panel_traces(
    weights: NDArray[np.float64], x: NDArray[np.float64], names: Sequence[str]
) -> list[go.Scatter]:
    """Stems and markers: filled circles above, triangles below, hollow rings at exactly zero."""
    ink, (up, _, down, _) = chart.ink(), chart.series()
    dated = np.isfinite(x)
    stems = dated & (weights != 0)
    zeros, gaps = np.zeros(stems.sum()), np.full(stems.sum(), np.nan)
    traces = [
        go.Scatter(
            x=np.repeat(x[stems], 3),
            y=np.column_stack([zeros, weights[stems], gaps]).ravel(),
            mode="lines",
            line={"color": ink.faint, "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    ]
    for title, symbol, colour, size, chosen in (
        ("weight", "circle", up, 8, weights > 0),
        ("exactly zero", "circle-open", ink.faint, 6, weights == 0),
        ("negative", "triangle-down", down, 10, weights < 0),
    ):
        events = np.flatnonzero(dated & chosen)
        line = {"width": 1.2, "color": colour}
        traces.append(
            go.Scatter(
                x=x[events],
                y=weights[events],
                mode="markers",
                name=title,
                showlegend=False,
                cliponaxis=False,
                marker={"symbol": symbol, "size": size, "color": colour, "line": line},
                text=[names[i] for i in events],
                hovertemplate="%{text}: %{y:.4f}<extra></extra>",
            )
        )
    return traces


def attention_figure(
    panels: Sequence[Panel],
    x: NDArray[np.float64],
    names: Sequence[str],
    axis: str,
    same_scale: bool,
) -> go.Figure:
    """Weights of events at ``x`` [n] on an axis of :data:`AXES`, NaN where an event is not on it.

    ``names``: the events' names as plain text.
    """
    spacing = 0.24 / max(len(panels), 3)
    figure = make_subplots(rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=spacing)
    faint = chart.ink().faint
    names = [for_screen(name, html=True) for name in names]
    for row, panel in enumerate(panels, 1):
        for trace in _panel_traces(panel.weights, x, names):
            figure.add_trace(trace, row=row, col=1)
        number = "" if row == 1 else str(row)
        figure.add_annotation(
            x=0, y=1, xref=f"x{number} domain", yref=f"y{number} domain", xanchor="left",
            yanchor="bottom", showarrow=False, align="left", font={"size": 12},
            text=f"<b>{for_screen(panel.title, html=True)}</b>  "
            f'<span style="color:{faint}">{for_screen(panel.detail, html=True)}</span>',
        )  # fmt: skip
    figure.update_yaxes(
        title="weight", zeroline=True, zerolinewidth=1.5, nticks=4, rangemode="tozero"
    )
    if same_scale and panels:
        weights = np.concatenate([panel.weights for panel in panels])
        low, high = min(0.0, float(weights.min())), float(weights.max())
        margin = 0.06 * max(high - low, 1e-6)
        figure.update_yaxes(range=[low - margin, high + margin])
    figure.update_xaxes(zeroline=False, title=None)
    figure.update_xaxes(title=AXES[axis], row=len(panels), col=1)
    if axis == "days":
        ticks = {title: float(by_time([days])[0]) for title, days in TICKS.items()}
        # One tick beyond the earliest event shows how far away it is.
        earliest = float(np.nanmin(x, initial=-0.5)) - 0.35
        ticks = {title: at for title, at in ticks.items() if at >= earliest}
        figure.update_xaxes(tickvals=list(ticks.values()), ticktext=list(ticks))
    figure.update_layout(height=70 + PANEL * max(len(panels), 1), hovermode="closest")
    return figure


def examples(label: Any, scores: Mapping[str, Any]) -> dict[str, int]:
    """Sequences by the mean rank over variants, and the one whose ranks differ most."""
    ranks = np.stack([np.argsort(np.argsort(s, kind="stable")) for s in scores.values()])
    mean = ranks.mean(axis=0)
    positive, negative = label == 1, label == 0
    return {
        "positive, ranked high": int(np.argmax(np.where(positive, mean, -1.0))),
        "positive, ranked low": int(np.argmin(np.where(positive, mean, np.inf))),
        "negative, ranked high": int(np.argmax(np.where(negative, mean, -1.0))),
        "ranked most differently": int(np.argmax(np.ptp(ranks, axis=0))),
    }


def open_variant(shown: Shown, view: api.View, key: Mapping[str, Any]) -> None:
    """Show the held-out sequences of a task by the variant of a value."""
    st.session_state["view"], st.session_state["sequences"] = "map", True
    st.session_state["attended"] = [key["variant"]]


def draw(shown: Shown) -> None:
    """The controls, the figure, its text and its numbers."""
    try:
        _view(shown.run, str(shown.chosen["task"]))
    except MidchartError as error:
        st.info(for_screen(str(error)), icon=":material/visibility_off:")


def _open_sequence(index: int) -> None:
    st.session_state["sequence"] = index


def _view(run: dict[str, Any], task: str) -> None:
    seeds = state.held_out(run, task, None).seeds
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed = seeds[0]
        if len(seeds) > 1:
            seed = st.selectbox("Seed", seeds, key="seed", bind="query-params", width=110)
        held_out = state.held_out(run, task, seed)
        last = len(held_out.label) - 1
        if st.session_state.get("sequence", 0) > last:
            st.session_state["sequence"] = last  # another task has fewer
        index = st.number_input("Held-out sequence", 0, last, 0, key="sequence",
                                bind="query-params", width=190)  # fmt: skip
        attended = state.attended(run, task, int(index), seed)
        events = attended.events
        layers, heads = attended.models[0].cls.shape
        layer = st.selectbox("Layer", list(range(1, layers + 1)), index=layers - 1, key="layer",
                             bind="query-params", width=110)  # fmt: skip
        head = st.selectbox("Head", [MEAN, *(str(i) for i in range(1, heads + 1))], key="head",
                            bind="query-params", width=170)  # fmt: skip
        axis = pick("Along", list(AXES), "along")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.caption("Go to", width="content")
        for title, sequence in examples(held_out.label, held_out.scores).items():
            st.button(title, key=f"jump_{title}", on_click=_open_sequence, args=(sequence,),
                      type="tertiary")  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = list(held_out.scores)
        chosen = pick_several(
            "attended", "Shown", names, partial(api.title, "variant"), key="attended",
            default=names[:MOST], max_selections=MOST, width=760,
        )  # fmt: skip
        same = st.toggle("Same scale", key="scale", bind="query-params")
    _sequences(run, held_out, [name for name in names if name in chosen])
    outcome = "positive" if attended.label else "negative"
    st.markdown(
        for_screen(
            f"Sequence {attended.index:,} of {last + 1:,} held-out ones, "
            f"{api.in_words('task', task)}: {outcome}."
        )
    )
    if not events:
        st.info("There are no events before this prediction, so there is no attention to show.")
        return
    models = [model for model in attended.models if model.variant in chosen]
    if not models:
        st.info("Select a variant to see its weights.")
        return
    panels = [_panel(model, held_out.scores[model.variant], int(layer), head) for model in models]
    if axis == "order":
        x = np.array([-event.place for event in events], np.float64)
    else:
        x = by_time([event.days for event in events])
    labels = [event.name + ("" if event.value is None else f" {event.value:g}") for event in events]
    where = f"layer {layer}, {head if head == MEAN else f'head {head}'}"
    chart.show(
        attention_figure(panels, x, labels, axis, same),
        f"Weight of each of {len(events)} events, {where}. "
        + "; ".join(f"{panel.title}: {panel.detail}" for panel in panels),
        "attention_map",
    )
    undated = int(np.isnan(x).sum())
    st.caption(
        f"n = {len(events):,} events of one sequence, {where}: weights from the CLS position to "
        f"each event; one sequence and one training, so no interval. Filled circle: weight; "
        f"triangle: negative; ring: exactly zero. "
        + ("" if int(layer) == layers else "In this layer events also attend to each other. ")
        + ("One scale for all." if same else "Each panel has its own scale.")
        + (f" {undated:,} events without a date are not shown." if undated else "")
    )
    _table(run, attended, panels)


def _sequences(run: dict[str, Any], held_out: Any, names: Sequence[str]) -> None:
    """Every held-out sequence with its label and its rank by each variant; a click opens one."""
    with st.expander("All held-out sequences", on_change="rerun", key="sequences") as box:
        if not box.open:
            return
        ranks = {
            api.title("variant", name): 100 * pd.Series(held_out.scores[name]).rank(pct=True)
            for name in names
        }
        frame = pd.DataFrame(
            {
                "sequence": range(len(held_out.label)),
                "outcome": ["positive" if one else "negative" for one in held_out.label],
                **ranks,
            }
        )
        percent = st.column_config.NumberColumn(format="%.1f")
        tables.table(
            frame,
            f"{run['run']}-sequences",
            "Each held-out sequence: outcome, and the percentile of its score by variant",
            columns=dict.fromkeys(ranks, percent),
            opens=lambda row, _: _open_sequence(row),
        )
        st.caption("Percentile of the score among all held-out sequences. Click a row to open it.")


def _panel(model: Any, scores: Any, layer: int, head: str) -> Panel:
    weights = np.asarray(model.weights[layer - 1], np.float64)  # [heads, events]
    weights = weights.mean(axis=0) if head == MEAN else weights[int(head) - 1]
    counts = {"zero": int((weights == 0).sum()), "negative": int((weights < 0).sum())}
    words = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "none zero or negative"
    above = 100 * float((scores < model.stored).mean())
    title = api.title("variant", model.variant)
    return Panel(title, f"{words} of {len(weights)} · ranked above {above:.0f} %", weights)


def _table(run: dict[str, Any], attended: Any, panels: Sequence[Panel]) -> None:
    events = attended.events
    weights = {panel.title: panel.weights for panel in panels}
    frame = pd.DataFrame(
        {
            "place": [event.place for event in events],
            "days before": [event.days for event in events],
            "event": [event.name for event in events],
            "value": [event.value for event in events],
            **weights,
        }
    ).iloc[::-1]
    every = pd.DataFrame(
        [
            {
                "task": attended.task, "sequence": attended.index, "label": attended.label,
                "variant": model.variant, "seed": model.seed, "layer": layer + 1, "head": head + 1,
                "place": event.place, "days_before": event.days, "code": event.code,
                "event": event.name, "value": event.value, "known": event.known,
                "weight": float(model.weights[layer, head, i]),
                "weight_of_itself": float(model.cls[layer, head]),
            }
            for model in attended.models
            for layer, head in np.ndindex(model.cls.shape)
            for i, event in enumerate(events)
        ]
    )  # fmt: skip
    number = st.column_config.NumberColumn
    tables.table(
        frame,
        f"{run['run']}-attention-{attended.index}",
        "Each event, latest first, with its weight by variant",
        columns={
            "place": number("before", help="1 is the latest event before the prediction"),
            "days before": number(format="%.1f"),
            "event": st.column_config.TextColumn(width="medium"),
            **{name: number(format="%.4f") for name in weights},
        },
        download=every,
    )
    if unknown := sum(not event.known for event in events):
        st.caption(f"{unknown:,} events have codes too rare in training to be distinguished.")
