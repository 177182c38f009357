"""The question that the Patient page opens on: one from the middle of a record that was answered
wrongly, so that what is lost there is seen at once."""

from __future__ import annotations

from typing import Any

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.patient import cached, harm
from midchart.pages.ui.shared.cache import cached as cached_result

OPENED = "patient_opened"
"""Session key: the cohort's key, the question that the page chose, and why."""
_NONE = api.Gold("", "")
NO_RUN = (
    "No finished run on this cohort has a wrong answer to a question from the middle of a record: "
    "the first question with located evidence is shown."
)


@cached_result(lambda run, reader, arms: state.run_key(run, reader, arms))
def _wrong(run: dict[str, Any], reader: str, arms: tuple[str, ...]) -> list[dict[str, Any]]:
    return api.wrong_in_the_middle(run["run"], reader, arms)


def choose(cohort: api.Cohort, key: str) -> None:
    """Choose patient and question where neither the address nor this session names one."""
    named = any(name in st.query_params for name in ("patient", "question", "typed"))
    patient = st.session_state.get("patient_patient")
    if named or patient in cohort.records or st.session_state.get(OPENED, ("",))[0] == key:
        return
    question, why = _of_runs(cohort)
    if not question:
        located = (one.id for one in cohort.instructions if cohort.gold.get(one.id, _NONE).spans)
        question = next(located, "")
    if question:
        record = next(one.record_id for one in cohort.instructions if one.id == question)
        st.session_state["patient_patient"] = record
        st.session_state["patient_question"] = question
    st.session_state[OPENED] = (key, question, why)


def _of_runs(cohort: api.Cohort) -> tuple[str, str]:
    """The id of the question by the newest finished run that has one, and why; "" where none has.

    Sets the reader: one that answers at once where the run has it, else the run's.
    """
    known = {one.id for one in cohort.instructions}
    arms = tuple(name for name in cached.DEFAULT_ARMS if harm.is_method(name))
    for run in state.runs(("answers",)):
        if run["status"] != "done" or run["data"] != api.listed_path(cohort):
            continue
        answered = api.answered_by(run["run"])
        # Of a slow reader the run's own answers are shown, which are there at once.
        quick = [name for name in state.installed_readers() if name in cached.QUICK_READERS]
        live = [name for name in quick if name in answered]
        for reader in live or answered:
            rows = [row for row in _wrong(run, reader, arms) if row["instruction"] in known]
            if rows:
                st.session_state["patient_reader"] = ("" if live else run["run"], reader)
                why = (
                    "Opened on a question from the middle of its record that the run "
                    f"{run['name']} answered wrongly under {rows[0]['wrong']} of {len(arms)} arms; "
                    f"it has {len(rows):,} such questions."
                )
                return rows[0]["instruction"], why
    return "", NO_RUN


def why(instruction: api.Instruction, key: str) -> str:
    """Why this question is shown, while it is the one that the page chose; else ""."""
    opened, question, words = st.session_state.get(OPENED, ("", "", ""))
    return words if opened == key and instruction.id == question else ""
