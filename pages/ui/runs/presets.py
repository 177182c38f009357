"""Preset runs: their specs in docs/, and the button that starts one from any page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import messages
from midchart.pages.ui.shared.marks import for_screen

DOCS = navigation.FOLDER.parent / "docs"
FIRST = "first.toml"


def spec(file: str, cohort: str = "", name: str = "") -> dict[str, Any]:
    """A preset of docs/, on a cohort and under a name, with the installed ones of its arms."""
    preset = api.read_toml((DOCS / file).read_text(encoding="utf-8"))
    if cohort:
        if preset.get("data") != cohort:
            preset.pop("tasks", None)  # those of the preset's own cohort
        preset |= {"data": api.open_data(cohort).path, "name": name}
    if "arms" in preset:
        installed = state.installed("arm")
        preset["arms"] = [
            arm
            for arm in preset["arms"]
            if (arm if isinstance(arm, str) else arm["name"]) in installed
        ]
    return preset


@dataclass(frozen=True)
class Offer:
    """The preset run of a kind, as its page of results offers it: what its button is called, and
    what the page says where there is no run yet; ``cohorts``: the cohort to run it on, chosen."""

    kind: str
    file: str
    label: str
    title: str
    about: str
    cohorts: Callable[[], str]

    def spec(self, cohort: str) -> dict[str, Any]:
        """The run on a cohort."""
        return spec(self.file, cohort, f"{self.kind} on {cohort}")

    def start(self) -> None:
        """The cohort and the button."""
        if cohort := self.cohorts():
            button(self.spec(cohort), self.label, self.kind, file=self.file)

    def empty(self) -> None:
        """The empty state, with the button."""
        with messages.empty(self.title, self.about):
            self.start()


def button(
    run_spec: Mapping[str, Any], label: str, key: str, file: str = "", on: str = ""
) -> dict[str, Any] | None:
    """A button that queues a run and opens it in the list, above it what the run will do, or what
    prevents it; gives its estimate.

    ``file``: the spec in docs/, for the command that does the same; ``on``: where it is done.
    """
    try:
        preflight = state.preflight(api.write_toml(run_spec), on)
    except MidchartError as error:  # it names a file that the person may not
        st.warning(for_screen(str(error)), title="The run cannot start yet")
        return None
    problems, estimate = list(preflight["problems"]), preflight["estimate"]
    trains = run_spec["kind"] in ("gate", "forecast")
    if trains and not api.open_data(run_spec["data"]).manifest.training_allowed:
        problems.insert(0, "This cohort's data-use tag does not allow training on it.")
    if problem := sign_in.lacking(api.enqueue):
        problems.insert(0, problem)
    if estimate is not None:
        leaves = _egress(estimate["leaves"])
        words = f"**Leaves this machine:** {for_screen(leaves)}." if leaves else STAYS
        asked = ""  # a forecast asks no question
        if estimate["instructions"]:
            patients = api.counted(estimate["records"], "patient")
            asked = f"**{api.counted(estimate['instructions'], 'question')} of {patients}.** "
        st.markdown(f"{asked}{time_text(estimate)} {words} It can be cancelled and resumed.")
    if problems:
        items = "".join(f"\n- {for_screen(problem)}" for problem in problems)
        st.warning(items, title="The run cannot start yet")
    panel.button(
        label, f"start_{key}", api.enqueue,
        lambda: navigation.on_click("runs", run=api.enqueue(run_spec, on)),
        problem=problems[0] if problems else "", refused="The run could not be started",
        type="primary", icon=":material/play_arrow:",
    )  # fmt: skip
    if file:
        st.code(f"midchart run docs/{file}", language=None, wrap_lines=True)
    return estimate


STAYS = "Nothing leaves this machine."


def _egress(leaves: dict[str, Any] | None) -> str:
    """What would leave this machine, and where it would go; "" for nothing."""
    if leaves is None:
        return ""
    secured = "encrypted" if leaves["encrypted"] else "not encrypted"
    return (
        f"{leaves['what']}, of {leaves['records']:,} patients and {leaves['questions']:,} "
        f"questions, to {', '.join(leaves['hosts'])} ({secured})"
    )


def time_text(estimate: Mapping[str, Any]) -> str:
    """How long a run will take and how that is known, in a sentence."""
    time = estimate["time"]
    if time["seconds"] is None:
        return "Time: unknown until one such run has finished."
    low, high = map(api.duration, time["seconds"])
    return f"About {low if low == high else f'{low} to {high}'}, from {time['basis']}."
