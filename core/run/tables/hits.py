"""Accuracy given that the evidence was there: hit against miss, and prompts that lost something.

The sentences that were scored are the ones that were read, so a hit is a hit of the very prompt
(PROTOCOL, Stage 1). A published fault shows here: a prompt that lost its question, or an answer
judged against the text "nan", stands in a row of its own.
"""

from __future__ import annotations

from typing import Any

from core.run.plan import Plan
from core.run.tables.common import Table, cells, entry_columns
from core.run.tables.counting import NOTHING, counted, share, share_ends, tally
from core.stats import Interval, difference_floor
from core.store import Ask

LEVEL = 0.95
CRITERIA = {
    "in prompt": "evidence_in_prompt",
    "evidence-id": "evidence",
    "lexical": "lexical",
    "semantic": "semantic",
}
"""Criterion of a hit → the column of an answer that says whether it was one."""
EVIDENCE = {"in prompt": ("in prompt", "not in prompt")}
"""Names of hit and miss where a criterion has names of its own."""


def hit_miss(ask: Ask, plan: Plan) -> Table:
    """Accuracy given hit and given miss, a row each, by every criterion the rows know."""
    rows: Table = []
    known = {row["column_name"] for row in ask("DESCRIBE judged")}
    for criterion, column in CRITERIA.items():
        if column not in known:
            continue
        found = counted(
            ask, f"CASE WHEN {column} THEN 'hit' ELSE 'miss' END", f"{column} IS NOT NULL"
        )
        if not found:
            continue
        hit, miss = EVIDENCE.get(criterion, ("hit", "miss"))
        for entry, reader, judge in cells(plan):
            for name, key in ((hit, "hit"), (miss, "miss")):
                cell = (entry.label, reader, judge, key)
                rows.append(
                    {
                        **entry_columns(entry),
                        "reader": reader,
                        "judge": judge,
                        "criterion": criterion,
                        "evidence": name,
                        "hit": key == "hit",
                        **share(found.get(cell, NOTHING)),
                    }
                )
    return rows


def hit_effect(rows: Table) -> Table:
    """What a hit is worth: accuracy given hit minus given miss, with an interval by patient.

    Of the rows of :func:`hit_miss`; the interval is square-and-add of theirs
    (:func:`core.stats.difference_floor`), null where one side has fewer than 5 patients. Questions
    with a hit are other questions than those without, so the difference is no effect of the hit
    alone.
    """
    table: Table = []
    for hit, miss in zip(rows[::2], rows[1::2], strict=True):
        both = bool(hit["n"] and miss["n"])
        known = None not in (hit["patient_low"], miss["patient_low"])
        found = difference_floor(*map(_interval, (hit, miss))) if known else None
        named = ("arm", "k", "label", "reader", "judge", "criterion")
        table.append(
            {
                **{name: hit[name] for name in named},
                "n_hit": hit["n"],
                "accuracy_hit": hit["accuracy"],
                "n_miss": miss["n"],
                "accuracy_miss": miss["accuracy"],
                "difference": hit["accuracy"] - miss["accuracy"] if both else None,
                "difference_low": found.low if found else None,
                "difference_high": found.high if found else None,
            }
        )
    return table


def _interval(row: dict[str, Any]) -> Interval:
    return Interval(row["accuracy"], row["patient_low"], row["patient_high"], LEVEL)


FAULTS = {
    "question cut off": ("NOT question_survived", "question_survived"),
    'judged on "nan"': ("nan_evidence", "NOT nan_evidence"),
}
"""A fault of a run → where it struck, and where it did not."""


def faults(ask: Ask, plan: Plan) -> Table:
    """Where a published fault struck, and where not: accuracy and how many answers carry on.

    Two rows an arm entry × reader × judge for each fault that struck at all; ``continuations``
    are answers that carry the record on instead of answering (:mod:`core.judges.failure`).
    """
    rows: Table = []
    for fault, (struck, spared) in FAULTS.items():
        stratum = f"CASE WHEN {struck} THEN 'struck' WHEN {spared} THEN 'spared' END"
        found = counted(ask, stratum)
        if not any(cell[3] == "struck" for cell in found):
            continue
        ends = share_ends(ask, "failure_kind = 'continuation'", "correct IS NOT NULL", stratum)
        carried = tally(ask, stratum, "failure_kind = 'continuation'")
        for entry, reader, judge in cells(plan):
            for where in ("struck", "spared"):
                cell = (entry.label, reader, judge, where)
                count = found.get(cell, NOTHING)
                more = carried.get(cell, NOTHING)["n"]
                low, high = ends.get(cell) or (None, None)
                row: dict[str, Any] = {
                    **entry_columns(entry),
                    "reader": reader,
                    "judge": judge,
                    "fault": fault,
                    "struck": where == "struck",
                    **share(count),
                    "continuations": more,
                    "continuation_share": more / count["n"] if count["n"] else None,
                    "continuation_low": low,
                    "continuation_high": high,
                }
                rows.append(row)
    return rows
