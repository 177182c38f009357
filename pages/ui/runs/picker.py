"""Pickers of runs, titled by time, name and status, in the URL by their id alone."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import figures
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import pick_linked

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
"""The page of a kind's results."""


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
    return RESULTS[run["kind"]], of_run


def pick_run(label: str = "Run", kinds: tuple[str, ...] = state.COMPARING) -> Run | None:
    """The run chosen on this page, newest by default; None where there is none.

    The page stops at an address of a run that is not here or of another kind.
    """
    known = {run["run"]: run for run in state.runs(kinds)}
    if not known:
        return None
    refuse_unknown(st.query_params.get_all("run"), known)
    title = titles(known.values()).__getitem__
    return known[pick_linked("run", label, list(known), title, key="run", width=WIDTH)]


def refuse_unknown(asked: Iterable[str], known: Container[str]) -> None:
    """Stop the page, with one line, at an address that asks for a run it does not know."""
    for run in asked:
        if run not in known:
            st.error(f"No run {plain(run)} for this page; choose one of the list on page Runs.")
            st.stop()


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
    """Title of each run: time, name, state, origin; and its id where two would be the same.

    The time is first: a narrow screen cuts the end off, and runs often share their names.
    """
    texts = {
        run["run"]: " · ".join(
            filter(None, (created(run), run["name"], str(run["status"]), origin(run)))
        )
        for run in runs
    }
    shown = list(texts.values())
    return {
        run: text if shown.count(text) == 1 else f"{text} · {run}" for run, text in texts.items()
    }


def origin(run: Run, before: str = "") -> str:
    """Where a run is from, after ``before``; "" for one of this installation."""
    if run["run"] in state.included():
        return f"{before}example"
    return f"{before}imported" if run["imported"] else ""


def created(run: Run) -> str:
    """When a run was made, to the minute, by the viewer's clock; "" where it is not known."""
    if not run["created"]:
        return ""
    try:
        zone = ZoneInfo(st.context.timezone or "UTC")
    except ZoneInfoNotFoundError:
        zone = ZoneInfo("UTC")
    return f"{datetime.fromisoformat(run['created']).astimezone(zone):%-d %b %Y %H:%M}"
