"""The primary judge of a run among its judges, and the verdicts that are made of two judges' rows.

A run that has the judges ``exact`` and ``token_overlap`` has the verdicts of
:mod:`midchart.core.judges.exact_else_overlap` too, whether or not its spec names that judge: for
each answer the row of the one that decides. Nothing is written for them, so older runs have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from midchart.core.judges.exact import IN_ORDER
from midchart.core.runs.plan import COMPOSITE, EXACT, OVERLAP, ComponentSpec, Plan
from midchart.core.runs.schemas import COUNTS
from midchart.core.storage.rows import RowStore, literal

_WITHOUT_VALUE = f"coalesce(without_value, raw = {literal(IN_ORDER)})"
WITHHELD = (
    "this run was exported without its judges' words, so that exact values alone decide: which "
    "references hold a value is not known"
)


def with_primary(plan: Plan, store: RowStore) -> Plan:
    """The plan with its primary judge first, added where it is made of two others.

    Where the rows do not say which of the two decides (:data:`WITHHELD`), ``exact`` is first.
    """
    primary, entries = plan.primary_judge, plan.judge_entries
    if primary == COMPOSITE and COMPOSITE not in plan.judges:
        if withheld(plan, store):
            primary = EXACT
        else:
            entries = (ComponentSpec(COMPOSITE, label=COMPOSITE), *entries)
    ordered = sorted(entries, key=lambda entry: entry.label != primary)
    return replace(plan, judge_entries=tuple(ordered), named_primary=primary)


def withheld(plan: Plan, store: RowStore) -> bool:
    """Whether the primary judge is made of two others, and the rows do not say which decides."""
    if plan.primary_judge != COMPOSITE or COMPOSITE in plan.judges:
        return False
    judged = f"judge = {literal(EXACT)} AND outcome <> 'failed'"
    columns = f"count(*) AS n, count({_WITHOUT_VALUE}) AS known"
    (row,) = store.select("verdicts", columns, judged)
    return bool(row["n"] and not row["known"])


def verdict_source(store: RowStore, judges: Sequence[str]) -> str:
    """SQL of a run's verdicts, with those of the judge made of two where ``judges`` have it.

    Where the exact judge found no value in the reference, the row is token overlap's.
    """
    rows = store.source("verdicts")
    if not {COMPOSITE, EXACT, OVERLAP} <= set(judges):
        return rows
    exact = f"FROM {rows} WHERE judge = {literal(EXACT)} AND {COUNTS}"
    undecided = f"(outcome <> 'failed' AND {_WITHOUT_VALUE})"
    taken = f"SELECT * REPLACE ({literal(COMPOSITE)} AS judge)"
    return (
        f"(SELECT * FROM {rows} WHERE judge <> {literal(COMPOSITE)} "
        f"UNION ALL {taken} {exact} AND NOT {undecided} "
        f"UNION ALL {taken} FROM {rows} WHERE judge = {literal(OVERLAP)} AND {COUNTS} "
        f"AND answer_key IN (SELECT answer_key {exact} AND {undecided}))"
    )
