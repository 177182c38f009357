"""Views and conclusion of runs of kind inhibition: decoders that differ in attention alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midchart.core.results.titles import title
from midchart.core.runs.declared import Conclusion, Ends, Measure, View

ENDS = (Ends("ci_low", "ci_high", "by record and seed"),)
CORRECT = Measure(
    "accuracy", "% correct", "%", "The same records for every attention.", ENDS,
    clusters="records", better="more",
)  # fmt: skip
DIFFERENCE = Measure(
    "difference", "points above the reference", "points",
    "Simultaneous over all comparisons; all seeds must agree.",
    (Ends("all_low", "all_high", "simultaneous"),
     Ends("difference_low", "difference_high", "by record and seed")), better="more",
)  # fmt: skip

VIEWS = (
    View("comparison", "Does subtracting attention help?", "contrasts", (DIFFERENCE,), "forest",
         rows=("variant", "reference"), choose=("words", "placement"), zero=True,
         more=("finding", "seeds_agree", "seeds_paired", "comparisons")),
    View("depth", "Is the middle read as well as the ends?", "depth", (CORRECT,), "line",
         rows=("variant",), across="depth", choose=("placement", "length", "distractors")),
    View("length", "And in longer records?", "length", (CORRECT,), "line", rows=("variant",),
         across="length", choose=("placement", "distractors")),
    View("distractors", "Do similar lines mislead it?", "distractors", (CORRECT,), "line",
         rows=("variant",), across="distractors", choose=("placement", "length")),
    View("attended", "Where does it look?", "attention",
         (Measure("share", "% of the attention", "%", "", ENDS),), "forest",
         rows=("variant", "part"), choose=("layer", "placement", "length", "distractors"),
         more=("mass",)),
    View("training", "Did the training settle?", "training",
         (Measure("accuracy", "% correct in training"), Measure("loss", "loss", "")), "line",
         rows=("variant",), across="step", choose=("placement", "seed")),
    View("decoders", "How large are the decoders?", "inhibition",
         (Measure("training_accuracy", "% correct in training"),), rows=("variant", "seed"),
         choose=("placement",), more=("parameters", "added_parameters", "loss", "seconds")),
    View("missed", "Which decoders failed?", "failures"),
)  # fmt: skip


def conclusion(report: Mapping[str, Any]) -> Conclusion:
    """The verdict over all comparisons, then what it rests on."""
    tables = report["tables"]
    rows, decoders = tables.get("verdict"), tables.get("inhibition")
    if not rows or not decoders:
        return Conclusion()
    sizes = sorted({int(row["parameters"]) for row in decoders})
    added = {row["variant"]: int(row["added_parameters"]) for row in decoders}
    more = ", ".join(
        f"{title('variant', name)} {count:,}" for name, count in added.items() if count
    )
    size = f"Each decoder has {' or '.join(f'{one:,}' for one in sizes)} parameters"
    return Conclusion(
        rows[0]["text"],
        (
            "A difference requires that the simultaneous interval excludes 0 and all seeds agree; "
            "for a gated variant, against both of its controls as well. All decoders are tested on "
            "the same records; with the same seed they share initial weights and training records.",
            size + (f"; in addition: {more}." if more else "."),
        ),
    )
