"""Runs as lists show them: the runs of one group as one entry, every other run alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from core.runs.status import ACTIVE, AT_WORK

Row = dict[str, Any]
MOST_URGENT = ("running", "cancelling", "queued", "crashed", "cancelled", "done")
"""A group has the first of these statuses that one of its runs has."""
SUMMED = ("planned", "done", "failed")


def listed(rows: Iterable[Row]) -> list[Row]:
    """The entries of a list of runs, in the order of each one's first row.

    ``rows``: of :func:`core.runs.status.status`. An entry has the fields of a status and ``runs``,
    its ids, oldest first. The entry of a group of several runs sums their counts on one cohort;
    ``run`` is the id of the oldest, ``tags`` are those of all, and it is archived where all are.
    """
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        alone = "" if row["group"] else row["run"]
        groups[row["group"], row["data"], row["imported"], alone].append(row)
    return [_entry(sorted(group, key=lambda row: row["run"])) for group in groups.values()]


def _entry(rows: Sequence[Row]) -> Row:
    first, runs = rows[0], [row["run"] for row in rows]
    if len(rows) == 1:
        return {**first, "runs": runs}
    status = next(name for name in MOST_URGENT if any(row["status"] == name for row in rows))
    at_work = next((row for row in rows if row["status"] == status), first)
    totals = {name: sum(row[name] for row in rows) for name in SUMMED}
    rate = sum(row["rate"] or 0 for row in rows) or None
    missing = totals["planned"] - totals["done"] - totals["failed"]
    places = [row["place"] for row in rows if row["place"]]
    return {
        **at_work,
        **totals,
        "run": first["run"],
        "runs": runs,
        "name": f"{first['group']} ({len(rows)} runs)",
        "created": first["created"],
        "place": min(places, default=None) if status == "queued" else None,
        "rate": rate,
        "seconds_left": missing / rate if rate else None,
        "tags": list(dict.fromkeys(tag for row in rows for tag in row["tags"])),
        "archived": all(row["archived"] for row in rows),
    }


def progress(rows: Iterable[Row]) -> Row:
    """Where the queue is: the one source of the figures that pages show.

    ``rows``: those of all runs. ``active``: the entries that are running or queued, in the queue's
    order; ``running``: names of those at work, with ``planned``, ``done`` and ``failed`` items,
    items a second (``rate``) and ``seconds_left`` (None: unknown) of these together; ``queued``:
    number of runs that wait.
    """
    rows = list(rows)
    entries = [entry for entry in listed(rows) if entry["status"] in ACTIVE]
    working = [entry for entry in entries if entry["status"] in AT_WORK]
    left = [entry["seconds_left"] for entry in working]
    return {
        "active": sorted(entries, key=lambda entry: (entry["place"] or 0, entry["run"])),
        "running": [entry["name"] for entry in working],
        "queued": sum(row["status"] == "queued" for row in rows),
        **{name: sum(entry[name] for entry in working) for name in SUMMED},
        "rate": sum(entry["rate"] or 0 for entry in working) or None,
        "seconds_left": max(left) if left and None not in left else None,
    }
