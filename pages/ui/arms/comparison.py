"""The comparison that the Arms page shows: a run with the reader, judge and baseline chosen.

The choices are in the URL by their label in the spec, which holds no text of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.arms import text
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import conclusion, formats, results, tables
from midchart.pages.ui.shared.pickers import pick_component, pick_linked

ANY = "any"
FILTERS = ("arm", "outcome", "position", "evidence", "type", "domain", "failure")
"""Filters of the view Questions, each in the session and the URL as ``q_NAME``."""
COUNTED, TRAINING, EVERYONE = "counted", "training", "all"
"""Patients of the view Questions: those that the tables count, those on whom a gate of the run was
trained, and both."""
Behind = Mapping[str, Any]
"""Filter → value."""
CRITERIA = {
    results.ALL_IN_PROMPT: "evidence_all_in_prompt",
    results.ANY_IN_PROMPT: "evidence_in_prompt",
    results.ALL_PIECES: "evidence_all",
    results.ANY_PIECE: "evidence",
    "lexical": "lexical",
    "semantic": "semantic",
}
"""Criterion of a report → the column of a hit."""
CLICK = "Click a number or a marker to read the questions behind it."


def open_questions(**filters: Any) -> None:
    """Show the questions that match the filters, and set no other one."""
    for name in (*FILTERS, "versus"):
        st.session_state[f"q_{name}"] = filters.get(name, ANY)
    st.session_state["q_patients"] = filters.get("patients", COUNTED)
    st.session_state["differ"] = filters.get("differ", False)
    st.session_state["asked"] = ""
    st.session_state["view"] = "Questions"


def of_evidence(criterion: str, hit: bool) -> dict[str, str]:
    """The filter of hit or miss by a criterion of the report; none for one with a threshold."""
    column = CRITERIA.get(criterion)
    return {"evidence": f"{column}-{'yes' if hit else 'no'}"} if column else {}


def of_position(band: str) -> dict[str, str]:
    """The filter of a position band; none for all."""
    return {} if band == "overall" else {"position": band}


PROTOCOL_DIFFERS = "the protocol differs"
"""How a run's warning begins that is shown with the headline."""
METHODS = {
    "patient": "by patient",
    "wilson": "Wilson, questions independent",
    "difference": "Newcombe, questions independent",
    "percentile": "bootstrap of questions",
}
"""Titles of the 95 % intervals of shares and differences."""


def known_first(frame: pd.DataFrame, methods: list[str]) -> list[str]:
    """Methods of intervals, those without any value last: fewer than 5 patients give none."""
    column = {"wilson": "wilson_low", "percentile": "ci_low"}
    return sorted(methods, key=lambda name: frame[column.get(name, f"{name}_low")].isna().all())


@dataclass(frozen=True)
class Comparison:
    """A run with its report, and whose answers, verdicts and comparison are shown.

    ``tables`` are the report's, with ``paired`` and ``detectable`` against ``baseline`` (a label
    of the spec). ``judge`` is empty in a run that judges nothing. ``top``: the place of the
    conclusion, above the pickers.
    """

    run: dict[str, Any]
    report: dict[str, Any]
    tables: Mapping[str, Any]
    reader: str = ""
    judge: str = ""
    baseline: str = ""
    top: DeltaGenerator | None = None

    @property
    def judge_title(self) -> str:
        """The judge's title."""
        return api.title("judge", self.judge)

    def frame(self, table: str, **fixed: Any) -> pd.DataFrame:
        """Rows of a table of this reader and judge, arms labelled for display."""
        by = {"reader": self.reader or None, "judge": self.judge or None, **fixed}
        return results.where(results.frame_of(self.tables, table), **by)

    def table(
        self,
        shown: pd.DataFrame,
        name: str,
        alt: str,
        behind: Callable[[int, str], Behind] | None = None,
        **options: Any,
    ) -> Any:
        """A table whose file is named after the run; options are those of ``tables.table``.

        ``behind``: the questions that a click on a cell (row, column) opens.
        """

        def opens(row: int, column: str) -> None:
            open_questions(**behind(row, column))

        file = f"{self.run['run']}-{name}"
        return tables.table(shown, file, alt, opens=opens if behind else None, **options)


def choose(run: dict[str, Any], report: dict[str, Any]) -> Comparison:
    """The pickers of reader, judge and baseline."""
    frame = results.frame_of(report, "accuracy")
    if frame.empty:
        return Comparison(run, report, report["tables"], top=st.container())
    labels = list(dict.fromkeys(row["label"] for row in report["tables"]["accuracy"]))
    top = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        reader = pick_component("reader", results.choices(frame, "reader"))
        judge = pick_component("judge", results.choices(frame, "judge"))
        baseline = labels[0]
        if len(labels) > 1:
            baseline = pick_linked(
                "baseline",
                "Baseline",
                labels,
                partial(api.title, "arm"),
                key="baseline",
                unlinked=labels[0],
                width=260,
                help="All other arms are compared with this one on the same questions.",
            )
    compared = {} if baseline == labels[0] else state.compared(run, baseline)
    against = {**report["tables"], **compared}
    return Comparison(run, report, against, reader, judge, baseline, top)


def headline(comparison: Comparison) -> None:
    """What the run shows by its primary judge in one sentence, what other judges say, its sample
    size and detectable difference, cautions."""
    reader, judge = comparison.reader, comparison.report["primary_judge"]
    below: list[str] = []
    if judge:
        first = text.headline(comparison.tables, reader, judge, comparison.baseline)
        below.append(text.judged_by(comparison.tables, reader, judge, comparison.judge))
        below.append(text.size(comparison.tables, reader, judge))
        shown = dict.fromkeys((judge, comparison.judge))
        cautions = [one for name in shown for one in text.cautions(comparison.tables, reader, name)]
        below.append(" ".join(dict.fromkeys(cautions)))
    else:
        first = text.recall_headline(comparison.tables)
    warnings = comparison.report["warnings"]
    changed = [line for line in warnings if line.startswith(PROTOCOL_DIFFERS)]
    below += [results.part_text(comparison.report), " ".join(map(formats.sentence, changed))]
    conclusion.of_run(comparison.report, first, below, comparison.top)


def notes(comparison: Comparison) -> None:
    """The run's other warnings, and the patients that a gate of the run was trained on."""
    warnings = comparison.report["warnings"]
    panel.notes(
        [line for line in warnings if not line.startswith((PROTOCOL_DIFFERS, "part = "))],
        results.choices(results.frame_of(comparison.tables, "recall"), "label"),
    )
    share = "accuracy" if comparison.judge else "recall"
    frame = comparison.frame(f"{share}_seen", band="overall", criterion=results.ALL_PIECES)
    if frame.empty:
        return
    with st.expander("Training patients of a gate of this run"):
        shown = results.share_table(frame, share, "patient_low", "patient_high")
        labels = list(frame.loc[shown.index, "label"])
        comparison.table(
            shown,
            "seen",
            "Each arm on the gate's training patients: share, interval, n",
            download=frame,
            behind=lambda row, _: {"arm": labels[row], "patients": TRAINING},
        )
        st.caption(
            "These patients were used in training, so the figures do not generalise to new "
            "patients. Click a row to read their questions."
        )
