"""Cached engine results shared by pages: cohorts, runs, reports.

Every cache key changes when its result changes (a cohort's key, a run's counts). The URL holds
opaque ids only: a cohort's folder, a run, an instruction.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui.shared.cache import cached
from midchart.pages.ui.shared.pickers import known_in_url, pick_listed

FINISHED = ("done", "crashed", "cancelled")
"""Statuses after which a run's files do not change."""
COMPARING = ("answers", "selection")
"""Kinds of run that compare arms."""


def _folders(*names: str) -> tuple[str, ...]:
    """The data folders with these names (default: all), as part of a cache key."""
    folders = api.folders()
    return tuple(folders[name] for name in names or folders)


@cached(lambda: _folders("cohorts"), seconds=5)
def _cohort_cards() -> list[api.CohortCard]:
    return api.cohorts()


def cohorts() -> list[tuple[str, str, str]]:
    """Name, path and problem (empty where it opens) of each cohort; new folders show in seconds."""
    return [(card.name, card.path, _without_folder(card.problem)) for card in _cohort_cards()]


def _without_folder(problem: str) -> str:
    """A message about a cohort without the path of the folder of cohorts."""
    return problem.replace(f"{api.folders()['cohorts']}/", "")


def question_cohorts() -> list[str]:
    """Names of the cohorts with questions: those that open and hold no labels in their place."""
    return [card.name for card in _cohort_cards() if not card.problem and not card.forecasts]


def unasked() -> dict[str, str]:
    """Name → why, of cohorts without questions: what cannot be opened, or labels to forecast."""
    cards = [card for card in _cohort_cards() if card.problem or card.forecasts]
    return {
        card.name: _without_folder(card.problem) or "it has labels to forecast, no questions"
        for card in cards
    }


def imported() -> list[str]:
    """Names of the cohorts that were imported from the page."""
    return [card.name for card in _cohort_cards() if card.imported]


def forget_cohorts() -> None:
    """Read the folder of cohorts again at the next call."""
    _cohort_cards.clear()  # pyright: ignore[reportFunctionMemberAccess]


def _check_key(path: str, validate: bool = False) -> tuple[Any, ...]:
    cohort = api.open_data(path)
    return api.cohort_key(cohort), validate, len(cohort.instructions), len(cohort.gold)


@cached(_check_key, spinner="Reading the cohort", shared=True)
def check(path: str, validate: bool = False) -> dict[str, Any]:
    """The result of ``midchart check`` on the cohort at ``path``."""
    return api.check(path, validate=validate)


def pick_cohort(label: str = "Cohort", *, forecasts: bool = False) -> str:
    """The cohort chosen on this page, in the URL by its folder name.

    The page stops, with one line, at an address of a cohort that is not here. With ``forecasts``,
    cohorts of labels to forecast are offered as well as those with questions.
    """
    names = question_cohorts()
    if forecasts:
        names = [name for name, _, problem in cohorts() if not problem]
    present = {*names, st.session_state.get("cohort")}  # one that was just removed is no mistake
    known_in_url("cohort", present, "cohort for this page named", "page Data lists them.")
    return pick_listed(label, names, "cohort")


@cached(lambda family: (family, *_folders("models")), seconds=60)
def members(family: str) -> list[tuple[str, str, str]]:
    """Name, title and problem (empty where it is installed) of a family's components."""
    return [(card.name, card.title, card.problem) for card in api.members(family)]


def installed_readers() -> dict[str, str]:
    """Name → title of the readers that answer on this machine, the default one first."""
    readers = {name: title for name, title, problem in members("reader") if not problem}
    first = api.default_reader()
    return dict(sorted(readers.items(), key=lambda reader: reader[0] != first))


@cached(
    lambda text, on="": (text, on, _folders()), entries=16, seconds=20, spinner="Checking the spec"
)
def preflight(text: str, on: str = "") -> dict[str, Any]:
    """The preflight of a spec (TOML): its estimate, and the problems that prevent a start."""
    return api.preflight(text, on)


# Runs


def runs(kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """All runs, newest first, or those of these kinds by :func:`leading`."""
    rows = api.status(None)
    return leading([run for run in rows if run["kind"] in kinds]) if kinds else rows


def leading(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs in the order in which a page of results offers them; ``rows``: newest first.

    The finished ones first, since a page opens the first: one that was cancelled, crashed or is
    running is opened by choice alone. Among each the runs of a group come last: a step of a
    replication is no latest result.
    """
    return sorted(rows, key=lambda run: (run["status"] != "done", bool(run["group"])))


@cached(lambda: (), seconds=60)
def included() -> dict[str, str]:
    """The runs that are part of Midchart, with the command that made each."""
    return {run["run"]: run["command"] for run in api.shipped_runs()}


def active(run: dict[str, Any]) -> bool:
    """Whether a run is queued or running."""
    return run["status"] not in FINISHED


@cache
def _reviewable() -> frozenset[str]:
    """Names of the kinds of run whose answers people judge, or whose cards they mark."""
    return frozenset(kind["name"] for kind in api.kinds() if kind["answers"] or kind["cards"])


def run_key(run: dict[str, Any], *more: Any) -> tuple[Any, ...]:
    """A cache key that changes with the run's rows, with its reviews and with ``more``."""
    counts = (run["run"], run["status"], run["planned"], run["done"], run["failed"])
    reviewed = api.review_mark(run["run"]) if run["kind"] in _reviewable() else ()
    return (*_folders("runs"), *counts, reviewed, *more)


def finished_key(*runs: str | None) -> tuple[Any, ...]:
    """A cache key of finished runs, by id: only their reviews may be new."""
    return (*_folders("runs"), *((run, run and api.review_mark(run)) for run in runs))


@cached(run_key, entries=16, spinner="Reading the results")
def report(run: dict[str, Any]) -> dict[str, Any]:
    """A run's report."""
    return api.report(run["run"])


@cached(run_key, spinner="Reading the answers")
def outcomes(run: dict[str, Any], reader: str, judge: str) -> pd.DataFrame:
    """A judge's verdicts (:func:`midchart.core.api.outcomes`)."""
    return pd.DataFrame(api.outcomes(run["run"], reader, judge))


@cached(run_key, entries=16, spinner="Comparing the arms")
def compared(run: dict[str, Any], baseline: str) -> dict[str, Any]:
    """A run's tables ``paired`` and ``detectable`` against an arm of choice, by its label."""
    return api.compared(run["run"], baseline)


@cached(
    lambda run: (run["run"], api.cohort_key(api.run_cohort(run["run"]))),
    entries=2,
    spinner="Reading the cohort",
    shared=True,
)
def cohort_of(run: dict[str, Any]) -> api.Cohort:
    """The cohort whose questions a run asks, derived once while its files are unchanged."""
    return api.asked_of(run["run"])


@cached(lambda chosen: tuple(map(run_key, chosen)), spinner="Comparing the runs")
def compare_runs(chosen: list[dict[str, Any]]) -> dict[str, Any]:
    """Differences between runs, the first as the baseline."""
    return api.compare_runs(tuple(run["run"] for run in chosen))


@cached(lambda baseline, run: (run_key(baseline), run_key(run)))
def changed_questions(baseline: dict[str, Any], run: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions whose outcome differs between two runs."""
    return api.changed_questions(baseline["run"], run["run"])


@cached(run_key, spinner="Reading the models' scores")
def held_out(run: dict[str, Any], task: str, seed: int | None) -> Any:
    """The held-out sequences of a forecast run's task; seed None: the first it has."""
    return api.forecast_sequences(run["run"], task, seed)


@cached(run_key, entries=32, spinner="Computing attention of this sequence")
def attended(run: dict[str, Any], task: str, index: int, seed: int) -> Any:
    """The attention of a forecast run's models of a seed on one held-out sequence."""
    return api.attention_map(run["run"], task, index, seed)


# Replication


@cached(
    lambda runs, label, judge: (finished_key(*runs), label, judge),
    entries=16,
    spinner="Pairing the steps",
)
def waterfall(runs: list[str], label: str, judge: str) -> list[dict[str, Any]]:
    """The waterfall of finished runs."""
    return api.waterfall(runs, label, judge)


def _paper_key(
    published: str | None, corrected: str | None, judge: str, others: tuple[str, ...] = ()
) -> tuple[Any, ...]:
    return finished_key(published, corrected, *others), judge


@cached(_paper_key)
def paper_comparison(
    published: str | None, corrected: str | None, judge: str, others: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """The paper's rows and those of two finished runs, and of others of other kinds."""
    return api.paper_comparison(published, corrected, judge, others)


@cached(_paper_key)
def paper_claims(
    published: str | None, corrected: str | None, judge: str, others: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """The paper's claims with the verdicts of the same runs."""
    return api.paper_claims(published, corrected, judge, others)


@cached(lambda published, corrected: finished_key(published, corrected))
def protocols_compared(published: str, corrected: str) -> list[dict[str, Any]]:
    """The corrected run against the published one: a row an arm, reader and judge."""
    return api.compare_runs((published, corrected))["results"]


@cached(
    lambda corrected, runs, label, judge: (
        finished_key(corrected, *runs.values()),
        tuple(runs),
        label,
        judge,
    ),
    entries=16,
    spinner="Pairing each fault with the corrected run",
)
def faults_alone(
    corrected: str, runs: dict[str, str | None], label: str, judge: str
) -> list[dict[str, Any]]:
    """The effect of each fault alone, from finished runs."""
    return api.faults_alone(corrected, runs, label, judge)
