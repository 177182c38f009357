"""The observed curve: verdict, figure, numbers, the questions behind a point, and all groups.

The tables are those of a run of kind ``curve``, computed at once, and are drawn by its views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import InputError, MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.results import kit
from midchart.pages.ui.shared import chart, marks, messages, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick_linked, segments, token

ALL = ""
"""The group that is all answers."""
NONE, ANYWHERE = "none", "0-100"
"""No part of the record, and all of it."""
MOST_QUESTIONS = 500
"""Questions of a point that are listed."""
POINT = "at"
"""Key of the open part of the record in the session and in the URL: an option like 20-30."""
AUTO = "auto"
"""The default position: by tokens where the median record has few events, else by order."""
SCORES = {
    "clinician": "Clinicians' verdict",
    "exact": "Exact match",
    "jaccard": "Token overlap (Jaccard)",
    "exact_or_jaccard": "The paper's: exact, else overlap",
}
MEANS = ("jaccard", "exact_or_jaccard")
"""Scores whose curve is of means, not of shares of correct answers."""
SCORE_HELP = (
    "Clinicians' verdict: correct or incorrect. Exact match: answers whose reference holds a "
    "number, a date or yes/no. Token overlap: Jaccard index of the distinct words of answer and "
    "reference. The paper's (Experiment 1): exact match where possible, else token overlap."
)
BINS = {10: "Deciles", 5: "Quintiles"}
SNIPPETS = {"best": "Best piece", "all": "Every piece"}
STRATA = {"model": "Model", "specialty": "Specialty", "domain": "Domain", "task_type": "Task type"}
PLACE = "evidence_at_%"
"""Column of the middle of each part of the record, in per cent."""
NUMBERS = ("peak", "trough", "null_gap", "homogeneity_p", "middle", "edge",
           "quadratic", "quadratic_holm", "smallest_difference", "share_10_90", "uniform_share",
           "unlocated", "weak", "unscored", "held")  # fmt: skip
"""Columns of a curve's summary that are listed with its contrasts."""


@dataclass(frozen=True, slots=True)
class PickedCurve:
    """What a curve is of: names of options, a group by its value ("" is all answers)."""

    score: str
    position: str
    bins: int
    snippets: str
    by: str
    value: str = ALL

    def options(self, group: bool = True) -> dict[str, Any]:
        """The options as the engine takes them, with the ``group`` or without."""
        names = ("score", "position", "bins", "snippets")
        of = {"stratum": self.by, "value": self.value} if group and self.value else {}
        return {name: getattr(self, name) for name in names} | of

    @property
    def parts(self) -> list[str]:
        """The parts of the record as options: 0-10, 10-20 … of deciles."""
        width = 100 // self.bins
        return [f"{low}-{low + width}" for low in range(0, 100, width)]


def observed() -> None:
    """The curve of the model responses included in a cohort."""
    top = st.container()
    with st.sidebar:
        names = state.question_cohorts()
        if not names:
            with top:
                no_questions()
            return
        name = state.pick_cohort() if len(names) > 1 else names[0]
        try:
            cohort = api.open_data(name)
        except MidchartError as error:
            top.error(for_screen(str(error)), title="This cohort cannot be read")
            return
        if not cohort.responses:
            with top:
                _no_responses(name)
            return
        chart.set_cohort(cohort)
        try:
            known = state.of_cohort(cohort, api.curve_choices)
        except InputError as error:
            top.info(for_screen(str(error)))
            return
        choice = _pick(name, known)
    if choice.position == AUTO:
        choice = replace(choice, position=known["position"]["used"])
    curve = state.of_cohort(cohort, _curve, choice)
    if not curve["curve"]:
        reason = "; ".join(row["reason"] for row in curve["failures"]) or "no answer"
        st.info(f"No curve: {for_screen(reason)}.")
        return
    stated = api.conclusion_of({"kind": "curve", "tables": curve})
    messages.conclude(stated.headline, place=top)
    _large(name, cohort, choice, curve)
    with st.expander("What this rests on"):
        for line in (*stated.details, chart.source(), f"Position: {known['position']['words']}."):
            st.caption(for_screen(line))
    groups = state.of_cohort(cohort, _curve, replace(choice, value=ALL), choice.by)
    _groups(name, choice, curve, groups)


def _curve(cohort: api.Cohort, choice: PickedCurve, by: str = "") -> dict[str, Any]:
    """The tables of the curve of all answers or of one group; ``by``: of every group of a stratum,
    those with the most answers first. Each row says whether its answers are simulated."""
    tables = api.curve(cohort, **choice.options(not by), **({"stratum": by} if by else {}))
    summary = {row["value"]: row for row in tables["summary"]}
    order = sorted(summary, key=lambda value: -summary[value]["n"])
    rows = [
        row
        | {"simulated": summary[row["value"]]["simulated"], PLACE: 50 * (row["low"] + row["high"])}
        for row in sorted(tables["curve"], key=lambda row: order.index(row["value"]))
    ]
    return {**tables, "curve": rows, "summary": [summary[value] for value in order]}


def _answers(cohort: api.Cohort, choice: PickedCurve, bin: int | None) -> pd.DataFrame:
    """The answers behind a point, or all (None): one row per answer (and piece of evidence)."""
    return pd.DataFrame(api.curve_bin(cohort, bin, **choice.options()))


def no_questions() -> None:
    """The empty state where no cohort has questions: which there are, and why each has none."""
    reasons = [f"- {for_screen(name)}: {for_screen(why)}" for name, why in state.unasked().items()]
    with messages.empty("No cohort with questions", "\n".join(reasons)):
        navigation.demo_button()


def _no_responses(name: str) -> None:
    messages.empty(
        "No responses in this cohort",
        f"The curve needs model responses with clinicians' verdicts, included in "
        f"**{for_screen(name)}**: its file `clinician-reviewed-model-responses.tsv`. "
        "Without them, use a needle run, which places a synthetic fact at every depth of the "
        "same record: select it at the left.",
    )


def _pick(cohort: str, known: Mapping[str, Any]) -> PickedCurve:
    """The pickers of score, position, parts, evidence and group. The group's name comes from the
    cohort, so the URL has a token of it."""
    score = st.selectbox(
        "Score", list(SCORES), format_func=SCORES.__getitem__, key="score", bind="query-params",
        width=230, help=SCORE_HELP,
    )  # fmt: skip
    position = segments(
        "Position", {AUTO: "Automatic", **tables.POSITIONS}, "position",
        help="Order: index among all events of the record. Time: elapsed share of its time "
        "span. Tokens: share of its tokens before the evidence. The three are never combined. "
        "Automatic: tokens where the median record has few events, else order.",
    )  # fmt: skip
    help = "Fixed parts of the record, not quantiles of the answers."
    bins = segments("Parts", BINS, "bins", help=help)
    snippets = segments(
        "Evidence", SNIPPETS, "snippets",
        help="Best piece: the position of an answer is that of the best-matching piece of its "
        "evidence. Every piece: the answer counts once at each located piece, so n counts "
        "positions.",
    )  # fmt: skip
    by = segments("Groups by", STRATA, "by")
    groups = {ALL: f"every {STRATA[by].lower()}", **{value: value for value in known["strata"][by]}}
    value = pick_linked(
        "of", "Answers of", groups, key=f"curve_of_{by}", unlinked=ALL, width=230,
        token=lambda value: token(cohort, f"{by}/{value}"),
    )  # fmt: skip
    return PickedCurve(score, position, bins, snippets, by, value)


def _view(drawn: str, table: str, of: Sequence[Mapping[str, Any]], **changes: Any) -> api.View:
    """A view of runs of kind ``curve``, with other fields that are different here."""
    views = api.views_of({"kind": "curve", "tables": {table: of}})
    return replace(next(one for one in views if one.name == drawn), choose=(), **changes)


def _large(name: str, cohort: api.Cohort, choice: PickedCurve, curve: Mapping[str, Any]) -> None:
    """The curve, next to the paper's where it is of the same score and parts, and the questions of
    the part of the record that is open."""
    navigation.follow()
    rows = [row | {"answers": choice.value or "these answers"} for row in curve["curve"]]
    if choice.score == "clinician" and choice.position == "order" and choice.bins == 10:
        rows += [
            row | {"bin": None, "answers": "the paper (MedAlign)", PLACE: at[PLACE]}
            for row, at in zip(api.published_curve(), curve["curve"], strict=True)
        ]
    if curve["summary"][0]["simulated"]:
        st.badge("simulated answers: they say nothing of any real model", color="orange",
                 icon=":material/science:")  # fmt: skip
    score = f"{SCORES[choice.score]}{', a mean' if choice.score in MEANS else ''}"
    view = _view(
        "curve", "curve", rows, rows=("answers",), across=PLACE, opens=("bin",),
        about=f"Score: {score}. Ribbon: 95 % of permutations of position over the same questions.",
    )  # fmt: skip
    kit.draw_rows(
        f"{name}-{choice.score}-{choice.position}-{choice.bins}", view, rows,
        opens=lambda _, __, key: _open(choice, choice.value, key.get("bin")),
    )  # fmt: skip
    _questions(name, cohort, choice)


def _groups(
    name: str, choice: PickedCurve, curve: Mapping[str, Any], groups: Mapping[str, Any]
) -> None:
    """The curves of the groups with the most answers, and every group's contrasts and numbers."""
    by = STRATA[choice.by].lower()
    st.header(f"By {by}", anchor=False)
    if not groups["summary"]:
        st.info(f"No {by} has an answer with this score and a position.")
        return

    def open_group(_: kit.Shown, _view: api.View, key: Mapping[str, Any]) -> None:
        if key["value"] != EVERYONE:
            _open(choice, key["value"], key.get("bin"))

    stem = f"{name}-{choice.score}-{choice.position}-by-{choice.by}"
    view = _view(
        "curve", "curve", groups["curve"], name="groups", across=PLACE, opens=("value", "bin"),
        about="The groups with the most answers are drawn; the table has all. Ribbon: what chance "
        "alone fills, of the first.",
    )  # fmt: skip
    kit.draw_rows(stem, view, groups["curve"], opens=open_group)
    summary = [*({**row, "value": EVERYONE} for row in curve["summary"]), *groups["summary"]]
    view = _view("contrasts", "summary", summary, more=NUMBERS, opens=("value",))
    measure = kit.pick_measure(view.measures, "Contrast", "contrast")
    kit.draw_rows(stem, view, summary, measure, open_group)
    if without := [row["value"] for row in groups["failures"]]:
        names = ", ".join(map(for_screen, without))
        st.caption(f"Without a curve, as no answer has both score and position: {names}.")
    st.caption("The p values of groups are not adjusted for multiple comparisons among groups.")


EVERYONE = "all answers"
"""The row of the curve above among the groups."""


def _open(choice: PickedCurve, value: str, bin: int | None = None) -> None:
    """Draw a group's curve large, and list its questions: of one part of the record or all."""
    st.session_state[f"curve_of_{choice.by}"] = value
    st.session_state[POINT] = ANYWHERE if bin is None else choice.parts[bin]


def _questions(name: str, cohort: api.Cohort, choice: PickedCurve) -> None:
    part = st.selectbox(
        "Questions with evidence at (%)", [NONE, *choice.parts, ANYWHERE], key=POINT,
        bind="query-params", width=260,
    )  # fmt: skip
    if part == NONE:
        return
    bin = None if part == ANYWHERE else choice.parts.index(part)
    rows = state.of_cohort(cohort, _answers, choice, bin)
    if rows.empty:
        st.info("No answer has evidence in this part of the record.")
        return
    instructions = rows["instruction"].unique()
    cut = f" The first {MOST_QUESTIONS:,} are listed; the download has all."
    st.caption(
        f"{len(rows):,} answers to {api.counted(len(instructions), 'question')} with evidence "
        f"at {part} %{f', {for_screen(choice.value)}' if choice.value else ''}."
        f"{cut if len(instructions) > MOST_QUESTIONS else ''} Codes stand for a patient "
        "and a question of this cohort and mean nothing elsewhere. Click a row to open its record."
    )
    listed = rows[rows["instruction"].isin(instructions[:MOST_QUESTIONS])]
    table = question_table(listed, name, choice.score)
    tables.table(
        table,
        f"{name}-at-{part}",
        f"Questions with their evidence at {part} per cent: position and each model's score",
        columns={"position": st.column_config.NumberColumn(format="%.1f %%")},
        download=rows,
        opens=lambda row, _: navigation.on_click(
            "patient", cohort=name, **table[["patient", "question"]].iloc[row]
        ),
    )


def question_table(rows: pd.DataFrame, cohort: str, score: str) -> pd.DataFrame:
    """Questions down, models to the right; each cell a verdict in a word, or an overlap.

    ``rows`` are the engine's: instruction, record, model, score, position.
    """
    codes = {
        "patient": rows["record"].map(partial(token, cohort)),
        "question": rows["instruction"].map(partial(token, cohort)),
        "position": 100 * rows["position"],
    }
    cells = rows.assign(**codes).groupby([*codes, "model"], sort=False)["score"].agg(list)
    table = cells.unstack("model").map(lambda scores: _cell(scores, score)).reset_index()
    return table.rename_axis(columns=None).sort_values("position", kind="stable")


def _cell(scores: Sequence[float] | float, score: str) -> str:
    if not isinstance(scores, list):
        return marks.NONE
    if score in MEANS:
        return marks.percent(sum(scores) / len(scores))
    correct = sum(value >= 0.5 for value in scores)
    if len(scores) > 1:
        return f"{correct} of {len(scores)} correct"
    return "✓ correct" if correct else "✗ incorrect"
