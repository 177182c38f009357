"""What pages remember between reruns: the only place with caches, and the pickers bound to the URL.

Everything is keyed on something that changes when the thing changes (a cohort's key, a run's
counts), never on a big frame. The URL holds opaque ids only: a cohort's folder, a run, an
instruction.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from core.errors import UnknownName

FINISHED = ("done", "crashed", "cancelled")
"""Statuses after which a run's files stand still."""


@st.cache_data(ttl="5s", max_entries=4, show_spinner=False)
def _cohorts(folder: str) -> list[tuple[str, str, str]]:
    return [(card.name, card.path, card.problem) for card in api.cohorts()]


def cohorts() -> list[tuple[str, str, str]]:
    """Name, path and problem (empty where it opens) of each cohort; new folders show in seconds."""
    return _cohorts(api.folders()["cohorts"])


@st.cache_data(ttl="5s", max_entries=4, show_spinner=False)
def _asking(folder: str) -> list[str]:
    return [card.name for card in api.cohorts() if not card.problem and not card.forecasts]


def asking() -> list[str]:
    """Names of the cohorts that can be asked questions: those that open, without those that hold
    labels to forecast in place of questions."""
    return _asking(api.folders()["cohorts"])


def forget_cohorts() -> None:
    """Look at the cohorts' folder afresh at the next call."""
    _cohorts.clear()
    _asking.clear()


@st.cache_data(max_entries=8, show_spinner="Reading the cohort")
def _check(key: str, path: str) -> dict[str, Any]:
    return api.check(path)


def check(path: str) -> dict[str, Any]:
    """What ``check`` says of the cohort at ``path``; read once while its files are unchanged."""
    return _check(api.cohort_key(api.open_data(path)), path)


COMPARING = ("answers", "selection")
"""Kinds of run that compare arms."""


def runs(kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """All runs (of these kinds), newest first; reads only their small status files."""
    return [run for run in api.status(None) if not kinds or run["kind"] in kinds]


def active(run: dict[str, Any]) -> bool:
    """Whether a run is at work."""
    return run["status"] not in FINISHED


@st.cache_data(max_entries=16, show_spinner="Reading the results")
def _report(run: str, mark: tuple[Any, ...]) -> dict[str, Any]:
    return api.report(run)


@st.cache_data(max_entries=8, show_spinner="Reading the answers")
def _outcomes(run: str, reader: str, judge: str, mark: tuple[Any, ...]) -> pd.DataFrame:
    columns = ["instruction", "record", "band", "task_type", "label", "outcome"]
    return pd.DataFrame(api.outcomes(run, reader, judge), columns=columns)


@st.cache_data(max_entries=16, show_spinner="Comparing the arms")
def _compared(run: str, baseline: str, mark: tuple[Any, ...]) -> dict[str, Any]:
    return api.compared(run, baseline)


@st.cache_data(max_entries=8, show_spinner="Comparing the judges")
def _disagreements(
    run: str, reader: str, first: str, second: str, mark: tuple[Any, ...]
) -> list[dict[str, Any]]:
    return api.disagreements(run, reader, first, second)


@st.cache_data(max_entries=8, show_spinner=False)
def _different(run: str, mark: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    return [(row["instruction"], row["reader"], row["judge"]) for row in api.different_only(run)]


@st.cache_data(ttl="10s", max_entries=2, show_spinner=False)
def _gate_cards(folder: str) -> list[dict[str, Any]]:
    return api.gate_cards()


def gate_cards() -> list[dict[str, Any]]:
    """The trained gates in the cache, newest first; a new one shows in seconds."""
    return _gate_cards(api.folders()["cache"])


@st.cache_data(ttl="20s", max_entries=16, show_spinner="Checking the spec")
def _consider(text: str, on: str, folders: tuple[str, ...]) -> dict[str, Any]:
    return api.consider(text, on)


def consider(text: str, on: str = "") -> dict[str, Any]:
    """What a spec will do and what stands against it; looked at afresh after some seconds."""
    return _consider(text, on, tuple(api.folders().values()))


@st.cache_data(max_entries=8, show_spinner="Comparing the runs")
def _compare_runs(runs: tuple[str, ...], marks: tuple[Any, ...]) -> dict[str, Any]:
    return api.compare_runs(runs)


def compare_runs(chosen: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs beside each other, the first as the baseline."""
    return _compare_runs(tuple(run["run"] for run in chosen), tuple(map(mark_of, chosen)))


def mark_of(run: dict[str, Any]) -> tuple[Any, ...]:
    """Changes whenever a run has something new to say."""
    folder = api.folders()["runs"]
    counts = (run["status"], run["planned"], run["done"], run["failed"])
    reviewed = api.review_mark(run["run"]) if run["kind"] in _reviewable() else ()
    return (folder, *counts, reviewed)


@cache
def _reviewable() -> frozenset[str]:
    """Names of the kinds of run whose answers people judge."""
    return frozenset(kind["name"] for kind in api.kinds() if kind["answers"])


def report(run: dict[str, Any]) -> dict[str, Any]:
    """A run's report, for one of :func:`runs`."""
    return _report(run["run"], mark_of(run))


@st.cache_resource(max_entries=2, show_spinner="Reading the cohort")
def _asked_of(run: str, key: str) -> api.Cohort:
    return api.asked_of(run)


def asked_of(run: dict[str, Any]) -> api.Cohort:
    """The cohort whose questions a run asks, made once while its files are unchanged."""
    return _asked_of(run["run"], api.cohort_key(api.open_data(run["data"])))


@st.cache_data(max_entries=8, show_spinner="Reading the models' scores")
def _held_out(run: str, task: str, seed: int | None, mark: tuple[Any, ...]) -> Any:
    return api.forecast_sequences(run, task, seed)


@st.cache_data(max_entries=32, show_spinner="Computing attention of this sequence")
def _attended(run: str, task: str, index: int, seed: int, mark: tuple[Any, ...]) -> Any:
    return api.attention_map(run, task, index, seed)


def held_out(run: dict[str, Any], task: str, seed: int | None) -> Any:
    """The held-out sequences of a forecast run's task; seed None: the first it has."""
    return _held_out(run["run"], task, seed, mark_of(run))


def attended(run: dict[str, Any], task: str, index: int, seed: int) -> Any:
    """What a forecast run's models of a seed gave the events of one held-out sequence."""
    return _attended(run["run"], task, index, seed, mark_of(run))


def outcomes(run: dict[str, Any], reader: str, judge: str) -> pd.DataFrame:
    """A judge's verdicts: instruction, record, band, task_type, label and outcome."""
    return _outcomes(run["run"], reader, judge, mark_of(run))


def compared(run: dict[str, Any], baseline: str) -> dict[str, Any]:
    """A run's tables ``paired`` and ``detectable`` against an arm of choice, by its label."""
    return _compared(run["run"], baseline, mark_of(run))


def disagreements(
    run: dict[str, Any], reader: str, first: str, second: str
) -> list[dict[str, Any]]:
    """The answers on which two judges part."""
    return _disagreements(run["run"], reader, first, second, mark_of(run))


def answered(run: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Which question and arm an answer's key stands for; None where it is gone."""
    try:
        return api.answer(run["run"], key)
    except UnknownName:
        return None


def different(run: dict[str, Any], reader: str, judge: str) -> set[str]:
    """Instructions on which the arms' outcomes differ for a reader and judge."""
    found = _different(run["run"], mark_of(run))
    return {i for i, r, j in found if (r, j) == (reader, judge)}


@st.cache_data(ttl="60s", max_entries=8, show_spinner=False)
def _members(family: str, models: str) -> list[tuple[str, str, str]]:
    return [(card.name, card.title, card.problem) for card in api.members(family)]


def members(family: str) -> list[tuple[str, str, str]]:
    """Name, title and problem (empty where it is here) of a family's members."""
    return _members(family, api.folders()["models"])


def pick_cohort(label: str = "Cohort", *, forecasts: bool = False) -> str:
    """The cohort chosen on this page, kept in the URL by its folder name.

    With ``forecasts``, cohorts of labels to forecast are offered as well as those with questions.
    """
    names = [name for name, _, problem in cohorts() if not problem] if forecasts else asking()
    return st.selectbox(label, names, key="cohort", bind="query-params", width=420)


def replication(cohort: str, reader: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """How far the replication with a reader on a cohort is; ``wanted``: the spec of a step."""
    path = api.open_data(cohort).path
    return api.replication(path, reader, wanted["arms"], wanted["judges"])


def _mark(*runs: str | None) -> tuple[Any, ...]:
    """Changes where runs lie elsewhere, or a person has judged one of these finished runs."""
    return (api.folders()["runs"], *(api.review_mark(run) for run in runs if run is not None))


@st.cache_data(max_entries=16, show_spinner="Pairing the steps")
def _waterfall(
    runs: tuple[str, ...], label: str, judge: str, mark: tuple[Any, ...]
) -> list[dict[str, Any]]:
    return api.waterfall(list(runs), label, judge)


def waterfall(runs: list[str], label: str, judge: str) -> list[dict[str, Any]]:
    """The waterfall of finished runs, in which only people's verdicts may be new."""
    return _waterfall(tuple(runs), label, judge, _mark(*runs))


@st.cache_data(max_entries=8, show_spinner=False)
def _beside(
    published: str | None,
    corrected: str | None,
    judge: str,
    others: tuple[str, ...],
    mark: tuple[Any, ...],
) -> list[dict[str, Any]]:
    return api.beside(published, corrected, judge, others)


def beside(
    published: str | None, corrected: str | None, judge: str, others: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """The paper's rows beside those of two finished runs, and of others of other kinds."""
    return _beside(published, corrected, judge, others, _mark(published, corrected, *others))


@st.cache_data(max_entries=16, show_spinner="Pairing each fault with the corrected run")
def _faults_alone(
    corrected: str,
    runs: tuple[tuple[str, str | None], ...],
    label: str,
    judge: str,
    mark: tuple[Any, ...],
) -> list[dict[str, Any]]:
    return api.faults_alone(corrected, dict(runs), label, judge)


def faults_alone(
    corrected: str, runs: dict[str, str | None], label: str, judge: str
) -> list[dict[str, Any]]:
    """What each fault does alone, from finished runs, where people's verdicts alone may be new."""
    mark = _mark(corrected, *runs.values())
    return _faults_alone(corrected, tuple(runs.items()), label, judge, mark)


def arms_and_judges(run: str) -> tuple[list[str], list[str]]:
    """Labels of a run's arms and judges."""
    return api.arms_and_judges(run)
