"""The paper's figures of Stages 1 and 2, copied by value, as rows that this installation's can
stand beside.

Each row: ``table`` (a key of TABLES), ``label`` (the arm as our tables label it), ``what`` (a band,
a task type, hit or miss), ``value`` with ``low`` and ``high`` where the paper gives them; shares.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from core import settings

Row = dict[str, Any]

TABLES = {
    "stage2": "Answers judged correct, by where the evidence lies",
    "stage1": "Questions with a lexical hit among what was kept",
    "k_sweep": "Fewer sentences: answers judged correct by k",
    "other_arms": "Other arms: answers judged correct",
    "hit_miss": "Answers judged correct, given a lexical hit and given none",
    "task_type": "Answers judged correct, by kind of question",
}
BANDS = ("overall", "middle", "edge")
KINDS = {"binary_retrieval": "R", "multi_step_reasoning": "Rn", "longitudinal_summary": "S"}


def paper_rows() -> list[Row]:
    """All figures that this installation has counterparts of, in the order of TABLES."""
    return [*_stage2(), *_stage1(), *_sweep(), *_others(), *_hit_miss(), *_kinds()]


def _read(name: str) -> list[dict[str, str]]:
    path = settings.published_folder() / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _row(table: str, label: str, what: str, value: str, low: str = "", high: str = "") -> Row:
    share = [float(text) / 100 if text else None for text in (value, low, high)]
    named = {"table": table, "label": label, "what": what}
    return named | dict(zip(("value", "low", "high"), share, strict=True))


def _stage2() -> Iterator[Row]:
    for row in _read("stage2_judge_accuracy.csv"):
        figures = (row["accuracy_pct"], row["ci_low_pct"], row["ci_high_pct"])
        yield _row("stage2", row["arm"], row["band"], *figures)


def _stage1() -> Iterator[Row]:
    for row in _read("stage1_recall.csv"):
        for band in BANDS:
            yield _row("stage1", row["arm"], band, row[f"{band}_pct"])


def _sweep() -> Iterator[Row]:
    for row in _read("bm25_k_sweep.csv"):
        label = row["arm"] if row["k"] == "20" else f"{row['arm']} k={row['k']}"
        for band in BANDS[:2]:
            yield _row("k_sweep", label, band, row[f"{band}_pct"])


def _others() -> Iterator[Row]:
    for row in _read("other_arms.csv"):
        if row["arm"] == "bm25_temporal":  # described nowhere, so nothing here answers to it
            continue
        for band in BANDS:
            yield _row("other_arms", row["arm"], band, row[f"{band}_pct"])


def _hit_miss() -> Iterator[Row]:
    for row in _read("conditional_accuracy_lexical.csv"):
        for evidence in ("hit", "miss"):
            yield _row("hit_miss", row["arm"], evidence, row[f"accuracy_{evidence}_pct"])


def _kinds() -> Iterator[Row]:
    for row in _read("task_type.csv"):
        for arm in ("qccs", "bm25", "full"):
            if row["task_type"] in KINDS:
                yield _row("task_type", arm, KINDS[row["task_type"]], row[f"{arm}_pct"])
