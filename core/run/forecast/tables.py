"""Tables of a run of kind ``forecast``: every model, every variant beside softmax, the curves.

A variant's AUROC is the mean over its seeds, its difference that over the seeds that softmax has
too. Its interval comes from the same resampled patients for all models of a task, so differences
are paired; ``delong_p`` takes labels for independent, as the paper's intervals do, ``clustered_p``
(Obuchowski) keeps a patient's labels together, and ``holm_p`` is the latter after Holm over all
comparisons of the task.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import settings
from core.protocol import Protocol
from core.run.forecast.rows import area_intervals, ends_of, prediction_files, read_columns
from core.run.forecast.spec import REFERENCE
from core.run.forecast.verdict import verdicts
from core.stats import (
    Placements,
    auroc_difference_floor,
    clustered_test,
    delong_test,
    holm_adjust,
    placements,
)
from core.store import RowStore

Table = list[dict[str, Any]]
NAMES = ("task", "variant", "seed")
COUNTS = ("n", "positive", "prevalence")
FORECAST = (
    *NAMES, "auroc", "auprc", "hm_low", "hm_high", "ci_low", "ci_high", "auprc_low", "auprc_high",
    *COUNTS, "patients", "tuning_auroc", "best_epoch", "seconds", "device", "parameters",
)  # fmt: skip
PUBLISHED = {
    "standard": "softmax",
    "differential": "differential",
    "h2o_keep50": "h2o",
    "qccs_differential": "gated_differential",
}


def tables(store: RowStore, options: Mapping[str, Any], protocol: Protocol) -> dict[str, Table]:
    """All tables of a run; ``options`` are its plan's."""
    order = [one["label"] for one in options["variants"]] + list(options["baselines"])
    every = store.select("models", "*")
    every.sort(key=lambda row: (row["task"], order.index(row["variant"]), row["seed"] or 0))
    rows = [row for row in every if row["status"] == "ok"]
    summed = summary(rows, store.folder.parent, protocol)
    return {
        "forecast": [{name: row[name] for name in FORECAST} for row in rows],
        "summary": summed,
        "epochs": _inner(rows, "epochs"),
        "roc": _inner(rows, "roc", {"x": "false_positive_rate", "y": "sensitivity"}),
        "pr": _inner(rows, "pr", {"x": "recall", "y": "precision"}),
        "calibration": _inner(rows, "calibration"),
        "gate": _one(rows, "gate"),
        "sparsity": _one(rows, "sparsity"),
        "splits": splits(rows),
        "published": published(summed),
        "verdict": verdicts(summed),
        "failures": [
            {name: row[name] for name in (*NAMES, "reason")}
            for row in every
            if row["status"] == "failed"
        ],
    }


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in NAMES}


def _inner(rows: Table, column: str, renamed: Mapping[str, str] | None = None) -> Table:
    """A row each entry of a nested column, with n and prevalence of what it was made from."""
    new: Mapping[str, str] = renamed or {}
    table: Table = []
    for row in rows:
        for one in row[column] or ():
            told = {new[key] if key in new else str(key): one[key] for key in one}
            # Of a calibration bin n is its own; that of all labels stands apart.
            for name in ("n", "prevalence"):
                told[f"labels_{name}" if name in one else name] = row[name]
            table.append(_named(row) | told)
    return table


def _one(rows: Table, column: str) -> Table:
    return [
        _named(row) | row[column] | {name: row[name] for name in ("n", "prevalence")}
        for row in rows
        if row[column] is not None
    ]


def splits(rows: Table) -> Table:
    """Labels, positives and patients of each task's splits, the same for all its models."""
    found: dict[str, Table] = {}
    # The official split where any model has it: a variant may have one of its own.
    for row in sorted(rows, key=lambda row: "split=" in row["variant"]):
        if row["splits"]:
            found.setdefault(row["task"], row["splits"])
    return [
        {"task": task, **one, "prevalence": one["positive"] / one["n"] if one["n"] else None}
        for task, parts in found.items()
        for one in parts
    ]


def summary(rows: Table, folder: Path, protocol: Protocol) -> Table:
    """One row a task and variant, beside the reference; ``folder`` is the run's."""
    groups: dict[tuple[str, str], Table] = {}
    for row in rows:
        groups.setdefault((row["task"], row["variant"]), []).append(row)
    read: dict[str, _Fit] = {}

    def summed(rows: Table) -> _Sum:
        for row in rows:
            if row["item"] not in read:
                read[row["item"]] = _read(folder, row["item"])
        return _Sum(rows, [read[row["item"]] for row in rows])

    table: Table = []
    for (task, variant), mine in groups.items():
        against = [] if variant == REFERENCE else groups.get((task, REFERENCE), [])
        ours, theirs = _paired(mine, against)
        pair = (summed(ours), summed(theirs)) if ours and theirs else None
        table.append(_summary_row(mine, summed(mine), pair, protocol))
    for task in {row["task"] for row in table}:
        tested = [row for row in table if row["task"] == task and row["clustered_p"] is not None]
        adjusted = holm_adjust([row["clustered_p"] for row in tested])
        for row, p in zip(tested, adjusted, strict=True):
            row["holm_p"] = float(p)
    return table


def _paired(mine: Table, others: Table) -> tuple[Table, Table]:
    """The fits of both that share a seed; a baseline, which has none, stands beside them all."""
    if any(row["seed"] is None for row in mine):
        return mine, others
    seeds = {row["seed"] for row in mine} & {row["seed"] for row in others}
    return [r for r in mine if r["seed"] in seeds], [r for r in others if r["seed"] in seeds]


@dataclass(frozen=True, eq=False, slots=True)
class _Fit:
    """What a model's files hold: its held-out labels, and AUROC and AUPRC of each resample."""

    labels: Mapping[str, NDArray[Any]]
    draws: NDArray[np.float64]


def _read(folder: Path, item: str) -> _Fit:
    labels, draws = prediction_files(folder, item)
    drawn = read_columns(draws)
    return _Fit(read_columns(labels), np.stack([drawn["auroc"], drawn["auprc"]], axis=1))


class _Sum:
    """A variant's scores over its seeds: the mean of their placements and of their resamples."""

    def __init__(self, rows: Table, fits: Sequence[_Fit]) -> None:
        first = fits[0].labels
        self.index, self.patient = first["label_index"], first["patient"]
        self.placed: Placements = placements(
            np.stack([one.labels["score"] for one in fits]), first["label"]
        )
        self.draws: NDArray[np.float64] = np.mean([one.draws for one in fits], axis=0)
        self.by_seed = {row["seed"]: row["auroc"] for row in rows}


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _summary_row(
    rows: Table, here: _Sum, pair: tuple[_Sum, _Sum] | None, protocol: Protocol
) -> dict[str, Any]:
    first = rows[0]
    areas, precisions = [row["auroc"] for row in rows], [row["auprc"] for row in rows]
    gates = [row["gate"] for row in rows if row["gate"] is not None]
    (low, high), (pr_low, pr_high) = area_intervals(
        here.draws, here.placed, fmean(precisions), here.patient, protocol
    )
    row: dict[str, Any] = {
        "task": first["task"],
        "variant": first["variant"],
        "seeds": len(rows),
        "auroc_mean": fmean(areas),
        "auroc_sd": _spread(areas),
        "ci_low": low,
        "ci_high": high,
        "auprc_mean": fmean(precisions),
        "auprc_sd": _spread(precisions),
        "auprc_low": pr_low,
        "auprc_high": pr_high,
        "difference": None,
        "difference_low": None,
        "difference_high": None,
        "seeds_better": None,
        "seeds_paired": None,
        "delong_p": None,
        "clustered_p": None,
        "holm_p": None,
        "collapsed": sum(gate["collapsed"] for gate in gates) if gates else None,
        "gate_mean": fmean([gate["mean"] for gate in gates]) if gates else None,
        "gate_sd": fmean([gate["sd"] for gate in gates]) if gates else None,
        **{name: first[name] for name in (*COUNTS, "patients")},
        "seconds": fmean([row["seconds"] for row in rows]),
    }
    if pair is not None and np.array_equal(pair[0].index, pair[1].index):
        ours, base = pair
        gap = ours.draws[:, 0] - base.draws[:, 0]
        floor = auroc_difference_floor(ours.placed, base.placed, ours.patient)
        low, high = ends_of(gap, floor, ours.patient, protocol)
        plain = delong_test(ours.placed, base.placed)
        seeds = [seed for seed in ours.by_seed if seed in base.by_seed]
        row |= {
            "difference": plain.difference,
            "difference_low": low,
            "difference_high": high,
            "seeds_better": sum(ours.by_seed[seed] > base.by_seed[seed] for seed in seeds),
            "seeds_paired": len(seeds),
            "delong_p": plain.p,
            "clustered_p": clustered_test(ours.placed, base.placed, ours.patient).p
            if len(np.unique(ours.patient)) > 1
            else None,
        }
    return row


def published(summed: Table) -> Table:
    """The paper's table by value, and our mean AUROC of the same task and variant beside it."""
    path = settings.published_folder() / "ehrshot_attention.csv"
    ours = {(row["task"].removeprefix("lab_"), row["variant"]): row for row in summed}
    table: Table = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            variant = PUBLISHED[row["attention"]]
            mine = ours.get((row["task"], variant))
            figures = {
                f"paper_{name}": float(row[name]) if row[name] else None
                for name in row
                if name not in ("task", "attention")
            }
            table.append(
                {
                    "task": row["task"],
                    "variant": variant,
                    **figures,
                    "auroc": mine["auroc_mean"] if mine else None,
                    "ci_low": mine["ci_low"] if mine else None,
                    "ci_high": mine["ci_high"] if mine else None,
                    "n": mine["n"] if mine else None,
                    "prevalence": mine["prevalence"] if mine else None,
                }
            )
    return table
