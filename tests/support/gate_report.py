"""A gate run's report made by hand: its tables' shape, with numbers from a seeded generator."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.support.reports import run_report, run_status

FAULTS = ("none", "salted hash, same process", "salted hash, process 1", "first 3 positives")
VARIANTS = [
    (n, dim, head, True, "bce")
    for n, dim, head in product((2, 3, 4), (32, 64, 128), ("linear", "standard", "deep"))
]
EXTRA = [(3, 64, "standard", False, "bce"), (3, 64, "standard", True, "focal")]


def name_of(n: int, dim: int, head: str, query: bool, loss: str) -> str:
    """A variant's name, as the engine writes it."""
    more = "" if query else " without query"
    return f"n={n} dim={dim} {head}{more}" + ("" if loss == "bce" else f" {loss}")


def tables(epochs: int = 4) -> dict[str, list[dict[str, Any]]]:
    """All tables of a finished run."""
    rng = np.random.default_rng(11)
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("training", "ablation", "calibration", "scores", "faults")
    }
    for variant in VARIANTS + EXTRA:
        name = name_of(*variant)
        area, share = rng.uniform(0.8, 0.9), rng.uniform(0.3, 0.6)
        rows["training"] += [
            {
                "variant": name, "epoch": e, "loss": 0.5 / e, "validation_loss": 0.5,
                "validation_auroc": area - 0.1 / e,
            }
            for e in range(1, epochs + 1)
        ]  # fmt: skip
        rows["ablation"].append(
            dict(zip(("ngram", "dim", "head", "query", "loss"), variant, strict=True))
            | {"variant": name, "auroc": area, "ci_low": area - 0.05, "ci_high": area + 0.04}
            | {"gap": 0.4, "recall": share, "recall_low": share - 0.1, "recall_high": share + 0.1}
            | {"evidence_recall": share / 2, "evidence_low": share / 3, "evidence_high": share}
            | {"n": 32, "evidence_n": 36, "seconds": 7.25}
        )
        for stage, temperature, error in (("raw", 1.0, 0.08), ("scaled", 2.5, 0.03)):
            rows["calibration"] += [
                {
                    "variant": name, "stage": stage, "bin": b, "n": 10 * (b + 1),
                    "mean_score": b / 10 + 0.05, "positive_rate": b / 10,
                    "ci_low": max(b / 10 - 0.1, 0), "ci_high": b / 10 + 0.1,
                    "temperature": temperature, "ece": error,
                }
                for b in range(0, 10, 3)
            ]  # fmt: skip
        rows["scores"] += [
            {
                "variant": name,
                "label": label,
                "bin_low": i / 20,
                "bin_high": (i + 1) / 20,
                "count": i,
            }
            for label in ("positive", "negative")
            for i in range(20)
        ]
    rows["faults"] = [
        {
            "fault": fault, "auroc": 0.9 - 0.1 * i, "ci_low": 0.85 - 0.1 * i, "ci_high": 0.95,
            "recall": 0.5 - 0.1 * i, "recall_low": 0.1, "recall_high": 0.7, "n": 32,
        }
        for i, fault in enumerate(FAULTS)
    ]  # fmt: skip
    rows["split"] = [
        {"part": "train", "patients": 24, "sentences": 4000, "positives": 1000},
        {"part": "validation", "patients": 4, "sentences": 736, "positives": 184},
        {"part": "test", "patients": 12, "sentences": 2648, "positives": 662},
    ]
    rows["failures"] = []
    return rows


def status(state: str = "done") -> dict[str, Any]:
    """The status of a gate run."""
    done = 34 if state == "done" else 12
    return run_status("gate", "20260101-000000-aaaaaa", 34, done, "gate ablation", status=state)


def report(run: str, rows: dict[str, list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    """The report of a gate run."""
    return run_report(status(), tables() if rows is None else rows, ["recall counts shared words"])
