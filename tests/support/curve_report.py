"""Tables of a position curve and of a needle run made by hand: their shapes, seeded numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.reports import run_report, run_status

COUNTS = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""n per decile of the published data (docs/methods.md, Experiment 1)."""
MODELS = tuple(f"sim-model-{letter}" for letter in "abcdef")
GROUPS = {
    "model": MODELS,
    "specialty": tuple(f"Specialty {i}" for i in range(15)),
    "domain": ("medication", "diagnosis", "laboratory", "social"),
    "task_type": ("R", "Rn", "S"),
}
VERDICT = (
    "Accuracy by the clinicians' verdict is 43.2 % where the evidence lies in the middle of the "
    "record (30–70 %) and 45.2 % elsewhere. The gap alone shows no curve."
)


def group(
    stratum: str, value: str, bins: int = 10, score: str = "clinician", position: str = "order",
    share: float = 1.0,
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Rows of one group: its bins, its summary and its verdict."""
    rng = np.random.default_rng(sum(map(ord, stratum + value)) + bins)
    counts = [max(1, round(share * sum(COUNTS[i::bins]))) for i in range(bins)]
    at = rng.uniform(0.35, 0.6, bins)
    name = {"stratum": stratum, "value": value, "score": score, "position": position, "bins": bins}
    rows = [
        name
        | {
            "bin": i, "low": i / bins, "high": (i + 1) / bins, "n": counts[i],
            "clusters": max(1, counts[i] // 6), "accuracy": float(at[i]),
            "ci_low": float(at[i]) - 0.1, "ci_high": float(at[i]) + 0.1,
            "plain_low": 0.42, "plain_high": 0.48, "null_low": 0.36, "null_high": 0.54,
        }
        for i in range(bins)
    ]  # fmt: skip
    peak, trough = int(at.argmax()), int(at.argmin())
    summary = name | {
        "n": sum(counts), "clusters": sum(counts) // 6, "peak": float(at[peak]), "peak_bin": peak,
        "trough": float(at[trough]), "trough_bin": trough, "gap": float(at.max() - at.min()),
        "null_gap": 0.19, "gap_p": 0.27, "homogeneity_p": 0.31, "middle": 0.432, "edge": 0.452,
        "difference": -0.02, "difference_low": -0.11, "difference_high": 0.07,
        "difference_p": 0.66, "quadratic": -0.05, "quadratic_low": -0.5, "quadratic_high": 0.4,
        "quadratic_p": 0.83, "share_10_90": 0.678, "uniform_share": 0.8, "unlocated": 5,
        "simulated": True, "difference_holm": 0.83, "quadratic_holm": 0.83,
        "smallest_difference": 0.13, "held": 0.02, "unscored": 3,
    }  # fmt: skip
    return {"curve": rows, "summary": [summary], "verdict": [name | {"text": VERDICT}]}


def curve(stratum: str = "all", value: str | None = None, **options: Any) -> dict[str, Any]:
    """What the engine gives for a choice: one group, or all of a stratum."""
    chosen = {"bins": 10, "score": "clinician", "position": "order"} | {
        name: options[name] for name in ("bins", "score", "position") if name in options
    }
    values = ("",) if stratum == "all" else GROUPS[stratum] if value is None else (value,)
    tables: dict[str, Any] = {"curve": [], "summary": [], "verdict": [], "failures": []}
    for place, one in enumerate(values):
        for name, rows in group(stratum, one, share=1 / (1 + place), **chosen).items():
            tables[name] += rows
    return tables


def needles(patients: int = 3) -> dict[str, list[dict[str, Any]]]:
    """All tables of a finished needle run; one cell of two arms was never judged."""
    who = [
        {"arm": arm, "k": 20, "label": arm, "budget": "k=20", "reader": "extractive",
         "judge": judge}
        for arm in ("full", "recency")
        for judge in ("exact", "token_overlap")
    ]  # fmt: skip
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in
        ("heatmap", "depths", "heatmap_positions", "depths_positions", "lengths", "facts",
         "contrast", "verdict", "cuts", "failures")
    }  # fmt: skip

    def counted(n: int, right: int) -> dict[str, Any]:
        share = right / n if n else None
        return {
            "n": n, "correct": right, "accuracy": share,
            "wilson_low": None if share is None else max(0.0, share - 0.2),
            "wilson_high": None if share is None else min(1.0, share + 0.2),
            "patient_low": None if share is None else max(0.0, share - 0.3),
            "patient_high": None if share is None else min(1.0, share + 0.25),
            "bound_low": share, "bound_high": share,
            "refusals": 0, "unparsed": 0, "failed": 0, "in_prompt": 1.0, "question_survived": 1.0,
        }  # fmt: skip

    for named in who:
        for count in (0, 2):
            for length in (1000, 4000):
                for depth in (0, 50, 100):
                    n = 0 if (count, length, depth) == (2, 4000, 50) else 8
                    cell = counted(n, max(0, n - count - depth // 50))
                    place = {"length": length, "depth": depth, "distractors": count}
                    tables["heatmap"].append(named | place | cell)
            ends = {"patients": patients, "ci_low": 0.4, "ci_high": 0.9}
            ends = ends if patients > 1 else ends | {"ci_low": None, "ci_high": None}
            for depth in (0, 50, 100):
                at = {"depth": depth, "distractors": count, "reached": depth / 100}
                tables["depths"].append(named | at | counted(16, 12) | ends)
            for length in (1000, 4000):
                at = {"length": length, "distractors": count, "haystack_tokens": length}
                tables["lengths"].append(named | at | counted(24, 18) | ends)
            fact = {"fact": "dose", "distractors": count}
            tables["facts"].append(named | fact | counted(48, 36))
        tables["contrast"].append(
            named
            | {
                "series": 32, "patients": patients, "middle": 0.7, "edge": 0.8,
                "difference": -0.1, "ci_low": -0.2, "ci_high": 0.02, "p": 0.2, "p_holm": 0.4,
                "p_bound_holm": 0.5, "unscored": 0, "bound_low": -0.1, "bound_high": -0.1,
                "tests": 2, "left_out": 0, "in_prompt_middle": 1.0, "in_prompt_edge": 1.0,
            }
        )  # fmt: skip
        tables["verdict"].append(named | {"text": f"{named['label']}: no difference was shown."})
    for name in ("heatmap", "depths"):
        tables[f"{name}_positions"] = [
            {**row, "position": kind, "depth": min(row["depth"], 90)}
            for kind in ("order", "time", "token")
            for row in tables[name]
        ]
    tables["cuts"] = [
        {"record": "9001", "length": 1000, "events": 22, "tokens": 996, "begins": "2011-04-05",
         "ends": "2011-11-10", "events_before": 161, "events_after": 52, "reason": ""}
    ]  # fmt: skip
    return tables


def status(state: str = "done") -> dict[str, Any]:
    """The status of a needle run."""
    done = 100 if state == "done" else 40
    return run_status("needles", "20260101-000000-bbbbbb", 100, done, "needles", status=state)


def report(run: str, tables: dict[str, list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    """The report of a needle run."""
    return run_report(
        status(), needles() if tables is None else tables, ["records are cut to whole events"]
    )
