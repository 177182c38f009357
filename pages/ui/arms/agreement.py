"""The answers that two judges scored, and those on which they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.arms.questions import ANY
from midchart.pages.ui.shared import results
from midchart.pages.ui.shared.pickers import pick_linked

PARTED = "parted"
"""The answers that one judge calls correct and the other incorrect."""


def open_answers(both: str = PARTED, arm: str = ANY) -> None:
    """Show the answers (:func:`answers`) with these verdicts of both judges, of one arm or all."""
    st.session_state["both"] = both
    st.session_state["both_arm"] = arm
    st.session_state["parted"] = questions.LIST


def answers(run: dict[str, Any], readers: Sequence[str], first: str, second: str) -> None:
    """The answers that both judges scored, at first those on which they disagree; one in full.

    Answers of all ``readers``; one reader is not named.
    """
    titles = results.titles("judge", (first, second))
    verdicts = {
        PARTED: "they disagree",
        "correct": "both correct",
        "first": f"only {titles[first]} correct",
        "second": f"only {titles[second]} correct",
        "incorrect": "both incorrect",
        ANY: "all judged by both",
    }
    keys = ["reader", "label", "instruction", "band"]
    frames = [
        pd.concat(
            rows.loc[rows["counted"] & rows["outcome"].isin(questions.JUDGED)].assign(reader=reader)
            for reader in readers
            if len(rows := state.outcomes(run, reader, judge))
        )[[*keys, "outcome"]]
        for judge in (first, second)
    ]
    rows = frames[0].merge(frames[1], on=keys, suffixes=("_first", "_second"))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        both = pick_linked(
            "both", "Verdicts", list(verdicts), verdicts.__getitem__, key="both", unlinked=PARTED,
            width=320,
        )  # fmt: skip
        labels = [ANY, *results.choices(rows, "label")]
        arm = pick_linked(
            "both_arm", "Arm", labels, lambda one: api.title("arm", one) if one != ANY else ANY,
            key="both_arm", unlinked=ANY, width=260,
        )  # fmt: skip
    one_correct, other_correct = (rows[f"outcome_{n}"] == "correct" for n in ("first", "second"))
    shown = {
        PARTED: one_correct != other_correct,
        "correct": one_correct & other_correct,
        "first": one_correct & ~other_correct,
        "second": ~one_correct & other_correct,
        "incorrect": ~one_correct & ~other_correct,
        ANY: one_correct | True,
    }[both]
    rows = rows[shown & ((rows["label"] == arm) | (arm == ANY))]
    rows = rows.sort_values(["instruction", "label"], kind="stable")
    if rows.empty:
        st.info("No answer has these verdicts.")
        return
    cohort = state.cohort_of(run)
    instructions = list(rows["instruction"])
    frame = pd.DataFrame(
        {
            "question": questions.question_texts(cohort, instructions),
            "position": list(rows["band"]),
            "arm": [api.title("arm", label) for label in rows["label"]],
            "reader": [api.title("reader", reader) for reader in rows["reader"]],
            titles[first]: [questions.OUTCOMES[one] for one in rows["outcome_first"]],
            titles[second]: [questions.OUTCOMES[one] for one in rows["outcome_second"]],
        }
    )
    if len(readers) == 1:
        frame = frame.drop(columns="reader")
    chosen = questions.choose_question(
        run["run"],
        frame,
        instructions,
        ("parted", "parted"),
        f"Answers judged by {' and '.join(titles.values())}: {verdicts[both]}",
        f"{len(rows):,} answers, copies included. Click a row to open its question.",
        width="large",
    )
    if chosen is not None:
        arms = () if arm == ANY else (arm,)
        reader = next(
            one for one, id in zip(rows["reader"], instructions, strict=True) if id == chosen
        )
        questions.one(run, cohort, chosen, reader, arms)
