"""What an audited system had of a chart, where the page's address names a question of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.extras.audit.audited_prompt import AuditedPrompt, audited_prompt
from midchart.pages.ui import navigation, state
from midchart.pages.ui.patient import controls
from midchart.pages.ui.patient.model import ArmView, Choice, question_key
from midchart.pages.ui.results import kit
from midchart.pages.ui.shared import marks
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import token
from midchart.pages.ui.state import cached

RUN, SAMPLE = "audit", "sample"
"""Parameters of the address: a run of kind audit, and the token of one of its questions."""
ADDED = {
    "foreign": "not in the chart",
    "other_patient": "another patient's",
    "changed": "the chart's, in other words",
}
"""Source of a part of a prompt → what it is called; parts of other sources are not named."""
MOST_PARTS = 200


@dataclass(frozen=True, slots=True)
class Marks:
    """What an audited system had of a chart for the question on the page."""

    prompt: AuditedPrompt

    @property
    def view(self) -> ArmView:
        """The audited system next to the arms: what it retrieved, and what was in its prompt."""
        one = self.prompt
        named = ArmView("audited", one.source, one.selection, one.prompt, one.answer)
        return replace(named, reader=one.source, cut_words="cut after retrieval")

    def section(self) -> None:
        """What the system's prompt holds that the chart does not have as it is there."""
        _added(self.prompt)


def address(run: str, instruction: str) -> dict[str, str]:
    """The part of page Patient's address that names a question of an audit."""
    return {RUN: run, SAMPLE: token(run, instruction)}


def marks_of(choice: Choice) -> Marks | None:
    """What the audited system had for the question on the page; None where the address names no
    audit, or one of another question."""
    name, sample = st.query_params.get(RUN, ""), st.query_params.get(SAMPLE, "")
    run = next((one for one in state.runs(("audit",)) if name and one["run"] == name), None)
    if run is None or run["status"] != "done":
        return None
    ids = [
        row["instruction"] for row in state.report(run)["tables"]["worst"]
        if row["record"] == choice.record.id and token(name, row["instruction"]) == sample
        and _asks(row["own_question"], row["question"], choice)
    ]  # fmt: skip
    try:
        return Marks(_prompt_of(choice, name, ids[0])) if ids else None
    except MidchartError as error:
        st.info(for_screen(str(error)))
        return None


@cached(
    lambda choice, run, instruction: (*question_key(choice), run, instruction),
    entries=24,
    spinner="Reading the audited system's prompt",
    shared=True,
)
def _prompt_of(choice: Choice, run: str, instruction: str) -> AuditedPrompt:
    return audited_prompt(run, instruction, choice.record, choice.protocol)


def _asks(own_question: str | None, question: str, choice: Choice) -> bool:
    """Whether a question of an audit is the page's: the cohort's own, or one with its words."""
    asked = choice.instruction
    return asked.id == own_question or asked.question.split() == question.split()


def _added(prompt: AuditedPrompt) -> None:
    """What the system's prompt holds that the chart does not have as it is there."""
    st.header("What else was in the system's prompt?", anchor=False)
    if prompt.problem:
        st.info(f"The prompt's text cannot be shown: {for_screen(prompt.problem)}")
        return
    parts = [(text, ADDED[source]) for text, source in prompt.passages if source in ADDED]
    parts += [
        (f"{prompt_words} (in the chart: {record_words})", "altered")
        for prompt_words, record_words in prompt.altered
    ]
    if not parts:
        st.caption("Nothing: all of it is the patient's record, or the system's own words.")
        return
    items = "".join(
        f"<li><b>{marks.for_screen(words, html=True)}</b>: "
        f"{marks.for_screen(text.strip(), html=True)}</li>"
        for text, words in parts[:MOST_PARTS]
    )
    st.html(marks.block(f'<ul class="mc-added">{items}</ul>'))
    if len(parts) > MOST_PARTS:
        st.caption(f"{len(parts) - MOST_PARTS:,} more parts are not shown.")


def open_chart(shown: kit.Shown, _: api.View, row: Mapping[str, Any]) -> None:
    """Open page Patient on the question of a row: the cohort's own, else as it was asked, with the
    marks of the audited system."""
    cohort = api.run_cohort(shown.run["run"])
    name, record = Path(cohort.path).name, row["record"]
    if row["own_question"]:
        asked = {"patient": token(name, record), "question": token(name, row["own_question"])}
    else:
        asked = controls.typed_address(name, cohort.records[record], row["question"])
    asked |= address(shown.run["run"], row["instruction"])
    navigation.on_click("patient", cohort=name, **asked)
