"""Views and conclusion of runs of kind forecast: attentions compared with softmax, by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midchart.core.format import p_value, with_interval
from midchart.core.results.titles import title
from midchart.core.results.values import in_words
from midchart.core.runs.declared import Conclusion, Ends, Measure, View

Row = Mapping[str, Any]
REFERENCE, CONSTANT = "softmax", "constant"
AUROC = Measure(
    "auroc_mean", "AUROC", "", "Mean over seeds; interval by patient.",
    (Ends("ci_low", "ci_high", "by patient"),), clusters="patients", better="more",
)  # fmt: skip
AUPRC = Measure(
    "auprc_mean", "AUPRC", "", "Area under precision against recall; by chance the prevalence.",
    (Ends("auprc_low", "auprc_high", "by patient"),), clusters="patients",
    chance="prevalence", better="more",
)  # fmt: skip
DIFFERENCE = Measure(
    "difference", "points of AUROC above softmax", "points",
    "Paired by seed and patient; p by DeLong's test, Holm-adjusted.",
    (Ends("difference_low", "difference_high", "by patient"),), clusters="patients",
    p="holm_p", better="more",
)  # fmt: skip
DIFFERENCE_COLUMNS = ("difference", "difference_low", "difference_high")
MEAN = Measure(
    "mean", "mean difference over tasks", "points", "",
    (Ends("mean_low", "mean_high", "by patient"),), "tasks", better="more",
)  # fmt: skip


def _by_epoch(column: str, words: str) -> Measure:
    return Measure(column, words, "")


VIEWS = (
    View("areas", "Which attention forecasts best?", "summary", (AUROC, AUPRC), "grid",
         rows=("variant",), across="task", opens=("task", "variant")),
    View("differences", "Which differences from softmax hold?", "summary", (DIFFERENCE,), "forest",
         rows=("variant",), choose=("task",), zero=True,
         more=("seeds_better", "seeds_paired", "delong_p", "clustered_p", "not_estimable"),
         opens=("variant",), concludes=True),
    View("mean", "And over all tasks?", "mean_difference", (MEAN,), "forest", rows=("variant",),
         zero=True, more=("of_tasks", "lowest", "highest")),
    View("paper", "How far is the paper?", "published",
         (Measure("auroc", "AUROC", "", "", (Ends("ci_low", "ci_high", "by patient"),)),),
         rows=("task", "variant"),
         more=("paper_auroc", "paper_auroc_low", "paper_auroc_high", "paper_auprc")),
    View("roc", "ROC: what does a threshold cost?", "roc",
         (Measure("sensitivity", "sensitivity", ""),), "line", rows=("variant",),
         across="false_positive_rate", choose=("task", "seed"), diagonal="chance",
         opens=("variant",)),
    View("precision", "Precision: how many alarms are right?", "pr",
         (Measure("precision", "precision", ""),), "line", rows=("variant",), across="recall",
         choose=("task", "seed"), opens=("variant",)),
    View("calibration", "Calibration: is 70 % right in 70 %?", "calibration",
         (Measure("positive_rate", "observed event rate", "%", "",
                  (Ends("ci_low", "ci_high", "by patient"),)),), "line", rows=("variant",),
         across="mean_score", choose=("task", "seed", "stage"),
         diagonal="perfect calibration", opens=("variant",)),
    View("training", "Did the training settle?", "epochs",
         (_by_epoch("tuning_auroc", "tuning AUROC"), _by_epoch("tuning_loss", "tuning loss"),
          _by_epoch("loss", "training loss"), _by_epoch("gate_gradient", "gradient of the gate"),
          _by_epoch("gate_mean", "mean of the gate")), "line", rows=("variant",), across="epoch",
         choose=("task", "seed"), opens=("variant",)),
    View("gates", "Did a gate collapse?", "gate", (Measure("mean", "mean of the gate", ""),),
         "forest", rows=("variant", "seed"), choose=("task",), more=("sd", "collapsed"),
         about="Collapsed: a mean in [.45, .55] and an SD of at most .05, over held-out patients.",
         opens=("variant",)),
    View("sparsity", "Which weights are exactly zero?", "sparsity",
         (Measure("zeros", "% of the weights that are zero"),
          Measure("negatives", "% of the weights that are negative")), "forest",
         rows=("variant", "seed"), choose=("task",),
         more=("cls_zeros", "cls_negatives", "sequences", "entries"), opens=("variant",)),
    View("split", "Who was it trained and tested on?", "splits", choose=("task",)),
    View("missed", "Which fits failed?", "failures"),
)  # fmt: skip


def conclusion(report: Mapping[str, Any], task: str = "") -> Conclusion:
    """A task (default: the first): which attentions differ from softmax, which gates collapsed,
    which baselines are better."""
    tables = report["tables"]
    tasks = list(dict.fromkeys(row["task"] for row in tables.get("forecast") or ()))
    if not tasks:
        return Conclusion()
    task = task if task in tasks else tasks[0]

    def of_task(name: str) -> list[Row]:
        return [row for row in tables.get(name) or () if row["task"] == task]

    verdicts = {row["variant"]: row["verdict"] for row in of_task("verdict")}
    summary = {row["variant"]: row for row in of_task("summary")}
    trained = {row["variant"] for row in of_task("forecast") if row["seed"] is not None}
    others = [name for name in verdicts if name in trained and name != REFERENCE]
    reference = title("variant", REFERENCE)
    better, worse = (_named(others, outcome, verdicts, summary) for outcome in ("better", "worse"))
    parts = [f"better than {reference}: {better}" if better else "",
             f"worse than {reference}: {worse}" if worse else ""]  # fmt: skip
    head = "; ".join(filter(None, parts))
    if REFERENCE not in verdicts:
        head = f"this run has no {reference} to compare with"
    elif not others:
        head = f"this run has no other attention than {reference} yet"
    elif not head:
        head = f"no attention is significantly better or worse than {reference}"
    name = in_words("task", task)
    details = [
        f"The gate of {title('variant', variant)} collapsed in {row['collapsed']} of "
        f"{row['seeds']} seeds."
        for variant, row in summary.items()
        if variant in trained and row["collapsed"]
    ]
    counts = [one for one in verdicts if one not in trained and one != CONSTANT]
    if baselines := _named(counts, "better", verdicts, summary):
        details.append(f"Better than {reference} among the count-based baselines: {baselines}.")
    return Conclusion(f"{name[:1].upper()}{name[1:]}: {head}.", tuple(details))


def _named(
    names: Sequence[str], outcome: str, verdicts: Mapping[str, str], summary: Mapping[str, Row]
) -> str:
    """The variants with this verdict, each with its difference and p."""
    texts: list[str] = []
    for name in names:
        if verdicts[name] == outcome and name in summary:
            row = summary[name]
            value, low, high = (row[column] for column in DIFFERENCE_COLUMNS)
            p = "no p" if row["holm_p"] is None else p_value(row["holm_p"])
            texts.append(
                f"{title('variant', name)} {with_interval(value, low, high, 'points')} points ({p})"
            )
    return ", ".join(texts)
