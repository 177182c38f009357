"""The paper's figures and claims, each with this installation's.

``paper.yaml`` maps the CSV files of ``data/published``, which hold the paper's tables by value, and
the reports of runs to the same figures. ``claims.csv`` holds the paper's main claims.

The rule of a claim: it holds where the 95 % interval of its effect is on the claimed side of 0,
does not where it is on the other side, and else is not shown. A claim of equality holds where the
interval is within the margin, and does not where it is outside. A gap with a p value is shown
by p ≤ .05; a range has no interval and is compared with the margin. An effect without an interval
is not shown. An interval that is not of paired figures is Zou and Donner's from those of the two,
taken as independent, which is the wider one where they are of the same questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import yaml
from pydantic import TypeAdapter

from midchart.core.access import CohortRef, RunRef, needs
from midchart.core.config import published_folder
from midchart.core.results.comparison import paired
from midchart.core.results.items import run_facts
from midchart.core.results.report import origin, report
from midchart.core.results.tables import read_published
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import Plan
from midchart.core.runs.status import status
from midchart.core.stats.intervals import Interval, square_and_add
from midchart.core.storage.rows import rows_of

Row = dict[str, Any]
Key = tuple[str, str, str]
"""Table of the paper, label, what, as :func:`paper_rows` names them."""
KINDS = {"Curve": "curve", "Gate": "gate", "Forecast": "forecast"}
"""Page → the kind of run behind it."""
PROTOCOLS = ("published", "corrected")
HOLDS, DOES_NOT, NOT_SHOWN = "holds", "does not hold", "not shown"
UNTESTED = "cannot be tested here"
SIMULATED = "simulated answers"
"""Of a curve whose answers were generated with a declared effect of position."""
NO_FIGURE = "no figure"
ATTENTIONS = {
    "softmax": "standard",
    "differential": "differential",
    "h2o": "h2o_keep50",
    "gated_differential": "qccs_differential",
}
"""Variant of a forecast → what the paper calls it."""


class Figure(NamedTuple):
    """A figure or an effect with its 95 % interval or p, and its n; None where not known."""

    value: Any
    low: float | None = None
    high: float | None = None
    n: int | None = None
    p: float | None = None


Figures = Mapping[Key, Figure]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper; ``paper.yaml`` describes its fields."""

    title: str
    source: str
    file: str
    paper: tuple[str, ...]
    report: tuple[str, ...] = ()
    ours: str = "runs"
    counts: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSetting:
    """What a run has to be made of to test a claim; ``paper.yaml`` describes its fields."""

    kind: str
    cohort: str
    cohort_title: str
    command: str
    reader: str = ""
    reader_part: str = ""
    judge: str = ""

    def lacking(self, plan: Plan, judge: str) -> list[str]:
        """What keeps a run from testing a claim itself, ``judge`` being that of its figures."""
        cohort, reasons = plan.raw["cohort"], list[str]()
        named = f"{cohort['data_use']['name']} {Path(cohort['path']).name}".lower()
        of_paper = cohort["format"] == self.cohort and self.cohort_title.lower() in named
        if cohort["data_use"]["synthetic"] or not of_paper:
            reasons.append(f"{origin(plan)}, not {self.cohort_title}")
        readers = [entry.label for entry in plan.reader_entries if entry.name == self.reader]
        if self.reader and not any(self.reader_part in label for label in readers):
            of = f"{self.reader} {self.reader_part}".strip()
            reasons.append(f"read by {', '.join(plan.readers)}, not by {of}")
        judges = {entry.label: entry.name for entry in plan.judge_entries}
        if self.judge and judges.get(judge) != self.judge:
            reasons.append(f"judged by {judge or 'no judge'}, not by {self.judge}")
        return reasons


_YAML = yaml.safe_load((Path(__file__).parent / "paper.yaml").read_text(encoding="utf-8"))
TABLES = TypeAdapter(dict[str, PaperTable]).validate_python(_YAML["tables"])
"""All tables of the paper with figures, in the order in which pages offer them."""
SETTINGS = TypeAdapter(dict[str, ClaimSetting]).validate_python(_YAML["settings"])


def paper_rows() -> list[Row]:
    """Every figure of every table: ``table`` (a key of TABLES), ``label``, ``what``, ``value`` with
    ``low`` and ``high`` where the paper gives them, and ``unit``: "share", "number", "n",
    "points"."""
    from pyarrow.csv import read_csv  # heavy, and not needed by who imports this

    with duckdb.connect() as db:
        for file in sorted(published_folder().glob("*.csv")):
            db.from_arrow(read_csv(file)).create_view(file.stem)
        return [
            {"table": name, "low": None, "high": None, "unit": "share"} | row
            for name, table in TABLES.items()
            for row in _rows(db, table.paper)
            if row["value"] is not None
        ]


def _rows(db: duckdb.DuckDBPyConnection, queries: Sequence[str], judge: str = "") -> Iterator[Row]:
    """The rows of queries of ``paper.yaml``, of those whose tables are there."""
    known = {name for (name,) in db.execute("SELECT view_name FROM duckdb_views()").fetchall()}
    for sql in queries:
        if known >= set(re.findall(r"(?:FROM|JOIN) (\w+)", sql)):
            result = db.execute(sql, {"judge": judge} if "$judge" in sql else None)
            yield from rows_of(result)


# This installation's figures


@needs("viewer", paths=("data",))
def other_runs(data: CohortRef) -> dict[str, Row | None]:
    """Page of :data:`KINDS` → the status of its newest finished run, None where there is none. A
    run on the cohort ``data`` goes before one on another."""
    done = [run for run in status() if run["status"] == "done"]
    done.sort(key=lambda run: Path(run["data"]) != Path(data))
    return {
        page: next((run for run in done if run["kind"] == kind), None)
        for page, kind in KINDS.items()
    }


def figures(run: str, judge: str) -> dict[Key, Figure]:
    """The figures of a finished run of answers, or of one of the kinds of :data:`KINDS`; of answers
    also the paired differences of arms that claims are about, as "A less B"."""
    from pyarrow import Table  # heavy, and not needed by who imports this

    plan, known = find_run(run).plan(), dict[Key, Figure]()
    tables = report(run)["tables"] | {
        "attentions": [{"variant": one, "name": name} for one, name in ATTENTIONS.items()]
    }
    if plan.kind == "answers" and plan.judges:
        less = {claim.less[1] for claim in claims() if claim.less}
        with run_facts(run) as (ask, people):
            baselines = [entry.label for entry in plan.arms if entry.label in less]
            pairs = [row for one in baselines for row in paired(ask, people, one)]
        tables["pairs"] = [row for row in pairs if row["reader"] == plan.readers[0]]
    with duckdb.connect() as db:
        for name, rows in tables.items():
            if rows:
                db.from_arrow(Table.from_pylist(rows)).create_view(name)
        for name, table in TABLES.items():
            if KINDS.get(table.ours, "answers") == plan.kind:
                for row in _rows(db, table.report, judge):
                    ends = row.get("low"), row.get("high")
                    figure = Figure(
                        row["value"], *((None, None) if None in ends else ends), row["n"]
                    )
                    known.setdefault((name, row["label"], row["what"]), figure)
    return known


def _of_protocols(
    published: str | None, corrected: str | None, others: Sequence[str]
) -> Iterator[tuple[str, str, Plan]]:
    """The protocol that each run counts for, its own, the run, and its plan."""
    for protocol, run in [*zip(PROTOCOLS, (published, corrected), strict=True)]:
        if run:
            yield protocol, run, find_run(run).plan()
    for run in others:
        plan = find_run(run).plan()
        yield PROTOCOLS[plan.protocol.preset != "published"], run, plan


@needs("viewer")
def paper_comparison(
    published: RunRef | None, corrected: RunRef | None, judge: str, others: Sequence[RunRef] = ()
) -> list[Row]:
    """The paper's rows, each with this installation's figures under either protocol.

    :func:`paper_rows` with ``published`` and ``corrected``, each with ``_low``, ``_high`` (by
    patient) and ``_n``; null where the run has no such arm, or is None. ``others``: runs of a
    curve, gate or forecast, for the tables of these; each counts for its own protocol.
    """
    known: dict[str, dict[Key, Figure]] = {name: {} for name in PROTOCOLS}
    for protocol, run, _ in _of_protocols(published, corrected, others):
        known[protocol] |= figures(run, judge)
    rows = paper_rows()
    for row in rows:
        for name, of_runs in known.items():
            figure = of_runs.get((row["table"], row["label"], row["what"]))
            row |= _columns(name, figure, ("low", "high", "n"))
    return rows


def _columns(name: str, figure: Figure | None, more: Sequence[str]) -> Row:
    row = {name: figure.value if figure else None}
    return row | {f"{name}_{of}": getattr(figure, of) if figure else None for of in more}


# The paper's claims


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A claim: what the paper ``states`` and where, the setting that tests it, and its effect.

    The effect is the figure ``more`` minus ``less``, or minus ``against``. ``claims``: "higher"
    (than 0), "lower", "equal" (within ``margin``, of shares and areas from 0 to 1), or "range": the
    distance of the ends of ``more`` is within the margin. ``p``: a figure that is the effect's p
    value, where it has no interval. A claim without ``more`` has no figure in the paper.
    """

    claim: str
    states: str
    paper: str
    setting: str
    claims: str = "higher"
    more: Key | None = None
    less: Key | None = None
    against: float = 0.0
    margin: float = 0.0
    p: Key | None = None

    def effect(self, known: Figures) -> Figure | None:
        """The effect by figures, None where one is missing; a paired difference "A less B" among
        them goes before that of two figures."""
        first = known.get(self.more) if self.more else None
        against = Figure(self.against, self.against, self.against)
        other = known.get(self.less) if self.less else against
        if self.more is None or first is None or other is None:
            return None
        value, low, high, n, _ = first
        if value is None or other.value is None:
            return None
        if self.claims == "range":
            return None if low is None or high is None else Figure(high - low, n=n)
        if self.p:
            p = known.get(self.p)
            return Figure(value - other.value, n=n, p=p.value if p else None)
        table, label, what = self.more
        if self.less and what == self.less[2]:
            direct = known.get((table, f"{label} less {self.less[1]}", what))
            if direct and direct.value is not None:
                return direct
        if low is None or high is None or other.low is None or other.high is None:
            return Figure(value - other.value, n=n)
        if self.less is None:
            return Figure(value - self.against, low - self.against, high - self.against, n)
        both = square_and_add(
            Interval(value, low, high), Interval(other.value, other.low, other.high)
        )
        if isnan(both.high - both.low):
            return Figure(value - other.value, n=n)
        return Figure(value - other.value, both.low, both.high, n)

    def verdict(self, effect: Figure | None) -> str:
        """The verdict of an effect by the rule."""
        if effect is None:
            return NO_FIGURE
        if self.claims == "range":
            return HOLDS if effect.value <= self.margin else DOES_NOT
        sign = -1 if self.claims == "lower" else 1
        if self.p:
            shown = effect.p is not None and effect.p <= 0.05 and sign * effect.value > 0
            return HOLDS if shown else NOT_SHOWN
        if effect.low is None or effect.high is None:
            return NOT_SHOWN
        low, high = sorted((sign * effect.low, sign * effect.high))
        holds, fails = low > 0, high < 0
        if self.claims == "equal":
            holds = -self.margin <= low and high <= self.margin
            fails = low > self.margin or high < -self.margin
        return HOLDS if holds else DOES_NOT if fails else NOT_SHOWN

    def in_paper(self, effect: Figure | None) -> str:
        """Whether the paper's own figures show it."""
        if effect and self.claims != "range" and effect.low is None and effect.p is None:
            return "no interval printed"
        verdict = self.verdict(effect)
        return {HOLDS: "shown", DOES_NOT: "contradicted"}.get(verdict, verdict)


@cache
def claims() -> tuple[PaperClaim, ...]:
    """The paper's main claims (``claims.csv``)."""
    lines = [{k: cell for k, cell in one.items() if cell} for one in read_published("claims.csv")]
    keys = ("more", "less", "p")
    cells = [
        line | {name: line[name].split(" | ") for name in keys if name in line} for line in lines
    ]
    return TypeAdapter(tuple[PaperClaim, ...]).validate_python(cells)


@needs("viewer")
def paper_claims(
    published: RunRef | None, corrected: RunRef | None, judge: str, others: Sequence[RunRef] = ()
) -> list[Row]:
    """The paper's main claims with the paper's effect, this installation's, and a verdict.

    Arguments as of :func:`paper_comparison`. ``in_paper``: whether the paper's own figures show it.
    ``direction``: the verdict of the runs on their text, the less favourable of both protocols.
    ``verdict``: that of runs on the paper's data by its models; "cannot be tested here" where there
    is none, with the reason (``why``) and what would test it (``test``).
    """
    by_key: dict[Key, Row] = {(r["table"], r["label"], r["what"]): r for r in paper_rows()}
    printed = {key: Figure(row["value"], row["low"], row["high"]) for key, row in by_key.items()}
    runs = {
        (protocol, plan.kind): (plan, figures(run, judge), _is_simulated(run, plan))
        for protocol, run, plan in _of_protocols(published, corrected, others)
    }
    rows: list[Row] = []
    for claim in claims():
        setting, stated = SETTINGS[claim.setting], claim.effect(printed)
        row: Row = {
            **{name: getattr(claim, name) for name in ("claim", "states", "paper")},
            "cells": "; ".join(_cell(by_key[key]) for key in (claim.more, claim.less) if key),
            "claims": claim.claims if claim.more else "",
            "unit": by_key[claim.more]["unit"] if claim.more else "",
            **_columns("paper_effect", stated, ("low", "high", "p")),
            "in_paper": claim.in_paper(stated),
        }
        on_text, on_paper, why = list[str](), list[str](), list[str]()
        for protocol in PROTOCOLS:
            plan, known, simulated = runs.get((protocol, setting.kind), (None, {}, False))
            effect = claim.effect(known)
            verdict = claim.verdict(effect)
            if plan and effect:
                lacking = setting.lacking(plan, judge)
                if simulated:
                    verdict = SIMULATED
                    lacking.append("answers generated with a declared effect of position")
                on_text.append(verdict)
                on_paper += [] if lacking else [verdict]
                why += lacking
            row |= _columns(protocol, effect, ("low", "high", "p", "n"))
            row[f"{protocol}_verdict"] = verdict
        if not on_text:
            missing = "no finished run has these figures" if claim.more else ""
            why = [missing or "the paper prints no figure of it"]
        least = (DOES_NOT, NOT_SHOWN, HOLDS, SIMULATED).index
        row["direction"] = min(on_text, key=least, default=NO_FIGURE)
        row["verdict"] = min(on_paper, key=least, default=UNTESTED)
        row["why"] = "" if on_paper else "; ".join(dict.fromkeys(why))
        row["test"] = "" if on_paper else f"{setting.cohort_title}: {setting.command}"
        rows.append(row)
    return rows


def _is_simulated(run: str, plan: Plan) -> bool:
    """Whether a run is a curve of simulated answers."""
    return plan.kind == "curve" and any(r["simulated"] for r in report(run)["tables"]["summary"])


def _cell(row: Row) -> str:
    """A figure of the paper with the file that holds it."""
    times, unit = (100, " %") if row["unit"] == "share" else (1, "")
    value = f"{times * row['value']:.1f}{unit}" if unit else f"{row['value']:g}"
    ends = "" if row["low"] is None else f" [{times * row['low']:g}, {times * row['high']:g}]"
    return f"{TABLES[row['table']].file}, {row['label']}, {row['what']}: {value}{ends}"


@needs("viewer")
def findings() -> list[dict[str, str]]:
    """What contradicts the paper: its released outcomes, re-analysed, and its own figures; a row
    each, as text, with its sources."""
    return read_published("findings.csv")
