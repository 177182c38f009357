"""How answers are wrong: kinds of failure, refusals, and what published faults do."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core import api
from pages.ui import state
from pages.ui.arms import charts as charts_arms
from pages.ui.arms import questions as questions_view
from pages.ui.arms.pick import Chosen, pick
from pages.ui.shared import results, tables, theme

RULES = {
    "empty": "no word at all",
    "refusal": "declines to answer",
    "hedged": "names a possibility and commits to none",
    "continuation": "carries the record on instead of answering",
    "wrong value": "a number where the reference has another",
    "unsupported": "speaks mostly of what stands nowhere in its context",
    "wrong entity": "speaks mostly of something else in its context",
    "omission": "has part of the reference and lacks the rest",
    "other": "none of these",
}
"""Kinds of failure in the order of their rules, each in a few words."""


def failures(chosen: Chosen) -> None:
    """Kinds of failure by arm, refusals apart, and faults where the run has them."""
    frame = chosen.frame("failure_kinds")
    if frame.empty:
        st.info("No answer that was judged wrong has a kind of failure.")
    else:
        _kinds(chosen, frame)
    _faults(chosen)
    _refusals(chosen)


def _kinds(chosen: Chosen, frame: pd.DataFrame) -> None:
    found = set(frame["kind"])
    kinds = [kind for kind in RULES if kind in found]
    theme.show(
        charts_arms.kinds_of_failure(frame, kinds),
        f"Shares of wrong answers by kind of failure, {frame['label'].nunique()} arms by "
        f"{len(kinds)} kinds.",
        "failure_kinds",
    )
    tables.table(
        results.wide(
            frame.assign(kind=frame["kind"]), "kind", "share", "patient_low", "patient_high"
        )[["arm"]].assign(**_cells(frame, kinds)),
        f"{chosen.name}-failure-kinds",
        "Wrong answers of each arm by kind of failure: count, share and interval",
        download=frame,
        height="content",
    )
    st.caption(
        "Of the answers judged wrong; 95 % intervals by patient. Kinds go by rules on words, in "
        "this order: "
        + "; ".join(f"**{kind}** {words}" for kind, words in RULES.items())
        + ". A rule on words cannot see meaning: counts to start reading from."
    )
    _examples(chosen, frame, kinds)


def _cells(frame: pd.DataFrame, kinds: list[str]) -> dict[str, list[str]]:
    rows = {(row["label"], row["kind"]): row for row in frame.to_dict("records")}
    cells: dict[str, list[str]] = {}
    for kind in kinds:
        cells[kind] = []
        for label in results.choices(frame, "label"):
            row = rows.get((label, kind))
            cells[kind].append(
                "0"
                if row is None
                else f"{int(row['count'])} = "
                + results.share(row["share"], row["patient_low"], row["patient_high"])
            )
    return cells


def _examples(chosen: Chosen, frame: pd.DataFrame, kinds: list[str]) -> None:
    """Questions behind a count: up to three answers of an arm and kind, in full."""
    with st.expander("Read examples", on_change="rerun", key="examples") as examples:
        if not examples.open:
            return
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            arm = st.selectbox("Arm", results.choices(frame, "label"), key="failed_arm", width=240)
            rows = frame[frame["label"] == arm]
            here = [kind for kind in kinds if kind in set(rows["kind"])]
            kind = st.selectbox("Kind", here, key="failed_kind", width=200)
            keys = str(rows[rows["kind"] == kind]["examples"].iloc[0]).split()
            numbers = [str(i + 1) for i in range(len(keys))]
            number = pick("Example", numbers, "failed_example", abreast=True)
        found = state.answered(chosen.run, keys[int(number) - 1])
        if found is None:
            st.info("This answer is no longer in the run.")
            return
        cohort = api.open_data(chosen.run["data"])
        arms = (found["label"], chosen.baseline)
        questions_view.one(chosen.run, cohort, found["instruction"], chosen.reader, arms)


def _faults(chosen: Chosen) -> None:
    frame = chosen.frame("faults")
    if frame.empty:
        return
    st.subheader("Published faults in this run", anchor=False)
    shown = pd.DataFrame(
        {
            "arm": frame["label"],
            "fault": frame["fault"],
            "answers": ["struck" if struck else "spared" for struck in frame["struck"]],
            "n": frame["n"],
            "accuracy": results.shares(frame, "accuracy", "patient_low", "patient_high"),
            "carry the record on": results.shares(
                frame, "continuation_share", "continuation_low", "continuation_high"
            ),
        }
    )
    tables.table(
        shown,
        f"{chosen.name}-faults",
        "Accuracy and continuations where a published fault struck and where not",
        download=frame,
        height="content",
    )
    st.caption(
        "A prompt cut on the right loses its question; evidence joined by the first 100 characters "
        'of a question is lost and the answer is judged against the text "nan".'
    )


def _refusals(chosen: Chosen) -> None:
    frame = chosen.frame("refusals")
    if frame.empty:
        return
    st.subheader("Refusals apart", anchor=False)
    shown = pd.DataFrame(
        {
            "arm": frame["label"],
            "n": frame["n"],
            "refused": frame["refused"],
            "refused, %": results.shares(frame, "refused_share", "refused_low", "refused_high"),
            "evidence was in the prompt": frame["refused_with_evidence"],
            "was not": frame["refused_without_evidence"],
            "called right": frame["refused_correct"],
            "answered": frame["answered"],
            "right when answered": results.shares(
                frame, "answered_accuracy", "answered_low", "answered_high"
            ),
        }
    )
    tables.table(
        shown,
        f"{chosen.name}-refusals",
        "Refusals of each arm, with and without evidence in the prompt, and accuracy when answered",
        download=frame,
        height="content",
    )
    st.caption(
        "A refusal without the evidence in the prompt is what a careful reader should do; with it, "
        "the reader overlooked it."
    )
