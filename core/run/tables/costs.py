"""What a run cost: tokens, seconds and US dollars of readers and judges, arm by arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.judges.model.options import book
from core.judges.model.purse import Purse
from core.run.plan import Plan
from core.run.tables.common import Table, entry_columns
from core.store import Ask

SUMS = ("prompt_tokens", "read_tokens", "reused_tokens", "output_tokens", "seconds", "cost_usd")
"""What is added up, where the rows say it; null where none does."""


def _sums(columns: set[str]) -> str:
    parts = [f"sum({name}) AS {name}" if name in columns else f"NULL AS {name}" for name in SUMS]
    return ", ".join(parts)


def _columns(ask: Ask, table: str) -> set[str]:
    return {row["column_name"] for row in ask(f"DESCRIBE {table}")}


def costs(ask: Ask, plan: Plan) -> Table:
    """One row an arm entry × who was called: each reader, and each judge of its answers.

    ``n`` calls that came to something, ``failed`` that did not; sums over both, as far as the
    service told what a failed one used. A dollar figure is what the judge's or reader's own price
    list says; null where it has none. :func:`spent` tells what no row holds.
    """
    read = ask(
        "SELECT label, reader, NULL AS judge, count(*) FILTER (status = 'ok') AS n, "
        "count(*) FILTER (status = 'failed') AS failed, "
        f"{_sums(_columns(ask, 'answered'))} FROM answered GROUP BY ALL"
    )
    said = ask(
        "SELECT label, reader, judge, count(*) FILTER (status = 'ok') AS n, "
        "count(*) FILTER (status = 'failed') AS failed, "
        f"{_sums(_columns(ask, 'said'))} FROM said GROUP BY ALL"
    )
    found = {(row["label"], row["reader"], row["judge"]): row for row in (*read, *said)}
    rows: Table = []
    for entry in plan.arms:
        for reader in plan.readers:
            for judge in (None, *plan.judges):
                row = found.get((entry.label, reader, judge))
                if row is None:
                    continue
                sums: dict[str, Any] = {name: row[name] for name in SUMS}
                rows.append(
                    {
                        **entry_columns(entry),
                        "reader": reader,
                        "judge": judge,
                        "n": row["n"],
                        "failed": row["failed"],
                        **sums,
                        "seconds_each": sums["seconds"] / row["n"]
                        if row["n"] and sums["seconds"] is not None
                        else None,
                    }
                )
    return rows


def spent(ask: Ask, plan: Plan, folder: Path) -> Table:
    """What each judge that keeps a book spent in the run in ``folder``, resumes included.

    ``spent_usd``: what its book says. ``rows_usd``: what of it stands in rows (:func:`costs`).
    ``elsewhere_usd``: the rest, for calls that failed and were asked again, or whose worker died;
    one that may have been paid, which no service told, counts at its most. ``aside_usd``: set
    aside for calls that have not come back. Null dollars where the model's price is not known.
    """
    priced = "cost_usd" in _columns(ask, "said")
    told = ask("SELECT judge, sum(cost_usd) AS usd FROM said GROUP BY judge") if priced else []
    in_rows: dict[str, float | None] = {row["judge"]: row["usd"] for row in told}
    rows: Table = []
    for entry in plan.judge_entries:
        file = book(folder, entry.label)
        if file is None or not file.exists():
            continue
        purse, here = Purse(file), in_rows.get(entry.label)
        known = here is not None or purse.spent > 0 or purse.aside > 0
        rows.append(
            {
                "judge": entry.label,
                "spent_usd": purse.spent if known else None,
                "rows_usd": (here or 0.0) if known else None,
                "elsewhere_usd": round(purse.spent - (here or 0.0), 9) if known else None,
                "aside_usd": purse.aside if known else None,
            }
        )
    return rows
