"""Pickers of runs, titled by time, name and status, in the URL by their id alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.shared.pickers import known_in_url, pick_linked

WIDTH = 620
"""Room for a day, a name and a status on one line."""
LISTED = "page Runs lists those that are here."
Run = dict[str, Any]
RESULTS = {
    "answers": "arms",
    "selection": "arms",
    "gate": "gate",
    "curve": "curve",
    "needles": "curve",
    "forecast": "forecast",
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
    """The run chosen on this page, newest by default; None where there is none.

    The page stops at an address of a run that is not here or of another kind.
    """
    known = {run["run"]: run for run in state.runs(kinds)}
    if not known:
        return None
    known_in_url("run", known, "run for this page named", LISTED)
    return known[pick_linked("run", label, titles(known.values()), width=WIDTH)]


def names(runs: Iterable[Run]) -> dict[str, str]:
    """Name of each run; of those that share one, the later ones are numbered."""
    known: dict[str, str] = {}
    times = Counter[str]()
    for run in sorted(runs, key=lambda run: run["run"]):
        times[run["name"]] += 1
        number = f" ({times[run['name']]})" if times[run["name"]] > 1 else ""
        known[run["run"]] = f"{run['name']}{number}"
    return known


def titles(runs: Iterable[Run]) -> dict[str, str]:
    """Title of each run: time, name, state and origin; the time first, as a narrow screen cuts the
    end off."""
    runs = list(runs)
    known = names(runs)
    parts = ((r["run"], (created(r), known[r["run"]], r["status"], origin(r))) for r in runs)
    return {run: " · ".join(filter(None, words)) for run, words in parts}


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
