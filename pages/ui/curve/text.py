"""Names of the Curve page's choices, and a curve's numbers as text and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from midchart.pages.ui.curve import charts
from midchart.pages.ui.shared import formats
from midchart.pages.ui.shared.formats import intervals, missing, p_number, p_value, percent, signed

SCORES = {
    "clinician": "Clinicians' verdict",
    "exact": "Exact match",
    "jaccard": "Token overlap (Jaccard)",
    "exact_or_jaccard": "The paper's: exact, else overlap",
}
MEANS = ("jaccard", "exact_or_jaccard")
"""Scores whose curve is of means, not of shares of correct answers."""
SCORE_HELP = {
    "clinician": "Correct or incorrect, as judged by clinicians.",
    "exact": "Answers whose reference holds a number, a date or yes/no, by exact match of those.",
    "jaccard": "Jaccard index of the distinct words of answer and reference: a mean, not a share.",
    "exact_or_jaccard": "Exact match where the reference holds a number, a date or yes/no, else "
    "token overlap, as in the paper's Experiment 1: a mean, not a share.",
}
MEASURES = {
    "clinician": "accuracy by the clinicians' verdict",
    "exact": "accuracy by exact match",
    "jaccard": "mean token overlap",
    "exact_or_jaccard": "mean score",
}
POSITIONS = {"order": "Order of events", "time": "Elapsed time", "token": "Tokens of the record"}
AUTO = "auto"
"""The default position: by tokens where the median record has few events, else by order."""
BINS = {10: "Deciles", 5: "Quintiles"}
LEAST = {0: "All", 85: "from .85", 90: "from .90", 95: "from .95", 100: "1.00 alone"}
"""Least location scores, in hundredths; 0 leaves nothing out."""
SNIPPETS = {"best": "Best piece", "all": "Every piece"}
STRATA = {
    "model": "Model",
    "specialty": "Specialty",
    "domain": "Domain",
    "task_type": "Task type",
}
SIMULATED = "simulated answers"

Facts = list[tuple[str, str, str]]
"""Rows of a summary: what, its value, and what to compare it with."""


def _points(value: Any) -> str:
    return formats.NONE if missing(value) else f"{signed(100 * value)} points"


def _tested(row: Mapping[str, Any], name: str, value: str, low: str, high: str) -> str:
    """A pre-specified contrast: value, interval, p as it is and after Holm's adjustment."""
    text = f"{value} [{low}, {high}]" if formats.NONE not in (low, high) else value
    text += f", {p_value(row[f'{name}_p'])}"
    adjusted = row.get(f"{name}_holm")
    return text if missing(adjusted) else f"{text} (Holm {p_number(adjusted)})"


def summary(row: Mapping[str, Any]) -> Facts:
    """The summary of a curve."""
    bins = int(row["bins"])
    kind = {10: "tenth", 5: "fifth"}.get(bins, "part")

    def at(name: str) -> str:
        bin = row[name]
        return "" if missing(bin) else charts.span(int(bin) / bins, (int(bin) + 1) / bins)

    difference, quadratic = (
        [row[f"{name}{end}"] for end in ("", "_low", "_high")]
        for name in ("difference", "quadratic")
    )
    ends = [formats.NONE if missing(end) else signed(100 * end) for end in difference[1:]]
    detectable = row.get("smallest_difference")
    facts = [
        (f"Best {kind}", percent(row["peak"]), f"at {at('peak_bin')}"),
        (f"Worst {kind}", percent(row["trough"]), f"at {at('trough_bin')}"),
        (
            "Gap, best − worst",
            f"{formats.points(row['gap'])}, {p_value(row['gap_p'])}",
            f"{formats.points(row['null_gap'])} expected by chance" + _gap_interval(row),
        ),
        ("Homogeneity across bins", p_value(row["homogeneity_p"]), "one test over all bins"),
        ("Middle", percent(row["middle"]), "evidence at 30–70 % of the record"),
        ("Edge", percent(row["edge"]), "the rest"),
        (
            "Middle − edge",
            _tested(row, "difference", _points(difference[0]), *ends),
            ""
            if missing(detectable)
            else f"{formats.points(detectable)} would be detected with power .8",
        ),
        (
            "Quadratic term",
            _tested(row, "quadratic", *(signed(value, 2) for value in quadratic)),
            "log odds; above 0: lower accuracy in the middle",
        ),
        (
            "Evidence within 10–90 %",
            percent(row["share_10_90"]),
            f"{percent(row['uniform_share'])} if evenly distributed",
        ),
        ("Answers in the curve", f"{int(row['n']):,}", f"to {int(row['clusters']):,} questions"),
        (
            "Evidence without a position",
            f"{int(row['unlocated']):,}",
            "answers, in no bin: not located, or undated",
        ),
    ]
    if row.get("weak"):
        facts.append(("Weakly located, excluded", f"{int(row['weak']):,}", "answers, in no bin"))
    if not missing(row.get("unscored")):
        facts.append(("Without this score", f"{int(row['unscored']):,}", "answers, in no bin"))
    if row.get("held"):
        note = "of answers: no other question has the same models"
        facts.append(("Not permuted", percent(row["held"]), note))
    return facts


def locations(rows: Sequence[Mapping[str, Any]]) -> Facts:
    """How evidence was located: count, and share with interval."""
    return [
        (
            row["measure"][:1].upper() + row["measure"][1:],
            f"{row['count']:,} of {row['n']:,}",
            formats.share(row["share"], row["wilson_low"], row["wilson_high"]),
        )
        for row in rows
    ]


def bin_table(rows: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """A curve's bins, with the paper's where they are the same bins."""
    spans = zip(rows["low"], rows["high"], strict=True)
    table = pd.DataFrame(
        {
            "evidence at": [charts.span(*ends) for ends in spans],
            "n": rows["n"],
            "questions": rows["clusters"],
            "%": 100 * rows["accuracy"].astype(float),
            "95 %": intervals(rows, "ci_low", "ci_high"),
            "95 %, answers as independent": intervals(rows, "plain_low", "plain_high"),
            "by chance": intervals(rows, "null_low", "null_high"),
        }
    )
    if len(paper) == len(rows):
        table["paper"] = formats.shares(paper, "accuracy", "ci_low", "ci_high")
    return table


def wider(rows: pd.DataFrame) -> str:
    """How much wider the intervals by question are than plain ones; "" where no bin has both."""
    widths = [
        rows[f"{kind}_high"].astype(float) - rows[f"{kind}_low"].astype(float)
        for kind in ("ci", "plain")
    ]
    by = (100 * (widths[0] - widths[1])).dropna()
    if by.empty:
        return ""
    return (
        f"Intervals by question are {signed(by.min())} to {signed(by.max())} points wider than "
        "plain ones, which take all answers as independent (Wilson's); in the paper they are 4 to "
        "18 points wider."
    )


def _gap_interval(row: Mapping[str, Any]) -> str:
    """The gap's interval as the paper computes it; runs from before it was computed have none."""
    low, high = row.get("gap_low"), row.get("gap_high")
    if missing(low) or missing(high):
        return ""
    ends = f"{100 * low:.1f}, {100 * high:.1f}"
    return f"; [{ends}] by the paper's resampling, which chooses both again each time"


def group_table(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Groups down, the main numbers of their summaries to the right."""
    return pd.DataFrame(
        {
            STRATA[by].lower(): rows["value"],
            "n": rows["n"],
            "questions": rows["clusters"],
            "middle": rows["middle"].map(percent),
            "edge": rows["edge"].map(percent),
            "middle − edge": rows["difference"].map(_points),
            "95 %": formats.signed_intervals(rows, "difference_low", "difference_high"),
            "p": rows["difference_p"].map(p_number),
            "gap": rows["gap"].map(formats.points),
            "by chance": rows["null_gap"].map(formats.points),
            "p (gap)": rows["gap_p"].map(p_number),
            "unlocated": rows["unlocated"],
        }
    )
