"""From a table to the texts behind it: one instruction across arms, and where arms part ways."""

from __future__ import annotations

from typing import Any

from core.errors import UnknownName
from core.run.folder import Plan, find_run
from core.run.kinds import KINDS
from core.store import RowStore

Row = dict[str, Any]


def _sorted(plan: Plan, rows: list[Row]) -> list[Row]:
    """Rows in the order in which the spec names arms, readers and judges."""
    arms = {entry.label: i for i, entry in enumerate(plan.arms)}
    readers = {name: i for i, name in enumerate(plan.readers)}
    judges = {name: i for i, name in enumerate(plan.judges)}
    return sorted(
        rows,
        key=lambda row: (
            arms[row["label"]],
            readers.get(row.get("reader", ""), 0),
            judges.get(row.get("judge", ""), 0),
        ),
    )


def rows(run: str, table: str) -> list[Row]:
    """All rows of a table of a run: answers and verdicts, or selections; raises UnknownName."""
    folder = find_run(run)
    return folder.store(folder.plan().kind).select(table)


def _of(store: RowStore, table: str, instruction: str) -> list[Row]:
    literal = "'" + instruction.replace("'", "''") + "'"
    return store.select(table, "*", f"instruction = {literal}")


def item(run: str, instruction: str) -> dict[str, Any]:
    """Everything a run holds about an instruction.

    ``arms``: for each arm entry (and reader) its row of answers (or selections), with its
    ``verdicts`` inside. Raises UnknownName where the run holds nothing about it (yet).
    """
    folder = find_run(run)
    plan = folder.plan()
    store = folder.store(plan.kind)
    main = KINDS.build(plan.kind).main
    found = _sorted(plan, _of(store, main, instruction))
    if not found:
        known = store.select(main, "DISTINCT instruction")
        raise UnknownName("instruction of the run", instruction, [r["instruction"] for r in known])
    verdicts: dict[str, list[Row]] = {}
    if plan.kind == "answers":
        for verdict in _sorted(plan, _of(store, "verdicts", instruction)):
            verdicts.setdefault(verdict["answer_key"], []).append(verdict)
    first = found[0]
    return {
        "run": run,
        "instruction": instruction,
        **{k: first[k] for k in ("record", "band", "middle", "order_position", "time_position")},
        "arms": [{**row, "verdicts": verdicts.get(row["key"], [])} for row in found],
    }


def different_only(run: str) -> list[dict[str, Any]]:
    """Instructions on which arms' outcomes differ for one reader and judge.

    Each: instruction, record, band, reader, judge, and ``outcomes``, label → outcome. In a run
    of kind selection the outcome is whether the evidence was kept: "kept", "dropped".
    """
    folder = find_run(run)
    plan = folder.plan()
    store = folder.store(plan.kind)
    if plan.kind == "answers":
        columns = "label, instruction, record, band, reader, judge, outcome"
        found = store.select("verdicts", columns)
    else:
        columns = (
            "label, instruction, record, band, '' AS reader, '' AS judge, "
            "CASE WHEN evidence THEN 'kept' ELSE 'dropped' END AS outcome"
        )
        found = store.select("selections", columns, "evidence IS NOT NULL")
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in _sorted(plan, found):
        key = (row["instruction"], row["reader"], row["judge"])
        names = ("instruction", "record", "band", "reader", "judge")
        group = groups.setdefault(key, {**{name: row[name] for name in names}, "outcomes": {}})
        group["outcomes"][row["label"]] = row["outcome"]
    differing = [g for g in groups.values() if len(set(g["outcomes"].values())) > 1]
    return sorted(differing, key=lambda g: (g["record"], g["instruction"], g["reader"], g["judge"]))
