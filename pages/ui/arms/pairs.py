"""Paired comparisons: each arm against the chosen baseline on the same questions."""

from __future__ import annotations

import streamlit as st

from core import api
from pages.ui.arms import text
from pages.ui.arms.behind import open_questions
from pages.ui.arms.comparison import METHODS, Comparison, known_first
from pages.ui.shared import chart, formats, results
from pages.ui.shared.marks import plain
from pages.ui.shared.pickers import pick

VERSUS = {
    "only this correct": "this",
    "only baseline correct": "baseline",
    "unscored": "unscored",
}
"""Column → which of its questions a click opens; others: all that were judged for both arms."""
COLUMNS = {"difference (points)": st.column_config.NumberColumn(format="%+.1f")}


def pairs(comparison: Comparison) -> None:
    """The paired differences as a forest plot and a table; then the tests made."""
    rows = comparison.frame("paired")
    rows = rows[rows["n"] > 0] if len(rows) else rows
    if rows.empty:
        st.info(
            "Paired comparisons require two arms with judged answers; this run does not have them."
        )
        return
    baseline = api.title("arm", comparison.baseline)
    methods = known_first(rows, ["patient", "difference"])
    method = pick("95 % interval", methods, "pair_interval", METHODS)
    forest = chart.difference_rows(rows, f"{method}_low", f"{method}_high")
    chart.show_forest(
        forest,
        f"percentage points above (right) or below (left) {baseline}",
        "differences",
        lambda label: open_questions(arm=label, versus="both"),
        f"differences in accuracy from {baseline}",
        span=chart.symmetric_span(forest),
        suffix="",
        zero=True,
    )
    labels = list(rows["label"])
    comparison.table(
        results.paired_table(rows),
        "paired",
        f"Paired differences against {baseline}: McNemar's exact test with Holm's adjustment",
        columns=COLUMNS,
        download=rows,
        behind=lambda row, column: {"arm": labels[row], "versus": VERSUS.get(column, "both")},
    )
    st.caption(
        "Questions judged for both arms. p: McNemar's exact test on the discordant questions. "
        "Holm's adjustment covers all comparisons of this reader and judge; BH "
        "(Benjamini–Hochberg) controls the false discovery rate. By patient: patient-level "
        "bootstrap; the p values treat questions as independent, so a difference whose interval by "
        "patient includes 0 is not claimed. No interval by patient below 5 patients."
    )
    _readers(comparison)
    _tests(comparison)


def _readers(comparison: Comparison) -> None:
    """Each further reader against the first, arm by arm."""
    frame = results.where(results.frame_of(comparison.tables, "readers"), judge=comparison.judge)
    for reader in results.choices(frame, "reader"):
        rows = frame[frame["reader"] == reader]
        labels = list(rows["label"])
        first, second = (api.title("reader", name) for name in (rows["baseline"].iloc[0], reader))
        st.header("Reader comparison by arm", anchor=False)
        st.caption(plain(f"{second} vs {first} by arm; above 0 favours {second}."))
        comparison.table(
            results.paired_table(rows),
            f"{reader}-readers",
            f"Paired differences of {second} vs {first} by arm",
            columns=COLUMNS,
            download=rows,
            behind=lambda row, _, labels=labels: {"arm": labels[row]},
        )


def _tests(comparison: Comparison) -> None:
    """The tests made, how many are significant, and the detectable difference."""
    families = comparison.tables.get("multiplicity") or []
    st.header("Tests performed", anchor=False)
    st.write(text.tests_made(families))
    if families and comparison.baseline != families[0].get("baseline", comparison.baseline):
        st.caption(
            "Counted for the run's first arm as baseline; each further baseline adds its own tests."
        )
    for row in comparison.frame("detectable").head(1).to_dict("records"):
        st.write(
            f"At n = {row['n']:,} and with {formats.percent(row['discordant'])} of questions "
            f"discordant between two arms, one comparison detects a difference of "
            f"{formats.points(row['alone'])} with power .8, and {row['comparisons']} comparisons "
            f"one of {formats.points(row['among_all'])}."
        )
    with st.expander("All tests, and Cochran's Q over all arms"):
        if families:
            frame = results.frame_of(comparison.tables, "multiplicity")
            title = "Tests made by this report, by family"
            comparison.table(frame.drop(columns=["table"]), "tests", title, download=frame)
        omnibus = comparison.frame("omnibus")
        if len(omnibus):
            shown = omnibus.rename(columns={"telling": "discordant questions", "statistic": "Q"})
            comparison.table(
                shown.assign(p=shown["p"].map(formats.p_number)),
                "omnibus",
                "Cochran's Q over all arms",
                columns={"Q": st.column_config.NumberColumn(format="%.2f")},
                download=omnibus,
            )
