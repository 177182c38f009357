"""Agreement of judges with each other and with themselves, and the answers they disagree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.arms.comparison import ANY, Comparison, open_questions
from midchart.pages.ui.shared import chart, formats, results, tables
from midchart.pages.ui.shared.chart import ForestRow
from midchart.pages.ui.shared.formats import missing, number
from midchart.pages.ui.shared.pickers import pick, pick_linked

MEASURES = {
    "raw": "same verdict",
    "kappa": "Cohen's κ",
    "ac1": "Gwet's AC1",
    "positive_agreement": "positive agreement",
}
PARTED = "parted"
"""The answers that one judge calls correct and the other incorrect."""
CELLS = ("correct", "first", "second", "incorrect")
"""The four cells of two judges' verdicts, in the order of a table's columns."""
COLUMNS = {"raw": "same", "kappa": "κ", "ac1": "AC1", "positive_agreement": "positive"}


def judges(comparison: Comparison) -> None:
    """Agreement of each two judges, arm by arm, and the answers on which two of them disagree."""
    by = {"reader": comparison.reader}
    frame = results.where(results.frame_of(comparison.tables, "agreement"), **by)
    pair: dict[str, Any] = {}
    if frame.empty:
        st.info(
            "Agreement requires two judges; this run has one. A spec may name several, for "
            "example one with and one without the evidence."
        )
    else:
        pairs = {
            " and ".join(api.title("judge", row[which]) for which in ("first", "second")): row
            for row in frame.to_dict("records")
        }
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            name = pick("Judges", list(pairs), "judges")
            measure = pick("Measure", list(MEASURES), "agreement", MEASURES, abreast=True)
        pair = pairs[name]
        arms = results.frame_of(comparison.tables, "judges")
        arms = results.where(arms, **by, first=pair["first"], second=pair["second"])
        _pair(comparison, name, pair, arms, measure)
    st.caption("Agreement with human reviewers: Review page, Agreement.")
    navigation.link(
        "review",
        "Agreement of human reviewers with these judges",
        icon=":material/arrow_forward:",
        query_params={"run": comparison.run["run"], "view": "Agreement"},
    )
    _self_agreement(comparison)
    if pair:
        st.header("Answers by both verdicts", anchor=False)
        answers(comparison.run, (comparison.reader,), str(pair["first"]), str(pair["second"]))


def _pair(
    comparison: Comparison, name: str, pair: Mapping[str, Any], arms: pd.DataFrame, measure: str
) -> None:
    """Two judges: a sentence, a forest plot of one measure by arm, and the table of all."""
    if not pair["n"]:
        st.write("No answer has been judged by both yet.")
    else:
        st.write(
            f"Same verdict on {formats.percent(pair['raw'])} of {pair['n']:,} distinct answers "
            f"({pair['answers']:,} including copies under other arms): κ {_text(pair, 'kappa')}, "
            f"AC1 {_text(pair, 'ac1')}, positive agreement {_text(pair, 'positive_agreement')}."
        )
    rows = [
        ForestRow(
            row["title"],
            *(number(row[column]) for column in (measure, f"{measure}_low", f"{measure}_high")),
            f"{_text(row, measure)} n {int(row['n'])}",
            chart.is_control(row["label"]),
            label=row["label"],
        )
        for row in arms.to_dict("records")
        if row["n"]
    ]
    ends = [end - 0.05 for row in rows for end in (row.low, row.value) if not missing(end)]
    span = (min([-0.02, *ends]), 1.03)
    title = f"{MEASURES[measure]}, {name}"
    chart.show_forest(
        rows, title, "agreement_by_arm", partial(open_answers, ANY), span=span, suffix=""
    )
    frame = pd.concat([pd.DataFrame([pair]).assign(title="all arms"), arms])
    first, second = (api.title("judge", pair[which]) for which in ("first", "second"))
    shown = pd.DataFrame(
        {
            "arm": frame["title"],
            "n": frame["n"],
            "answers": frame["answers"],
            "both correct": frame["both_yes"],
            f"only {first}": frame["only_first"],
            f"only {second}": frame["only_second"],
            "both incorrect": frame["neither"],
        }
    )
    for column, title in COLUMNS.items():
        shown[title] = [_text(row, column) for row in frame.to_dict("records")]
    of_column = dict(zip(shown.columns[3:7], CELLS, strict=True))
    labels = [ANY, *arms["label"]]
    tables.table(
        shown, f"{comparison.run['run']}-agreement",
        f"Agreement of {name}: all arms together and arm by arm", download=arms,
        opens=lambda row, column: open_answers(of_column.get(column, ANY), labels[row]),
    )  # fmt: skip
    st.caption("Click a number or a marker to list its answers below.")
    st.caption(
        "n is the number of distinct answers: identical text for the same question counts once, "
        "whichever arms gave it. Only answers that both judges scored are included. 95 % "
        "intervals use a patient-level bootstrap and contain the score interval of the same "
        "counts, so they have a width even when the judges always agree; none below 5 patients. "
        "A dash: not defined. With few answers judged correct, κ is near 0 even for judges that "
        "agree well; AC1 is not. Positive agreement: agreement on the answers judged correct."
    )


def _text(row: Mapping[str, Any], measure: str) -> str:
    return formats.estimate(row[measure], row[f"{measure}_low"], row[f"{measure}_high"], 2)


def _self_agreement(comparison: Comparison) -> None:
    """A judge that was asked several times about one answer, against itself."""
    frame = results.frame_of(comparison.tables, "self_agreement")
    frame = results.where(frame, reader=comparison.reader)
    if frame.empty:
        return
    st.header("Self-agreement", anchor=False)
    shown = pd.DataFrame(
        {
            "judge": [api.title("judge", one) for one in frame["judge"]],
            "distinct answers": frame["n"],
            "times asked": frame["repeats"].round(1),
            "same verdict": formats.shares(frame, "agreement", "agreement_low", "agreement_high"),
            "always the same": frame["unanimous"].map(formats.percent),
        }
    )
    title = "Self-agreement of each judge over repeated calls"
    judges = list(frame["judge"])

    def opens(row: int, _: str) -> None:
        st.session_state["judge"] = judges[row]
        open_questions()

    file = f"{comparison.run['run']}-self"
    tables.table(shown, file, title, download=frame, opens=opens)


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
