"""How long a run will take, from what finished runs on this machine took; else unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from core import settings
from core.ledger import read_lines
from core.run.folder import RunFolder, run_ids
from core.run.plan import Plan, Spec
from core.run.provenance import machine

LATEST = 40
"""So many of the latest runs of a kind are looked at."""


class Pace(NamedTuple):
    """Seconds until the first item is begun, and seconds an item."""

    before: float
    per_item: float


def expected(spec: Spec, path: Path, items: int) -> dict[str, Any]:
    """``seconds`` that so many items will take (null: unknown), and the ``basis``, in words.

    From the seconds per item of finished runs of this machine: the very same members on the same
    cohort, else the same members, else the same readers and judges; the median of the first group
    that is there. Items of other arms and lengths take other times, so it is "about". A kind
    without members (gates, forecasts) must have been done with the same fields of its own.
    """
    groups: tuple[list[Pace], list[Pace], list[Pace]] = ([], [], [])
    mine = _members(spec)
    for plan, pace in _measured(spec.kind):
        theirs = _members(plan)
        if theirs[1:] != mine[1:] or (not any(mine) and _own(plan) != _own(spec)):
            continue
        same = theirs == mine
        place = 0 if same and plan.data == str(path) else 1 if same else 2
        groups[place].append(pace)
    words = (
        "the same comparison on this cohort",
        "the same comparison on other cohorts",
        "the same readers and judges",
    )
    for group, told in zip(groups, words, strict=True):
        if group:
            runs = "1 finished run" if len(group) == 1 else f"{len(group)} finished runs"
            seconds = median(pace.before + items * pace.per_item for pace in group)
            return {"seconds": seconds, "basis": f"{runs} of {told}"}
    return {"seconds": None, "basis": "nothing like it has finished on this machine yet"}


def _members(what: Spec | Plan) -> tuple[list[str], list[str], list[str]]:
    readers = what.readers if isinstance(what, Spec) else what.reader_entries
    judges = what.judges if isinstance(what, Spec) else what.judge_entries
    return (
        sorted(entry.label for entry in what.arms),
        sorted(entry.label for entry in readers),
        sorted(entry.label for entry in judges),
    )


COUNTING = ("tasks", "seeds")
"""Fields that say how many items there are, not how long one takes."""


def _own(what: Spec | Plan) -> dict[str, Any]:
    """A kind's own fields as a plan holds them, without those that only count items."""
    written: dict[str, Any] = json.loads(json.dumps(dict(what.options)))
    return {name: value for name, value in written.items() if name not in COUNTING}


def _measured(kind: str) -> Iterator[tuple[Plan, Pace]]:
    """Plans of finished runs of a kind, done on this machine, each with its pace."""
    seen = 0
    for id in reversed(run_ids()):
        folder = RunFolder(settings.runs_folder() / id)
        raw = json.loads(folder.spec.read_text(encoding="utf-8"))
        if raw["spec"]["kind"] != kind or not folder.done.exists():
            continue
        pace = _pace(folder)
        if pace is not None:
            yield folder.plan(), pace
        seen += 1
        if seen == LATEST:
            return


def _pace(folder: RunFolder) -> Pace | None:
    """A run's pace over its passes on this machine, by the workers' stopwatches."""
    passes: list[list[tuple[float, int]]] = []
    here = False
    for event in read_lines(folder.events):
        if event["event"] == "started":
            here = event.get("machine") == machine()
            passes.append([])
        elif event["event"] == "progress" and here and "seconds" in event:
            passes[-1].append((event["seconds"], event["done"] + event["failed"]))
    told = [one for one in passes if one]
    items = sum(one[-1][1] - one[0][1] for one in told)
    if not items:
        return None
    worked = sum(one[-1][0] - one[0][0] for one in told)
    return Pace(fmean(one[0][0] for one in told), worked / items)
