"""The paper's main claims (``claims.yaml``), each with the verdict of this installation's figures.

The rule: an effect whose 95 % interval is on the claimed side of 0 replicates, one whose interval
is on the other side does not, any other is not shown. A claim of equality replicates where the
interval is within the margin, and does not where it is outside. A gap with a p value is shown by
p ≤ .05; a range has no interval and is compared with the margin. An effect without an interval is
not shown. An interval that is not of paired figures is Zou and Donner's from those of the two,
taken as independent, which is the wider one where they are of the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from midchart.core.experiments.replication.comparison import ARMS, replication
from midchart.core.experiments.replication.paper import (
    KINDS,
    TABLES,
    Figures,
    ReportSource,
    Row,
    figures,
    other_runs,
    paper_rows,
    read_data,
)
from midchart.core.reference_tables import table_row
from midchart.core.results.comparison import paired
from midchart.core.results.report import counted_store, origin, report
from midchart.core.results.reviews import reviews_of, with_reviews
from midchart.core.results.tables import facts
from midchart.core.runs.directory import find_run
from midchart.core.runs.plan import Plan
from midchart.core.stats.intervals import Interval, square_and_add

ALPHA = 0.05
PROTOCOLS = ("published", "corrected")
REPLICATES, DOES_NOT, NOT_SHOWN = "replicates", "does not replicate", "not shown"
UNTESTED = "cannot be tested here"
NO_FIGURE = "no figure"
SIMULATED = "simulated answers"
"""Of a curve whose answers were generated with a declared effect of position."""
NO_INTERVAL = "no interval printed"
PRINTED = {REPLICATES: "shown", DOES_NOT: "contradicted"}
"""A verdict → whether the paper's own figures show its claim."""
Key = tuple[str, str, str]


@table_row
class ClaimSetting:
    """What a run has to be made of to test a claim; ``claims.yaml`` describes the fields."""

    kind: str
    cohort: str
    cohort_title: str
    command: str
    reader: str = ""
    reader_part: str = ""
    judge: str = ""

    def lacking(self, plan: Plan, judge: str) -> list[str]:
        """What keeps a run from testing a claim itself, ``judge`` being that of its figures."""
        cohort = plan.raw["cohort"]
        reasons: list[str] = []
        named = f"{cohort['data_use']['name']} {Path(cohort['path']).name}".lower()
        synthetic, format = cohort["data_use"]["synthetic"], cohort["format"]
        if synthetic or format != self.cohort or self.cohort_title.lower() not in named:
            reasons.append(f"{origin(plan)}, not {self.cohort_title}")
        readers = [entry.label for entry in plan.reader_entries if entry.name == self.reader]
        if self.reader and not any(self.reader_part in label for label in readers):
            of = f"{self.reader} {self.reader_part}".strip()
            reasons.append(f"read by {', '.join(plan.readers)}, not by {of}")
        judges = {entry.name for entry in plan.judge_entries if entry.label == judge}
        if self.judge and self.judge not in judges:
            reasons.append(f"judged by {judge or 'no judge'}, not by {self.judge}")
        return reasons


@table_row
class PaperClaim:
    """A claim of the paper; ``claims.yaml`` describes the fields."""

    states: str
    paper: str
    setting: str
    more: Key | None = None
    less: Key | None = None
    against: float | None = None
    claims: Literal["higher", "lower", "equal"] = "higher"
    margin: float = 0.0
    p: Key | None = None
    range: bool = False

    def effect(self, known: Figures, differences: Figures) -> Effect | None:
        """The effect by figures, None where one is missing; ``differences``: paired ones, by the
        table of ``more``, "A less B" and what both are of."""
        figure = known.get(self.more) if self.more else None
        if figure is None or self.more is None or figure[0] is None:
            return None
        value, low, high, n = figure
        if self.range:
            return None if low is None or high is None else Effect(high - low, n=n)
        if self.less is None:
            by = self.against or 0.0
            return Effect(value - by, *(end and end - by for end in (low, high)), n=n)
        other = known.get(self.less)
        if other is None or other[0] is None:
            return None
        if self.p:
            return Effect(value - other[0], n=n, p=known.get(self.p, (None,))[0])
        table, label, what = self.more
        direct = differences.get((table, f"{label} less {self.less[1]}", what))
        if direct is not None and what == self.less[2]:
            return Effect(*direct[:3], n=direct[3])
        if None in (low, high, *other[1:3]):
            return Effect(value - other[0], n=n)
        both = square_and_add(
            Interval(value, low, high, 0.95), Interval(other[0], other[1], other[2], 0.95)
        )
        ends = (both.low, both.high) if isfinite(both.high - both.low) else (None, None)
        return Effect(value - other[0], *ends, n=n)

    def verdict(self, effect: Effect | None) -> str:
        """The verdict of an effect by the rule."""
        if effect is None:
            return NO_FIGURE
        if self.range:
            return REPLICATES if effect.value <= self.margin else DOES_NOT
        sign = -1 if self.claims == "lower" else 1
        if self.p:
            shown = effect.p is not None and effect.p <= ALPHA and sign * effect.value > 0
            return REPLICATES if shown else NOT_SHOWN
        if effect.low is None or effect.high is None:
            return NOT_SHOWN
        if self.claims == "equal":
            if -self.margin <= effect.low and effect.high <= self.margin:
                return REPLICATES
            outside = effect.low > self.margin or effect.high < -self.margin
            return DOES_NOT if outside else NOT_SHOWN
        if min(sign * effect.low, sign * effect.high) > 0:
            return REPLICATES
        return DOES_NOT if max(sign * effect.low, sign * effect.high) < 0 else NOT_SHOWN


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference with its 95 % interval or p, and its n; None where not known."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    p: float | None = None


@table_row
class PaperClaims:
    """The content of ``claims.yaml``."""

    differences: dict[str, tuple[ReportSource, ...]]
    settings: dict[str, ClaimSetting]
    claims: dict[str, PaperClaim]


CLAIMS = read_data(PaperClaims, "claims.yaml")


def paper_runs(data: str | Path, reader: str) -> tuple[str | None, str | None, list[str]]:
    """The finished runs by which :func:`paper_claims` judges the claims on a cohort.

    Those of the published and of the corrected protocol with a reader (its label) alone, None where
    there is none, and the newest of a curve, of gates and of forecasts.
    """
    runs: Sequence[str | None] = replication(data, reader, ARMS)["runs"]
    others = [run["run"] for run in other_runs(data).values() if run]
    return runs[0], runs[-1], others


def paper_claims(
    published: str | None, corrected: str | None, judge: str, others: Sequence[str] = ()
) -> list[Row]:
    """The paper's main claims with the paper's effect, this installation's, and a verdict.

    Arguments as of :func:`midchart.core.experiments.replication.paper.paper_comparison`. A row
    each: ``claim``, ``states``, ``paper`` (where), ``cells`` (the paper's figures), ``claims`` (as
    in ``claims.yaml``), ``unit`` (of the figures), the ``paper_effect`` with ``_low``, ``_high``
    and ``_p``, and ``in_paper``, whether it shows the claim; the effects ``published`` and
    ``corrected`` with ``_low``, ``_high``, ``_p``, ``_n`` and ``_verdict``. ``direction``: the
    verdict of the runs on their text, the less favourable of both protocols. ``verdict``: that of
    runs on the paper's data by its models; "cannot be tested here" where there is none, with the
    reason (``why``) and what would test it (``test``).
    """
    # The paper's figures, and those of the runs by protocol and kind.
    by_key: dict[Key, Row] = {(r["table"], r["label"], r["what"]): r for r in paper_rows()}
    printed: Figures = {k: (r["value"], r["low"], r["high"], None) for k, r in by_key.items()}
    runs = {"published": published, "corrected": corrected}
    read = [(protocol, run) for protocol, run in runs.items() if run]
    for run in others:
        preset = find_run(run).plan().protocol.preset
        read.append(("published" if preset == "published" else "corrected", run))
    known: dict[tuple[str, str], tuple[Plan, Figures, Figures]] = {}
    simulated = {run for run in others if _is_simulated(run)}
    for protocol, run in read:
        plan = find_run(run).plan()
        known[protocol, plan.kind] = plan, figures(run, judge), _differences(run, judge)
    rows: list[Row] = []
    # One row a claim: its effect in the paper and under each protocol.
    for name, claim in CLAIMS.claims.items():
        setting = CLAIMS.settings[claim.setting]
        stated = claim.effect(printed, {})
        row: Row = {
            "claim": name,
            "states": claim.states,
            "paper": claim.paper,
            "cells": "; ".join(_cell(by_key[key]) for key in (claim.more, claim.less) if key),
            "claims": claim.claims if claim.more else "",
            "unit": by_key[claim.more]["unit"] if claim.more else "",
            **_columns("paper_effect", stated, ("low", "high", "p")),
            "in_paper": _printed(claim, stated),
        }
        on_text: list[str] = []
        on_paper: list[str] = []
        why: list[str] = []
        for protocol in PROTOCOLS:
            plan, of_run, pairs = known.get((protocol, setting.kind), (None, {}, {}))
            effect = claim.effect(of_run, pairs)
            verdict = claim.verdict(effect)
            if plan is not None and effect is not None and plan.raw["run"] in simulated:
                verdict = SIMULATED
            row |= _columns(protocol, effect, ("low", "high", "p", "n"))
            row[f"{protocol}_verdict"] = verdict
            if plan is not None and effect is not None:
                on_text.append(verdict)
                lacking = setting.lacking(plan, judge)
                if verdict == SIMULATED:
                    lacking.append("answers generated with a declared effect of position")
                why += lacking
                on_paper += [] if lacking else [verdict]
        # The weakest verdict counts.
        row["direction"] = _weakest(on_text) or NO_FIGURE
        row["verdict"] = _weakest(on_paper) or UNTESTED
        row["why"] = _why(claim, on_text, why) if not on_paper else ""
        row["test"] = f"{setting.cohort_title}: {setting.command}" if not on_paper else ""
        rows.append(row)
    return rows


def _is_simulated(run: str) -> bool:
    """Whether a curve is of simulated answers."""
    return find_run(run).plan().kind == "curve" and any(
        row["simulated"] for row in report(run)["tables"]["summary"]
    )


def _printed(claim: PaperClaim, effect: Effect | None) -> str:
    """Whether the paper's own figures show a claim."""
    if effect is not None and not claim.range and effect.low is None and effect.p is None:
        return NO_INTERVAL
    verdict = claim.verdict(effect)
    return PRINTED.get(verdict, verdict)


def _columns(name: str, effect: Effect | None, more: Sequence[str]) -> Row:
    row = {name: effect.value if effect else None}
    return row | {f"{name}_{of}": getattr(effect, of) if effect else None for of in more}


def _cell(row: Mapping[str, Any]) -> str:
    """A figure of the paper with the file that holds it."""
    table = TABLES[row["table"]]
    value = f"{100 * row['value']:.1f} %" if row["unit"] == "share" else f"{row['value']:g}"
    ends = ""
    if row["low"] is not None and row["unit"] == "share":
        ends = f" [{100 * row['low']:g}, {100 * row['high']:g}]"
    elif row["low"] is not None:
        ends = f" [{row['low']:g}, {row['high']:g}]"
    return f"{table.file}, {row['label']}, {row['what']}: {value}{ends}"


def _weakest(verdicts: Sequence[str]) -> str:
    """The least favourable verdict; "" of none."""
    order = (DOES_NOT, NOT_SHOWN, REPLICATES, SIMULATED)
    return min(verdicts, key=order.index) if verdicts else ""


def _why(claim: PaperClaim, on_text: Sequence[str], lacking: Iterable[str]) -> str:
    """Why a claim cannot be tested here."""
    if on_text:
        return "; ".join(dict.fromkeys(lacking))
    if claim.more is None:
        return "the paper prints no figure of it"
    return "no finished run has these figures"


def _differences(run: str, judge: str) -> Figures:
    """Paired differences of a run's figures, as :meth:`Claim.effect` takes them."""
    kind = find_run(run).plan().kind
    if kind == "answers":
        return _arms(run, judge)
    tables = report(run)["tables"]
    by_cell: Figures = {}
    for name, sources in CLAIMS.differences.items():
        for source in sources if KINDS[TABLES[name].ours] == kind else ():
            pairs = source.figures(tables[source.table], judge)
            by_cell |= {(name, *cell): pair for cell, pair in pairs.items() if pair[0] is not None}
    return by_cell


def _arms(run: str, judge: str) -> Figures:
    """Paired differences of two arms at all positions by the first reader, intervals by patient."""
    folder = find_run(run)
    plan, reviews = folder.plan(), reviews_of(folder)
    labels = {entry.label for entry in plan.arms}
    pairs = [
        (claim.more, claim.less[1])
        for claim in CLAIMS.claims.values()
        if claim.more
        and claim.less
        and claim.more[1] != claim.less[1]
        and claim.more[2] == claim.less[2] == "overall"
        and {claim.more[1], claim.less[1]} <= labels
        and TABLES[claim.more[0]].report[:1] == TABLES["stage2"].report
    ]
    store = counted_store(folder, plan)
    judged = with_reviews(plan, reviews, store)
    by_cell: Figures = {}
    with facts(store, judged, reviews.rows()) as ask:
        for baseline in dict.fromkeys(baseline for _, baseline in pairs):
            rows = {
                row["label"]: (row["difference"], row["patient_low"], row["patient_high"], row["n"])
                for row in paired(ask, judged, baseline)
                if (row["reader"], row["judge"]) == (plan.readers[0], judge) and row["n"]
            }
            by_cell |= {
                (more[0], f"{more[1]} less {baseline}", "overall"): rows[more[1]]
                for more, other in pairs
                if other == baseline and more[1] in rows
            }
    return by_cell
