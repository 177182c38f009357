"""Measures of a gate run, and its variants and faults in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from midchart.pages.ui.shared import formats

HEADS = {
    "linear": "Linear head",
    "standard": "Standard head (128 → 32 → 1)",
    "deep": "Deep head (256 → 128 → 64 → 1)",
}

FAULTS = {
    "none": "The corrected gate: a fixed hash, the whole text, all positives, random negatives.",
    "salted hash": "N-grams are hashed with a salt that differs between processes. A gate "
    "trained in one process and used in another looks up the wrong rows.",
    "first 3 positives": "Only the first three positive sentences in time are used in training.",
    "earliest negatives": "Negatives are the earliest sentences of the record, not random ones; "
    "the gate can learn the date instead of the text.",
    "500 characters, 128 n-grams": "Only the first 500 characters and 128 n-grams of a text are "
    "read.",
    "all four": "All four together, as published.",
}
"""What each switch of the published run does."""


@dataclass(frozen=True)
class Measure:
    """A measure: its column, its interval's columns ("" without one), its title.

    ``share``: whether it is a share of questions, shown in per cent; ``n``: the column of how many
    questions (or pairs) it counts.
    """

    column: str
    low: str
    high: str
    title: str
    share: bool = False
    n: str = "n"

    @property
    def chance(self) -> str:
        """The column of its chance level."""
        return f"{self.column.removesuffix('_recall')}_chance"

    def questions(self, row: Mapping[str, Any]) -> int:
        """How many questions or pairs a row's measure counts."""
        return int(row.get(self.n) or row["n"])

    @property
    def scale(self) -> float:
        return 100.0 if self.share else 1.0

    def text(self, row: Mapping[str, Any]) -> str:
        """The measure of a row with its interval."""
        ends = (row[self.column], row.get(self.low), row.get(self.high))
        return formats.share(*ends) if self.share else formats.estimate(*ends)


MEASURES = {
    "AUROC": Measure("auroc", "ci_low", "ci_high", "AUROC on the pairs of held-out patients"),
    "Recall": Measure(
        "recall", "recall_low", "recall_high", "questions with a shared word kept", True
    ),
    "All pieces": Measure(
        "evidence_all_recall",
        "evidence_all_low",
        "evidence_all_high",
        "questions with all pieces of the evidence kept",
        True,
        "evidence_n",
    ),
    "Any piece": Measure(
        "evidence_recall",
        "evidence_low",
        "evidence_high",
        "questions with any piece of the evidence kept",
        True,
        "evidence_n",
    ),
    "Score gap": Measure("gap", "", "", "mean probability of positives minus that of negatives"),
}


def known_measures(rows: pd.DataFrame) -> list[str]:
    """Names of the measures that rows have; a run of an earlier version lacks all pieces."""
    return [
        name
        for name, measure in MEASURES.items()
        if measure.column in rows and rows[measure.column].notna().any()
    ]


def evidence_measure(rows: pd.DataFrame) -> str:
    """The measure of kept evidence that leads: all pieces, else any, else shared words."""
    known = known_measures(rows)
    return next(name for name in ("All pieces", "Any piece", "Recall") if name in known)


def standard_grid(ablation: pd.DataFrame) -> pd.DataFrame:
    """The n × dim × head variants, each once: with the question, by the standard loss."""
    if ablation.empty:
        return ablation
    rows = ablation[ablation["query"].astype(bool) & (ablation["loss"] == "bce")]
    return rows.drop_duplicates(["ngram", "dim", "head"])


def question_and_loss(ablation: pd.DataFrame) -> pd.DataFrame:
    """The variants that differ in question or loss, after the standard one of the same shape."""
    if ablation.empty:
        return ablation
    other = ablation[~ablation["query"].astype(bool) | (ablation["loss"] != "bce")]
    if other.empty:
        return other
    shape = ["ngram", "dim", "head"]
    standard = standard_grid(ablation).merge(other[shape].drop_duplicates(), on=shape)
    return pd.concat([standard, other], ignore_index=True)


def variant_name(row: Mapping[str, Any]) -> str:
    """A variant by all its settings."""
    words = f"{row['ngram']}-grams, {row['dim']} dimensions, {row['head']} head"
    words += "" if row["query"] else ", no question"
    return words if row["loss"] == "bce" else f"{words}, {row['loss']} loss"


def difference_name(row: Mapping[str, Any]) -> str:
    """A variant by its difference from the standard one."""
    if not row["query"]:
        return "without the question"
    return "default" if row["loss"] == "bce" else f"{row['loss']} loss"


def conclusion(tables: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What a gate run shows, from its first variant: the default; and then without the question,
    and with all faults of the published run."""
    ablation = pd.DataFrame(tables.get("ablation") or [])
    if ablation.empty:
        return "", []
    first = ablation.iloc[0].to_dict()
    measures = [MEASURES["AUROC"]]
    known = known_measures(ablation)
    measures += [MEASURES[name] for name in ("All pieces", "Any piece") if name in known]
    auroc = measures[0].text(first)
    text = f"The gate with {variant_name(first)} reaches AUROC {auroc} on held-out patients"
    if len(measures) > 1:
        shares = [_of_pieces(measure, first) for measure in measures[1:]]
        text += f" and keeps {' and '.join(shares)} of {measures[1].questions(first)} questions"
    parts: list[str] = []
    pair = question_and_loss(ablation)
    others = {}
    if len(pair):
        others["Without the question"] = next(
            (row for row in pair.to_dict("records") if not row["query"]), None
        )
    faults = tables.get("faults") or []
    others["With all published faults"] = next(
        (row for row in faults if row["fault"].startswith("all four")), None
    )
    for title, row in others.items():
        if row is not None:
            compared = [_compared(measure, row, first) for measure in measures]
            parts.append(f"{title}: {'; '.join(compared)}.")
    return f"{text}.", parts


def _of_pieces(measure: Measure, row: Mapping[str, Any]) -> str:
    """All pieces or any piece of the evidence, of which share of the questions, and by chance."""
    name = "all pieces" if measure is MEASURES["All pieces"] else "any piece"
    chance = row.get(measure.chance)
    by_chance = "" if formats.missing(chance) else f" (chance {formats.percent(chance)})"
    return f"{name} of the evidence in {measure.text(row)}{by_chance}"


def _compared(measure: Measure, row: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """A row's measure, and whether its interval overlaps the other's: no test is made."""
    ends = [(one.get(measure.low), one.get(measure.high)) for one in (row, other)]
    name = measure.title if measure.share else "AUROC"
    text = f"{name} {measure.text(row)}"
    if any(formats.missing(end) for pair in ends for end in pair):
        return text
    overlap = max(low for low, _ in ends) <= min(high for _, high in ends)
    shown = "no difference shown (the intervals overlap)" if overlap else "the intervals are apart"
    return f"{text}, {shown}"


def question_text(rows: pd.DataFrame) -> str:
    """The effect of the question in a sentence; "" where the run has no such pair."""
    by_query = {bool(row["query"]): row for row in rows.to_dict("records") if row["loss"] == "bce"}
    if len(by_query) < 2:
        return ""
    parts: list[str] = []
    for name in ("AUROC", "Recall", "All pieces", "Any piece"):
        measure = MEASURES[name]
        if name in known_measures(rows):
            with_it, without = (measure.text(by_query[query]) for query in (True, False))
            title = measure.title if measure.share else name
            parts.append(f"{title}: {with_it} with the question, {without} without it")
    return "; ".join(parts) + "."


def published_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's recall and this run's, by factor and value."""

    def cell(row: Mapping[str, Any], value: str, low: str, high: str, n: str) -> str:
        text = formats.share(row[value], row[low], row[high])
        return text if text == formats.NONE or pd.isna(row[n]) else f"{text} n={int(row[n])}"

    return pd.DataFrame(
        [
            {
                "factor": str(row["factor"]).replace("_", " "),
                "value": row["value"],
                "paper": cell(row, "paper_recall", "paper_low", "paper_high", "paper_n"),
                "this run": cell(row, "recall", "low", "high", "n"),
            }
            for row in frame.to_dict("records")
        ]
    )


def calibration_text(rows: pd.DataFrame) -> str:
    """The calibration error before and after the temperature."""
    first = {stage: part.iloc[0] for stage, part in rows.groupby("stage", sort=False)}
    if not {"raw", "scaled"} <= set(first):
        return ""
    n = int(rows[rows["stage"] == "raw"]["n"].sum())
    return (
        f"Expected calibration error {first['raw']['ece']:.3f} as trained, "
        f"{first['scaled']['ece']:.3f} with the temperature {first['scaled']['temperature']:.2f}, "
        f"which was fitted on the validation patients alone. n = {n:,} pairs of test patients."
    )


def fault_texts(names: list[str]) -> list[str]:
    """What each fault of these rows does, once each, as markdown."""
    faults = dict.fromkeys(fault for name in names for fault in FAULTS if name.startswith(fault))
    return [f"- **{fault[:1].upper()}{fault[1:]}**: {FAULTS[fault]}" for fault in faults]


def part_text(report: Mapping[str, Any], part: str) -> str:
    """The size of a part of the split."""
    for row in report["tables"].get("split") or []:
        if row["part"] == part:
            return (
                f"n = {row['sentences']:,} pairs ({row['positives']:,} positive) of "
                f"{row['patients']:,} {part} patients"
            )
    return f"the {part} patients"
