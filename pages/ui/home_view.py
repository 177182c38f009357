"""The parts of the Home page: three ways in, the latest run's headline, the loaded cohorts."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.data.cohort import short_tag
from midchart.pages.ui.runs import panel, picker, presets
from midchart.pages.ui.shared import formats, results, tables
from midchart.pages.ui.shared.marks import plain

ARROW = ":material/arrow_forward:"
EVIDENCE = {
    results.ALL_IN_PROMPT: "all pieces of the evidence in prompt",
    results.ALL_PIECES: "all pieces of the evidence kept, before any prompt limit",
}
"""Title of the evidence column, by its criterion."""
ANY_PIECE = "any piece"
"""Title of the column next to it."""
MOST = 16
"""Arms of the latest run on the Home page; the Arms page has them all."""


def ways_in() -> None:
    """Three ways in: a patient, the curve, a run."""
    left, right = st.columns(2)
    with left, st.container(border=True):
        st.header("Inspect a patient", anchor=False)
        st.caption("Which sentences each arm kept, which evidence it dropped, what was answered.")
        navigation.link("patient", "Open a patient", icon=ARROW)
    with left, st.container(border=True):
        st.header("See the curve", anchor=False)
        st.caption("Accuracy by evidence position, compared with chance.")
        navigation.link("curve", "See the curve", icon=ARROW)
    with right, st.container(border=True, height="stretch"):
        st.header("Start a run", anchor=False)
        cohort = state.pick_cohort("Cohort")
        if cohort:
            presets.demo(cohort, "home")


def latest(runs: list[dict[str, Any]]) -> None:
    """The newest finished run: each arm's evidence and accuracy, with intervals and n."""
    finished = [run for run in runs if run["status"] == "done"]
    if not finished:
        stopped = [run for run in runs if not state.active(run)]
        if stopped:
            panel.resume(stopped[0], "home")
        st.info(
            "No finished run yet. Start the demo comparison above. It takes a few minutes and "
            "needs no API key, GPU or download.",
            icon=":material/hourglass_empty:",
        )
        return
    run = finished[0]
    report = state.report(run)
    frame, reader, judge = headline(report)
    measured = pd.concat([results.frame_of(report, name) for name in ("accuracy", "recall")])
    of_title = dict(zip(measured.get("title", ()), measured.get("label", ()), strict=True))
    judge_title = api.title("judge", judge)
    st.markdown(f"**{plain(run['name'])}**")
    panel.line(run, report)
    by = f" and accuracy of each arm by the judge {judge_title}" if judge else " by each arm"
    help = dict.fromkeys(EVIDENCE.values(), "Share of questions, [95 % interval], and by chance")
    help[ANY_PIECE] = "Share of questions with at least one piece of the evidence, and by chance"
    help["accuracy"] = "Share of answers, [95 % interval]"
    tables.table(
        frame.head(MOST),
        "latest",
        f"Latest run: {frame.columns[1]}{by}",
        columns={name: st.column_config.TextColumn(help=help[name]) for name in help
                 if name in frame},
        opens=lambda row, _: navigation.on_click(
            "arms", run=run["run"], view="questions", differ="false",
            q_arm=of_title[frame["arm"][row]],
        ),
    )  # fmt: skip
    first = (
        f"Read by {plain(api.title('reader', reader))}, judged by {plain(judge_title)}; intervals"
        if judge
        else "Intervals"
    )
    more = f" First {MOST} of {len(frame)} arms." if len(frame) > MOST else ""
    st.caption(
        f"{first} are 95 %, by patient (none for fewer than 5 patients). n is the number of "
        f"{'answers' if judge else 'questions'}.{more} {results.part_text(report)} "
        "Click a row to read its questions."
    )
    page, address = picker.results_of(run)
    label = "Compare these arms" if page == "arms" else "Read these answers"
    navigation.link(page, label, icon=ARROW, query_params=address)


def headline(report: dict[str, Any]) -> tuple[pd.DataFrame, str, str]:
    """Arms × all pieces of the evidence in the prompt (or kept), any piece, and, where judged,
    accuracy; reader and judge.

    Reader and judge are the first of the report; "" where there is none.
    """
    accuracy = results.where(results.frame_of(report, "accuracy"), band="overall")
    recall = results.where(results.frame_of(report, "recall"), band="overall")
    judge = next(iter(results.choices(accuracy, "judge")), "")
    source = accuracy if judge else results.frame_of(report, "tokens")
    reader = next(iter(results.choices(source, "reader")), "")
    recall, criterion = results.evidence(recall, reader)
    columns = ["arm", EVIDENCE.get(criterion, criterion), "n"]
    if recall.empty and not judge:
        return pd.DataFrame(columns=columns), reader, judge
    labels = list(recall.get("label", ()))
    evidence = dict(zip(labels, _with_chance(recall, "recall", "chance"), strict=True))
    some = dict(zip(labels, _with_chance(recall, "any_piece", "any_piece_chance"), strict=True))
    cut = {row["label"]: results.cut_text(row) for row in recall.to_dict("records")}
    rows = results.where(accuracy, judge=judge, reader=reader) if judge else recall
    frame = pd.DataFrame(
        {
            "arm": rows["title"],
            columns[1]: rows["label"].map(evidence).fillna(formats.NONE),
            "n": rows["n"].astype(int),
        }
    ).reset_index(drop=True)
    if any(some.values()):
        frame.insert(2, ANY_PIECE, rows["label"].map(some).fillna(formats.NONE).tolist())
    if judge:
        frame.insert(frame.columns.get_loc("n"), "accuracy", _shares(rows, "accuracy"))
        if "unparsed" in rows and rows["unparsed"].any():
            frame["unparsed"] = rows["unparsed"].to_numpy()
    if any(cut.values()):
        frame["prompts cut"] = [cut.get(label, "") for label in rows["label"]]
    return frame, reader, judge


def _with_chance(recall: pd.DataFrame, value: str, chance: str) -> list[str]:
    """Shares of questions, that of all pieces with its interval, each with its chance level where
    it is known; "" where the share is not."""
    if value not in recall:
        return [""] * len(recall)
    shares = _shares(recall, value) if value == "recall" else map(formats.percent, recall[value])
    known = recall[chance] if chance in recall else [None] * len(recall)
    return [
        share if formats.missing(by_chance) else f"{share}, chance {formats.percent(by_chance)}"
        for share, by_chance in zip(shares, known, strict=True)
    ]


def _shares(rows: pd.DataFrame, value: str) -> list[str]:
    if rows.empty:
        return []
    return formats.shares(rows, value, "patient_low", "patient_high")


def loaded() -> None:
    """The installed cohorts, each with its counts and its tag."""
    for name, path, problem in state.cohorts():
        with st.container(border=True):
            heading = st.container(horizontal=True, horizontal_alignment="distribute")
            heading.markdown(f"**{plain(name)}**", width="content")
            if problem:
                st.warning(plain(problem))
                continue
            cohort = api.open_data(path)
            heading.badge(short_tag(cohort.manifest), color="gray")
            if cohort.labels and not cohort.instructions:
                counts = f"{len(cohort.labels):,} tasks to forecast"
            else:
                counts = (
                    f"{len(cohort.instructions):,} questions · {len(cohort.gold):,} with evidence"
                )
            st.caption(f"{len(cohort.records):,} patients · {counts}")
    navigation.link("data", "Data & models", icon=ARROW)
