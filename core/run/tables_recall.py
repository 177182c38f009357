"""Tables of selections: recall by band (PROTOCOL, Stage 1), and what prompts cost and lost.

A selection is made once an arm entry and instruction, whatever reads it; with several readers it
stands in several rows and is counted once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from core.run.folder import Plan
from core.run.tables import ALL_BANDS, Table, bands_of, entry_columns, intervals
from core.store import RowStore

CRITERIA = (("lexical", "lexical"), ("evidence-id", "evidence"))
"""Criterion → the column that says whether it was met."""


def _table(plan: Plan) -> str:
    return "selections" if plan.kind == "selection" else "answers"


def recall(store: RowStore, plan: Plan) -> Table:
    """One row each arm entry × criterion × band.

    Lexical counts questions with a reference answer, evidence-id those whose evidence was
    located; a selection that failed counts in neither.
    """
    columns = "label, band, middle, lexical, evidence"
    rows = store.select(
        _table(plan),
        f"{columns}, count(DISTINCT instruction) AS n",
        f"selection IS NOT NULL GROUP BY {columns}",
    )
    asked: Counter[tuple[str, str, str]] = Counter()
    met: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for criterion, column in CRITERIA:
            if row[column] is None:
                continue
            for band in bands_of(row):
                asked[row["label"], criterion, band] += row["n"]
                met[row["label"], criterion, band] += row["n"] * row[column]
    table: Table = []
    for entry in plan.arms:
        for criterion, _ in CRITERIA:
            for band in ALL_BANDS:
                key = (entry.label, criterion, band)
                found = intervals(met[key], asked[key], plan, "recall", *key)
                table.append(
                    {
                        **entry_columns(entry),
                        "criterion": criterion,
                        "band": band,
                        "n": asked[key],
                        "hits": met[key],
                        "recall": found.pop("share"),
                        **found,
                    }
                )
    return table


def tokens(store: RowStore, plan: Plan) -> Table:
    """Means an arm entry (and reader): sentences, tokens, what packing cut, what survived."""
    own = (
        "count(*) AS n, avg(len(selection)) AS sentences, "
        "avg(selection_tokens) AS selection_tokens, avg(evidence_share) AS evidence_share, "
        "avg(selection_seconds) AS selection_seconds"
    )
    if plan.kind == "selection":
        columns, readers = f"label, {own}", [""]
    else:
        columns = (
            f"label, reader, {own}, avg(prompt_tokens) AS prompt_tokens, "
            "sum(len(cut)) / nullif(sum(len(selection)), 0) AS cut_share, "
            "avg(question_survived::INT) AS question_survived, "
            "avg(evidence_in_prompt::INT) AS evidence_in_prompt, avg(seconds) AS seconds"
        )
        readers = list(plan.readers)
    found: dict[tuple[str, str], dict[str, Any]] = {
        (row["label"], row.get("reader", "")): row
        for row in store.select(_table(plan), columns, "status = 'ok' GROUP BY ALL")
    }
    table: Table = []
    for entry in plan.arms:
        for reader in readers:
            row = found.get((entry.label, reader))
            if row is not None:
                table.append(
                    {**entry_columns(entry), **{k: v for k, v in row.items() if k != "label"}}
                )
    return table
