"""Arms overall, by position, with and without the evidence, by question type, by k, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.core import api
from midchart.pages.ui.arms import charts, text
from midchart.pages.ui.arms.comparison import (
    METHODS,
    Behind,
    Comparison,
    known_first,
    of_evidence,
    of_position,
    open_questions,
)
from midchart.pages.ui.shared import chart, formats, results
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import pick, pick_linked, token

MOST_LINES = 4
"""Lines that one band chart can hold and that can still be distinguished."""
ENDS = {
    "patient": ("patient_low", "patient_high"),
    "wilson": ("wilson_low", "wilson_high"),
    "percentile": ("ci_low", "ci_high"),
}
"""The columns of each interval's ends."""
PATIENT = ENDS["patient"]
HELP = (
    "By patient: accounts for the clustering of questions by patient; none below 5 patients. "
    "Wilson: treats questions as independent. Bootstrap: percentile bootstrap of questions, "
    "widened to contain Wilson's interval (the published protocol does not widen it, so it has "
    "no width at 0 or 100 %)."
)
TYPES = {"R": "R · look up", "Rn": "Rn · reason", "S": "S · summarise"}
STRATA = {"task_type": "task type", "domain": "domain"}
TYPE_RULE = (
    "Task types are assigned by rules on the question where the cohort gives none: R starts with "
    "does, has, is, was, are or did, or asks for the most recent or current value; S asks to "
    "summarise, list or describe, or mentions the past or throughout; Rn is all others."
)
HITS = {
    results.ALL_IN_PROMPT: "all pieces in the prompt",
    results.ANY_IN_PROMPT: "any piece in the prompt",
    results.ALL_PIECES: "all pieces kept, by id",
    results.ANY_PIECE: "any piece kept, by id",
    "lexical": "a word kept",
    "semantic": "entailed",
}
HIT_HELP = {
    "lexical": "Lexical: any word of the reference in the context is a hit, whether or not it is "
    "evidence. Compare with the criterion by id.",
    "semantic": "Entailed: a line of the context and the evidence entail each other according to "
    "the run's NLI model.",
}


@dataclass(frozen=True, slots=True)
class ArmMeasure:
    """What is compared: rows of the report, the share's column, its interval, titles."""

    frame: pd.DataFrame
    value: str
    low: str
    high: str
    title: str
    name: str
    criterion: str = ""

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns of the share and its interval."""
        return self.value, self.low, self.high


def _pickers() -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="bottom", gap="medium")


def _measure(comparison: Comparison) -> ArmMeasure:
    """The pickers of measure, criterion and interval."""
    kinds = (["accuracy"] if comparison.judge else []) + ["evidence"]
    criterion = ""
    kind = pick("Compare", kinds, "measure", {"accuracy": "Accuracy", "evidence": "Evidence"})
    if kind == "accuracy":
        value, frame = "accuracy", comparison.frame("accuracy")
        title = f"% correct, {comparison.judge_title}"
    else:
        recall = results.frame_of(comparison.tables, "recall")
        recall = results.recall_rows(recall, comparison.reader)
        order = list(results.CRITERIA)
        criteria = sorted(results.choices(recall, "criterion"), key=order.index)
        criterion = pick("Evidence criterion", criteria, "criterion", results.CRITERIA)
        value, frame = "recall", results.where(recall, criterion=criterion)
        title = results.CRITERIA.get(criterion, criterion)
    methods = [name for name, (low, _) in ENDS.items() if low in frame]
    method = pick("95 % interval", known_first(frame, methods), "interval", METHODS)
    return ArmMeasure(frame, value, *ENDS[method], title, kind, criterion)


def overall(comparison: Comparison) -> None:
    """A forest plot of arms for all questions or one band, with its numbers."""
    with _pickers():
        measure = _measure(comparison)
        bands = ["overall", *[band for band in results.BAND_ORDER if band != "overall"]]
        band = st.selectbox(
            "Evidence position (%)", bands, key="band", bind="query-params", width=170
        )
    rows = results.where(measure.frame, band=band)
    known = rows[rows["n"] > 0]
    if known.empty:
        st.info("No question of this run has evidence in this band.")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        chart.show_forest(
            chart.share_rows(known, *measure.columns),
            measure.title,
            "forest",
            lambda label: open_questions(arm=label, **of_position(band)),
        )
    with right:
        percents = ("%", *results.RECALL_COLUMNS.values())
        shown = results.share_table(rows, *measure.columns)
        labels = list(rows.loc[shown.index, "label"])

        def filters(row: int, column: str) -> Behind:
            more = of_evidence(measure.criterion, True) if column == "%" else {}
            outcome = {"refusals": "refusal", "unparsed": "unparsed", "failed": "failed"}
            if column in outcome:
                more = {"outcome": outcome[column]}
            return {"arm": labels[row], **of_position(band), **more}

        comparison.table(
            shown,
            f"{measure.name}-{band}",
            f"{measure.title} of each arm, {band}: share, interval, n",
            columns={name: st.column_config.NumberColumn(format="%.1f") for name in percents},
            download=rows,
            behind=filters,
        )
        st.caption(
            "n: answers judged correct or incorrect; unparsed and failed answers are excluded "
            f"and counted separately. Hollow markers: controls. {HELP}"
            if measure.value == "accuracy"
            else "n: questions with known evidence (or answer). Hollow: controls. Tick: chance. "
            f"{results.CHANCE_HELP}"
        )


def bands(comparison: Comparison) -> None:
    """Arms × bands, as lines for a few arms and as a table for all."""
    with _pickers():
        measure = _measure(comparison)
    labels = results.choices(measure.frame, "label")
    selected = st.pills(
        f"Arms in the chart (up to {MOST_LINES})",
        labels,
        selection_mode="multi",
        default=chart.leading(labels, MOST_LINES),
        format_func=lambda label: plain(api.title("arm", label)),
        key="lines",
        persist_state="session",
    )
    drawn = selected[:MOST_LINES]
    if len(selected) > MOST_LINES:
        st.caption(f"The chart shows the first {MOST_LINES} of {len(selected)}; the table has all.")
    rows = measure.frame[measure.frame["label"].isin(drawn)]
    if len(rows):
        chart.show(
            charts.by_band(rows, *measure.columns, measure.title),
            f"Lines: {measure.title} by position band, "
            f"{', '.join(results.titles('arm', drawn).values())}.",
            "bands",
            opens=lambda _, label, band: open_questions(arm=label, **of_position(band)),
        )
    comparison.table(
        results.wide(measure.frame, "band", *measure.columns),
        f"{measure.name}-bands",
        f"{measure.title}: arms by position band, each with interval and n",
        download=measure.frame,
        behind=lambda row, column: {"arm": labels[row], **of_position(_head(column))},
    )
    st.caption(
        "Each cell: per cent [95 % interval]; n in the column header. Middle is 30–70 % of "
        "the record, edge the rest. "
        + (HELP if measure.value == "accuracy" else f"Dashes: chance. {results.CHANCE_HELP}")
    )
    guessing = results.frame_of(comparison.tables, "chance")
    if measure.value == "accuracy" and not guessing.empty:
        share, n = guessing["chance"].iloc[-1], int(guessing["questions"].iloc[-1])
        st.caption(f"{n:,} questions have options; guessing is correct in {100 * share:.1f} %.")


def hits(comparison: Comparison) -> None:
    """Accuracy given that the evidence was present and that it was not, by a criterion."""
    frame = comparison.frame("hit_miss")
    if frame.empty:
        st.info("No answer of this run has been judged yet.")
        return
    with _pickers():
        criterion = pick("Evidence criterion", results.choices(frame, "criterion"), "hit", HITS)
        methods = known_first(frame, ["patient", "wilson"])
        method = pick("95 % interval", methods, "hit_interval", METHODS)
    rows = results.where(frame, criterion=criterion)
    ends = ENDS[method]
    chart.show(
        charts.hit_and_miss(rows, *ends, f"% correct, {comparison.judge_title}"),
        f"Accuracy of {rows['label'].nunique()} arms with and without the evidence.",
        "hits",
        opens=lambda _, label, hit: open_questions(arm=label, **of_evidence(criterion, bool(hit))),
    )
    columns = ["title", "difference", "difference_low", "difference_high"]
    effect = comparison.frame("hit_effect", criterion=criterion)[columns]
    differences = {row[0]: formats.difference(*row[1:]) for row in effect.itertuples(index=False)}
    shown = results.wide(rows, "evidence", "accuracy", *ends)
    labels = results.choices(rows, "label")
    hit_of = dict(zip(rows["evidence"], rows["hit"], strict=True))

    def filters(row: int, column: str) -> Behind:
        hit = hit_of.get(_head(column))
        more = {} if hit is None else of_evidence(criterion, bool(hit))
        return {"arm": labels[row], **more}

    shown["difference (points)"] = shown["arm"].map(differences).fillna("–")
    comparison.table(
        shown,
        f"hits-{criterion}",
        "Accuracy of each arm with and without the evidence, and the difference",
        download=rows.merge(effect, on="title"),
        behind=filters,
    )
    st.caption(
        "Each cell: per cent [95 % interval] n; the difference with an interval by patient (none "
        "for fewer than 5 patients). An arm finds the evidence of some questions and misses that "
        "of others, so the difference is not the effect of finding it alone. "
        f"{HIT_HELP.get(criterion, '')}"
    )


def question_types(comparison: Comparison) -> None:
    """A forest plot of arms for one type of question, and the table of all types."""
    strata = [name for name in STRATA if len(comparison.frame(name))]
    if not strata:
        st.info("The questions of this run have no task type and no domain.")
        return
    with _pickers():
        by = pick("By", strata, "by", STRATA)
        frame = comparison.frame(by)
        value = _question_type(comparison.run["run"], by, results.choices(frame, by))
    rows = frame[(frame[by] == value) & (frame["n"] > 0)]
    name = "type" if by == "task_type" else by
    title = f"% correct on {TYPES.get(value, value)}, {comparison.judge_title}"
    chart.show_forest(
        chart.share_rows(rows, "accuracy", *PATIENT),
        title,
        "kinds",
        lambda label: open_questions(arm=label, **{name: value}),
    )
    labels = results.choices(frame, "label")
    comparison.table(
        results.wide(frame, by, "accuracy", *PATIENT),
        by,
        f"Accuracy of each arm by {STRATA[by]}",
        download=frame,
        behind=lambda row, column: {
            "arm": labels[row], **({} if column == "arm" else {name: _head(column)})
        },
    )  # fmt: skip
    st.caption(
        "Each cell: per cent [95 % interval, by patient]; n in the column header. "
        + (TYPE_RULE if by == "task_type" else "")
    )


def _question_type(run: str, by: str, values: Sequence[str]) -> str:
    """One type of question; names from the cohort are in a list, and in no URL."""
    if len(values) < 2 or set(values) <= set(TYPES):
        return pick("Question type", values, f"kind_{by}", TYPES, abreast=True)
    return pick_linked(
        "kind",
        "Question type",
        values,
        lambda value: TYPES.get(value, value),
        key=f"kind_{by}",
        token=lambda value: token(run, f"{by}/{value}"),
        width=260,
    )


def sweep(comparison: Comparison) -> None:
    """Accuracy and evidence over k of the arms that the run has at several k."""
    accuracy = comparison.frame("k_sweep")
    recall = results.frame_of(comparison.tables, "recall_sweep")
    recall = results.recall_rows(recall, comparison.reader)
    source = accuracy if len(accuracy) else recall
    if source.empty:
        st.info(
            "No arm of this run was tried with several values of k. On page Runs, a run may "
            "list the same arm several times, each with its own k."
        )
        return
    names = results.choices(source, "arm")
    arm = pick("Arm", names, "swept", results.titles("arm", names), abreast=True)
    name = api.title("arm", arm)
    rows = results.where(accuracy, arm=arm)
    if len(accuracy):
        frames = _by_k(rows, "band", ("overall", "middle", "edge"))
        title = f"% correct of {name}, {comparison.judge_title}"
        chart.show(
            charts.by_k(frames, "accuracy", *PATIENT, title),
            f"Line chart: {title} by k; overall, evidence in the middle, evidence at the edge.",
            "sweep",
            opens=lambda _, label: open_questions(arm=label),
        )
        bands = pd.concat([rows[rows["band"] == band] for band in frames])
        labels = results.choices(bands, "label")
        comparison.table(
            results.wide(bands, "band", "accuracy", *PATIENT),
            f"{arm}-k",
            f"Accuracy of {name} by k and band",
            download=rows,
            behind=lambda row, column: {"arm": labels[row], **of_position(_head(column))},
        )
    rows = results.where(recall, arm=arm)
    if rows.empty:
        return
    st.header("Evidence by k", anchor=False)
    criteria = [name for name in results.choices(rows, "criterion") if "@" not in name]
    frames = {
        results.CRITERIA.get(name, name): frame
        for name, frame in _by_k(rows, "criterion", criteria).items()
    }
    chart.show(
        charts.by_k(frames, "recall", *PATIENT, f"hit, {name}"),
        f"Line chart: evidence recall of {name} by k, {len(frames)} criteria.",
        "recall_sweep",
        opens=lambda _, label: open_questions(arm=label),
    )
    labels = results.choices(rows, "label")
    comparison.table(
        results.wide(rows, "criterion", "recall", *PATIENT),
        f"{arm}-k-kept",
        f"Evidence of {name} by k",
        download=rows,
        behind=lambda row, column: {"arm": labels[row], **of_evidence(_head(column), True)},
    )
    st.caption(f"Dashes: chance. {results.CHANCE_HELP}")


def _head(column: str) -> str:
    """The value that a column of :func:`results.wide` is of; "overall" for the arm's own."""
    return "overall" if column == "arm" else column.partition(" · n ")[0]


def _by_k(frame: pd.DataFrame, column: str, values: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each value in the order of k, one per k."""
    frame = frame.sort_values("k").drop_duplicates([column, "k"])
    return {value: frame[frame[column] == value] for value in values}


VERSUS = {
    "only this correct": "this",
    "only baseline correct": "baseline",
    "unscored": "unscored",
}
"""Column → which of its questions a click opens; others: all that were judged for both arms."""
DIFFERENCES = {"difference (points)": st.column_config.NumberColumn(format="%+.1f")}


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
        columns=DIFFERENCES,
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
            columns=DIFFERENCES,
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
            st.caption("These rows count tests; the numbers tested are in the tables above.")
        omnibus = comparison.frame("omnibus")
        if len(omnibus):
            shown = omnibus.rename(columns={"telling": "discordant questions", "statistic": "Q"})
            comparison.table(
                shown.assign(p=shown["p"].map(formats.p_number)),
                "omnibus",
                "Cochran's Q over all arms",
                columns={"Q": st.column_config.NumberColumn(format="%.2f")},
                download=omnibus,
                behind=lambda row, _: {"differ": True},
            )
