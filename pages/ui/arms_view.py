"""The comparisons of the Arms page: overall, by position and in pairs, from a run's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui import charts_arms, results, runs, state, tables, theme

MOST_LINES = 4
"""Lines that one band chart can hold and still be told apart."""


def no_runs() -> None:
    """The empty state: what will be here, and the button that begins it."""
    with st.container(border=True):
        st.subheader("No run yet", anchor=False)
        st.write(
            "A run asks every question of a cohort under every arm, reads the answers and judges "
            "them. Its arms are then compared here. The demo comparison takes a few minutes."
        )
        cohort = state.pick_cohort("On which cohort")
        if cohort:
            runs.start(cohort, "arms")


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared: rows of the report, the share's column, its interval, and its words."""

    frame: pd.DataFrame
    value: str
    low: str
    high: str
    words: str
    name: str


def _pick(label: str, options: list[str], key: str, words: dict[str, str] | None = None) -> str:
    """A visible choice kept in the URL; nothing is drawn where there is nothing to choose."""
    if len(options) < 2:
        return options[0] if options else ""
    return st.segmented_control(
        label,
        options,
        default=options[0],
        required=True,
        key=key,
        bind="query-params",
        format_func=(words or {}).get if words else None,
    )


def reader_and_judge(frame: pd.DataFrame) -> tuple[str, str]:
    """The pickers of reader and judge, each only where there is a choice."""
    reader = _pick("Reader", results.choices(frame, "reader"), "reader")
    return reader, _pick("Judge", results.choices(frame, "judge"), "judge")


def measure(run: dict[str, Any], report: dict[str, Any]) -> Measure:
    """The pickers of what is compared, and the rows they leave."""
    accuracy = results.frame_of(report, "accuracy")
    recall = results.frame_of(report, "recall")
    kinds = (["accuracy"] if len(accuracy) else []) + ["evidence"]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        words = {"accuracy": "Accuracy", "evidence": "Evidence kept"}
        kind = _pick("Compare", kinds, "measure", words)
        if kind == "accuracy":
            reader, judge = reader_and_judge(accuracy)
            frame = results.where(accuracy, reader=reader, judge=judge)
            shown = f"accuracy, {judge}"
        else:
            found = results.choices(recall, "criterion")
            criteria = sorted(found, key=lambda name: name != "evidence-id")
            criterion = _pick("Counted as kept", criteria, "criterion", results.CRITERIA)
            frame = results.where(recall, criterion=criterion)
            shown = results.CRITERIA.get(criterion, criterion)
        method = _pick(
            "95 % interval",
            ["wilson", "percentile"],
            "interval",
            {"percentile": "bootstrap", "wilson": "Wilson"},
        )
    ends = ("wilson_low", "wilson_high") if method == "wilson" else ("ci_low", "ci_high")
    value = "accuracy" if kind == "accuracy" else "recall"
    return Measure(frame, value, *ends, shown, f"{run['run']}-{kind}")


def overall(run: dict[str, Any], report: dict[str, Any]) -> None:
    """A forest of arms for all questions or one band, with its numbers."""
    chosen = measure(run, report)
    band = st.selectbox(
        "Where the evidence lies (% of the record)",
        ["overall", *[b for b in results.BAND_ORDER if b != "overall"]],
        key="band",
        bind="query-params",
        width=320,
    )
    rows = results.where(chosen.frame, band=band)
    known = rows[rows["n"] > 0]
    if known.empty:
        st.info("No question of this run has its evidence in this band.")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        theme.show(
            charts_arms.forest(known, chosen.value, chosen.low, chosen.high, chosen.words),
            charts_arms.forest_alt(known, chosen.value, chosen.words),
            "forest",
        )
    with right:
        tables.table(
            results.numbers(rows, chosen.value, chosen.low, chosen.high),
            f"{chosen.name}-{band}",
            f"{chosen.words} of each arm, {band}: share, interval, n",
            columns={"%": st.column_config.NumberColumn(format="%.1f")},
            download=rows,
            height="content",
        )
        st.caption(
            "n counts answers that were judged right or wrong; unparsed and failed ones stay "
            "out of it and are counted beside it. Hollow markers are controls."
            if chosen.value == "accuracy"
            else "n counts questions whose evidence (or answer) is known. Hollow: controls."
        )
    spent(report)


def spent(report: dict[str, Any]) -> None:
    """What prompts cost and lost, and accuracy given the evidence was or was not there."""
    frame = results.frame_of(report, "tokens")
    hits = results.frame_of(report, "hit_miss")
    if len(hits):
        with st.expander("Accuracy where the evidence was in the prompt, and where it was not"):
            reader, judge = results.choices(hits, "reader")[0], results.choices(hits, "judge")[0]
            rows = results.where(
                hits,
                reader=st.session_state.get("reader", reader),
                judge=st.session_state.get("judge", judge),
            )
            tables.table(
                results.wide(rows, "evidence", "accuracy", "ci_low", "ci_high"),
                f"{report['run']}-hit-miss",
                "Accuracy of each arm given its evidence was in the prompt or not",
                download=rows,
                height="content",
            )
    if len(frame):
        with st.expander("Tokens and what the prompt lost"):
            tables.table(
                results.token_columns(frame),
                f"{report['run']}-tokens",
                "Sentences and tokens an arm, means over questions",
                download=frame,
                height="content",
            )


def bands(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Arms × bands, as lines for a few arms and as a table for all."""
    chosen = measure(run, report)
    labels = results.choices(chosen.frame, "label")
    shown = st.pills(
        f"Arms in the chart (up to {MOST_LINES})",
        labels,
        selection_mode="multi",
        default=theme.leading(labels, MOST_LINES),
        key="lines",
        persist_state="session",
    )
    if len(shown) > MOST_LINES:
        st.caption(f"The first {MOST_LINES} of {len(shown)} are drawn; the table has them all.")
    rows = chosen.frame[chosen.frame["label"].isin(shown[:MOST_LINES])]
    if len(rows):
        theme.show(
            charts_arms.by_band(rows, chosen.value, chosen.low, chosen.high, chosen.words),
            f"Lines: {chosen.words} of {', '.join(shown[:MOST_LINES])} by position band.",
            "bands",
        )
    tables.table(
        results.wide(chosen.frame, "band", chosen.value, chosen.low, chosen.high),
        f"{chosen.name}-bands",
        f"{chosen.words}: arms by position band, each with interval and n",
        download=chosen.frame,
        height="content",
    )
    st.caption(
        "Each cell: share [95 % interval] n. middle is 30–70 %, edge the rest. Where none or all "
        "are right the bootstrap's interval has no width; Wilson's has."
    )


def pairs(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Each arm against the first on the same questions, and how far the judges agree."""
    frame = results.frame_of(report, "paired")
    if frame.empty:
        st.info("Pairs need answers that were judged; this run has none.")
        return
    with st.container(horizontal=True, gap="medium"):
        reader, judge = reader_and_judge(frame)
    rows = results.where(frame, reader=reader, judge=judge)
    baseline = results.label(str(rows["baseline"].iloc[0]))
    st.write(
        f"Each arm against **{baseline}**, the first arm of the run, on the questions that both "
        "were judged on. A difference above 0 favours the arm."
    )
    tables.table(
        results.pair_columns(rows),
        f"{run['run']}-paired",
        f"Paired differences against {baseline}: McNemar's exact test with Holm's adjustment",
        columns={
            "difference (points)": st.column_config.NumberColumn(format="%+.1f"),
            "p": st.column_config.NumberColumn(format="%.4f"),
            "p (Holm)": st.column_config.NumberColumn(format="%.4f"),
        },
        download=rows,
        height="content",
    )
    st.caption(
        "p: McNemar's exact test on the questions that only one of the two got right; "
        "p (Holm) is adjusted for all comparisons of this reader and judge."
    )
    agreement = results.frame_of(report, "agreement")
    if len(agreement):
        st.subheader("How far the judges agree", anchor=False)
        tables.table(
            agreement.rename(columns={"raw": "same verdict", "ac1": "Gwet's AC1"}),
            f"{run['run']}-agreement",
            "Agreement of each two judges over all arms",
            columns={
                name: st.column_config.NumberColumn(format="%.3f")
                for name in ("same verdict", "kappa", "Gwet's AC1", "positive_agreement")
            },
            download=agreement,
        )
