"""Preset runs: their specs in docs/, and the button that starts one from any page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import messages
from midchart.pages.ui.shared.marks import duration, for_screen

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
        installed = {name for name, _, problem in state.members("arm") if not problem}
        preset["arms"] = [
            arm
            for arm in preset["arms"]
            if (arm if isinstance(arm, str) else arm["name"]) in installed
        ]
    return preset


def demo(cohort: str, key: str) -> None:
    """The button of the first comparison: a few arms on a few questions, all offline."""
    preset = spec(FIRST, cohort, f"first comparison on {cohort}")
    questions = min(preset["limit"], len(api.open_data(cohort).instructions))
    reader = api.title("reader", preset["readers"][0])
    about = f"{len(preset['arms'])} arms on {questions} questions, read by {for_screen(reader)}."
    button(preset, f"Compare {len(preset['arms'])} arms on {questions} questions", key, about)


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
        """The empty state, with the included runs and the button."""
        with messages.empty(self.title, self.about):
            included(self.kind)
            self.start()


def included(*kinds: str, folder: str = "") -> None:
    """The finished runs of these kinds, each alone, or of a ``folder`` together, that are part of
    Midchart and not opened yet: buttons that open them read-only."""
    present = {run["run"] for run in state.runs()}
    shipped = [run for kind in kinds or ("",) for run in api.shipped_runs(kind)]
    offered = [run for run in shipped if run["folder"] == folder and run["run"] not in present]
    for run in offered[:1] if folder else offered:
        several = folder and len(offered) > 1
        what = f"{len(offered)} finished runs are" if several else "A finished run is"
        st.write(f"{what} included as an example, made by:")
        st.code(run["command"], language=None, wrap_lines=True)
        action = (api.open_examples, folder) if folder else (api.open_shipped, run["run"])
        panel.button(
            f"Open {len(offered)} runs" if several else "Open run", f"open_{run['run']}",
            api.open_shipped, *action, refused="The run cannot be opened",
            icon=":material/folder_open:",
        )  # fmt: skip


def button(
    run_spec: dict[str, Any],
    label: str,
    key: str,
    about: str = "",
    primary: bool = True,
    file: str = "",
) -> None:
    """A button that queues a run; under it what the run will do, or what prevents it.

    ``file``: the spec in docs/, for the command that does the same.
    """
    preflight = state.preflight(api.write_toml(run_spec))
    problems = list(preflight["problems"])
    if problem := sign_in.lacking(api.enqueue):
        problems.insert(0, problem)
    trains = run_spec["kind"] in ("gate", "forecast")
    if trains and not api.open_data(run_spec["data"]).manifest.training_allowed:
        problems.insert(0, "This cohort's data-use tag does not allow training on it.")
    if any(
        # A kind that makes its records itself names no data.
        state.active(run) and run["data"] == run_spec.get("data", run["data"])
        for run in state.runs((run_spec["kind"],))
    ):
        where = " on this cohort" if "data" in run_spec else ""
        problems.insert(0, f"A run like this{where} is already running.")
    panel.button(
        label, f"start_{key}", api.enqueue, api.enqueue, run_spec,
        problem=problems[0] if problems else "", refused="The run could not be started",
        type="primary" if primary else "secondary", icon=":material/play_arrow:",
    )  # fmt: skip
    if problems:
        st.caption(" ".join(for_screen(problem) for problem in problems))
    else:
        estimate = preflight["estimate"] or {"time": {"seconds": None}, "leaves": "unknown"}
        local = "Nothing leaves this machine." if estimate["leaves"] is None else ""
        parts = (about, time_text(estimate), "It can be cancelled and resumed.", local)
        st.caption(" ".join(filter(None, parts)))
    if file:
        st.code(f"midchart run docs/{file}", language=None, wrap_lines=True)


def time_text(estimate: Mapping[str, Any]) -> str:
    """How long a run will take and how that is known, in a sentence."""
    time = estimate["time"]
    if time["seconds"] is None:
        return "Time: unknown until one such run has finished."
    low, high = map(duration, time["seconds"])
    return f"About {low if low == high else f'{low} to {high}'}, from {time['basis']}."
