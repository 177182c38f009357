"""A forecast run's report made by hand: its tables' shape, with numbers from a seeded generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.reports import run_report, run_status

TASKS = ("lab_anemia", "lab_hyperkalemia")
ATTENTIONS = ("softmax", "differential", "gated_differential", "h2o", "sparsemax")
BASELINES = ("constant", "logistic_counts", "boosting_counts")
SEEDS = (1, 2)
PREVALENCE = {"lab_anemia": 0.69, "lab_hyperkalemia": 0.024}
GATED = "gated_differential"


def _models(task: str) -> list[tuple[str, int | None]]:
    return [(name, seed) for name in ATTENTIONS for seed in SEEDS] + [(n, None) for n in BASELINES]


def _summary(task: str, variant: str, area: float) -> dict[str, Any]:
    share = PREVALENCE[task]
    compared = variant != "softmax"
    trained = variant in ATTENTIONS
    return {
        "task": task, "variant": variant, "seeds": len(SEEDS) if trained else 1,
        "auroc_mean": area, "auroc_sd": 0.004 if trained else None, "ci_low": area - 0.03,
        "ci_high": area + 0.03, "auprc_mean": share + 0.1 * area,
        "auprc_sd": 0.004 if trained else None, "auprc_low": share, "auprc_high": share + 0.12,
        "difference": area - 0.70 if compared else None,
        "difference_low": area - 0.72 if compared else None,
        "difference_high": area - 0.68 if compared else None,
        "seeds_better": 2 if compared and trained else None,
        "seeds_paired": 2 if compared and trained else None,
        "delong_p": 0.01 if compared else None, "clustered_p": 0.02 if compared else None,
        "not_estimable": None,
        "holm_p": 0.04 if compared else None,
        "collapsed": 1 if variant == GATED else None,
        "gate_mean": 0.5 if variant == GATED else None,
        "gate_sd": 0.02 if variant == GATED else None,
        "n": 2400, "positive": int(2400 * share), "prevalence": share, "patients": 310,
        "seconds": 12.5,
    }  # fmt: skip


AREAS = {
    "softmax": 0.70, "differential": 0.705, GATED: 0.712, "h2o": 0.66, "sparsemax": 0.735,
    "constant": 0.5, "logistic_counts": 0.742, "boosting_counts": 0.761,
}  # fmt: skip
VERDICTS = {
    "softmax": "reference", "differential": "no difference shown", GATED: "collapsed",
    "h2o": "worse", "sparsemax": "better", "constant": "worse", "logistic_counts": "better",
    "boosting_counts": "better",
}  # fmt: skip


def tables(epochs: int = 5) -> dict[str, list[dict[str, Any]]]:
    """All tables of a finished run."""
    rng = np.random.default_rng(5)
    names = ("forecast", "summary", "mean_difference", "epochs", "roc", "pr", "calibration",
             "gate", "sparsity", "splits", "published", "verdict", "failures")  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    rows["mean_difference"] = [
        {"variant": variant, "tasks": len(TASKS), "of_tasks": len(TASKS),
         "mean": AREAS[variant] - 0.70, "mean_low": AREAS[variant] - 0.72,
         "mean_high": AREAS[variant] - 0.68, "lowest": AREAS[variant] - 0.71,
         "highest": AREAS[variant] - 0.69}
        for variant in (*ATTENTIONS, *BASELINES) if variant != "softmax"
    ]  # fmt: skip
    for task in TASKS:
        share = PREVALENCE[task]
        counts = {"n": 2400, "prevalence": share}
        for variant in ATTENTIONS + BASELINES:
            area = AREAS[variant]
            row = _summary(task, variant, area)
            rows["summary"].append(row)
            rows["verdict"].append(
                {"task": task, "variant": variant, "verdict": VERDICTS[variant],
                 "text": f"{task}, {variant}: AUROC {area:.3f}.", **counts}
            )  # fmt: skip
        for variant, seed in _models(task):
            named = {"task": task, "variant": variant, "seed": seed}
            area = float(rng.uniform(0.66, 0.8))
            rows["forecast"].append(
                named | {"auroc": area, "auprc": share, "hm_low": area - 0.01,
                         "hm_high": area + 0.01, "ci_low": area - 0.03, "ci_high": area + 0.03,
                         "auprc_low": share, "auprc_high": share, "positive": int(2400 * share),
                         "patients": 310, "tuning_auroc": area, "best_epoch": 3, "seconds": 12.5,
                         "device": "cpu", "parameters": 9000 if seed else None} | counts
            )  # fmt: skip
            x = np.linspace(0, 1, 21)
            y = x ** ((1 - area) / area)
            rows["roc"] += [
                named | {"false_positive_rate": float(a), "sensitivity": float(b), "score": 1 - a}
                | counts for a, b in zip(x, y, strict=True)
            ]  # fmt: skip
            rows["pr"] += [
                named | {"recall": float(a), "score": 1 - a,
                         "precision": float(share + (1 - share) * (1 - a) * area)} | counts
                for a in x
            ]  # fmt: skip
            rows["calibration"] += [
                named | {"stage": stage, "bin": b, "n": 240, "mean_score": b / 10 + 0.05,
                         "positive_rate": b / 10, "ci_low": max(0.0, b / 10 - 0.05),
                         "ci_high": b / 10 + 0.05, "labels_n": 2400, "prevalence": share}
                for stage in (("raw", "corrected") if seed else ("raw",)) for b in range(10)
            ]  # fmt: skip
            if seed is None:
                continue
            gated = variant == GATED
            rows["epochs"] += [
                named | {"epoch": e, "loss": 0.7 / e, "gate_loss": 0.6 if gated else None,
                         "tuning_loss": 0.72 / e, "tuning_auroc": area - 0.1 / e,
                         "tuning_auprc": share, "gate_gradient": 0.01 / e if gated else None,
                         "head_gradient": 1.0 / e, "gate_mean": 0.5 if gated else None,
                         "gate_sd": 0.02 if gated else None, "seconds": 2.5} | counts
                for e in range(1, epochs + 1)
            ]  # fmt: skip
            rows["sparsity"].append(
                named | {"zeros": 0.4 if variant in ("h2o", "sparsemax") else 0.0,
                         "negatives": 0.3 if "differential" in variant else 0.0,
                         "cls_zeros": 0.5 if variant in ("h2o", "sparsemax") else 0.0,
                         "cls_negatives": 0.2 if "differential" in variant else 0.0,
                         "sequences": 64, "entries": 500_000} | counts
            )  # fmt: skip
            if gated:
                collapsed = seed == 1
                rows["gate"].append(
                    named | {"mean": 0.5 if collapsed else 0.3, "sd": 0.01 if collapsed else 0.2,
                             "collapsed": collapsed} | counts
                )  # fmt: skip
        rows["published"] += [
            {"task": task.removeprefix("lab_"), "variant": variant, "paper_auroc": 0.764,
             "paper_auroc_low": 0.757, "paper_auroc_high": 0.77,
             "paper_auprc": share + 0.05, "paper_validation_auroc": None, "auroc": 0.7,
             "ci_low": 0.67, "ci_high": 0.73, **counts}
            for variant in ("softmax", "differential", "h2o", GATED)
        ]  # fmt: skip
        rows["splits"] += [
            {"task": task, "split": split, "n": n, "positive": int(n * share), "patients": n // 8,
             "prevalence": share}
            for split, n in (("train", 2300), ("tuning", 2350), ("held_out", 2400))
        ]  # fmt: skip
    return rows


def status(state: str = "done") -> dict[str, Any]:
    """The status of a forecast run."""
    done = 26 if state == "done" else 9
    return run_status("forecast", "20260101-000000-cccccc", 26, done, "forecasts", status=state)


def report(run: str, rows: dict[str, list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    """The report of a forecast run."""
    return run_report(
        status(), tables() if rows is None else rows, ["the paper's intervals are too narrow"]
    )
