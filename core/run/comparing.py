"""Runs beside each other: in what their specs differ, and in what their results, pair by pair.

The first run is the baseline. Results are compared on the instructions that both runs judged (or
selected for), so a difference stands with Newcombe's paired interval, one by resampling patients,
and McNemar's exact p with Holm's adjustment over the comparisons of one run with the baseline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from core.errors import InputError
from core.run.folder import RunFolder, find_run
from core.run.parts import counted_store, part_of
from core.run.plan import Plan
from core.run.review.verdicts import review_verdicts, reviews_of
from core.run.rows import COUNTS
from core.run.state import status
from core.run.tables.common import generator
from core.stats import (
    cluster_totals,
    holm_adjust,
    mcnemar_exact,
    newcombe_paired,
    paired_floor,
    reported_interval,
)

Row = dict[str, Any]
Cell = tuple[str, str, str]
Right = Mapping[str, tuple[str, bool]]
"""Instruction → its record and whether the outcome was right (or the evidence kept)."""
NOT_COMPARED = frozenset({"run", "created", "spec.name"})


@dataclass(frozen=True, slots=True)
class _Run:
    folder: RunFolder
    plan: Plan
    cells: Mapping[Cell, Right]
    people: tuple[str, ...]
    """The judges who are people (:mod:`core.run.review.verdicts`)."""


def compare_runs(runs: Sequence[str]) -> dict[str, Any]:
    """Two or more runs, the first as the baseline.

    ``runs``: run, name, kind, status, protocol of each. ``spec``: a row a field in which any
    differs, ``field`` and each run's value under its id. ``results``: a row each further run, arm,
    reader and judge, with ``measure`` ("accuracy", "evidence kept"), n instructions of both runs,
    each run's share, the ``difference`` (that run minus the baseline) with both intervals, p and
    Holm's p. ``notes``: what stands against reading them. Raises UnknownName, or InputError for
    fewer than two runs.
    """
    if len(dict.fromkeys(runs)) < 2:
        raise InputError("a comparison takes two runs or more, each once")
    found = [_read(run) for run in dict.fromkeys(runs)]
    base, *others = found
    return {
        "runs": [_named(run) for run in found],
        "spec": _spec_rows(found),
        "results": [row for run in others for row in _results(base, run)],
        "notes": [note for run in others for note in _notes(base, run)],
    }


def _named(run: _Run) -> Row:
    now = status(run.folder.id)
    return {
        "run": run.folder.id,
        "name": run.plan.name,
        "kind": run.plan.kind,
        "status": now["status"],
        "done": now["done"],
        "planned": now["planned"],
    }


def _read(run: str) -> _Run:
    folder = find_run(run)
    plan = folder.plan()
    store, part = counted_store(folder, plan), part_of(folder, plan)
    cells: dict[Cell, dict[str, tuple[str, bool]]] = defaultdict(dict)
    rows: list[Row] = []
    reviews = reviews_of(folder)
    if "verdicts" in store.schemas:
        columns = "label, reader, judge, instruction, record, outcome = 'correct' AS correct"
        where = (
            f"{COUNTS} AND ({store.counted}) AND status = 'ok' "
            "AND outcome IN ('correct', 'incorrect')"
        )
        rows = store.select("verdicts", columns, where)
        for row in review_verdicts(folder, reviews):
            if row["outcome"] in ("correct", "incorrect") and row["record"] not in part.left_out:
                rows.append({**row, "correct": row["outcome"] == "correct"})
    elif "selections" in store.schemas:
        columns = "label, '' AS reader, '' AS judge, instruction, record, evidence AS correct"
        rows = store.select(
            "selections", columns, f"status = 'ok' AND ({store.counted}) AND evidence IS NOT NULL"
        )
    for row in rows:
        cell = (row["label"], row["reader"], row["judge"])
        cells[cell][row["instruction"]] = (row["record"], bool(row["correct"]))
    return _Run(folder, plan, cells, reviews.judges)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inside in cast("Mapping[str, Any]", value).items():
            yield from _flat(inside, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and name in ("spec.arms", "spec.readers", "spec.judges"):
        entries = cast("list[Any]", value)
        yield name, [e.get("label", e["name"]) if isinstance(e, dict) else e for e in entries]
    else:
        yield name, value


def _spec_rows(runs: Sequence[_Run]) -> list[Row]:
    flat = [{k: v for k, v in _flat(run.plan.raw) if not k.startswith("found")} for run in runs]
    fields = dict.fromkeys(field for one in flat for field in one)
    rows: list[Row] = []
    for field in fields:
        # A field that an older run does not have reads as an empty one.
        shown = {run.folder.id: _shown(o.get(field)) for run, o in zip(runs, flat, strict=True)}
        if field not in NOT_COMPARED and len(set(shown.values())) > 1:
            rows.append({"field": field, **shown})
    return rows


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[Any]", value)))
    return str(value)


def _matched(mine: Sequence[str], theirs: Sequence[str]) -> list[tuple[str, str]]:
    """Names of both; where they share none and each has one, those two."""
    both = [(name, name) for name in mine if name in theirs]
    return both or ([(mine[0], theirs[0])] if len(mine) == len(theirs) == 1 else [])


def _pairs(base: _Run, run: _Run) -> Iterator[tuple[Cell, Cell]]:
    def labels(one: _Run) -> list[str]:
        return [entry.label for entry in one.plan.arms]

    readers = _matched(base.plan.readers, run.plan.readers) or [("", "")]
    judges = _matched(base.plan.judges, run.plan.judges)
    judges += [(name, name) for name in base.people if name in run.people]
    judges = judges or [("", "")]
    for arm, other_arm in _matched(labels(base), labels(run)):
        for reader, other_reader in readers:
            for judge, other_judge in judges:
                mine, theirs = (arm, reader, judge), (other_arm, other_reader, other_judge)
                if mine in base.cells and theirs in run.cells:
                    yield mine, theirs


def _results(base: _Run, run: _Run) -> list[Row]:
    rows: list[Row] = []
    for mine, theirs in _pairs(base, run):
        first, second = base.cells[mine], run.cells[theirs]
        common = [i for i in first if i in second and first[i][0] == second[i][0]]
        row = {
            "run": run.folder.id,
            "arm": _both(mine[0], theirs[0]),
            "reader": _both(mine[1], theirs[1]),
            "judge": _both(mine[2], theirs[2]),
            "measure": "accuracy" if mine[2] else "evidence kept",
            **_difference(base, [(*first[i], second[i][1]) for i in common], mine),
        }
        rows.append(row)
    tested = [row for row in rows if row["p"] is not None]
    for row, p in zip(tested, holm_adjust([row["p"] for row in tested]), strict=True):
        row["p_holm"] = float(p)
    return rows


def _both(mine: str, theirs: str) -> str:
    return mine if mine == theirs else f"{mine} → {theirs}"


def _difference(base: _Run, pairs: Sequence[tuple[str, bool, bool]], cell: Cell) -> Row:
    """Counts, shares, difference and intervals of pairs: record, baseline's and the run's."""
    n = len(pairs)
    empty = ("baseline_share", "run_share", "difference", "difference_low", "difference_high")
    row: Row = {"n": n, "patients": len({record for record, _, _ in pairs})}
    row |= dict.fromkeys((*empty, "patient_low", "patient_high"))
    row |= {"only_run": 0, "only_baseline": 0, "p": None, "p_holm": None}
    if not n:
        return row
    both = sum(a and b for _, a, b in pairs)
    only_run, only_base = (
        sum(b and not a for _, a, b in pairs),
        sum(a and not b for _, a, b in pairs),
    )
    interval = newcombe_paired(both, only_run, only_base, n - both - only_run - only_base)
    low, high = _by_patient(base, pairs, cell)
    return row | {
        "baseline_share": (both + only_base) / n,
        "run_share": (both + only_run) / n,
        "difference": interval.estimate,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "patient_low": low,
        "patient_high": high,
        "only_run": only_run,
        "only_baseline": only_base,
        "p": mcnemar_exact(only_run, only_base),
    }


def _by_patient(
    base: _Run, pairs: Sequence[tuple[str, bool, bool]], cell: Cell
) -> tuple[float | None, float | None]:
    """The difference's interval by patients (:func:`core.stats.reported_interval`), or None."""
    records = sorted({record for record, _, _ in pairs})
    place = {record: i for i, record in enumerate(records)}
    cells = np.zeros((len(records), 4))
    for record, a, b in pairs:
        cells[place[record], 2 * (not b) + (not a)] += 1
    totals = np.stack([cells[:, 1] - cells[:, 2], cells.sum(axis=1)], axis=1)
    rng = generator(base.plan, "runs", *cell)
    drawn = cluster_totals(totals, base.plan.protocol.resamples, rng)
    ends = reported_interval(drawn[:, 0] / drawn[:, 1], len(records), paired_floor(cells))
    return ends or (None, None)


def _notes(base: _Run, run: _Run) -> Iterator[str]:
    name = run.folder.id
    if base.plan.kind != run.plan.kind:
        yield f"{name} is a run of kind {run.plan.kind}, the baseline one of {base.plan.kind}"
    if base.plan.digest != run.plan.digest:
        yield f"{name} ran on other files than the baseline: instructions are paired by their ids"
    if not base.cells or not run.cells:
        yield f"{name}: no result by instruction on both sides, so no pair; only the specs compare"
    elif not any(True for _ in _pairs(base, run)):
        yield f"{name} shares no arm, reader and judge with the baseline"
    for one in (base, run):
        words = part_of(one.folder, one.plan).words
        if words:
            yield f"{one.folder.id}: {words}"
        state = status(one.folder.id)["status"]
        if state != "done":
            yield f"{one.folder.id} is {state}: what is compared is what is there"
