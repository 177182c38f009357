"""Figures on a page: drawn in the viewer's theme, with an alternative text and their downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core.figures import (
    DASHES,
    GLYPHS,
    PERCENT,
    ROW,
    SCORES,
    SYMBOLS,
    ForestRow,
    Ink,
    Look,
    band,
    caption,
    category_axis,
    controls,
    dark,
    diagonal,
    distinct_looks,
    dotted,
    end_labels,
    error_bars,
    estimates,
    forest,
    forest_alt,
    heatmap,
    ink,
    is_control,
    key,
    leading,
    line,
    look_of,
    percent_ticks,
    rgba,
    row_axis,
    safe,
    series,
    series_look,
    shade_middle,
    shifts,
    spread,
    style,
    symmetric_span,
    use_theme,
)  # fmt: skip
from midchart.pages.ui.shared import figures, formats
from midchart.pages.ui.shared.formats import number

__all__ = [
    "DASHES", "GLYPHS", "PERCENT", "ROW", "SCORES", "SYMBOLS", "ForestRow", "Ink", "Look", "band",
    "caption", "category_axis", "controls", "dark", "diagonal", "distinct_looks", "dotted",
    "end_labels", "error_bars", "estimates", "forest", "forest_alt", "heatmap", "ink",
    "is_control", "key", "leading", "line", "look_of", "percent_ticks", "rgba", "row_axis",
    "safe", "series", "series_look", "shade_middle", "shifts", "spread", "style",
    "symmetric_span",
]  # fmt: skip

use_theme(lambda: st.context.theme.type == "dark")


def show(
    figure: go.Figure,
    alt: str,
    key: str,
    styled: bool = False,
    opens: Callable[..., object] | None = None,
    **options: Any,
) -> Any:
    """Draw a figure in Midchart's style; ``alt`` says in words what it shows.

    ``styled``: the figure has the style of the viewer's theme already. ``opens``: what a click on a
    marker does; it gets the marker's custom data.
    """

    def select() -> None:
        if chosen := selected_data(st.session_state[key].get("selection")):
            opens(*chosen)

    if opens:
        options |= {"on_select": select, "selection_mode": "points"}
    figure = figure if styled else style(figure)
    selection = st.plotly_chart(
        figure,
        theme=None,
        key=key,
        alt=alt,
        config={"displaylogo": False, "displayModeBar": False},
        **options,
    )
    figures.export(figure, alt, key, ink().paper)
    return selection


def selected_data(selection: Any) -> list[Any]:
    """The custom data of the selected marker; empty without one."""
    for point in (selection or {}).get("points") or []:
        data = point.get("customdata")
        values = list(data.values()) if isinstance(data, dict) else data
        if values and values[0] is not None:
            return list(values)
    return []


def selected_number(selection: Any) -> int | None:
    """The first number in the custom data of the selected marker; None without one."""
    data = selected_data(selection)
    return int(data[0]) if data else None


def difference_rows(frame: pd.DataFrame, low: str, high: str) -> list[ForestRow]:
    """Differences of arms from a baseline in points, the largest on top, with Holm's p."""
    rows: list[ForestRow] = []
    for row in sorted(frame.to_dict("records"), key=lambda row: -number(row["difference"])):
        ends = (row["difference"], row[low], row[high])
        text = f"{formats.difference(*ends)} n {int(row['n']):,}, {formats.p_value(row['p_holm'])}"
        points = (100 * number(end) for end in ends)
        control = is_control(row["label"])
        text += not_claimed(row)
        rows.append(ForestRow(row["title"], *points, text, control, label=row["label"]))
    return rows


def not_claimed(row: Mapping[str, Any]) -> str:
    """ ", not claimed" where a significant difference is not claimed; else empty."""
    verdict = row.get("verdict")
    return ", not claimed" if isinstance(verdict, str) and verdict.startswith("not claimed") else ""


def show_forest(
    rows: Sequence[ForestRow],
    title: str,
    key: str,
    opens: Callable[[str], object] | None = None,
    about: str = "",
    **options: Any,
) -> None:
    """Draw a forest plot; ``options`` are those of :func:`forest`, ``opens`` what a click on the
    marker of a label does. ``about``: what the text for screen readers names, if not the title."""
    show(forest(rows, title, **options), forest_alt(rows, about or title), key, opens=opens)
