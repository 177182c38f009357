"""Accuracy given that the evidence was there, and given that it was not."""

from __future__ import annotations

import streamlit as st

from pages.ui.arms import charts as charts_arms
from pages.ui.arms.pick import Chosen, pick
from pages.ui.shared import results, tables, theme

CRITERIA = {
    "in prompt": "in the prompt",
    "evidence-id": "kept, by id",
    "lexical": "a word kept",
    "semantic": "entailed",
}
WARNING = {
    "lexical": "A word kept: a hit is any one word of the reference in the context, evidence or "
    "not; read it beside the criterion by id.",
    "semantic": "Entailed: a line of the context and the evidence entail one another, by the "
    "run's entailment model.",
}


def hits(chosen: Chosen) -> None:
    """Hit against miss for every arm, by a criterion of choice."""
    frame = chosen.frame("hit_miss")
    if frame.empty:
        st.info("No answer of this run was judged yet.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        criterion = pick(
            "Evidence counts as there when", results.choices(frame, "criterion"), "hit", CRITERIA
        )
        method = pick(
            "95 % interval",
            ["patient", "wilson"],
            "hit_interval",
            {"patient": "by patient", "wilson": "Wilson, questions independent"},
        )
    rows = results.where(frame, criterion=criterion)
    low, high = f"{method}_low", f"{method}_high"
    theme.show(
        charts_arms.hit_and_miss(rows, low, high, f"accuracy, {chosen.judge}"),
        f"Accuracy of {rows['label'].nunique()} arms where the evidence was there and where not.",
        "hits",
    )
    effect = results.where(chosen.frame("hit_effect"), criterion=criterion)
    shown = results.wide(rows, "evidence", "accuracy", low, high)
    differences = {
        row["label"]: results.signed(
            row["difference"], row["difference_low"], row["difference_high"]
        )
        for row in effect.to_dict("records")
    }
    shown["difference (points)"] = [differences.get(arm, "–") for arm in shown["arm"]]
    tables.table(
        shown,
        f"{chosen.name}-hits-{criterion}",
        "Accuracy of each arm given its evidence was there or not, and the difference",
        download=rows.merge(
            effect[["label", "difference", "difference_low", "difference_high"]], on="label"
        ),
        height="content",
    )
    st.caption(
        "Each cell: per cent [95 % interval] n; the difference with an interval by patient (none "
        "for fewer than 5 patients). Questions whose evidence an arm finds are other questions "
        "than those it misses, so the difference "
        f"is not the effect of finding it alone. {WARNING.get(criterion, '')}"
    )
