"""From a cell of a needle run to the items behind it, by id; their texts are in the rows."""

from __future__ import annotations

from typing import Any

from core.errors import InputError
from core.experiments.needles.tables import needle_rows
from core.runs.directory import find_run
from core.runs.reviews import reviews_of
from core.runs.tables import literal

NUMBERS = ("length", "depth", "distractors")


def needle_items(run: str, **cell: str | int) -> list[dict[str, Any]]:
    """The items of a needle run in a cell, a row a verdict, no text.

    ``cell`` names any of label, reader, judge, record, fact, length, depth, distractors. Each row
    has these, ``instruction`` (for :func:`core.runs.item`), ``needle``, ``answer_key``,
    ``outcome``, ``correct``, ``evidence_in_prompt``, ``reached``. Raises UnknownName for a run
    there is not, InputError for a run of another kind or another column.
    """
    folder = find_run(run)
    plan = folder.plan()
    if plan.kind != "needles":
        raise InputError(f"run {run} is of kind {plan.kind!r}; only a needle run has needles")
    names = ("label", "reader", "judge", "record", "fact")
    where = ["true"]
    for name, value in cell.items():
        if name in NUMBERS and type(value) is int:
            where.append(f"{name} = {value}")
        elif name in names and isinstance(value, str):
            where.append(f"{name} = {literal(value)}")
        else:
            valid = ", ".join((*names, *NUMBERS))
            raise InputError(f"a cell has no {name} {value!r}. Valid: {valid} (whole numbers last)")
    reviews = reviews_of(folder).rows()
    return needle_rows(folder.store(plan.kind), reviews, " AND ".join(where))
