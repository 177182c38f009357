"""Single questions: outcomes of all arms, contexts, answers and verdicts side by side.

Questions are in the URL by a token, not by their id. All text of a record, of an answer and of a
question goes through :mod:`midchart.pages.ui.shared.marks` or into a cell of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api, figures
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.patient import model, view
from midchart.pages.ui.results.kit import Shown
from midchart.pages.ui.shared import marks, tables
from midchart.pages.ui.shared.marks import for_screen, missing
from midchart.pages.ui.shared.pickers import pick_linked, token

ANY = "any"
FILTERS = {
    "arm": ("Arm", "label"),
    "outcome": ("Outcome", "outcome"),
    "position": ("Evidence position (%)", "band"),
    "step": ("Evidence ended", "step"),
    "type": ("Question type", "task_type"),
    "evidence": ("Evidence", ""),
    "domain": ("Domain", "domain"),
    "failure": ("Failure type", "failure_kind"),
}
"""Filters of the questions, each in the session and the URL as ``q_NAME``: title, and the column of
the outcomes and of a view's key."""
COUNTED, TRAINING = "counted", "training"
PATIENTS = {
    COUNTED: "counted in the results",
    TRAINING: "training patients of a gate",
    "all": "all",
}
VIEW = "questions"
Behind = Mapping[str, Any]
"""Filter → value."""
OUTCOMES = {
    "correct": "✓ correct",
    "incorrect": "✗ incorrect",
    "unparsed": "? unparsed",
    "failed": "– failed",
}
"""An outcome in a table: a sign and a word, no colour."""
DIFFER = {"true": "on which the arms' outcomes differ", "false": "all questions"}
LIST = ""
"""The choice of no single question."""
JUDGED = ("correct", "incorrect")
HITS = {
    tables.ALL_IN_PROMPT: (
        *("evidence_all_in_prompt", "all pieces in the prompt", "not all pieces in the prompt"),
    ),
    tables.ANY_IN_PROMPT: (
        *("evidence_in_prompt", "any piece in the prompt", "no piece in the prompt"),
    ),
    tables.ALL_PIECES: ("evidence_all", "all pieces kept", "not all pieces kept"),
    tables.ANY_PIECE: ("evidence", "any piece kept", "no piece kept"),
    "lexical": ("lexical", "a word of the answer kept", "no word of the answer kept"),
    "semantic": ("semantic", "answer entailed", "answer not entailed"),
}
"""Criterion of a report → the column of a hit, and the titles of hit and miss."""
VERSUS_TITLES = {
    ANY: "any",
    "this": "only this arm correct",
    "baseline": "only the baseline correct",
    "both": "both judged",
    "unscored": "one of them not judged",
}
VALUE_TITLES = {
    **OUTCOMES,
    "refusal": "refused",
    **{f"{hit}-{end}": title for hit, yes, no in HITS.values()
       for end, title in {"yes": yes, "no": no, "known": f"{yes} or not"}.items()},
}  # fmt: skip
"""Titles of the filters' values that are not what they say."""
RULES = ("empty", "refusal", "hedged", "continuation", "wrong value", "unsupported", "wrong entity",
         "omission", "other")  # fmt: skip
"""Failure types in the order of their rules."""
ORDER = {"outcome": (*OUTCOMES, "refusal"), "position": tables.BAND_ORDER, "failure": RULES,
         "evidence": tuple(VALUE_TITLES), "step": api.STEPS}  # fmt: skip
"""Values of filters in their order; others are sorted."""


def open_questions(**filters: Any) -> None:
    """Show the questions that match the filters, and set no other one."""
    for name in (*FILTERS, "versus", "otherwise"):
        st.session_state[f"q_{name}"] = filters.get(name, ANY)
    st.session_state["q_patients"] = filters.get("patients", COUNTED)
    st.session_state["differ"] = filters.get("differ", "false")
    st.session_state["asked"] = ""
    st.session_state["view"] = VIEW


def open_behind(shown: Shown, view: api.View, key: Mapping[str, Any]) -> None:
    """Show the questions that a value of a view counts, by the columns by which it opens them.

    A share of questions with the evidence kept counts all of which that is known.
    """
    columns = {column: name for name, (_, column) in FILTERS.items()} | {"kind": "failure"}
    filters = {columns[column]: value for column, value in key.items()
               if column in columns and value not in (None, "overall")}  # fmt: skip
    if str(key.get("criterion")) in HITS:
        ends = {True: "yes", False: "no", None: "known"}
        filters["evidence"] = f"{HITS[key['criterion']][0]}-{ends[key.get('hit')]}"
    if view.name == "pairs":
        filters["versus"] = "both"
    if view.table == "failures":
        filters["outcome"] = "failed"
    if view.table.endswith("_seen"):
        filters["patients"] = TRAINING
    open_questions(**filters)


def questions(comparison: Shown) -> None:
    """The questions of a run that match the filters; one of them in full."""
    run = comparison.run
    rows = state.outcomes(run, comparison.reader, comparison.judge)
    if rows.empty:
        st.info("This run has no results of single questions yet.")
        return
    known, filters = _pick_filters(comparison, rows)
    if (other := filters.pop("otherwise", ANY)) != ANY:
        others = state.outcomes(run, comparison.reader, other)
        known = known[differing(known, others)]
    chosen_questions = matching(known, filters, comparison.baseline)
    if not chosen_questions:
        st.info("No question matches these filters.")
        return
    cohort = api.run_cohort(run["run"])
    arm = filters["arm"]
    first = [one for one in dict.fromkeys((arm, comparison.baseline)) if one != ANY]
    frame = _outcome_table(rows[rows["instruction"].isin(chosen_questions)], first)
    total = rows["instruction"].nunique()
    about = f"{len(frame):,} of {total:,} questions. Click a row to open it."
    chosen = choose_question(
        run["run"], cohort, frame, "asked", "Outcome of each arm by question", about, width=280,
        pinned=True,
    )  # fmt: skip
    if chosen is not None:
        one(run, cohort, chosen, comparison.reader, () if arm == ANY else first)


def _pick_filters(comparison: Shown, rows: pd.DataFrame) -> tuple[pd.DataFrame, Behind]:
    known = rows if rows["counted"].all() else rows[rows["counted"]]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if len(known) < len(rows):
            patients = pick_linked(
                "q_patients", "Patients", PATIENTS, unlinked=COUNTED, width=230,
                help="Training patients: those on whom a gate of this run was trained; no result "
                "counts them.",
            )  # fmt: skip
            known = {COUNTED: known, TRAINING: rows[~rows["counted"]]}.get(patients, rows)
        if pick_linked("differ", "Questions", DIFFER, unlinked="true", width=260) == "true":
            known = known[known.groupby("instruction")["outcome"].transform("nunique") > 1]
        there = {**st.query_params, **st.session_state}
        narrowed = [t for name, (t, _) in FILTERS.items() if there.get(f"q_{name}", ANY) != ANY]
        words = f"Filters: {', '.join(narrowed)}" if narrowed else "Filters"
        fold = st.popover(words, icon=":material/filter_list:", key="filters")
    scope, baseline = comparison.run["run"], comparison.baseline
    with fold:
        filters = {"arm": _pick("arm", rows, scope)}
        if filters["arm"] not in (ANY, baseline) and comparison.judge:
            label = f"Against {api.title('arm', baseline)}"
            filters["versus"] = pick_linked(
                "q_versus", label, VERSUS_TITLES, unlinked=ANY, width=230
            )
        filters |= {name: _pick(name, rows, scope) for name in FILTERS if name != "arm"}
        judges = dict.fromkeys(row["judge"] for row in comparison.tables.get("accuracy") or ())
        others = tables.titles("judge", filter(comparison.judge.__ne__, judges))
        if others:
            filters["otherwise"] = pick_linked(
                "q_otherwise", "Judged otherwise by", {ANY: ANY, **others}, unlinked=ANY, width=230
            )
    return known, filters


def differing(rows: pd.DataFrame, others: pd.DataFrame) -> list[bool]:
    """Whether each row's answer is correct by one of two judges and incorrect by the other, whose
    rows are ``others``."""
    known = others.set_index(["label", "instruction"])["outcome"].to_dict()
    keys = zip(rows["label"], rows["instruction"], rows["outcome"], strict=True)
    return [{known.get((label, one)), outcome} == {*JUDGED} for label, one, outcome in keys]


def matching(rows: pd.DataFrame, filters: Behind, baseline: str) -> list[str]:
    """The instructions of which a row (of :func:`core.api.outcomes`) has all values asked for.

    ``filters``: those of :data:`FILTERS`, and "versus": how the arm's outcome and the baseline's
    differ.
    """
    wanted = {name: value for name, value in filters.items() if value != ANY}
    versus = wanted.pop("versus", ANY)
    if versus != ANY:
        rows = _versus(rows, wanted["arm"], baseline, versus)
    for name, value in wanted.items():
        rows = rows.loc[[value in values for values in _column(rows, name)]]
    return list(dict.fromkeys(rows["instruction"]))


def _column(rows: pd.DataFrame, name: str) -> list[tuple[str, ...]]:
    """The values of a filter that each row has."""
    records = rows.to_dict("records")
    if name == "outcome":
        return [
            (row["outcome"], "refusal") if row.get("refusal") is True else (row["outcome"],)
            for row in records
        ]
    if name == "position":
        sides = {True: ("middle",), False: ("edge",)}
        return [(row["band"], *sides.get(row["middle"], ())) for row in records]
    if name == "evidence":
        hits = [column for column, *_ in HITS.values() if column in rows]
        return [
            tuple(
                f"{hit}-{end}"
                for hit in hits
                if not missing(row[hit])
                for end in ("yes" if row[hit] else "no", "known")
            )
            for row in records
        ]
    column = FILTERS[name][1]
    return [
        ()
        if missing(row.get(column)) or (name == "failure" and row["outcome"] != "incorrect")
        else (row[column],)
        for row in records
    ]


def _pick(name: str, rows: pd.DataFrame, scope: str) -> str:
    """One filter; not drawn where there is nothing to choose."""
    present = {value for values in _column(rows, name) for value in values}
    values = [v for v in ORDER.get(name, ()) if v in present]
    others = dict.fromkeys(rows["label"]) if name == "arm" else sorted(present)
    values += [value for value in others if value not in values]
    if len(values) < 2:
        return ANY
    titles = {
        value: api.title("arm", value) if name == "arm" else VALUE_TITLES.get(value, value)
        for value in values
    }
    hide = (lambda value: token(scope, f"domain/{value}")) if name == "domain" else str
    return pick_linked(
        f"q_{name}", FILTERS[name][0], {ANY: ANY, **titles}, unlinked=ANY, width=190, token=hide
    )


def _versus(rows: pd.DataFrame, arm: str, baseline: str, how: str) -> pd.DataFrame:
    """The rows of questions on which an arm and the baseline have these outcomes."""
    wide = rows[rows["label"].isin([arm, baseline])].pivot(
        index="instruction", columns="label", values="outcome"
    ).reindex(columns=[arm, baseline])  # fmt: skip
    outcome, reference = (wide[label] for label in (arm, baseline))
    both = outcome.isin(JUDGED) & reference.isin(JUDGED)
    chosen = {
        "this": both & (outcome == "correct") & (reference == "incorrect"),
        "baseline": both & (outcome == "incorrect") & (reference == "correct"),
        "both": both,
        "unscored": ~both,
    }[how]
    return rows[rows["instruction"].isin(wide.index[chosen])]


def _outcome_table(rows: pd.DataFrame, first: Sequence[str]) -> pd.DataFrame:
    """Questions down, arms to the right (``first`` those), each cell an outcome in a word."""
    known = tables.choices(rows, "label")
    labels = [label for label in dict.fromkeys((*first, *known)) if label in known]
    outcomes = rows.assign(outcome=rows["outcome"].map(lambda one: OUTCOMES.get(one, one)))
    wide = outcomes.pivot(index="instruction", columns="label", values="outcome")[labels]
    wide = wide.rename(columns=partial(api.title, "arm"))
    about = rows.drop_duplicates("instruction").set_index("instruction")
    if about["task_type"].notna().any():
        wide.insert(0, "type", about["task_type"])
    wide.insert(0, "position (%)", about["band"])
    return wide.rename_axis(columns=None).reset_index()


def choose_question(
    scope: str,
    cohort: api.Cohort,
    frame: pd.DataFrame,
    key: str,
    alt: str,
    caption: str,
    **column: Any,
) -> str | None:
    """The question that is open; else None and the table of all, whose rows open one.

    ``frame``: a row an ``instruction``, with further columns; ``scope``: of the tokens in the URL;
    ``key``: of the choice; ``column``: of the question's column.
    """
    asked = {instruction.id: instruction.question for instruction in cohort.instructions}
    instructions = list(frame["instruction"])
    texts = {one: asked.get(one, "(not in the cohort)") for one in instructions}
    titles = {one: marks.shortened(text, 110) for one, text in texts.items()}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = pick_linked(
            key, "Question to read", {LIST: f"All {len(texts):,} questions", **titles},
            unlinked=LIST, width=560, token=lambda one: token(scope, one),
        )  # fmt: skip
        if chosen:
            order = list(texts)
            at = order.index(chosen)
            for title, to, icon in (
                ("All questions", LIST, ":material/list:"),
                ("Previous", order[at - 1], ":material/arrow_back:"),
                ("Next", order[(at + 1) % len(order)], ":material/arrow_forward:"),
            ):
                st.button(title, icon=icon, key=f"{key}_{title}", on_click=_open, args=(key, to))
            st.caption(f"{at + 1:,} of {len(order):,}", width="content")
            return chosen
    st.caption(caption)
    frame = frame.drop(columns="instruction")
    frame.insert(0, "question", [texts[one] for one in instructions])
    tables.table(
        frame, key, alt,
        columns={"question": st.column_config.TextColumn(**column)},
        opens=lambda row, _: _open(key, instructions[row]),
    )  # fmt: skip
    return None


def _open(key: str, instruction: str) -> None:
    st.session_state[key] = instruction
    if key == "asked":  # at the top of the page, not below the figure
        st.session_state["view"] = VIEW


def one(
    run: dict[str, Any], cohort: api.Cohort, instruction: str, reader: str, arms: Sequence[str] = ()
) -> None:
    """One question: reference, evidence, and what the arms kept and answered, next to each other.

    ``arms`` are the labels to begin with; by default those that lead the palette.
    """
    if (choice := choice_of(run, cohort, instruction)) is None:
        return
    item = api.item(run["run"], instruction)
    answers = [row for row in item["arms"] if row.get("reader", reader) == reader]
    labels = list(dict.fromkeys(row["label"] for row in answers))
    first = [label for label in dict.fromkeys(arms) if label in labels]
    shown = st.pills(
        "Arms side by side",
        labels,
        selection_mode="multi",
        default=first or figures.leading(labels, 3),
        format_func=lambda label: for_screen(api.title("arm", label)),
        key=f"abreast_{'_'.join(first)}",
        persist_state="session",
    )
    rows = [row for row in answers if row["label"] in shown]
    pieces = model.pieces(choice)
    views = [model.view_of_row(choice, row) for row in rows]
    _stated(choice, item, views, pieces)
    st.html(view.cards(choice, views, pieces))
    _patient_link(run, choice)
    if not any(row.get("prompt") for row in rows):
        return
    with st.expander("Full prompts", on_change="rerun", key="prompts") as prompts:
        if prompts.open:
            for row in rows:
                names = api.title("arm", row["label"]), api.title("reader", row["reader"])
                st.caption(for_screen(", ".join(names)))
                st.html(marks.prompt_html(row["prompt"] or ""))


def side_by_side(
    cohort: api.Cohort, instruction: str, sides: Sequence[tuple[str, dict[str, Any], Sequence[str]]]
) -> None:
    """One question in several runs; ``sides``: title, run, and its labels of arm, reader, judge."""
    place = st.container()
    for column, (title, run, (arm, reader, _)) in zip(
        st.columns(len(sides), gap="medium"), sides, strict=True
    ):
        if (choice := choice_of(run, cohort, instruction)) is None:
            return
        item = api.item(run["run"], instruction)
        views = [
            model.view_of_row(choice, row)
            for row in item["arms"]
            if row["label"] == arm and row.get("reader", reader) == reader
        ]
        with column:
            st.markdown(f"**{for_screen(title)}**")
            st.html(view.cards(choice, views, model.pieces(choice)))
    with place:
        _stated(choice, item, (), model.pieces(choice))
        _patient_link(run, choice)


def _stated(
    choice: model.Choice,
    item: Mapping[str, Any],
    views: Sequence[model.ArmView],
    pieces: Sequence[model.Piece],
) -> None:
    question = for_screen(choice.instruction.question, html=True)
    st.html(marks.block(f'<p class="mc-headline">{question}</p>'))
    if item["band"] == "unlocated":
        st.caption("Its evidence was not found in the record, or has no date.")
    st.html(view.asked(choice, views, pieces, ()))


def choice_of(
    run: dict[str, Any], cohort: api.Cohort | None, instruction: str
) -> model.Choice | None:
    """A question of a run with its record and gold, as page Patient takes them; a message and None
    where its cohort (None: that of the run) lacks it now."""
    try:
        cohort = cohort or state.cohort_of(run)
        question = api.instruction_for(cohort, instruction)
        record = cohort.records[question.record_id]
    except (MidchartError, KeyError):
        st.info("The cohort has changed: this question, or its record, is no longer in it.")
        return None
    protocol = api.parse(state.report(run)["protocol"])
    gold = api.gold_under(cohort, protocol).gold.get(instruction)
    return model.Choice(
        run["run"], cohort, record, question, gold, (), "", (), protocol, run["run"]
    )


def _patient_link(run: dict[str, Any], choice: model.Choice) -> None:
    name = Path(run["data"]).name
    if run["kind"] in state.COMPARING:  # the records of a needle run are not in the cohort
        navigation.link(
            "patient",
            "Open this question on the Patient page",
            icon=":material/clinical_notes:",
            query_params={
                "cohort": name,
                "patient": token(name, choice.record.id),
                "question": token(name, choice.instruction.id),
            },
        )
