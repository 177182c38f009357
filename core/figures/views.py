"""The figure of a view, from its values: a forest plot, lines or a grid; and what it shows.

A marker's custom data is the number of its value, so that a page can open what is behind it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from midchart.core.figures import (
    NAME,
    PERCENT,
    SCORES,
    Look,
    axis_side,
    band,
    category_axis,
    distinct_looks,
    dotted,
    end_labels,
    error_bars,
    ink,
    is_control,
    leading,
    line,
    rgba,
    row_axis,
    series,
    series_look,
    shade_middle,
    shifts,
    step_looks,
    style,
)
from midchart.core.format import count, for_screen, percent
from midchart.core.results.funnel import WIDE, arms_sentence, sentence
from midchart.core.results.values import SHAPES, Value, in_order, in_words
from midchart.core.runs.declared import Measure, View

MOST_LINES = 4
"""Lines that one figure holds; the table has all."""
FEW = 5
"""A point of a line that rests on fewer says little: it is hollow and joined to no other."""
SCALES = {"%": 100.0, "points": 100.0}
LINE_HEIGHT = 380
ALONG_RECORD = ("depth", "evidence_at_%")
"""Columns of places in a record in per cent."""


def figure(estimates: Sequence[Value], view: View, measure: Measure) -> go.Figure | None:
    """The figure of a view's values, styled for the viewer's background; None where there is
    nothing to draw (no value, or a table alone)."""
    known = [one for one in estimates if not isnan(one.value)]
    if not known or view.figure == "none":
        return None
    draw = {
        "forest": _forest, "waterfall": _forest, "dumbbell": _dumbbell, "line": _lines,
        "grid": _grid, "stack": _stack,
    }[view.figure]  # fmt: skip
    return style(draw(list(estimates), view, measure))


def alt(estimates: Sequence[Value], view: View, measure: Measure) -> str:
    """What the figure shows, for who cannot see it."""
    rows = list(dict.fromkeys(one.row for one in estimates))
    known = [one for one in estimates if not isnan(one.value)]
    if not known:
        return f"{measure.title}: nothing to show yet."
    least, most = (end(known, key=lambda one: one.value) for end in (min, max))
    if view.figure in ("forest", "waterfall", "dumbbell"):
        return (
            f"Forest plot of {measure.title}, {len(known)} rows; highest {most.row}: "
            f"{_numbers(most)}; lowest {least.row}: {_numbers(least)}."
        )
    return (
        f"{measure.title} of {', '.join(rows[:MOST_LINES])}"
        + (f" and {len(rows) - MOST_LINES} more" if len(rows) > MOST_LINES else "")
        + f" by {view.across.replace('_', ' ')}; "
        f"highest {most.row}: {most.text}; lowest {least.row}: {least.text}."
    )


def headline(
    estimates: Sequence[Value],
    view: View,
    measure: Measure,
    rows: Sequence[Mapping[str, Any]],
) -> str:
    """What a view shows, in a sentence: what becomes of the evidence, or the highest and the lowest
    of its values. ``rows``: those of its table; "" where there is nothing to say."""
    if view.figure == "stack":
        return sentence(rows) if view.rows == ("band",) else arms_sentence(rows)
    known = [one for one in estimates if not isnan(one.value)]
    if len(known) < 2:
        return ""
    if view.diagonal:
        drawn = _leading(estimates)
        return _off_diagonal([one for one in known if one.row in drawn], view, rows)
    if seeds := sorted({row["seeds"] for row in rows if row.get("seeds")}):
        return _best_of_each(known, view, measure, seeds[-1])
    least, most = (end(known, key=lambda one: one.value) for end in (min, max))
    place = "" if view.across in SHAPES else f"{view.across.replace('_', ' ')} "
    named = [
        f"{one.row}{f', {place}{in_words(view.across, one.x)}' if view.across else ''} ({one.text})"
        for one in (most, least)
    ]
    words = measure.title[:1].upper() + measure.title[1:]
    return f"{words}: highest {named[0]}, lowest {named[1]}."


def _best_of_each(known: Sequence[Value], view: View, measure: Measure, seeds: int) -> str:
    """The best row of each column of a grid, of how many trainings and labels."""
    best: dict[str, list[str]] = {}
    for column in in_order([one.x for one in known]):
        top = max((one for one in known if one.x == column), key=lambda one: one.value)
        best.setdefault(top.row, []).append(f"{in_words(view.across, column)} {top.text}")
    columns = len({one.x for one in known})
    names = "; ".join(
        f"{row} ({', '.join(cells)})"
        if columns <= MOST_LINES
        else f"{row} (in {len(cells)} of {columns} {view.across}s)"
        for row, cells in best.items()
    )
    labels = sorted({one.n for one in known})
    n = f"{labels[0]:,}" if len(labels) == 1 else f"{labels[0]:,} to {labels[-1]:,}"
    return (
        f"Highest {measure.title}: {names}. Means over {count(seeds, 'seed')} of each attention, "
        f"n = {n} held-out labels."
    )


MOST_FALSE = 0.1
"""False positive rate at which the sensitivity of a ROC curve is said."""
CHANCE = "chance"
"""The diagonal of ROC curves."""


def _off_diagonal(known: Sequence[Value], view: View, rows: Sequence[Mapping[str, Any]]) -> str:
    """The headline of lines with a diagonal. ROC curves: lowest and highest sensitivity at the
    false positive rate ``MOST_FALSE``, and the false positives per 100 true positives there, where
    the rows have the prevalence. Calibration: the point farthest from the diagonal."""
    if view.diagonal == CHANCE:
        allowed = [one for one in known if one.x <= MOST_FALSE]
        reached = {row: max(one.value for one in allowed if one.row == row)
                   for row in dict.fromkeys(one.row for one in allowed)}  # fmt: skip
        least, most = (end(reached, key=reached.__getitem__) for end in (min, max))
        text = (
            f"At a false positive rate of {percent(MOST_FALSE)}, sensitivity is from "
            f"{percent(reached[least])} ({least}) to {percent(reached[most])} ({most})"
        )
        share = rows[0].get("prevalence")
        if not share or not reached[least]:
            return f"{text}."
        costs = [100 * MOST_FALSE * (1 - share) / (reached[of] * share) for of in (least, most)]
        return f"{text}: {costs[0]:.0f} and {costs[1]:.0f} false positives per 100 true positives."
    far = max(known, key=lambda one: abs(one.value - one.x))
    return (
        f"Farthest from the diagonal: {far.row}, where {percent(far.x)} is predicted and "
        f"{far.text} observed (n = {far.n:,})."
    )


def _numbers(one: Value) -> str:
    """The numbers of a row, as they are under its name."""
    text = f"{one.text} n {one.n:,}" if one.n else one.text
    chance = SCALES.get(one.unit, 1.0) * one.chance
    return text if isnan(chance) else f"{text}, chance {chance:.1f}"


def _span(ends: Sequence[float], unit: str, zero: bool) -> tuple[float, float]:
    """The axis that holds every end; around 0 for a difference, with at least 5 on either side."""
    if zero:
        reach = 1.08 * max([5.0, *map(abs, ends)])
        return -reach, reach
    if unit == "%":
        return PERCENT
    margin = 0.06 * (max(ends) - min(ends) or max(abs(max(ends)), 1.0))
    least = min(ends) - margin
    return (max(least, 0.0) if min(ends) >= 0 and unit != "" else least), max(ends) + margin


class PlottedValue(NamedTuple):
    """A value with its ``number`` among those of the figure, and its places on the axis."""

    number: int
    one: Value
    value: float
    low: float
    high: float
    chance: float


def _marks(estimates: Sequence[Value], unit: str) -> list[PlottedValue]:
    scale = SCALES.get(unit, 1.0)
    return [
        PlottedValue(i, one, *(scale * end for end in (one.value, one.low, one.high, one.chance)))
        for i, one in enumerate(estimates)
    ]


def _add_marks(
    chart: go.Figure,
    marks: Sequence[PlottedValue],
    heights: Sequence[float],
    look: Look,
    name: str = "",
) -> None:
    """Markers of rows with their intervals, named in the legend if they have a name."""
    x, low, high = ([getattr(mark, end) for mark in marks] for end in ("value", "low", "high"))
    texts = [f"{mark.one.row}: {_numbers(mark.one)}" for mark in marks]
    bars = rgba(look.colour, 0.45) if name else look.colour  # of several marks a row they overlap
    chart.add_scatter(
        x=x, y=list(heights), mode="markers", cliponaxis=False, showlegend=bool(name),
        name=for_screen(name, html=True), customdata=[[str(mark.number)] for mark in marks],
        error_x=error_bars(x, low, high, bars, thickness=2, width=5),
        marker={"color": look.colour, "symbol": look.symbol, "size": 10,
                "line": {"width": 2, "color": look.colour}},
        text=[for_screen(text, html=True) for text in texts],
        hovertemplate=f"%{{text}}<extra>{'%{fullData.name}' if name else ''}</extra>",
    )  # fmt: skip


def _rows_figure(
    chart: go.Figure, marks: Sequence[PlottedValue], view: View, measure: Measure, rows: int
) -> go.Figure:
    """The x axis of so many rows."""
    if view.zero:
        dotted(chart, x=0)
    ends = [end for mark in marks for end in (mark.value, mark.low, mark.high) if not isnan(end)]
    chart.update_xaxes(
        range=list(_span(ends, measure.unit, view.zero)), zeroline=False, **axis_side(rows),
        title=for_screen(measure.title, html=True), ticksuffix=_suffix(measure),
    )  # fmt: skip
    return chart


def _suffix(measure: Measure) -> str:
    return " %" if measure.unit == "%" else ""


def _forest(estimates: list[Value], view: View, measure: Measure) -> go.Figure:
    """Rows from top to bottom; a tick is the row's chance level, hollow markers are controls."""
    chart, faint, rows = go.Figure(), ink().faint, len(estimates)
    marks = _marks(estimates, measure.unit)
    hollow = [is_control(str(one.key.get("label") or "")) for one in estimates]
    for control in dict.fromkeys(hollow):
        look = Look(faint, "circle-open") if control else Look(series()[0])
        drawn = [m for m in marks if hollow[m.number] == control and not isnan(m.value)]
        _add_marks(chart, drawn, [rows - mark.number for mark in drawn], look)
    chances = [mark for mark in marks if not isnan(mark.chance)]
    if chances:
        chart.add_scatter(
            x=[mark.chance for mark in chances], y=[rows - mark.number for mark in chances],
            mode="markers", name="chance", cliponaxis=False, showlegend=False,
            marker={"symbol": "line-ns-open", "size": 16, "color": faint,
                    "line": {"width": 2, "color": faint}},
            hovertemplate="chance %{x:.1f} %<extra></extra>",
        )  # fmt: skip
    if view.figure == "waterfall":
        values = [mark.value for mark in marks]
        chart.add_bar(
            orientation="h", y=[rows - place for place in range(1, rows)], base=values[:-1],
            x=[after - before for before, after in pairwise(values)], width=0.34,
            marker={"color": series_look(1).colour, "opacity": 0.55}, hoverinfo="skip",
            showlegend=False,
        )  # fmt: skip
    texts = [for_screen(_numbers(one), html=True) for one in estimates]
    row_axis(chart, [one.row for one in estimates], texts)
    return _rows_figure(chart, marks, view, measure, rows)


def _dumbbell(estimates: list[Value], view: View, measure: Measure) -> go.Figure:
    """A row of marks, joined by a line: the first of ``across`` hollow, what is compared with it
    filled; the numbers under the row's name. Of two columns of rows the first is a heading, once
    over its rows, which follow each other. Heights are pixels below the first row."""
    keys = {one.row: one.key for one in estimates}
    known = [mark for mark in _marks(estimates, measure.unit) if not isnan(mark.value)]
    of_rows = {row: [mark for mark in known if mark.one.row == row] for row in keys}
    *group, name = view.rows
    chart, at, ticks, height, head = go.Figure(), 0.0, dict[float, str](), dict[str, float](), ""
    faint = f'<span style="font-size:11px;color:{ink().faint}">'
    for row, key in keys.items():
        if group and (heading := str(key[group[0]])) != head:
            ticks[at - 12], head, at = f"<b>{for_screen(heading, html=True)}</b>", heading, at - 30
        lines = textwrap.wrap(in_words(name, key[name]), NAME + 6)
        numbers = ", ".join(f"{m.one.x.partition(',')[0]} {m.value:.1f}" for m in of_rows[row])
        height[row] = at - 8 * (len(lines) + 1)
        text = "<br>".join(for_screen(line, html=True) for line in lines)
        ticks[height[row]] = f"{text}<br>{faint}{numbers.replace('-', '−')}</span>"
        at = 2 * height[row] - at - 8
    for place, series_name in enumerate(dict.fromkeys(one.x for one in estimates)):
        look = series_look(place - 1) if place else Look(ink().faint, "diamond-open")
        drawn = [mark for mark in known if mark.one.x == series_name]
        _add_marks(chart, drawn, [height[m.one.row] - 6 * place for m in drawn], look, series_name)
    for row, marks in of_rows.items():
        ends = [mark.value for mark in marks]
        chart.add_scatter(
            x=[min(ends, default=None), max(ends, default=None)], y=[height[row]] * 2,
            mode="lines", line={"color": ink().grid, "width": 5}, hoverinfo="skip",
            showlegend=False, zorder=-1,
        )  # fmt: skip
    chart.update_yaxes(
        tickvals=list(ticks), ticktext=list(ticks.values()), tickfont={"size": 12}, range=[at, 8],
        showgrid=False, zeroline=False,
    )  # fmt: skip
    chart.update_layout(
        legend={"x": 0, "y": 1, "yref": "container", "yanchor": "top"},
        margin={"t": 80}, height=120 - at,
    )  # fmt: skip
    return _rows_figure(chart, known, view, measure, len(keys))


def _leading(estimates: Sequence[Value]) -> list[str]:
    """The lines that are drawn: of arms those that lead the palette, else the first ones."""
    titles = {str(one.key.get("label") or one.row): one.row for one in estimates}
    return [titles[label] for label in leading(list(titles), MOST_LINES)]


def _looks(estimates: Sequence[Value]) -> dict[str, Look]:
    """Look of each line, by its title: an arm's own where lines are arms."""
    titles = list(dict.fromkeys(one.row for one in estimates))
    labels = {one.row: str(one.key.get("label") or "") for one in estimates}
    if all(labels.values()) and len(set(labels.values())) == len(titles):
        by_label = distinct_looks([labels[title] for title in titles])
        return {title: by_label[labels[title]] for title in titles}
    return {title: series_look(place) for place, title in enumerate(titles)}


def _lines(estimates: list[Value], view: View, measure: Measure) -> go.Figure:
    drawn = _leading(estimates)
    marks = [mark for mark in _marks(estimates, measure.unit) if mark.one.row in drawn]
    places = in_order([mark.one.x for mark in marks])
    numeric = all(isinstance(place, int | float) for place in places)
    at = {place: float(place) if numeric else float(i) for i, place in enumerate(places)}
    chart, looks = go.Figure(), _looks([mark.one for mark in marks])
    numbered = {"mode": "lines+markers+text", "texttemplate": "%{y:.0f}",
                "textposition": "top left", "textfont": {"size": 12}}  # fmt: skip
    along = view.across in ALONG_RECORD and len(places) > 1  # in shares of a step
    step = places[1] - places[0] if along else 0.0 if numeric else 1.0
    moved = shifts(len(drawn), 0.09 * step)
    counted = [title for title in drawn if any(m.one.n for m in marks if m.one.row == title)]
    marked = counted[0] if len(counted) == 1 and view.across in ALONG_RECORD else ""
    named = bool(marked or view.diagonal)  # by a legend, else at the lines' ends
    labels: list[tuple[float, str, str]] = []
    for title, shift in zip(drawn, moved, strict=True):
        points = sorted((m for m in marks if m.one.row == title), key=lambda mark: at[mark.one.x])
        look = looks[title]
        x = [at[mark.one.x] + shift for mark in points]
        y, low, high = ([getattr(m, end) for m in points] for end in ("value", "low", "high"))
        bounded = [mark.one for mark in points if mark.one.null]
        if bounded and title == drawn[0]:
            scale = SCALES.get(measure.unit, 1.0)
            least, most = ([scale * one.null[e] for one in bounded if one.null] for e in (0, 1))
            x_of = [at[one.x] for one in bounded]
            chart.add_trace(band(x_of, least, most, ink().faint, name="chance alone"))
        bars = None if np.isnan(low).all() else (low, high)
        options: dict[str, Any] = dict(numbered) if title == marked else {}
        if view.diagonal == "chance":
            options["mode"] = "lines"
        hollow = Look(look.colour, f"{look.symbol.removesuffix('-open')}-open", look.dash)
        modes = {False: options.get("mode", "lines+markers"), True: "markers"}
        for few, mode in modes.items():  # points of few are hollow and not joined
            part = [mark.value if few == (0 < mark.one.n < FEW) else nan for mark in points]
            if few and np.isnan(part).all():
                continue
            options["mode"] = mode
            chart.add_trace(
                line(
                    x, part, hollow if few else look, title, bars,
                    customdata=[[mark.number] for mark in points],
                    text=[f"{mark.one.text} n {mark.one.n:,}" for mark in points],
                    hovertemplate="%{text}<extra>%{fullData.name}</extra>",
                    showlegend=named and not few,
                    **options,
                )
            )  # fmt: skip
        chances = [mark.chance for mark in points]
        if not np.isnan(chances).all():
            faint = Look(look.colour, look.symbol, "dot")
            chart.add_trace(
                line(x, chances, faint, mode="lines", opacity=0.5, hoverinfo="skip",
                     line={"color": look.colour, "dash": "dot", "width": 1})
            )  # fmt: skip
        known = [value for value in y if not isnan(value)]
        if known:
            labels.append((known[-1], title, look.colour))
    if not numeric:
        chart.update_xaxes(**category_axis([in_words(view.across, place) for place in places]))
    if measure.unit == "%":
        chart.update_yaxes(range=list(PERCENT), ticksuffix=" %")
    if view.diagonal:
        one = SCALES.get(measure.unit, 1.0)
        chart.add_trace(
            line([0, 1], [0, one], Look(ink().faint, dash="dot"), view.diagonal, mode="lines",
                 showlegend=True, hoverinfo="skip")
        )  # fmt: skip
        chart.update_xaxes(range=[-0.02, 1.02])
        chart.update_yaxes(range=[-0.02 * one, 1.02 * one])
    if named:
        chart.update_layout(legend={"x": 0, "y": 1.06, "yanchor": "bottom"})
    else:
        heights = [height for height, _, _ in labels] or [0.0]
        spread = max(heights) - min(heights) or 1.0
        end_labels(chart, labels, 6.0 if measure.unit == "%" else 0.06 * spread)
    if view.zero:
        dotted(chart, y=0)
    if view.diagonal == CHANCE:
        dotted(chart, x=MOST_FALSE)
    chart.update_xaxes(title=view.across.replace("_", " "))
    if view.across in ALONG_RECORD:
        shade_middle(chart, named=True)
    if marked:
        counts = {mark.one.x: mark.one.n for mark in marks if mark.one.row == marked}
        chart.update_xaxes(
            title=f"{view.across.replace('_', ' ')} of the record; below it, n", tickangle=0,
            tickvals=[at[place] for place in counts],
            ticktext=[f"{in_words(view.across, place)}<br>{n:,}" for place, n in counts.items()],
        )  # fmt: skip
    chart.update_layout(height=LINE_HEIGHT, hovermode="closest")
    chart.update_yaxes(title=measure.title)
    return chart


def _stack(estimates: list[Value], view: View, measure: Measure) -> go.Figure:
    """A bar a row, divided by what is ``across``; each segment has its number where it has room."""
    rows = list(dict.fromkeys(one.row for one in estimates))
    steps = list(dict.fromkeys(one.x for one in estimates))
    marks = {(mark.one.row, mark.one.x): mark for mark in _marks(estimates, measure.unit)}
    upright = view.rows == ("band",)
    looks = step_looks(steps)
    totals = [sum(mark.value for mark in marks.values() if mark.one.row == row) for row in rows]
    chart, longest = go.Figure(), max(totals) or 1.0
    for step in reversed(steps):  # what is left at the base, what was lost first on top
        cells = [marks[row, step] for row in rows if (row, step) in marks]
        values = [mark.value for mark in cells]
        if not any(values):
            continue
        look = looks[step]
        chart.add_bar(
            orientation="v" if upright else "h",
            **dict(zip("xy" if upright else "yx", ([m.one.row for m in cells], values),
                       strict=True)),
            name=in_words(view.across, step),
            text=[f"{value:.0f}" if value >= 0.06 * longest else "" for value in values],
            textposition="inside", textangle=0, insidetextanchor="middle",
            textfont={"color": look.text, "size": 12},
            marker={"color": look.fill, "pattern": {"shape": look.pattern, "size": 6,
                    "fillmode": "overlay", "fgcolor": look.text, "fgopacity": 0.3,
                    "solidity": 0.2}},
            customdata=[[mark.number] for mark in cells],
            hovertext=[f"{m.one.row}: {m.one.text}, {in_words(view.across, step)}" for m in cells],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    chart.update_layout(
        barmode="stack", bargap=0.22, hovermode="closest", showlegend=True,
        height=LINE_HEIGHT if upright else 110 + 34 * max(len(rows), 2),
        legend={"traceorder": "reversed" if upright else "normal", "x": 0, "font": {"size": 12},
                "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    suffix = _suffix(measure)
    if upright:
        title = "position in the chart, % (100: the latest entry)"
        chart.update_xaxes(type="category", title=title, tickangle=0, showgrid=False)
        # Room above the bars for the name of the middle.
        chart.update_yaxes(title=measure.title, ticksuffix=suffix, range=[0, 1.12 * longest])
        middle = [place for place, row in enumerate(rows) if row in WIDE["middle"]]
        if middle:
            shade_middle(chart, named=True, ends=(middle[0] - 0.5, middle[-1] + 0.5))
        return chart
    chart.update_yaxes(type="category", autorange="reversed", showgrid=False, **_wrapped(rows))
    side = axis_side(len(rows))
    chart.update_xaxes(title=measure.title, ticksuffix=suffix, range=[0, 1.03 * longest], **side)
    if side:  # above the bars, where the legend is
        chart.update_layout(
            legend={"y": 1, "yref": "container", "yanchor": "top"}, margin={"t": 90}
        )
    return chart


def _wrapped(rows: Sequence[str]) -> dict[str, Any]:
    """The ticks of an axis of rows by name, long ones wrapped."""
    names = ["<br>".join(textwrap.wrap(for_screen(row, html=True), NAME)) for row in rows]
    return {"tickvals": list(rows), "ticktext": names}


def _grid(estimates: list[Value], view: View, measure: Measure) -> go.Figure:
    """Values as shade and number, the first row on top."""
    columns = in_order([one.x for one in estimates])
    keys = {one.row: [HEADS.get(one.key[c], one.key[c]) for c in view.rows] for one in estimates}
    rows = sorted(keys, key=keys.__getitem__) if view.across in SHAPES else list(keys)
    cells = {(mark.one.row, mark.one.x): mark for mark in _marks(estimates, measure.unit)}
    # The axis says of what the numbers are: their words would touch on a narrow screen.
    numbers = view.across in SHAPES and all(str(column).isdigit() for column in columns)
    names = [str(column) if numbers else in_words(view.across, column) for column in columns]
    grid = [[cells.get((row, column)) for column in columns] for row in rows]
    shares = measure.unit == "%"
    shades = [[mark.value if mark else nan for mark in line] for line in grid]
    known = [value for line in shades for value in line if not isnan(value)]
    span = (0.0, 10.0 * ceil(max(*known, 1.0) / 10)) if shares else (min(known), max(known))
    chart = go.Figure(
        go.Heatmap(z=shades, x=names, y=rows, zmin=span[0], zmax=span[1], colorscale=SCORES,
                   hoverinfo="skip", xgap=2, ygap=2, showscale=False)
    )  # fmt: skip
    for y, line_of in enumerate(grid):
        for x, cell in enumerate(line_of):
            value = shades[y][x]
            dark_text = value > span[0] + 0.42 * (span[1] - span[0])  # Cividis is dark below
            text = "" if cell is None else f"{value:.0f}" if shares else _in_a_cell(cell.one)
            chart.add_annotation(
                x=x, y=y, showarrow=False, text="" if isnan(value) else text,
                font={"size": 12, "color": "#101820" if dark_text else "#F4F6F8"},
            )  # fmt: skip
    # A heatmap reports no clicks; invisible markers over its cells do.
    flat = [cell for line_of in grid for cell in line_of]
    chart.add_scatter(
        x=names * len(rows), y=[row for row in rows for _ in names], mode="markers",
        customdata=[[cell.number] if cell else [None] for cell in flat], showlegend=False,
        text=[cell.one.text if cell else "" for cell in flat],
        hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
        marker={"size": 26, "symbol": "square", "opacity": 0},
        selected={"marker": {"opacity": 0}}, unselected={"marker": {"opacity": 0}},
    )  # fmt: skip
    tall = 28 if shares else 44
    chart.update_layout(
        hovermode="closest",
        hoverdistance=120,
        height=60 + tall * max(len(rows), 3),
        margin={"t": 10},
    )
    of_what = SHAPES[view.across].format("").strip() if numbers else ""
    chart.update_xaxes(type="category", showgrid=False, tickangle=0, title=of_what)
    chart.update_yaxes(type="category", autorange="reversed", showgrid=False, **_wrapped(rows))
    return chart


HEADS = {"linear": 0, "standard": 1, "deep": 2}
"""Heads of a gate by their hidden layers."""


def _in_a_cell(one: Value) -> str:
    """A value below 1 with its interval under it, as narrow as it can be."""
    text, *ends = (
        re.sub(r"^(-?)0\.", r"\1.", f"{end:.3f}") for end in (one.value, one.low, one.high)
    )
    if isnan(one.low):
        return text
    interval = "–".join(ends)
    return f"{text}<br><span style=font-size:10px>{interval}</span>"
