"""Views and conclusion of runs of kind curve: accuracy of answers by position of their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midchart.core.runs.declared import Conclusion, Ends, Measure, View

CORRECT = Measure(
    "accuracy", "accuracy", "%", "Accuracy: of the responses with their evidence in this part.",
    (Ends("ci_low", "ci_high", "by question"),), clusters="clusters",
    null=("null_low", "null_high"), better="more",
)  # fmt: skip
GAP = Measure(
    "gap", "highest minus lowest part", "points",
    "A maximum minus a minimum of noisy means is never 0: compare it with the gap by chance.",
    (Ends("gap_low", "gap_high", "by question"),), clusters="clusters", p="gap_p",
)  # fmt: skip
MIDDLE = Measure(
    "difference", "points in the middle minus at the edge", "points", "Holm-adjusted.",
    (Ends("difference_low", "difference_high", "by question"),), clusters="clusters",
    p="difference_holm",
)  # fmt: skip
CHOSEN = ("score", "position", "bins", "stratum")

VIEWS = (
    View("curve", "Does accuracy depend on position?", "curve", (CORRECT,), "line",
         rows=("value",), across="low", choose=CHOSEN, more=("bin", "null_low", "null_high"),
         about="Ribbon: what chance alone fills."),
    View("contrasts", "Is the middle worse than the edge?", "summary", (MIDDLE, GAP), "forest",
         rows=("value",), choose=CHOSEN, zero=True,
         more=("middle", "edge", "null_gap", "homogeneity_p", "quadratic", "quadratic_holm")),
    View("paper", "What is the paper's curve?", "published",
         (Measure("accuracy", "accuracy", "%", "",
                  (Ends("ci_low", "ci_high", "by question"),)),), "line", rows=(),
         across="low"),
    View("located", "Where was evidence found?", "location",
         (Measure("share", "% of the questions with evidence", "%", "",
                  (Ends("wilson_low", "wilson_high", "Wilson"),)),), rows=("measure",)),
    View("missed", "Which curves failed?", "failures"),
)  # fmt: skip


def conclusion(report: Mapping[str, Any]) -> Conclusion:
    """The first verdict of the run's tables, sentence by sentence."""
    rows = report["tables"].get("verdict") or ()
    if not rows:
        return Conclusion()
    parts = [f"{part.rstrip('.')}." for part in str(rows[0]["text"]).split(". ")]
    # What the answers are comes after what they show.
    first = next((part for part in parts if not part.startswith("Simulated")), parts[0])
    return Conclusion(first, tuple(part for part in parts if part != first))
