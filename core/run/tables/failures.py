"""What failed and why; and of the answers judged wrong, how they are wrong, with examples by key.

No table holds text: an example is the key of an answer's row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from core.judges.failure import FAILURE_KINDS
from core.run.plan import Plan
from core.run.tables.common import Table, cells, entry_columns, literal
from core.run.tables.counting import share_ends
from core.stats import wilson_interval
from core.store import Ask, RowStore

EXAMPLES = 3
"""Keys of answers named a kind."""


def failures(store: RowStore, plan: Plan) -> Table:
    """How often each reason made an item fail."""
    rows: Table = []
    for table in store.schemas:
        judged = "reader, judge" if table == "verdicts" else "NULL AS judge"
        columns = f"'{table}' AS stage, arm, k, label, {judged}, reason, count(*) AS count"
        rows += store.select(table, columns, "status = 'failed' GROUP BY ALL")
    order = {entry.label: i for i, entry in enumerate(plan.arms)}
    return sorted(
        rows,
        key=lambda row: (row["stage"], order[row["label"]], -row["count"], row["reason"] or ""),
    )


def failure_kinds(ask: Ask, plan: Plan) -> Table:
    """Answers judged wrong by kind (rules: :mod:`core.judges.failure`): count, share, examples.

    ``n`` is the number judged wrong whose kind is known; kinds that do not occur have no row.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = defaultdict(dict)
    total: Counter[tuple[str, str, str]] = Counter()
    for row in ask(
        "SELECT label, reader, judge, failure_kind, count(*) AS count, "
        f"arg_min(answer_key, answer_key, {EXAMPLES}) AS examples "
        "FROM judged WHERE correct = false AND failure_kind IS NOT NULL GROUP BY ALL"
    ):
        cell = (row["label"], row["reader"], row["judge"])
        found[cell][row["failure_kind"]] = row
        total[cell] += row["count"]
    where = "correct = false AND failure_kind IS NOT NULL"
    ends = {
        kind: share_ends(ask, f"failure_kind = {literal(kind)}", where)
        for kind in {kind for kinds in found.values() for kind in kinds}
    }
    rows: Table = []
    for entry, reader, judge in cells(plan):
        cell = (entry.label, reader, judge)
        for kind in FAILURE_KINDS:
            row = found[cell].get(kind)
            if row is None:
                continue
            share = wilson_interval(row["count"], total[cell])
            low, high = ends[kind].get((*cell, "")) or (None, None)
            rows.append(
                {
                    **entry_columns(entry),
                    "reader": reader,
                    "judge": judge,
                    "kind": kind,
                    "count": row["count"],
                    "n": total[cell],
                    "share": share.estimate,
                    "patient_low": low,
                    "patient_high": high,
                    "wilson_low": share.low,
                    "wilson_high": share.high,
                    "examples": " ".join(row["examples"]),
                }
            )
    return rows
