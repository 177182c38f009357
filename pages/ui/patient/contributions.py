"""Matrices of a patient's sentences: by term of an arm's score, with sign, and by arm.

A row's parts, the sum of its other terms and its base add up to its score. Cells cannot be clicked
in Plotly, so each row begins with a marker that opens its sentence, as its row in the table does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient import cached, score_arrays
from midchart.pages.ui.patient.explanation import visible_term
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.patient.score_arrays import Matrix
from midchart.pages.ui.patient.score_charts import Strip
from midchart.pages.ui.patient.timeline import evidence_colour, marker
from midchart.pages.ui.shared import chart, tables
from midchart.pages.ui.shared.marks import plain, safe
from midchart.pages.ui.shared.pickers import segments

MOST_ROWS, MOST_EVIDENCE = 20, 8
CELL, HEAD = 22, 100
"""Pixels of a row, and of what is above and below the rows."""
TERMS, ARMS = "Sentences × terms", "Sentences × arms"
LOWERS, RAISES = ("#B34A10", "#F7925C"), ("#12436D", "#7FB2E5")
"""Ends of the diverging scale in light and dark: orange and blue, which colour-blind readers can
distinguish; 0 has the colour of the page."""


def rows_of(strips: Sequence[Strip], gold: Sequence[int]) -> list[int]:
    """Sentences of the matrices: evidence, then each arm's best in turn; in the first's ranking."""
    rankings = [score_arrays.ranking(strip.arm.values) for strip in strips]
    chosen = dict.fromkeys(list(gold)[:MOST_EVIDENCE])
    for place in range(max(map(len, rankings), default=0)):
        for ranking in rankings:
            if place < len(ranking) and len(chosen) < MOST_ROWS:
                chosen[int(ranking[place])] = None
    rank = score_arrays.ranks(strips[0].arm.values)
    return sorted(chosen, key=lambda at: (rank[at] == 0, rank[at], at))


def outcome(arm: api.ArmScores, at: int, gold: Sequence[int]) -> str:
    """What an arm did with a sentence, in a word or two."""
    word = "kept" if arm.kept[at] else "dropped" if at in gold else ""
    return f"{word} evidence" if at in gold else word


def _layout(
    figure: go.Figure, columns: int, rows: Sequence[int], strip: Strip, gold: Sequence[int]
) -> None:
    """Row labels (rank and outcome) and the marker that opens each row's sentence."""
    rank, arm = score_arrays.ranks(strip.arm.values), strip.arm
    places = [f"{rank[at]:,}" if rank[at] else "–" for at in rows]
    ticks = [f"<b>evidence {place}</b>" if at in gold else place
             for at, place in zip(rows, places, strict=True)]  # fmt: skip
    colours = [evidence_colour() if at in gold else chart.ink().text for at in rows]
    style = marker([("circle" if arm.kept[at] else "circle-open") for at in rows], 9, "", 1.5)
    style |= {"color": colours, "line": {"width": 1.5, "color": colours}}
    left = -0.5 - 0.03 * (columns + 1)
    figure.add_scatter(
        x=[left] * len(rows), y=list(range(len(rows))), mode="markers", marker=style,
        customdata=[[at] for at in rows], cliponaxis=False, showlegend=False,
        hovertemplate="sentence %{customdata[0]}: open it<extra></extra>",
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    chart.style(figure)
    figure.update_layout(
        height=HEAD + CELL * len(rows), clickmode="event+select", hovermode="closest",
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
    )  # fmt: skip
    figure.update_xaxes(
        showgrid=False, zeroline=False, fixedrange=True, range=[2 * left + 0.5, columns - 0.4]
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=ticks, range=[len(rows) - 0.4, -0.6],
        showgrid=False, zeroline=False, fixedrange=True,
        title={"text": f"rank by {strip.short_title}", "standoff": 4},
    )  # fmt: skip


def terms_figure(
    matrix: Matrix, rows: Sequence[int], strip: Strip, gold: Sequence[int]
) -> go.Figure:
    """Sentences × terms; blue raises the score, orange lowers it, in equal steps about 0."""
    end = float(np.abs(matrix.parts).max(initial=0.0)) or 1.0
    names = [safe(visible_term(term)) for term in matrix.terms]
    dark = chart.dark()
    figure = go.Figure(
        go.Heatmap(
            x=list(range(len(names))), y=list(range(len(rows))), z=matrix.parts.round(6),
            zmin=-end, zmax=end, xgap=1, ygap=1,
            colorscale=[[0, LOWERS[dark]], [0.5, chart.ink().paper], [1, RAISES[dark]]],
            showscale=False,
            hovertemplate="%{x}: %{z:+.3g}<br>rank %{y}<extra></extra>",
        )
    )  # fmt: skip
    _layout(figure, len(names), rows, strip, gold)
    figure.update_xaxes(
        tickvals=list(range(len(names))), ticktext=names, tickangle=-90,
        tickfont={"family": "monospace", "size": 12},
    )  # fmt: skip
    return figure


def arms_figure(strips: Sequence[Strip], rows: Sequence[int], gold: Sequence[int]) -> go.Figure:
    """Sentences × arms: each arm's rank of each sentence as shade and number, ✓ where kept."""
    ranks = [score_arrays.ranks(strip.arm.values) for strip in strips]
    shades = [score_arrays.shades(strip.arm.values, score_arrays.BY_RANK) for strip in strips]
    figure = go.Figure(
        go.Heatmap(
            x=list(range(len(strips))), y=list(range(len(rows))), xgap=2, ygap=1,
            z=[[None if np.isnan(shade[at]) else round(shade[at], 4) for shade in shades]
               for at in rows],
            zmin=0, zmax=1, colorscale=chart.SCORES, showscale=False, hoverinfo="skip",
        )
    )  # fmt: skip
    for y, at in enumerate(rows):
        for x, strip in enumerate(strips):
            light = shades[x][at] > 0.42  # Cividis is dark below
            figure.add_annotation(
                x=x, y=y, showarrow=False,
                text=f"{ranks[x][at]:,}" * bool(ranks[x][at]) + " ✓" * bool(strip.arm.kept[at]),
                font={"size": 11, "color": "#101820" if light else "#F4F6F8"},
            )  # fmt: skip
    _layout(figure, len(strips), rows, strips[0], gold)
    figure.update_xaxes(
        tickvals=list(range(len(strips))),
        ticktext=[strip.short_title for strip in strips],
        tickangle=0 if len(strips) < 4 else -30,
    )
    return figure


def frame(
    table: api.ScoreTable, rows: Sequence[int], strip: Strip, gold: Sequence[int], matrix: Matrix
) -> pd.DataFrame:
    """The matrix in numbers: a sentence's rank, outcome, score, base, other terms and each term."""
    rank = score_arrays.ranks(strip.arm.values)
    columns: dict[str, object] = {
        "sentence": [at + 1 for at in rows],
        "rank": rank[rows],
        "outcome": [outcome(strip.arm, at, gold) for at in rows],
        "score": strip.arm.values[rows],
        "base": matrix.base,
        "other terms": matrix.others,
    }
    columns |= {f"“{term}”": matrix.parts[:, i] for i, term in enumerate(matrix.terms)}
    return pd.DataFrame(columns)


def words(matrix: Matrix) -> str:
    """What raises and what lowers these scores most."""
    if not matrix.terms:
        return "No term of the question occurs in these sentences."
    parts: list[str] = []
    for verb, sign in (("raises", 1), ("lowers", -1)):
        row, column = np.unravel_index(np.argmax(sign * matrix.parts), matrix.parts.shape)
        part = float(matrix.parts[row, column])
        if sign * part > 0:
            n = int((sign * matrix.parts[:, column] > 0).sum())
            parts.append(f"“{matrix.terms[column]}” {verb} a score most "
                         f"({part:+.3g}; {n} of {len(matrix.parts)} sentences)")  # fmt: skip
    return "; ".join(parts) + "."


def section(
    choice: Choice, table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int]
) -> None:
    """Both matrices, with their table."""
    explained = [strip for strip in strips if api.scored_arms().get(strip.arm.arm)]
    by_name = {strip.arm.arm: strip for strip in explained}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        views = [TERMS, ARMS] if explained else [ARMS]
        key = f"patient_matrix_{len(views)}"
        how = segments("Matrix", views, key, persist_state="page", width="content")
        name = ""
        if how == TERMS:
            titles = {name: strip.title for name, strip in by_name.items()}
            key = f"patient_matrix_arm_{'_'.join(by_name)}"
            name = segments("Score of", titles, key, persist_state="page", wrap=True)
    key = "patient_matrix_chart"

    def open_row(at: int, *_: object) -> None:
        if at < len(table.sentences):
            cached.open_item(cached.SENTENCE, choice, table.sentences[int(at)].id)

    options = {"styled": True, "opens": open_row}
    if how == ARMS:
        rows = rows_of(strips, gold)
        chart.show(
            arms_figure(strips, rows, gold),
            f"Ranks of {len(rows)} sentences by {len(strips)} arms; all are in the table below",
            key, **options,
        )  # fmt: skip
        st.caption(
            f"{len(rows)} of {len(table.sentences):,} sentences: evidence and each arm's best. "
            "Numbers: rank; ✓ kept; yellow: higher. Filled markers: kept by the first arm. "
            "Select one to open its sentence."
        )
        return
    strip = by_name[name]
    rows = [at for at in rows_of([strip], gold) if not np.isnan(strip.arm.values[at])]
    ids = tuple(table.sentences[at].id for at in rows)
    try:
        matrix = cached.explanations(choice, strip.arm.arm, ids)
    except MidchartError as error:
        st.info(plain(str(error)))
        return
    text = words(matrix)
    st.write(plain(text))
    chart.show(
        terms_figure(matrix, rows, strip, gold),
        f"{len(rows)} sentences by {len(matrix.terms)} terms of the score of {strip.title}: {text}",
        key, **options,
    )  # fmt: skip
    st.caption(
        f"{len(rows)} of {len(table.sentences):,} sentences: evidence and the highest scores; the "
        f"{len(matrix.terms)} terms of the largest parts. Blue raises the score, orange lowers it, "
        f"by up to {np.abs(matrix.parts).max(initial=0.0):.2g}; 0 has the page's colour. Exact: "
        "base, terms and other terms add up to the score. Filled markers: kept. Click one, or a "
        "row of the table, to open its sentence."
    )
    box = st.expander("Matrix as a table", on_change="rerun", key="patient_matrix_box")
    if not box.open:
        return

    with box:
        numbers = frame(table, rows, strip, gold, matrix)
        column = st.column_config
        exact = numbers.columns[3:]
        tables.table(
            numbers, "patient_matrix_table", f"Parts of the scores of {strip.title}",
            columns={"sentence": column.NumberColumn(pinned=True)}
            | {title: column.NumberColumn(format="%+.4g") for title in exact},
            opens=lambda row, _: open_row(rows[row]),
        )  # fmt: skip
