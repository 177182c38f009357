"""Accuracy of each arm entry × reader × judge: by band, by kind of question, by k; refusals apart.

PROTOCOL, Stage 2: judging. Every share stands with its number and its intervals.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from core.run.entries import ArmEntry
from core.run.evidence import UNLOCATED
from core.run.plan import Plan
from core.run.tables.common import ALL_BANDS, Table, cells, entry_columns, intervals
from core.run.tables.counting import NOTHING, Cell, Counts, counted, share, share_ends, tally
from core.store import Ask

LOCATED = f"band <> '{UNLOCATED}'"
STRATA = {"task_type": ("R", "Rn", "S"), "domain": ()}
"""What questions are told apart by, and the order of its values where it has one of its own."""


def _row(entry: ArmEntry, reader: str, judge: str, count: Counts, **stratum: str) -> dict[str, Any]:
    return {
        **entry_columns(entry),
        "reader": reader,
        "judge": judge,
        **stratum,
        **share(count),
        "refusals": count["refusals"],
        "unparsed": count["unparsed"],
        "failed": count["failed"],
    }


def by_band(ask: Ask) -> dict[Cell, Counts]:
    """Counts in every band, "middle", "edge" and "overall"; unlocated ones under their own name."""
    return {
        **counted(ask, "band"),
        **counted(ask, "CASE WHEN middle THEN 'middle' ELSE 'edge' END", LOCATED),
        **counted(ask, "'overall'"),
    }


def accuracy(plan: Plan, bands: dict[Cell, Counts]) -> Table:
    """One row each arm entry × reader × judge × band; accuracy is null where n is 0.

    ``ci`` is the percentile bootstrap, which reproduces the paper's intervals; the others are
    told in :func:`core.run.tables.counting.share`.
    """
    rows: Table = []
    for entry, reader, judge in cells(plan):
        for band in ALL_BANDS:
            count = bands.get((entry.label, reader, judge, band), NOTHING)
            row = _row(entry, reader, judge, count, band=band)
            name = ("accuracy", entry.label, reader, judge, band)
            drawn = intervals(row["correct"], row["n"], plan, *name)
            rows.append(row | {"ci_low": drawn["ci_low"], "ci_high": drawn["ci_high"]})
    return rows


def unlocated(plan: Plan, bands: dict[Cell, Counts]) -> Table:
    """Accuracy where the evidence was not found in the record; such rows count in overall."""
    found = ((cell, bands.get((cell[0].label, *cell[1:], UNLOCATED))) for cell in cells(plan))
    return [_row(*cell, count, band=UNLOCATED) for cell, count in found if count]


def by_stratum(ask: Ask, plan: Plan, column: str) -> Table:
    """Accuracy by a column of the questions (:data:`STRATA`); none where they do not say it."""
    found = counted(ask, column)
    order = {value: place for place, value in enumerate(STRATA[column])}
    values = sorted({cell[3] for cell in found}, key=lambda v: (order.get(v, len(order)), v))
    return [
        _row(*cell, found[cell[0].label, *cell[1:], value], **{column: value})
        for cell in cells(plan)
        for value in values
        if (cell[0].label, *cell[1:], value) in found
    ]


def k_sweep(plan: Plan, rows: Table) -> Table:
    """The rows of ``accuracy`` that differ in k alone: overall, middle and edge, k ascending."""
    families: dict[str, list[ArmEntry]] = defaultdict(list)
    for entry in plan.arms:
        same = (entry.name, entry.recency, entry.tokens, sorted(entry.options.items()))
        families[repr(same)].append(entry)
    swept = [
        entry.label
        for family in families.values()
        if len({entry.k for entry in family}) > 1
        for entry in sorted(family, key=lambda entry: entry.k)
    ]
    place = {label: i for i, label in enumerate(swept)}
    wanted = [r for r in rows if r["label"] in place and r["band"] in ("overall", "middle", "edge")]
    return sorted(wanted, key=lambda r: place[r["label"]])


def refusals(ask: Ask, plan: Plan) -> Table:
    """Answered and refused apart: how often each, how often right, how often refusing was right.

    A refusal is right by the record where the evidence was not in the prompt
    (``refused_without_evidence``), whatever the judge says of it; ``refused_correct`` is what the
    judge counts as right. Both ``answered`` and ``refused`` count judged answers alone; intervals
    are by patient.
    """
    found = tally(
        ask,
        "CASE WHEN NOT refusal THEN 'answered' WHEN evidence_in_prompt THEN 'seen' "
        "WHEN NOT evidence_in_prompt THEN 'blind' ELSE 'unknown' END",
        "correct IS NOT NULL",
    )
    refused_ends = share_ends(ask, "refusal", "correct IS NOT NULL")
    right_ends = share_ends(ask, "correct", "correct IS NOT NULL AND NOT refusal")
    rows: Table = []
    for entry, reader, judge in cells(plan):
        cell = (entry.label, reader, judge)
        gave = found.get((*cell, "answered"), NOTHING)
        refused = {of: found.get((*cell, of), NOTHING) for of in ("seen", "blind", "unknown")}
        not_given = sum(count["n"] for count in refused.values())
        n = gave["n"] + not_given
        low, high = refused_ends.get((*cell, "")) or (None, None)
        right_low, right_high = right_ends.get((*cell, "")) or (None, None)
        rows.append(
            {
                **entry_columns(entry),
                "reader": reader,
                "judge": judge,
                "n": n,
                "refused": not_given,
                "refused_share": not_given / n if n else None,
                "refused_low": low,
                "refused_high": high,
                "refused_correct": sum(count["correct"] for count in refused.values()),
                "refused_with_evidence": refused["seen"]["n"],
                "refused_without_evidence": refused["blind"]["n"],
                "answered": gave["n"],
                "answered_correct": gave["correct"],
                "answered_accuracy": gave["correct"] / gave["n"] if gave["n"] else None,
                "answered_low": right_low,
                "answered_high": right_high,
            }
        )
    return rows
