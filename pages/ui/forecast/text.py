"""A forecast run in words: the verdict of a task, rows of forest plots, table cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from midchart.core import api
from midchart.pages.ui.shared import results
from midchart.pages.ui.shared.chart import ForestRow
from midchart.pages.ui.shared.formats import NONE, difference, estimate, number, p_value, percent

REFERENCE = "softmax"
CONSTANT = "constant"
COLLAPSE = (0.45, 0.55)
"""Means of a gate that has collapsed, if its SD is at most :data:`COLLAPSE_SD` too."""
COLLAPSE_SD = 0.05
AREAS = {
    "auroc": ("auroc_mean", "ci_low", "ci_high"),
    "auprc": ("auprc_mean", "auprc_low", "auprc_high"),
}
"""Columns of each area in the table ``summary``."""
DIFFERENCE = ("difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class PaperValue:
    """A value of the paper, drawn in the row of that label."""

    name: str
    value: float
    text: str


def task_name(task: str) -> str:
    """A task's title."""
    return task.removeprefix("lab_").replace("_", " ")


def attentions(forecast: pd.DataFrame) -> list[str]:
    """The variants that are sequence models: those with a seed; the others are baselines."""
    return results.choices(forecast[forecast["seed"].notna()], "variant")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def verdict(rows: pd.DataFrame, summary: pd.DataFrame, trained: Sequence[str], task: str) -> str:
    """A task in one paragraph: which attentions differ from softmax, which gates collapsed, which
    baselines are better. ``rows`` and ``summary``: the tables of that name for this task."""
    verdicts = dict(zip(rows["variant"], rows["verdict"], strict=True))
    by_variant = {row["variant"]: row for row in summary.to_dict("records")}

    def differing(names: Sequence[str], outcome: str) -> str:
        return ", ".join(
            f"{api.title('variant', name)} "
            f"{difference(*(by_variant[name][column] for column in DIFFERENCE))} points "
            f"({p_value(by_variant[name]['holm_p'])})"
            for name in names
            if verdicts[name] == outcome and name in by_variant
        )

    others = [name for name in trained if name in verdicts and name != REFERENCE]
    parts = {outcome: differing(others, outcome) for outcome in ("better", "worse")}
    reference = api.title("variant", REFERENCE)
    head = "; ".join(
        f"{outcome} than {reference}: {names}" for outcome, names in parts.items() if names
    )
    if REFERENCE not in verdicts:
        head = f"this run has no {reference} to compare with"
    elif not others:
        head = f"this run has no other attention than {reference} yet"
    elif not head:
        head = f"no attention is significantly better or worse than {reference}"
    text = [_capital(f"{task_name(task)}: {head}.")]
    text += [
        f"The gate of {api.title('variant', name)} collapsed in {int(row['collapsed'])} of "
        f"{int(row['seeds'])} seeds."
        for name, row in by_variant.items()
        if name in trained and number(row["collapsed"]) > 0
    ]
    counts = differing([n for n in verdicts if n not in trained and n != CONSTANT], "better")
    if counts:
        text.append(f"Better than {reference} among the count-based baselines: {counts}.")
    return " ".join(text)


def _row(row: dict, ends: Sequence[float], text: str, trained: Sequence[str]) -> ForestRow:
    """A row of a forest plot; baselines are hollow squares."""
    baseline = row["variant"] not in trained
    symbol = "square" if baseline else "circle"
    return ForestRow(row["title"], *ends, text, baseline, symbol, label=row["variant"])


def _holm(row: Mapping[str, Any]) -> str:
    """Holm's p of a row of the table ``summary``, or why it has none."""
    reason = row.get("not_estimable")
    if isinstance(reason, str) and reason:
        return f"p not estimable: {reason}"
    return NONE if pd.isna(row["holm_p"]) else p_value(row["holm_p"])


def area_rows(summary: pd.DataFrame, area: str, trained: Sequence[str]) -> list[ForestRow]:
    """A task's variants by ``area``, baselines last."""
    rows: list[ForestRow] = []
    for row in summary.to_dict("records"):
        ends = [row[column] for column in AREAS[area]]
        text = estimate(*ends)
        if number(row["seeds"]) > 1:
            spread = row[f"{area}_sd"]
            text += f", {int(row['seeds'])} seeds"
            text += "" if pd.isna(spread) else f" SD {spread:.3f}"
        rows.append(_row(row, [number(end) for end in ends], text, trained))
    return rows


def difference_rows(summary: pd.DataFrame, trained: Sequence[str]) -> list[ForestRow]:
    """A task's paired differences from softmax in points, with Holm's p."""
    rows: list[ForestRow] = []
    for row in summary[summary["difference"].notna()].to_dict("records"):
        ends = [row[column] for column in DIFFERENCE]
        text = f"{difference(*ends)}, {_holm(row)}"
        rows.append(_row(row, [100 * number(end) for end in ends], text, trained))
    return rows


def paper_values(published: pd.DataFrame, area: str, task: str) -> list[PaperValue]:
    """The paper's values of a task."""
    column = f"paper_{area}"
    if column not in published:
        return []
    rows = published[(published["task"] == task.removeprefix("lab_")) & published[column].notna()]
    return [
        PaperValue(
            row["variant"],
            float(row[column]),
            estimate(row[column], row.get(f"{column}_low"), row.get(f"{column}_high")),
        )
        for row in rows.to_dict("records")
    ]


def counts_text(rows: pd.DataFrame) -> str:
    """Number of held-out labels and of positives behind a task's figures."""
    first = rows.iloc[0]
    patients = f" of {int(first['patients']):,} patients" if "patients" in first else ""
    return f"n = {int(first['n']):,} held-out labels{patients}, {positives_text(first)}"


def positives_text(row: Mapping[str, Any]) -> str:
    """Number and share of positive labels: "693 positive (69.3 %)"."""
    return f"{positives(row):,} positive ({percent(row['prevalence'])})"


def positives(row: Mapping[str, Any]) -> int:
    """Number of positive labels."""
    return round(row["n"] * row["prevalence"])


def gate_rows(gate: pd.DataFrame) -> list[ForestRow]:
    """Mean ± SD of each gate, a row for each variant and seed."""
    return [
        ForestRow(
            f"{row['title']}, seed {int(row['seed'])}",
            row["mean"],
            row["mean"] - row["sd"],
            row["mean"] + row["sd"],
            f"{row['mean']:.2f} ± {row['sd']:.2f}"
            + (", collapsed" if row["collapsed"] else ", not collapsed"),
            symbol="x" if row["collapsed"] else "circle",
            label=row["variant"],
        )
        for row in gate.to_dict("records")
    ]


def gate_text(gate: pd.DataFrame) -> str:
    """Which gates collapsed, and what that means."""
    parts: list[str] = []
    for title, rows in gate.groupby("title", sort=False):
        n = int(rows["collapsed"].sum()) or "none"
        parts.append(f"the gate of {title} collapsed in {n} of {len(rows)} seeds")
    text = _capital("; ".join(parts)) + "."
    if gate["collapsed"].any():
        text += (
            " A collapsed gate treats all events nearly equally: the model is then differential "
            "attention with a constant factor."
        )
    return text


def sparsity_rows(rows: pd.DataFrame, column: str) -> list[ForestRow]:
    """A share of the attention maps' entries in per cent: mean over seeds and the seeds' range."""
    result: list[ForestRow] = []
    for (title, variant), part in rows.groupby(["title", "variant"], sort=False):
        share = 100 * part[column].astype(float)
        text = f"{share.mean():.1f} %"
        text += f", seeds {share.min():.1f}–{share.max():.1f}" if len(part) > 1 else ""
        result.append(
            ForestRow(str(title), share.mean(), share.min(), share.max(), text, label=str(variant))
        )
    return result


def summary_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Every task and variant: both areas with intervals, the difference, n, prevalence."""
    return pd.DataFrame(
        [
            {
                "task": task_name(row["task"]),
                "variant": row["title"],
                **{a.upper(): estimate(*(row[c] for c in columns)) for a, columns in AREAS.items()},
                f"Δ vs {api.title('variant', REFERENCE)} (points)": difference(
                    *(row[c] for c in DIFFERENCE)
                ),
                "p (Holm)": _holm(row),
                "seeds": row["seeds"],
                "n": row["n"],
                "positives": positives(row),
                "prevalence": percent(row["prevalence"]),
                "seconds": row["seconds"],
            }
            for row in summary.to_dict("records")
        ]
    )


def mean_table(means: pd.DataFrame) -> pd.DataFrame:
    """Each variant's mean difference from softmax over tasks, and the range of the tasks."""
    return pd.DataFrame(
        [
            {
                "variant": row["title"],
                "mean difference (points)": difference(
                    row["mean"], row["mean_low"], row["mean_high"]
                ),
                "lowest task": difference(row["lowest"], None, None),
                "highest task": difference(row["highest"], None, None),
                "tasks": f"{row['tasks']} of {row['of_tasks']}",
            }
            for row in means.to_dict("records")
        ]
    )


def published_table(published: pd.DataFrame) -> pd.DataFrame:
    """The paper's table with this run's figures."""
    return pd.DataFrame(
        [
            {
                "task": task_name(row["task"]),
                "variant": row["title"],
                "paper AUROC": estimate(
                    row["paper_auroc"], row.get("paper_auroc_low"), row.get("paper_auroc_high")
                ),
                "paper AUPRC": estimate(row.get("paper_auprc")),
                "AUROC (this run)": estimate(row["auroc"], row["ci_low"], row["ci_high"]),
                "n (this run)": row["n"],
                "prevalence (this run)": percent(row["prevalence"]),
            }
            for row in published.to_dict("records")
        ]
    )
