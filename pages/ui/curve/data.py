"""Cached engine results of the Curve page, keyed on the cohort's content and the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from midchart.core import api
from midchart.pages.ui.shared.cache import cached

CURVES = 64
"""Curves cached at once: all groups and scores of a few cohorts, a few dozen rows each."""


@dataclass(frozen=True, slots=True)
class PickedCurve:
    """What a curve is of: names of options, a group by its value ("" is all answers), and the
    least location score in hundredths (0 leaves nothing out)."""

    score: str
    position: str
    bins: int
    snippets: str
    by: str
    value: str = ""
    least: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The options as the engine takes them, without the group."""
        names = ("score", "position", "bins", "snippets")
        return {name: getattr(self, name) for name in names} | {"least_score": self.least / 100}

    @property
    def group(self) -> dict[str, str]:
        """The engine's options of the group."""
        return {"stratum": self.by, "value": self.value} if self.value else {}

    @property
    def stem(self) -> str:
        """How the names of downloads begin."""
        parts = [self.score, self.position, str(self.bins)]
        parts += ["all-pieces"] * (self.snippets == "all")
        parts += [f"from-{self.least}"] * bool(self.least)
        return "-".join(parts)


@dataclass(frozen=True)
class Tables:
    """The engine's tables as frames: every row of ``curve`` and ``summary`` says whether its
    answers are simulated. ``text`` is the verdict of the first curve; ``failures`` are groups
    without a curve, each with the reason."""

    curve: pd.DataFrame
    summary: pd.DataFrame
    failures: pd.DataFrame
    text: str = ""

    @property
    def simulated(self) -> bool:
        """Whether any answer is simulated."""
        return len(self.summary) > 0 and bool(self.summary["simulated"].any())


def key_of(key: str, cohort: api.Cohort, *options: Any) -> tuple[Any, ...]:
    """A cache key of a result on a cohort: its content key and the options."""
    return (key, *options)


@cached(key_of, entries=CURVES, spinner="Computing intervals and the null distribution")
def one(key: str, cohort: api.Cohort, choice: PickedCurve) -> Tables:
    """The curve of all answers, or of one group where the choice names it."""
    return _tables(api.curve(cohort, **choice.options, **choice.group))


@cached(key_of, entries=CURVES, spinner="Computing intervals and the null distribution")
def groups(key: str, cohort: api.Cohort, choice: PickedCurve) -> Tables:
    """The curves of every group of the choice's stratum."""
    return _tables(api.curve(cohort, **choice.options, stratum=choice.by))


@cached(key_of, entries=CURVES, spinner="Looking up the questions")
def questions(key: str, cohort: api.Cohort, choice: PickedCurve, bin: int | None) -> pd.DataFrame:
    """The answers behind a point, or all (None): one row per answer (and piece of evidence)."""
    return pd.DataFrame(api.curve_bin(cohort, bin, **choice.options, **choice.group))


@cached(key_of, spinner="Locating the evidence of every question")
def choices(key: str, cohort: api.Cohort) -> dict[str, Any]:
    """What a curve of the cohort can be about."""
    return api.curve_choices(cohort)


@cached(key_of, spinner="Locating the evidence of every question by its text")
def locations(key: str, cohort: api.Cohort, position: str) -> list[dict[str, Any]]:
    """How the evidence was located, and the error rate where the exact spans are known."""
    return api.curve_locations(cohort, position)


@cached(lambda: "", entries=1)
def published() -> pd.DataFrame:
    """The paper's curve."""
    return pd.DataFrame(api.published_curve())


def _tables(tables: dict[str, Any]) -> Tables:
    curve, summary = pd.DataFrame(tables["curve"]), pd.DataFrame(tables["summary"])
    if len(curve):
        curve["simulated"] = curve["value"].map(summary.set_index("value")["simulated"])
    text = tables["verdict"][0]["text"] if tables["verdict"] else ""
    return Tables(curve, summary, pd.DataFrame(tables["failures"]), text)
