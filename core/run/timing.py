"""How long a run will take, from what finished runs on this machine took; else unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from core import settings
from core.ledger import read_lines
from core.run.folder import Plan, RunFolder, run_ids
from core.run.provenance import machine
from core.run.spec import Spec

LATEST = 40
"""So many of the latest runs of a kind are looked at."""


def expected(spec: Spec, path: Path, items: int) -> dict[str, Any]:
    """``seconds`` that so many items will take (null: unknown), and the ``basis``, in words.

    From the seconds per item of finished runs of this machine: the very same members on the same
    cohort, else the same members, else the same readers and judges; the median of the first group
    that is there. Items of other arms and lengths take other times, so it is "about".
    """
    groups: tuple[list[float], list[float], list[float]] = ([], [], [])
    mine = _members(spec)
    for plan, per_item in _measured(spec.kind):
        theirs = _members(plan)
        if theirs[1:] != mine[1:]:
            continue
        same = theirs == mine
        place = 0 if same and plan.data == str(path) else 1 if same else 2
        groups[place].append(per_item)
    words = (
        "the same comparison on this cohort",
        "the same comparison on other cohorts",
        "the same readers and judges",
    )
    for group, told in zip(groups, words, strict=True):
        if group:
            runs = "1 finished run" if len(group) == 1 else f"{len(group)} finished runs"
            return {"seconds": items * median(group), "basis": f"{runs} of {told}"}
    return {"seconds": None, "basis": "nothing like it has finished on this machine yet"}


def _members(what: Spec | Plan) -> tuple[list[str], list[str], list[str]]:
    readers = what.readers if isinstance(what, Spec) else what.reader_entries
    judges = what.judges if isinstance(what, Spec) else what.judge_entries
    return (
        sorted(entry.label for entry in what.arms),
        sorted(entry.label for entry in readers),
        sorted(entry.label for entry in judges),
    )


def _measured(kind: str) -> Iterator[tuple[Plan, float]]:
    """Plans of finished runs of a kind, done on this machine, with their seconds per item."""
    seen = 0
    for id in reversed(run_ids()):
        folder = RunFolder(settings.runs_folder() / id)
        raw = json.loads(folder.spec.read_text(encoding="utf-8"))
        if raw["spec"]["kind"] != kind or not folder.done.exists():
            continue
        seconds, items = _spent(folder)
        if items:
            yield folder.plan(), seconds / items
        seen += 1
        if seen == LATEST:
            return


def _spent(folder: RunFolder) -> tuple[float, int]:
    """Seconds and items of a run's passes on this machine, by the workers' stopwatches."""
    seconds, items = 0.0, 0
    begun: int | None = None
    here, passed, total = False, 0.0, 0
    for event in read_lines(folder.events):
        if event["event"] == "started":
            seconds, items = seconds + passed, items + total
            here, begun, passed, total = event.get("machine") == machine(), None, 0.0, 0
        elif event["event"] == "progress" and here and "seconds" in event:
            there = event["done"] + event["failed"]
            begun = there if begun is None else begun
            passed, total = event["seconds"], there - begun
    return seconds + passed, items + total
