"""What the table of a forecast run says, in words: no difference is claimed that it does not show.

A variant is called better or worse where the p value that knows of patients, after Holm, is below
.05 and every seed says so; otherwise no difference is shown. One whose gate collapsed is called so.
"""

from __future__ import annotations

from typing import Any

from core.run.forecast.spec import REFERENCE

Table = list[dict[str, Any]]
ALPHA = 0.05
FEW_SEEDS = 3
"""Below it nothing is said of what another seed would do."""


def verdicts(summed: Table) -> Table:
    """A text each task and variant; ``summed`` is the table ``summary``."""
    return [
        {
            "task": row["task"],
            "variant": row["variant"],
            "verdict": finding(row),
            "text": in_words(row),
            "n": row["n"],
            "prevalence": row["prevalence"],
        }
        for row in summed
    ]


def finding(row: dict[str, Any]) -> str:
    """reference, better, worse, no difference shown, or not compared; "collapsed" where it is."""
    if row["collapsed"]:
        return "collapsed"
    if row["variant"] == REFERENCE:
        return "reference"
    return _compared(row)


def _compared(row: dict[str, Any]) -> str:
    if row["holm_p"] is None:
        return "not compared"
    if row["holm_p"] < ALPHA:
        # A baseline has no seed to be paired; its interval speaks alone.
        agreed = (row["seeds_better"], row["seeds_paired"])
        if row["difference"] > 0 and agreed[0] == agreed[1]:
            return "better"
        if row["difference"] < 0 and agreed[0] == 0:
            return "worse"
    return "no difference shown"


def in_words(row: dict[str, Any]) -> str:
    """One or two sentences on a row of the table ``summary``."""
    seeds = f"mean of {row['seeds']} seeds" if row["seeds"] > 1 else "one fit"
    spread = f", SD over seeds {row['auroc_sd']:.3f}" if row["auroc_sd"] is not None else ""
    text = (
        f"{row['task']}, {row['variant']}: AUROC {row['auroc_mean']:.3f}"
        f"{_between(row['ci_low'], row['ci_high'])} ({seeds}{spread}), AUPRC "
        f"{row['auprc_mean']:.3f} at a prevalence of {100 * row['prevalence']:.1f} %, "
        f"{row['n']:,} labels of {row['patients']:,} patients."
    )
    if row["difference"] is not None:
        low, high = row["difference_low"], row["difference_high"]
        between = "" if low is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
        p = "" if row["holm_p"] is None else f", p {_p(row['holm_p'])} after Holm"
        text += (
            f" {100 * row['difference']:+.1f} points{between} against {REFERENCE}{p}: "
            f"{_compared(row)}."
        )
        if row["seeds_paired"]:
            text += f" Ahead in {row['seeds_better']} of {row['seeds_paired']} seeds"
            few = row["seeds_paired"] < FEW_SEEDS
            text += "; so few seeds speak of these trainings alone." if few else "."
    if row["collapsed"]:
        text += (
            f" The gate collapsed in {row['collapsed']} of {row['seeds']} seeds (mean over seeds "
            f"{row['gate_mean']:.2f} ± {row['gate_sd']:.2f} over events): it treats all events "
            "nearly alike, so this is differential attention with a constant, not a gated one."
        )
    return text


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"= {value:.3f}"
