"""The conclusion of a gate run, from a table made by hand."""

from __future__ import annotations

from typing import Any

from midchart.core.training_experiments.gate.views import conclusion


def variant(name: str, query: bool, auroc: tuple[float, ...], shares: tuple[float, ...]) -> dict:
    shape = {"ngram": 3, "dim": 64, "head": "standard", "loss": "bce", "variant": name}
    area = dict(zip(("auroc", "ci_low", "ci_high"), auroc, strict=True))
    columns = ("evidence_all_recall", "evidence_all_low", "evidence_all_high")
    share = dict(zip(columns, shares, strict=True))
    return {**shape, "query": query, **area, **share, "evidence_all_chance": 0.25, "evidence_n": 40}


FIRST = variant("n=3 dim=64 standard", True, (0.9, 0.8, 0.95), (0.5, 0.2, 0.8))


def report(*rows: dict[str, Any], **tables: Any) -> dict[str, Any]:
    return {"tables": {"ablation": list(rows), **tables}}


def test_the_question_is_worth_what_the_two_rows_say() -> None:
    without = variant("without query", False, (0.7, 0.6, 0.75), (0.3, 0.1, 0.6))
    stated = conclusion(report(FIRST, without))
    assert stated.headline == (
        "The gate keeps all evidence of 50.0 % [20.0, 80.0] (chance 25.0 %) of 40 questions."
    )
    shape, text = stated.details
    assert shape == ("n=3 dim=64 standard: AUROC 0.900 [0.800, 0.950] on held-out patients.")
    assert text.startswith(
        "Without the question: AUROC 0.700 [0.600, 0.750], the intervals are apart"
    )
    assert "30.0 % [10.0, 60.0], no difference shown (the intervals overlap)" in text
