"""Pickers of runs, titled by time, name and status, in the URL by their id alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import figures
from midchart.pages.ui.shared.pickers import pick_linked, pick_several

WIDTH = 620
"""Room for a day, a name and a status on one line."""
Run = dict[str, Any]
RESULTS = {
    "answers": "arms",
    "selection": "arms",
    "gate": "gate",
    "curve": "curve",
    "needles": "curve",
    "forecast": "forecast",
    "inhibition": "inhibition",
}
"""The page of a kind's results; others have the page Results."""


def results_of(run: Run) -> tuple[str, dict[str, str]]:
    """The page of a run's results with its address: of a question set that is listed with its
    cohort, page Questions with that set."""
    of_run = {"run": str(run["run"])}
    asked = api.asked_questions(run["run"]) if run["kind"] == "answers" else ()
    cohort = next((name for name, path, _ in state.cohorts() if path == run["data"]), "")
    if asked and cohort in state.question_cohorts():
        sets = [one.id for one in api.question_sets(cohort) if one.questions == asked]
        if sets or run["imported"]:
            id = sets[0] if sets else str(run["run"])
            return "questions", {"cohort": cohort, "set": id, **of_run}
    return RESULTS.get(run["kind"], "results"), of_run


def pick_run(label: str = "Run", kinds: tuple[str, ...] = state.COMPARING) -> Run | None:
    """The run chosen on this page, newest by default; None where there is none."""
    known = {run["run"]: run for run in state.runs(kinds)}
    if not known:
        return None
    title = titles(known.values()).__getitem__
    return known[pick_linked("run", label, list(known), title, key="run", width=WIDTH)]


def pick_runs(label: str, known: Mapping[str, Run], help: str) -> list[str]:
    """Several of the ``known`` runs, by their ids in the order of choosing."""
    title = titles(known.values()).__getitem__
    return pick_several("runs", label, list(known), title, key="runs", help=help, wrap=True)


def opened(kinds: tuple[str, ...], key: str) -> tuple[Run, dict[str, Any]]:
    """The run chosen on a page of results and its report, with a line on the run's status.

    There must be a run of these kinds. A message says that a running one is partial; one
    that stopped before its end can be resumed.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        run = pick_run(kinds=kinds)
        assert run is not None, "the page shows its empty state where there is no run"
        with st.popover("Methods", icon=":material/description:", help="The sentences for a paper"):
            st.code(state.methods(run), language=None, wrap_lines=True)
    report = state.report(run)
    panel.line(run, report)
    figures.set_source(run, report, run["run"] in state.included())
    if state.active(run):
        st.info("This run is running: results are partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        panel.resume(run, key)
    return run, report


def titles(runs: Iterable[Run]) -> dict[str, str]:
    """Title of each run: time, name, status; and its id where two would be the same.

    The time is first: a narrow screen cuts the end off, and runs often share their names.
    """
    parts = {run["run"]: (created(run), run["name"], status(run)) for run in runs}
    texts = {run: " · ".join(filter(None, values)) for run, values in parts.items()}
    shown = list(texts.values())
    return {
        run: text if shown.count(text) == 1 else f"{text} · {run}" for run, text in texts.items()
    }


def status(run: Run) -> str:
    """A run's status in a word or two."""
    if run["run"] in state.included():
        return "included with Midchart"
    return f"{run['status']}, imported" if run["imported"] else str(run["status"])


def created(run: Run) -> str:
    """When a run was made, to the minute, by the viewer's clock; "" where it is not known."""
    if not run["created"]:
        return ""
    try:
        zone = ZoneInfo(st.context.timezone or "UTC")
    except ZoneInfoNotFoundError:
        zone = ZoneInfo("UTC")
    return f"{datetime.fromisoformat(run['created']).astimezone(zone):%-d %b %Y %H:%M}"
