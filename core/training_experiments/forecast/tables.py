"""Rows and report tables of kind ``forecast``: models, variants compared with softmax, verdicts.

A variant's AUROC is the mean over its seeds; its difference is over the seeds that softmax has
too. Intervals resample patients, the same for all models of a task, so differences are paired.
``delong_p`` treats labels as independent, as the paper's intervals do; ``clustered_p`` (Obuchowski)
keeps a patient's labels together, and ``holm_p`` adjusts it over all comparisons of the task;
``not_estimable`` is the reason where it has no value. Means over tasks take the tasks as fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.format import finite
from midchart.core.protocol import Protocol
from midchart.core.results.tables import ends, grouped, nested, pick, read_published
from midchart.core.runs.experiment import Table
from midchart.core.runs.job import TRAINED
from midchart.core.stats.auroc import (
    Placements,
    auroc_difference_floor,
    clustered_test,
    delong_test,
    placements,
)
from midchart.core.stats.intervals import Interval
from midchart.core.stats.paired import holm_adjust
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.training_experiments.forecast.evaluation import prediction_files, read_columns
from midchart.core.training_experiments.forecast.spec import REFERENCE, collapsed
from midchart.core.training_experiments.measures import area_intervals, interval_ends

_POINTS = "STRUCT(x DOUBLE, y DOUBLE, score DOUBLE)[]"
_AREAS = (
    "auroc", "auprc", "hm_low", "hm_high", "ci_low", "ci_high", "auprc_low", "auprc_high",
)  # fmt: skip
MODELS: Schema = {
    **TRAINED,
    **dict.fromkeys(("task", "variant", "attention"), "VARCHAR"),
    "seed": "BIGINT",
    **dict.fromkeys(_AREAS, "DOUBLE"),
    **dict.fromkeys(("n", "positive"), "BIGINT"),
    "prevalence": "DOUBLE",
    "patients": "BIGINT",
    "tuning_auroc": "DOUBLE",
    "best_epoch": "BIGINT",
    "seconds": "DOUBLE",
    "device": "VARCHAR",
    **dict.fromkeys(("tokens", "parameters"), "BIGINT"),
    "splits": "STRUCT(split VARCHAR, n BIGINT, positive BIGINT, patients BIGINT)[]",
    "epochs": "STRUCT(epoch BIGINT, loss DOUBLE, gate_loss DOUBLE, tuning_loss DOUBLE, "
    "tuning_auroc DOUBLE, tuning_auprc DOUBLE, gate_gradient DOUBLE, head_gradient DOUBLE, "
    "gate_mean DOUBLE, gate_sd DOUBLE, seconds DOUBLE)[]",
    "roc": _POINTS,
    "pr": _POINTS,
    "calibration": "STRUCT(stage VARCHAR, bin BIGINT, n BIGINT, mean_score DOUBLE, "
    "positive_rate DOUBLE, low DOUBLE, high DOUBLE)[]",
    "gate": "STRUCT(mean DOUBLE, sd DOUBLE, collapsed BOOLEAN)",
    "sparsity": "STRUCT(zeros DOUBLE, negatives DOUBLE, cls_zeros DOUBLE, cls_negatives DOUBLE, "
    "sequences BIGINT, entries BIGINT)",
}
"""One row a model. ``variant``: its label, or a baseline's name. ``seed``: null for a baseline.
``ci_*``: over resampled patients. ``n`` … ``patients``: of the held-out labels. ``seconds``: of
fitting. ``best_epoch``: chosen on tuning; for a baseline the number of trees or of the penalty.
``calibration``: "raw" as trained, "corrected" without the positive weight of the loss; a baseline
has raw alone. ``collapsed``: written by earlier versions under a wider rule, so that tables apply
the rule to mean and SD."""

ALPHA = 0.05
NAMES = ("task", "variant", "seed")
COUNTS = ("n", "positive", "prevalence")
FORECAST = (
    *(*NAMES, *_AREAS, *COUNTS, "patients", "tuning_auroc", "best_epoch", "seconds", "device"),
    "parameters",
)
PUBLISHED = {
    "standard": "softmax",
    "differential": "differential",
    "h2o_keep50": "h2o",
    "qccs_differential": "gated_differential",
}
"""The paper's name of an attention → ours."""


def tables(store: RowStore, options: Mapping[str, Any], protocol: Protocol) -> dict[str, Table]:
    """All tables of a run; ``options`` are its plan's."""
    order = [one["label"] for one in options["variants"]] + list(options["baselines"])
    every = store.select("models", "*")
    every.sort(key=lambda row: (row["task"], order.index(row["variant"]), row["seed"] or 0))
    rows = [row for row in every if row["status"] == "ok"]
    summed, means = compared_tables(rows, store.folder.parent, protocol)
    verdict = ("task", "variant", "verdict", "n", "prevalence")
    return {
        "forecast": [pick(row, FORECAST) for row in rows],
        "summary": summed,
        "mean_difference": means,
        "epochs": _nested(rows, "epochs"),
        "roc": _nested(rows, "roc", {"x": "false_positive_rate", "y": "sensitivity"}),
        "pr": _nested(rows, "pr", {"x": "recall", "y": "precision"}),
        "calibration": _nested(rows, "calibration", {"low": "ci_low", "high": "ci_high"}),
        "gate": [
            {**row, "collapsed": collapsed(row["mean"], row["sd"])} for row in _nested(rows, "gate")
        ],
        "sparsity": _nested(rows, "sparsity"),
        "splits": _splits(rows),
        "published": _published(summed),
        "verdict": [pick({**row, "verdict": finding(row)}, verdict) for row in summed],
        "failures": [pick(row, (*NAMES, "reason")) for row in every if row["status"] == "failed"],
    }


def _nested(rows: Table, column: str, renamed: Mapping[str, str] | None = None) -> Table:
    """A nested column's entries with the number of held-out labels and their prevalence.

    These are ``labels_n`` and ``labels_prevalence`` where an entry has a separate n.
    """
    names = renamed or {}
    table: Table = []
    for row in rows:
        for entry in nested([row], column, ()):
            values = {names.get(key, key): value for key, value in entry.items()}
            labels = {f"labels_{k}" if k in entry else k: row[k] for k in ("n", "prevalence")}
            table.append(pick(row, NAMES) | values | labels)
    return table


def _splits(rows: Table) -> Table:
    """Labels, positives and patients of each task's splits, the same for all its models."""
    splits: dict[str, Table] = {}
    # The official split where any model has it: a variant may have another.
    for row in sorted(rows, key=lambda row: "split=" in row["variant"]):
        if row["splits"]:
            splits.setdefault(row["task"], row["splits"])
    return [
        {"task": task, **one, "prevalence": one["positive"] / one["n"] if one["n"] else None}
        for task, parts in splits.items()
        for one in parts
    ]


def _published(summed: Table) -> Table:
    """The paper's table by value, each line with our mean AUROC of the same task and variant."""
    ours = {(row["task"].removeprefix("lab_"), row["variant"]): row for row in summed}
    columns = {"auroc": "auroc_mean", **{k: k for k in ("ci_low", "ci_high", "n", "prevalence")}}
    table: Table = []
    for line in read_published("ehrshot_attention.csv"):
        task, variant = line.pop("task"), PUBLISHED[line.pop("attention")]
        paper = {f"paper_{key}": float(text) if text else None for key, text in line.items()}
        row = ours.get((task, variant))
        figures = {key: row[column] if row else None for key, column in columns.items()}
        table.append({"task": task, "variant": variant, **paper, **figures})
    return table


def compared_tables(rows: Table, folder: Path, protocol: Protocol) -> tuple[Table, Table]:
    """Tables ``summary``, one row a task and variant, compared with the reference, and
    ``mean_difference``, one row a variant over its tasks; ``folder`` is the run's."""
    groups = grouped(rows, lambda row: (row["task"], row["variant"]))
    files = {
        row["item"]: [read_columns(folder, f) for f in prediction_files(folder, row["item"])]
        for row in rows
    }
    table: Table = []
    by_variant: dict[str, list[_Difference]] = defaultdict(list)
    for (task, variant), group in groups.items():
        row = _summary_row(group, _Scores(group, files), protocol)
        reference = [] if variant == REFERENCE else groups.get((task, REFERENCE), [])
        paired = _paired(group, reference)
        if all(paired):
            ours, base = (_Scores(part, files) for part in paired)
            if np.array_equal(ours.index, base.index):
                difference = _Difference.between(ours, base)
                row |= _difference(ours, base, difference, protocol)
                by_variant[variant].append(difference)
        table.append(row)
    for task in {row["task"] for row in table}:
        tested = [row for row in table if row["task"] == task and row["clustered_p"] is not None]
        adjusted = holm_adjust([row["clustered_p"] for row in tested])
        for row, p in zip(tested, adjusted, strict=True):
            row["holm_p"] = float(p)
    tasks = len({task for task, _ in groups})
    means = [
        {"variant": variant, "tasks": len(each), "of_tasks": tasks, **_mean(each, protocol)}
        for variant, each in by_variant.items()
    ]
    return table, means


@dataclass(frozen=True, eq=False, slots=True)
class _Difference:
    """The AUROC of a variant less the reference's, of one task: on resampled patients
    (``draws`` [resamples]), its score interval, and whose the labels are."""

    value: float
    draws: NDArray[np.float64]
    floor: Interval
    patient: NDArray[Any]

    @classmethod
    def between(cls, ours: _Scores, base: _Scores) -> _Difference:
        """The difference of the mean areas over seeds."""
        floor = auroc_difference_floor(ours.placed, base.placed, ours.patient)
        draws = ours.draws[:, 0] - base.draws[:, 0]
        return cls(ours.placed.area - base.placed.area, draws, floor, ours.patient)


def _mean(differences: Sequence[_Difference], protocol: Protocol) -> dict[str, Any]:
    """The mean over tasks with its interval, and the lowest and highest of them.

    Patients are resampled within each task, and the tasks are fixed: the interval says nothing of
    other tasks. Resamples are combined by number, so that tasks on the same patients share their
    draws. The score interval takes tasks as independent (Zou and Donner, Statist Med 27 (2008)
    1693–1702, sum of effects).
    """
    values = np.array([one.value for one in differences])
    mean = float(values.mean())
    below, above = (
        float(np.sqrt(sum((getattr(one.floor, end) - one.value) ** 2 for one in differences)))
        / len(values)
        for end in ("low", "high")
    )
    floor = Interval(mean, mean - below, mean + above)
    draws = np.mean([one.draws for one in differences], axis=0)
    fewest = min((one.patient for one in differences), key=lambda of: len(np.unique(of)))
    return {
        "mean": mean,
        **ends("mean_", interval_ends(draws, floor, fewest, protocol)),
        "lowest": float(values.min()),
        "highest": float(values.max()),
    }


def _paired(group: Table, others: Table) -> tuple[Table, Table]:
    """The models of both that share a seed; a baseline, which has none, pairs with them all."""
    if any(row["seed"] is None for row in group):
        return group, others
    seeds = {row["seed"] for row in group} & {row["seed"] for row in others}
    return [r for r in group if r["seed"] in seeds], [r for r in others if r["seed"] in seeds]


class _Scores:
    """A variant's scores over its seeds: the mean of their placements and of their resamples."""

    def __init__(
        self, rows: Table, files: Mapping[str, Sequence[Mapping[str, NDArray[Any]]]]
    ) -> None:
        labels, draws = zip(*(files[row["item"]] for row in rows), strict=True)
        self.index, self.patient = labels[0]["label_index"], labels[0]["patient"]
        scores = np.stack([one["score"] for one in labels])
        self.placed: Placements = placements(scores, labels[0]["label"])
        areas = [np.stack([one["auroc"], one["auprc"]], axis=1) for one in draws]
        self.draws: NDArray[np.float64] = np.mean(areas, axis=0)
        self.by_seed = {row["seed"]: row["auroc"] for row in rows}


def _summary_row(rows: Table, scores: _Scores, protocol: Protocol) -> dict[str, Any]:
    """The columns of a variant's row; those of its difference are null."""
    gates = [row["gate"] for row in rows if row["gate"] is not None]
    auprc = fmean([row["auprc"] for row in rows])
    roc, pr = area_intervals(scores.draws, scores.placed, auprc, scores.patient, protocol)
    return {
        "task": rows[0]["task"],
        "variant": rows[0]["variant"],
        "seeds": len(rows),
        **_mean_and_sd(rows, "auroc"),
        **ends("ci_", roc),
        **_mean_and_sd(rows, "auprc"),
        **ends("auprc_", pr),
        **dict.fromkeys(("difference", "difference_low", "difference_high")),
        **dict.fromkeys(("seeds_better", "seeds_paired", "delong_p", "clustered_p", "holm_p")),
        "not_estimable": None,
        "collapsed": sum(collapsed(gate["mean"], gate["sd"]) for gate in gates) if gates else None,
        "gate_mean": fmean([gate["mean"] for gate in gates]) if gates else None,
        "gate_sd": fmean([gate["sd"] for gate in gates]) if gates else None,
        **pick(rows[0], (*COUNTS, "patients")),
        "seconds": fmean([row["seconds"] for row in rows]),
    }


def _mean_and_sd(rows: Table, column: str) -> dict[str, float | None]:
    values = [row[column] for row in rows]
    sd = stdev(values) if len(values) > 1 else None
    return {f"{column}_mean": fmean(values), f"{column}_sd": sd}


def _difference(
    ours: _Scores, base: _Scores, difference: _Difference, protocol: Protocol
) -> dict[str, Any]:
    plain = delong_test(ours.placed, base.placed)
    clustered = clustered_test(ours.placed, base.placed, ours.patient)
    seeds = ours.by_seed.keys() & base.by_seed.keys()
    return {
        "difference": plain.difference,
        **ends(
            "difference_", interval_ends(difference.draws, difference.floor, ours.patient, protocol)
        ),
        "seeds_better": sum(ours.by_seed[seed] > base.by_seed[seed] for seed in seeds),
        "seeds_paired": len(seeds),
        "delong_p": finite(plain.p),
        "clustered_p": finite(clustered.p),
        "not_estimable": None if isfinite(clustered.p) else clustered.reason,
    }


def finding(row: Mapping[str, Any]) -> str:
    """The verdict on a row of the table ``summary``: collapsed, reference, or :func:`_compared`."""
    if row["collapsed"]:
        return "collapsed"
    return "reference" if row["variant"] == REFERENCE else _compared(row)


def _compared(row: Mapping[str, Any]) -> str:
    """better, worse, no difference shown, or not compared; better and worse need all seeds."""
    if row["holm_p"] is None:
        return "not compared"
    if row["holm_p"] < ALPHA:
        # A baseline has no seed to be paired; its interval alone decides.
        if row["difference"] > 0 and row["seeds_better"] == row["seeds_paired"]:
            return "better"
        if row["difference"] < 0 and row["seeds_better"] == 0:
            return "worse"
    return "no difference shown"
