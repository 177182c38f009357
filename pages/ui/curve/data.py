"""What the Curve page asks of the engine, kept while the cohort's files and choices are the same.

Every key is a cohort's content key and the names of options; nothing big is hashed. A curve is a
few dozen rows, so many of them fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from core import api

Options = tuple[tuple[str, Any], ...]
MOST = 64
"""Curves kept at once: all groups and scores of a few cohorts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a curve is of: names of options, a group by its own value ("" is all answers), and the
    least score of a location in hundredths (0 leaves nothing out)."""

    score: str
    position: str
    bins: int
    snippets: str
    by: str
    value: str = ""
    least: int = 0

    @property
    def options(self) -> Options:
        """Score, position, bins, snippets and least score as the engine takes them."""
        return (
            ("score", self.score),
            ("position", self.position),
            ("bins", self.bins),
            ("snippets", self.snippets),
            ("least_score", self.least / 100),
        )

    @property
    def group(self) -> Options:
        """The group whose curve is drawn large."""
        return (("stratum", self.by), ("value", self.value)) if self.value else ()

    @property
    def stem(self) -> str:
        """What the names of files that are taken along begin with."""
        parts = (self.score, self.position, str(self.bins))
        more = ["all-pieces"] * (self.snippets == "all") + [f"from-{self.least}"] * bool(self.least)
        return "-".join([*parts, *more])


@dataclass(frozen=True)
class Tables:
    """The engine's tables as frames: ``curve`` and ``summary`` say of every row whether its
    answers are simulated. ``text`` is the verdict of the first curve; ``failures`` are groups
    without a curve, each with the reason."""

    curve: pd.DataFrame
    summary: pd.DataFrame
    failures: pd.DataFrame
    text: str = ""

    @property
    def simulated(self) -> bool:
        """Whether any answer in here was made up."""
        return len(self.summary) > 0 and bool(self.summary["simulated"].any())


@st.cache_data(max_entries=MOST, show_spinner="Computing intervals and the null distribution")
def _curve(key: str, options: Options, _cohort: api.Cohort) -> dict[str, Any]:
    return api.curve(_cohort, **dict(options))


@st.cache_data(max_entries=MOST, show_spinner="Looking up the questions")
def _questions(key: str, bin: int, options: Options, _cohort: api.Cohort) -> pd.DataFrame:
    return pd.DataFrame(api.curve_bin(_cohort, bin, **dict(options)))


@st.cache_data(max_entries=8, show_spinner="Locating the evidence of every question")
def choices(key: str, _cohort: api.Cohort) -> dict[str, Any]:
    """What a curve of the cohort can be about."""
    return api.curve_choices(_cohort)


@st.cache_data(max_entries=8, show_spinner="Locating the evidence of every question by its text")
def locations(key: str, position: str, _cohort: api.Cohort) -> list[dict[str, Any]]:
    """How the evidence was located, and how often that is wrong where the truth is known."""
    return api.curve_locations(_cohort, position)


@st.cache_data(max_entries=1, show_spinner=False)
def published() -> pd.DataFrame:
    """The paper's curve."""
    return pd.DataFrame(api.published_curve())


def one(key: str, cohort: api.Cohort, choice: Choice) -> Tables:
    """The curve of all answers, or of one group where the choice names it."""
    return _tables(_curve(key, choice.options + choice.group, cohort))


def groups(key: str, cohort: api.Cohort, choice: Choice) -> Tables:
    """The curves of every group of the choice's stratum."""
    return _tables(_curve(key, (*choice.options, ("stratum", choice.by)), cohort))


def questions(key: str, cohort: api.Cohort, choice: Choice, bin: int) -> pd.DataFrame:
    """The answers behind a point: one row an answer (and piece of evidence)."""
    return _questions(key, bin, choice.options + choice.group, cohort)


def _tables(held: dict[str, Any]) -> Tables:
    curve, summary = pd.DataFrame(held["curve"]), pd.DataFrame(held["summary"])
    if len(curve):
        simulated = summary.set_index("value")["simulated"]
        curve["simulated"] = curve["value"].map(simulated)
    texts = held["verdict"] or [{"text": ""}]
    return Tables(curve, summary, pd.DataFrame(held["failures"]), texts[0]["text"])
