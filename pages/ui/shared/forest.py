"""Forests: a line a row, its estimate as a marker, its interval as a bar, its numbers beside it.

Every row is named and told in words on the axis, so nothing rests on colour: all rows have one
ink, and controls are hollow and grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from pages.ui.shared import marks, results, theme

ROW = 40
"""Height of a row in pixels: a name and a line of numbers under it."""


@dataclass(frozen=True)
class Line:
    """A row: its name, estimate and interval (in the axis' own unit), and its numbers in words.

    ``chance``: the chance level of the row, drawn as a tick; nan where it has none.
    """

    name: str
    value: float
    low: float
    high: float
    words: str
    control: bool = False
    symbol: str = "circle"
    chance: float = float("nan")


def number(value: Any) -> float:
    """A number; nan for none."""
    return float("nan") if value is None or pd.isna(value) else float(value)


def is_control(label: str) -> bool:
    """Whether an arm is one of the controls, whatever its budget."""
    return label.partition(" ")[0] in theme.controls()


def forest(
    lines: Sequence[Line],
    what: str,
    span: tuple[float, float] = (-3, 103),
    suffix: str = " %",
    zero: bool = False,
) -> go.Figure:
    """The rows from top to bottom, as given; ``zero`` draws the line of no difference."""
    figure = go.Figure()
    shade, colour = theme.ink(), theme.series()[0]
    height = {id(line): len(lines) - i for i, line in enumerate(lines)}
    for control, symbol in dict.fromkeys((line.control, line.symbol) for line in lines):
        own = [
            line
            for line in lines
            if (line.control, line.symbol) == (control, symbol) and not isnan(line.value)
        ]
        tint = shade.faint if control else colour
        figure.add_trace(
            go.Scatter(
                x=[line.value for line in own],
                y=[height[id(line)] for line in own],
                mode="markers",
                cliponaxis=False,
                marker={
                    "color": tint,
                    "symbol": f"{symbol}-open" if control else symbol,
                    "size": 10,
                    "line": {"width": 2, "color": tint},
                },
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [line.high - line.value for line in own],
                    "arrayminus": [line.value - line.low for line in own],
                    "color": tint,
                    "thickness": 2,
                    "width": 5,
                },
                text=[f"{marks.safe(line.name)}: {marks.safe(line.words)}" for line in own],
                hovertemplate="%{text}<extra></extra>",
                showlegend=False,
            )
        )
    ticks = [line for line in lines if not isnan(line.chance)]
    if ticks:
        figure.add_trace(
            go.Scatter(
                x=[line.chance for line in ticks],
                y=[height[id(line)] for line in ticks],
                mode="markers",
                name="chance",
                cliponaxis=False,
                marker={
                    "symbol": "line-ns-open",
                    "size": 16,
                    "color": shade.faint,
                    "line": {"width": 2, "color": shade.faint},
                },
                hovertemplate="chance %{x:.1f} %<extra></extra>",
                showlegend=False,
            )
        )
    if zero:
        figure.add_vline(x=0, line={"color": shade.faint, "width": 1.5, "dash": "dot"})
    figure.update_layout(height=70 + ROW * max(len(lines), 2))
    figure.update_xaxes(range=list(span), title=marks.safe(what), ticksuffix=suffix, zeroline=False)
    figure.update_yaxes(
        tickvals=[height[id(line)] for line in lines],
        ticktext=[
            f"<b>{marks.safe(line.name)}</b><br>"
            f'<span style="font-size:11px;color:{shade.faint}">{marks.safe(line.words)}</span>'
            for line in lines
        ],
        range=[0.4, len(lines) + 0.6],
        showgrid=True,
        zeroline=False,
    )
    return figure


def shares(
    frame: pd.DataFrame, value: str, low: str, high: str, ordered: bool = True
) -> list[Line]:
    """Arms' shares as rows, the best on top (or as they stand), with n and what is not in it."""
    rows = frame.to_dict("records")
    if ordered:
        rows = sorted(rows, key=lambda row: -number(row[value]))
    lines: list[Line] = []
    for row in rows:
        words = results.share(row[value], row[low], row[high])
        words += f" n {int(row['n']):,}"
        chance = number(row.get("chance")) if value == "recall" else float("nan")
        words += "" if isnan(chance) else f", chance {results.percent(chance)}"
        words += "".join(
            f", {int(row[out]):,} {out.removesuffix('s') if row[out] == 1 else out}"
            for out in ("refusals", "unparsed")
            if row.get(out)
        )
        values = (100 * number(row[name]) for name in (value, low, high))
        control = is_control(row["label"])
        lines.append(Line(row["label"], *values, words, control, chance=100 * chance))
    return lines


def differences(frame: pd.DataFrame, low: str, high: str) -> list[Line]:
    """Arms' differences from a baseline in points as rows, the largest on top, with Holm's p."""
    lines: list[Line] = []
    for row in sorted(frame.to_dict("records"), key=lambda row: -number(row["difference"])):
        value, start, end = (100 * number(row[name]) for name in ("difference", low, high))
        words = results.signed(row["difference"], row[low], row[high], 1)
        words += f" n {int(row['n']):,}, {results.p_words(row['p_holm'])}{results.unscored(row)}"
        lines.append(Line(row["label"], value, start, end, words, is_control(row["label"])))
    return lines


def alt(lines: Sequence[Line], what: str) -> str:
    """A forest in a sentence: how many rows, the highest and the lowest."""
    known = sorted((line for line in lines if not isnan(line.value)), key=lambda line: line.value)
    if not known:
        return f"Forest plot of {what}: nothing to show yet."
    return (
        f"Forest plot of {what}, {len(known)} rows; highest {known[-1].name}: {known[-1].words}; "
        f"lowest {known[0].name}: {known[0].words}."
    )
