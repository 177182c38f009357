"""Cached engine results shared by pages: cohorts, runs, reports.

Every cache key changes when its result changes (a cohort's key, a run's counts). The URL holds
opaque ids only: a cohort's folder, a run, an instruction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import cache, lru_cache, wraps
from importlib.metadata import entry_points
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.shared.pickers import known_in_url, pick_listed

Result = TypeVar("Result")
FINISHED = ("done", "crashed", "cancelled")
"""Statuses after which a run's files do not change."""
COMPARING = ("answers", "selection")
"""Kinds of run that compare arms."""


def cached(
    key: Callable[..., Any],
    *,
    entries: int = 8,
    spinner: str | bool = False,
    seconds: float | None = None,
    shared: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Cache a function under ``key(*arguments)``, a small hashable value.

    The arguments themselves are never hashed. At most ``entries`` results are cached, each for
    ``seconds`` (None: until the key changes). ``shared``: hand out the object itself, not a copy;
    nobody may change it. The function gets a ``clear`` method.
    """
    store = st.cache_resource if shared else st.cache_data

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        def stored(key: Any, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> Result:
            return function(*_arguments, **_named)

        # Streamlit identifies a cache by module and qualified name.
        stored.__module__, stored.__qualname__ = function.__module__, function.__qualname__

        @lru_cache(maxsize=1)
        def cache() -> Any:
            # Modules are imported before the server is there, which a cache needs.
            return store(max_entries=entries, ttl=seconds, show_spinner=spinner)(stored)

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Result:
            return cache()(key(*arguments, **named), arguments, named)

        call.clear = lambda: cache().clear()  # pyright: ignore[reportAttributeAccessIssue]
        return call

    return decorate


READING = "Reading a cohort's files (the first time, and after a change)"
_STEP_S = 0.3
"""Seconds between two steps of a bar."""


class ReadingBar:
    """A bar of how far a cohort's files and records are read; at the next step after a person has
    left the page, it ends that."""

    def __init__(self) -> None:
        self._outside = copy_context()  # Streamlit repeats what is shown in a cached function
        self._bar: Any = None
        self._what, self._begun, self._before, self._shown = "", 0.0, 0, 0.0

    def __call__(self, what: str, done: int, planned: int) -> None:
        """Show a step; the bar goes once all records are read."""
        now = time.monotonic()
        if what != self._what:
            self._what, self._begun, self._before = what, now, done
        if what == "records" and done == planned:
            if self._bar is not None:
                self._outside.run(self._bar.empty)
            self._bar = None
        elif now - self._shown > _STEP_S:
            self._shown = now
            read = done - self._before
            left = api.time_left(read, now - self._begun, planned - done) if planned else None
            counted = f": {done:,} of {planned:,}" * bool(planned) + api.about_left(left)
            words = f"Reading a cohort's {what}{counted}. Leaving the page that began it stops it."
            show = (st if self._bar is None else self._bar).progress
            self._bar = self._outside.run(show, done / max(planned, 1), words)


@cached(lambda: (), seconds=60, spinner=READING)
def _cohort_cards() -> list[api.CohortCard]:
    folder = f"{api.folders()['cohorts']}/"  # no message names it
    return [replace(card, problem=card.problem.replace(folder, "")) for card in api.cohorts()]


def cohorts() -> list[tuple[str, str, str]]:
    """Name, path and problem (empty where it opens) of each cohort, as when a page was last opened
    (:func:`forget_cohorts`)."""
    return [(card.name, card.path, card.problem) for card in _cohort_cards()]


def question_cohorts() -> list[str]:
    """Names of the cohorts with questions: those that open and hold no labels in their place."""
    return [card.name for card in _cohort_cards() if not card.problem and not card.forecasts]


def unasked() -> dict[str, str]:
    """Name → why, of cohorts without questions: what cannot be opened, or labels to forecast."""
    cards = [card for card in _cohort_cards() if card.problem or card.forecasts]
    return {card.name: card.problem or "it has labels to forecast, no questions" for card in cards}


def imported() -> list[str]:
    """Names of the cohorts that were imported from the page."""
    return [card.name for card in _cohort_cards() if card.imported]


@cached(lambda name: name, seconds=60, spinner=READING, shared=True)
def opened(name: str) -> tuple[str, api.Cohort]:
    """The cohort of a name, with its key in caches; its files are looked at every minute."""
    cohort = api.open_data(name)
    return api.cohort_key(cohort), cohort


def forget_cohorts() -> None:
    """Look at the cohorts, and at what was asked of them, again at the next call."""
    for known in (_cohort_cards, opened, answered_on):
        known.clear()  # pyright: ignore[reportFunctionMemberAccess]


def _check_key(path: str, validate: bool = False) -> tuple[Any, ...]:
    cohort = api.open_data(path)
    return api.cohort_key(cohort), validate, len(cohort.instructions), len(cohort.gold)


@cached(_check_key, spinner="Reading the cohort", shared=True)
def check(path: str, validate: bool = False) -> dict[str, Any]:
    """The result of ``midchart check`` on the cohort at ``path``."""
    return api.check(path, validate=validate)


def pick_cohort(
    label: str = "Cohort", *, forecasts: bool = False, captions: Mapping[str, str] | None = None
) -> str:
    """The cohort chosen on this page, in the URL by its folder name; ``captions``: name → what is
    said of it, where all are listed.

    The page stops, with one line, at an address of a cohort that is not here. With ``forecasts``,
    cohorts of labels to forecast are offered as well as those with questions.
    """
    if st.query_params.get("cohort", "") not in ("", *(card.name for card in _cohort_cards())):
        forget_cohorts()  # it may have been put in place since
    names = question_cohorts()
    if forecasts:
        names = [name for name, _, problem in cohorts() if not problem]
    present = {*names, st.session_state.get("cohort")}  # one that was just removed is no mistake
    known_in_url("cohort", present, "cohort for this page named", "page Data lists them.")
    return pick_listed(label, names, "cohort", captions)


@cached(lambda family: family, seconds=60)
def members(family: str) -> list[tuple[str, str, str]]:
    """Name, title and problem (empty where it is installed) of a family's components."""
    return [(card.name, card.title, card.problem) for card in api.members(family)]


def titles(family: str) -> dict[str, str]:
    """Name → title of a family's components."""
    return {name: title for name, title, _ in members(family)}


def installed(family: str) -> dict[str, str]:
    """:func:`titles` of those that are installed."""
    return {name: title for name, title, problem in members(family) if not problem}


@cached(lambda: (), seconds=60)
def installed_readers() -> dict[str, str]:
    """Name → title of the readers that answer on this machine, the default one first."""
    first = api.default_reader()
    return dict(sorted(installed("reader").items(), key=lambda reader: reader[0] != first))


@cached(lambda: (), seconds=60)
def installed_judges() -> list[str]:
    """The judges that are installed, the one that decides first."""
    names = list(installed("judge"))
    return sorted(names, key=lambda name: name != api.default_primary(names))


@cached(lambda: (), seconds=60)
def scored_arms() -> frozenset[str]:
    """The arms that score every sentence."""
    return frozenset(api.scored_arms())


@cached(lambda text, on="": (text, on), entries=16, seconds=20, spinner="Checking the spec")
def preflight(text: str, on: str = "") -> dict[str, Any]:
    """The preflight of a spec (TOML): its estimate, and the problems that prevent a start."""
    return api.preflight(text, on)


# Runs


@cached(lambda cohort: cohort.path, seconds=60)
def answered_on(cohort: api.Cohort) -> list[dict[str, Any]]:
    """The finished runs of kind answers on a cohort, newest first, as of the last minute."""
    path = api.listed_path(cohort)
    return [run for run in runs(("answers",)) if run["status"] == "done" and run["data"] == path]


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
    return (*counts, reviewed, *more)


def finished_key(*runs: str | None) -> tuple[Any, ...]:
    """A cache key of finished runs, by id: only their reviews may be new."""
    return tuple((run, run and api.review_mark(run)) for run in runs)


@cached(
    lambda key, function, *arguments: (key, function.__name__, arguments),
    entries=96,
    spinner="Reading the results",
)
def result(key: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """A function of the engine on hashable arguments, once for each ``key``, which changes with the
    runs that it reads (:func:`run_key`, :func:`finished_key`)."""
    return function(*arguments)


def of_run(run: dict[str, Any], function: Callable[..., Result], *arguments: Any) -> Result:
    """:func:`result` of a run's id and further arguments."""
    return result(run_key(run), function, run["run"], *arguments)


@cached(
    lambda cohort, function, *arguments: (api.cohort_key(cohort), function.__name__, arguments),
    entries=64,
    spinner="Reading the cohort",
)
def of_cohort(cohort: api.Cohort, function: Callable[..., Result], *arguments: Any) -> Result:
    """A function of a cohort and hashable arguments, once while the cohort's files are the same."""
    return function(cohort, *arguments)


def report(run: dict[str, Any]) -> dict[str, Any]:
    """A run's report."""
    return of_run(run, api.report)


@cached(lambda run: (run["run"], run["status"], run["done"], run["failed"]), entries=512)
def totals(run: dict[str, Any]) -> dict[str, Any]:
    """What a run came to (:func:`midchart.core.api.run_totals`); nothing before it has finished, or
    of damaged rows, which the run itself names."""
    with suppress(MidchartError):
        if run["status"] == "done":
            return api.run_totals(run["run"])
    return {}


def outcomes(run: dict[str, Any], reader: str, judge: str) -> pd.DataFrame:
    """A judge's verdicts (:func:`midchart.core.api.outcomes`)."""
    return pd.DataFrame(of_run(run, api.outcomes, reader, judge))


@cached(
    lambda run: (run["run"], api.cohort_key(api.run_cohort(run["run"]))),
    entries=2,
    spinner="Reading the cohort",
    shared=True,
)
def cohort_of(run: dict[str, Any]) -> api.Cohort:
    """The cohort whose questions a run asks, derived once while its files are unchanged."""
    return api.asked_of(run["run"])


# Extensions


def parts(page: str) -> list[Callable[..., Any]]:
    """The functions that installed packages add to a page: entry points of the group
    ``midchart.page_parts`` with the name of the page, or PAGE.PARAMETER, then only where the page's
    address has that parameter.

    ``data`` draws something for a cohort; ``patient`` gives what else had text of the chart for the
    question, with the attribute ``view``, drawn before the arms, and the method ``section``;
    ``results`` opens what is behind a row; ``review`` deals cards of a run and a reviewer.
    """
    names = {page, *(f"{page}.{parameter}" for parameter in st.query_params)}
    return [function for name, function in _page_parts() if name in names]


@cache
def _page_parts() -> tuple[tuple[str, Callable[..., Any]], ...]:
    points = entry_points(group="midchart.page_parts")
    return tuple((point.name, point.load()) for point in points)
