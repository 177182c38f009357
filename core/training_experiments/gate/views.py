"""Views and conclusion of runs of kind gate: shapes, faults, training and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midchart.core.format import percent, with_interval
from midchart.core.results.values import number
from midchart.core.runs.declared import Conclusion, Ends, Measure, View

Row = Mapping[str, Any]
AUROC = Measure(
    "auroc", "AUROC on the pairs of held-out patients", "",
    "Chance that a sentence with evidence scores above one without.",
    (Ends("ci_low", "ci_high", "by patient"),), better="more",
)  # fmt: skip
ALL_PIECES = Measure(
    "evidence_all_recall", "% of questions with all pieces of the evidence kept", "%", "",
    (Ends("evidence_all_low", "evidence_all_high", "by patient"),), "evidence_n",
    chance="evidence_all_chance", better="more",
)  # fmt: skip
ANY_PIECE = Measure(
    "evidence_recall", "% of questions with any piece of the evidence kept", "%", "",
    (Ends("evidence_low", "evidence_high", "by patient"),), "evidence_n",
    chance="evidence_chance", better="more",
)  # fmt: skip
WORD = Measure(
    "recall", "% of questions with a shared word kept", "%", "The paper's lexical hit.",
    (Ends("recall_low", "recall_high", "by patient"),),
    better="more",
)  # fmt: skip
GAP = Measure("gap", "mean probability of positives minus that of negatives", "")
LOSS = Measure("validation_loss", "validation loss", "", better="less")
TUNED = Measure("validation_auroc", "validation AUROC", "", better="more")

VIEWS = (
    View("shapes", "Which shape keeps the most evidence?", "ablation",
         (ALL_PIECES, ANY_PIECE, AUROC, WORD, GAP), "grid", rows=("head", "ngram"), across="dim",
         where={"query": (True,), "loss": ("bce",)},
         about="Hidden layers of a head: none (linear), two (standard) or three (deep)."),
    View("variants", "And without the question, or with another loss?", "ablation",
         (ALL_PIECES, ANY_PIECE, AUROC, WORD, GAP), rows=("variant",), ranked=True,
         more=("query", "loss", "seconds")),
    View("faults", "What does each published fault cost?", "faults",
         (ALL_PIECES, ANY_PIECE, AUROC, WORD), "forest", rows=("fault",),
         about="The first row is the corrected gate: fixed hash, whole text, all positives, random "
         "negatives."),
    View("training", "Did the training settle?", "training",
         (TUNED, LOSS, Measure("loss", "training loss", "", better="less")), "line",
         rows=("variant",), across="epoch"),
    View("calibration", "Calibration: is 70 % right in 70 %?", "calibration",
         (Measure("positive_rate", "observed rate of evidence", "%", "",
                  (Ends("ci_low", "ci_high", "by patient"),)),), "line", rows=("stage",),
         across="mean_score", choose=("variant",), diagonal="perfect calibration",
         more=("ece", "temperature")),
    View("scores", "Do positives score higher?", "scores", (Measure("count", "pairs", "count"),),
         "line", rows=("label",), across="bin_low", choose=("variant",)),
    View("paper", "How far is the paper's ablation?", "published",
         (Measure("recall", "% of questions with a shared word kept", "%", "",
                  (Ends("recall_low", "recall_high", "range of the variants"),)),),
         rows=("factor", "value"), choose=("table",),
         more=("paper_recall", "paper_low", "paper_high", "paper_n")),
    View("split", "Who was it trained and tested on?", "split"),
    View("missed", "Which variants failed?", "failures"),
)  # fmt: skip


def conclusion(report: Mapping[str, Any]) -> Conclusion:
    """The first variant (the default), then without the question, and with all faults."""
    rows: Sequence[Row] = report["tables"].get("ablation") or ()
    if not rows:
        return Conclusion()
    first = rows[0]
    measures = [one for one in (ALL_PIECES, ANY_PIECE) if first.get(one.column) is not None]
    auroc = f"AUROC {_text(AUROC, first)} on held-out patients"
    text, details = f"The gate {first['variant']} reaches {auroc}", []
    if measures:
        shares = [
            f"{'all' if one is ALL_PIECES else 'any'} evidence of {_text(one, first)}"
            f"{_chance(one, first)}"
            for one in measures
        ]
        text = f"The gate keeps {shares[0]} of {first[measures[0].n]:,} questions"
        details = [f"{first['variant']}: {', '.join((auroc, *shares[1:]))}."]
        shapes = [row for row in rows[1:] if row["query"] and row["loss"] == first["loss"]]
        if shapes:
            best = max(shapes, key=lambda row: number(row.get(measures[0].column)))
            text += f"; the best of its {len(shapes)} other shapes of {_text(measures[0], best)}"
            text += f", {apart}" if (apart := _apart(measures[0], best, first)) else ""
    alike = ("ngram", "dim", "head", "loss")
    others = {
        "Without the question": next(
            (
                row
                for row in rows
                if not row["query"] and all(row[name] == first[name] for name in alike)
            ),
            None,
        ),
        "With all published faults": next(
            (
                row
                for row in report["tables"].get("faults") or ()
                if str(row["fault"]).startswith("all four")
            ),
            None,
        ),
    }
    details += [
        f"{title}: {'; '.join(_compared(one, row, first) for one in (AUROC, *measures))}."
        for title, row in others.items()
        if row is not None
    ]
    return Conclusion(f"{text}.", tuple(details))


def _text(measure: Measure, row: Row) -> str:
    ends = measure.intervals[0]
    return with_interval(
        row.get(measure.column), row.get(ends.low), row.get(ends.high), measure.unit
    )


def _chance(measure: Measure, row: Row) -> str:
    chance = row.get(measure.chance)
    return "" if chance is None else f" (chance {percent(chance)})"


def _compared(measure: Measure, row: Row, other: Row) -> str:
    """A row's measure, and whether its interval overlaps the other's: no test is made."""
    name = "AUROC" if measure is AUROC else measure.title.removeprefix("% of ")
    return ", ".join(filter(None, (f"{name} {_text(measure, row)}", _apart(measure, row, other))))


def _apart(measure: Measure, row: Row, other: Row) -> str:
    """Whether two rows' intervals overlap, in words; "" where an end is not known."""
    ends = measure.intervals[0]
    pairs = [(number(one.get(ends.low)), number(one.get(ends.high))) for one in (row, other)]
    if any(end != end for pair in pairs for end in pair):  # an end is NaN
        return ""
    overlap = max(low for low, _ in pairs) <= min(high for _, high in pairs)
    return "no difference shown (the intervals overlap)" if overlap else "the intervals are apart"
