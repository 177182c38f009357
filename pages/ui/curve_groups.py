"""Small multiples: the curve of every model, specialty, domain or task type on the same axes."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui import charts_curve, cohort_view, curve_words, tables, theme
from pages.ui.curve_data import Choice, Tables

MOST = 12
"""Groups that are drawn; the table has them all."""
ABREAST = 3


def groups(name: str, choice: Choice, many: Tables) -> None:
    """A small curve each for the groups with the most answers, and the table of all."""
    by = curve_words.STRATA[choice.by].lower()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(f"By {by}", anchor=False, width="content")
        if many.simulated:
            st.badge(curve_words.SIMULATED, color="orange", icon=":material/science:")
    if many.summary.empty:
        st.info(f"No {by} has an answer with this score and a position.")
        return
    summary = many.summary.sort_values("n", ascending=False, kind="stable")
    drawn = list(summary["value"].head(MOST))
    what = curve_words.MEASURES[choice.score]
    for first in range(0, len(drawn), ABREAST):
        for place, value in zip(st.columns(ABREAST, gap="medium"), drawn[first : first + ABREAST],
                                strict=False):  # fmt: skip
            with place:
                _panel(many.curve, summary, value, what, first)
    st.caption(
        _left_out(len(summary), by)
        + "The same axes in every panel, per cent over position in the record; the middle of the "
        "record is shaded, the ribbon is what chance alone gives, small numbers are n."
    )
    tables.table(
        curve_words.group_table(summary, choice.by),
        f"{name}-{choice.stem}-by-{choice.by}",
        f"Each {by}: n, middle and edge, their difference with interval and p, gap",
        columns={by: st.column_config.TextColumn(pinned=True)},
        download=summary,
        height="content" if len(summary) <= MOST else 460,
    )
    if len(many.failures):
        without = ", ".join(cohort_view.plain(v) for v in many.failures["value"])
        st.caption(f"Without a curve, as no answer has both score and position: {without}.")
    st.caption(
        "The p values of groups are not corrected for looking at several. Every point of these "
        "curves, with interval and band:"
    )
    tables.downloads(many.curve, f"{name}-{choice.stem}-curves-by-{choice.by}")


def _left_out(count: int, by: str) -> str:
    if count <= MOST:
        return ""
    return f"The {MOST} of {count} with the most answers are drawn; the table has every {by}. "


def _panel(curves: pd.DataFrame, summary: pd.DataFrame, value: str, what: str, number: int) -> None:
    rows = curves[curves["value"] == value]
    row = summary[summary["value"] == value].iloc[0]
    badge = f" :orange-badge[{curve_words.SIMULATED}]" if row["simulated"] else ""
    st.markdown(f"**{cohort_view.plain(value)}** n = {int(row['n']):,}{badge}")
    theme.show(
        charts_curve.panel(rows),
        charts_curve.alt(rows, f"{what}, {value}"),
        f"curve_group_{number}_{value}",
    )
