"""Accuracy given that the evidence was there: hit against miss, and prompts that lost something.

The sentences that were scored are the ones that were read, so a hit is a hit of the very prompt
(PROTOCOL, Stage 1). A published fault shows here: a prompt that lost its question, or an answer
judged against the text "nan", stands in a row of its own.
"""

from __future__ import annotations

from typing import Any

from core.run.plan import Plan
from core.run.tables.common import Table, cells, entry_columns
from core.run.tables.counting import NOTHING, counted, share, tally
from core.stats import newcombe_independent, wilson_interval
from core.store import Ask

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
    """What a hit is worth: accuracy given hit minus given miss, with Newcombe's interval.

    Of the rows of :func:`hit_miss`; null where one side has no answer. Questions with a hit are
    other questions than those without, so the difference is no effect of the hit alone.
    """
    table: Table = []
    for hit, miss in zip(rows[::2], rows[1::2], strict=True):
        both = hit["n"] and miss["n"]
        found = (
            newcombe_independent(hit["correct"], hit["n"], miss["correct"], miss["n"])
            if both
            else None
        )
        named = ("arm", "k", "label", "reader", "judge", "criterion")
        table.append(
            {
                **{name: hit[name] for name in named},
                "n_hit": hit["n"],
                "accuracy_hit": hit["accuracy"],
                "n_miss": miss["n"],
                "accuracy_miss": miss["accuracy"],
                "difference": found.estimate if found else None,
                "difference_low": found.low if found else None,
                "difference_high": found.high if found else None,
            }
        )
    return table


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
        carried = tally(ask, stratum, "failure_kind = 'continuation'")
        for entry, reader, judge in cells(plan):
            for where in ("struck", "spared"):
                cell = (entry.label, reader, judge, where)
                count = found.get(cell, NOTHING)
                more = carried.get(cell, NOTHING)["n"]
                rate = wilson_interval(more, count["n"]) if count["n"] else None
                row: dict[str, Any] = {
                    **entry_columns(entry),
                    "reader": reader,
                    "judge": judge,
                    "fault": fault,
                    "struck": where == "struck",
                    **share(count),
                    "continuations": more,
                    "continuation_share": rate.estimate if rate else None,
                    "continuation_low": rate.low if rate else None,
                    "continuation_high": rate.high if rate else None,
                }
                rows.append(row)
    return rows
