"""This installation's figures of the paper's tables that no run of answers holds: the curve's, the
gate's and the attentions', from the newest finished run of each kind.

A curve or gate run on the chosen cohort goes before one on another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.experiments.forecast.tables import PUBLISHED as ATTENTIONS
from core.runs.directory import find_run
from core.runs.report import report
from core.runs.status import status

Figure = tuple[Any, Any, Any, Any]
"""Value, the ends of its interval, n; null where not known."""
Figures = dict[tuple[str, str, str], Figure]
"""(table of the paper, label, what) → figure, as :mod:`core.experiments.replication.paper` names
them."""
Rows = Sequence[Mapping[str, Any]]
KINDS = {"Curve": "curve", "Gate": "gate", "Forecast": "forecast"}
"""Page → the kind of run behind it."""


def other_runs(data: str | Path) -> dict[str, dict[str, Any] | None]:
    """Page of :data:`KINDS` → the status of its newest finished run, None where there is none."""
    done = [now for now in status() if now["status"] == "done"]
    found: dict[str, dict[str, Any] | None] = {}
    for page, kind in KINDS.items():
        mine = [now for now in done if now["kind"] == kind]
        here = [now for now in mine if Path(now["data"]) == Path(data)]
        found[page] = next(iter([*here, *mine]), None)
    return found


def column_of(run: str) -> str:
    """Under which protocol a run's figures stand: "published" or "corrected"."""
    return "published" if find_run(run).plan().protocol.preset == "published" else "corrected"


def figures(run: str) -> Figures:
    """The figures of a run of one of these kinds."""
    kind, tables = find_run(run).plan().kind, report(run)["tables"]
    return {"curve": _curve, "gate": _gate, "forecast": _forecast}[kind](tables)


def _curve(tables: Mapping[str, Rows]) -> Figures:
    """Of the first curve of all responses in ten bins."""
    named = ("stratum", "value", "score", "position", "bins")
    whole = [row for row in tables["summary"] if row["stratum"] == "all" and row["bins"] == 10]
    if not whole:
        return {}
    one = whole[0]
    found: Figures = {}
    for row in tables["curve"]:
        if all(row[name] == one[name] for name in named):
            decile = f"{100 * row['low']:.0f}-{100 * row['high']:.0f} %"
            figure = (row["accuracy"], row["ci_low"], row["ci_high"], row["n"])
            found["clitm_curve", "six models", decile] = figure
            found["clitm_curve", "six models, n", decile] = (row["n"], None, None, row["n"])
    n = one["n"]
    gap = _scaled(100, one["gap"])
    edge_less_middle = [
        _scaled(-100, one[name]) for name in ("difference", "difference_high", "difference_low")
    ]
    summary: dict[tuple[str, str], Sequence[Any]] = {
        ("the paper's curve", "peak accuracy"): (one["peak"],),
        ("the paper's curve", "trough accuracy"): (one["trough"],),
        ("the paper's curve", "peak to trough gap"): (gap,),
        ("the paper's curve", "middle band accuracy"): (one["middle"],),
        ("the paper's curve", "edge band accuracy"): (one["edge"],),
        ("the paper's curve", "middle vs edge gap"): edge_less_middle,
        ("the paper's curve", "answers between p10 and p90"): (one["share_10_90"],),
        ("the paper's curve", "observations"): (n,),
        ("the paper's curve", "unique pairs"): (one["clusters"],),
        ("re-analysis", "gap expected without position effect"): (_scaled(100, one["null_gap"]),),
        ("re-analysis", "gap observed"): (gap,),
        ("re-analysis", "p of gap"): (one["gap_p"],),
        ("re-analysis", "quadratic term"): [
            one[name] for name in ("quadratic", "quadratic_low", "quadratic_high")
        ],
    }
    for (label, what), values in summary.items():
        value, low, high = (*values, None, None)[:3]
        found["clitm_summary", label, what] = (value, low, high, n)
    return found


def _scaled(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _gate(tables: Mapping[str, Rows]) -> Figures:
    found: Figures = {}
    for row in tables["published"]:
        if row["table"] == "gate_ablation":
            key = f"{row['factor']} {row['value']}", "mean recall (lowest to highest)"
        else:
            key = row["factor"].replace("_", " "), row["value"]
        found[row["table"], *key] = (row["recall"], row["low"], row["high"], row["n"])
    return found


SPARSE = ("softmax", "entmax15", "sparsemax")
FOCAL = {
    "differential": "differential",
    "gated_differential": "qccs plain",
    "gated_differential loss=focal": "qccs focal",
}
"""Label of a variant → the paper's label in the table of the gate's loss."""


def _forecast(tables: Mapping[str, Rows]) -> Figures:
    """Means over seeds; intervals by patients."""
    found: Figures = {}
    tuned = _means(tables["forecast"], "tuning_auroc")
    zeros = _means(tables["sparsity"], "zeros")
    ours = {variant: label.replace("_", " ") for label, variant in ATTENTIONS.items()}
    for row in tables["summary"]:
        task, variant, n = row["task"].removeprefix("lab_"), row["variant"], row["n"]
        auroc = (row["auroc_mean"], row["ci_low"], row["ci_high"], n)
        auprc = (row["auprc_mean"], row["auprc_low"], row["auprc_high"], n)
        if variant in ours:
            label = ours[variant]
            found["ehrshot_attention", label, f"{task}, AUROC"] = auroc
            found["ehrshot_attention", label, f"{task}, AUPRC"] = auprc
            validation = (tuned.get((row["task"], variant)), None, None, None)
            found["ehrshot_attention", label, f"{task}, AUROC in validation"] = validation
        if variant in FOCAL:
            found["ehrshot_focal", FOCAL[variant], f"{task}, AUROC"] = auroc
            share = (row["prevalence"], None, None, n)
            found["ehrshot_focal", "positive labels", f"{task}, prevalence as printed"] = share
            if FOCAL[variant] == "qccs focal":
                for label in ("gate mean", "gate sd"):
                    gate = row[label.replace(" ", "_")]
                    found["ehrshot_focal", label, f"{task}, gate"] = (gate, None, None, n)
        if variant in SPARSE:
            found["ehrshot_sparse", variant, f"{task}, auroc"] = auroc
            found["ehrshot_sparse", variant, f"{task}, auprc"] = auprc
            sparsity = (zeros.get((row["task"], variant)), None, None, n)
            found["ehrshot_sparse", variant, f"{task}, mean sparsity"] = sparsity
    return found


def _means(rows: Rows, column: str) -> dict[tuple[str, str], float]:
    """(task, variant) → the mean of a column over seeds, where it is known."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row[column] is not None:
            groups.setdefault((row["task"], row["variant"]), []).append(row[column])
    return {key: fmean(values) for key, values in groups.items()}
