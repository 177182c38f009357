"""How evidence was located, and how often locating it by its text is wrong: one table of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.runs.plan import Plan
from core.runs.rows import LOCATION
from core.runs.tables import Table
from core.stats.intervals import wilson_interval
from core.storage.rows import RowStore

WRONG = {
    "text_event": "located by text: on another event",
    "text_decile": "located by text: in another decile",
    "text_zone": "located by text: middle taken for edge, or edge for middle",
}


def location_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Counts over questions with evidence, each as columns (:data:`core.runs.rows.LOCATION`).

    A row a ``measure``: ``count`` of ``n``, their share and its Wilson interval. What does not
    apply is left out: errors are there where the source gives exact spans.
    """
    known = [row for row in rows if row["text_located"] is not None]
    placed = [row for row in known if row["text_located"]]
    scored = [row for row in rows if row["location_score"] is not None]
    measures = [
        (
            "pieces of evidence not in the record",
            sum(row["evidence_unlocated"] for row in rows),
            sum(row["evidence_pieces"] for row in rows),
        ),
        (
            "questions located at several places alike",
            sum(row["location_candidates"] > 1 for row in scored),
            len(scored),
        ),
        ("questions whose source gives exact spans", len(known), len(rows)),
        ("located by text: not found", len(known) - len(placed), len(known)),
        *(
            (words, sum(not row[name] for row in placed), len(placed))
            for name, words in WRONG.items()
        ),
    ]
    return [_row(measure, count, n) for measure, count, n in measures if n]


def _row(measure: str, count: int, n: int) -> dict[str, Any]:
    share = wilson_interval(count, n)
    return {
        "measure": measure,
        "count": count,
        "n": n,
        "share": share.estimate,
        "wilson_low": share.low,
        "wilson_high": share.high,
    }


def run_locations(store: RowStore, plan: Plan, table: str) -> Table:
    """The table of a run, by the position that it goes by; ``table``: the one of its rows that
    holds a row for each question and arm."""
    first = ", ".join(f"any_value({name}) AS {name}" for name in LOCATION)
    rows = store.select(
        table,
        f"instruction, {first}",
        f"({store.counted}) AND evidence_pieces > 0 GROUP BY instruction",
    )
    return [{"position": plan.protocol.position, **row} for row in location_table(rows)]
