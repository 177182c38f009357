"""Rows and report tables of kind ``gate``: training, ablation, faults, calibration, the paper's.

Shares are shares, not per cent. Intervals are by patient (:mod:`core.stats.paired`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.gate.measures import Floats, expected_calibration_error, known, reliability, score_gap
from core.results.tables import ends, nested, pick, read_published
from core.runs.experiment import Table
from core.runs.job import TRAINED
from core.stats.auroc import clustered_auroc
from core.stats.paired import share_interval
from core.storage.rows import RowStore, Schema
from core.training_experiments.gate.evaluation import ALL_FAULTS, FAULTS, NO_FAULT, Answers

SCORE_BINS = 20
FAULT_ORDER = (NO_FAULT, *FAULTS, ALL_FAULTS)
PUBLISHED_HEADS = {"shallow": "linear", "standard": "standard", "deep": "deep"}
PAPER_COLUMNS = ("paper_recall", "paper_spread", "paper_low", "paper_high")
AREA = ("auroc", "ci_low", "ci_high")

VARIANTS: Schema = {
    **TRAINED,
    "variant": "VARCHAR",
    **dict.fromkeys(("ngram", "dim"), "BIGINT"),
    "head": "VARCHAR",
    "query": "BOOLEAN",
    **dict.fromkeys(("loss", "fault"), "VARCHAR"),
    **dict.fromkeys(("seconds", "temperature"), "DOUBLE"),
    "curve": "STRUCT(epoch BIGINT, loss DOUBLE, validation_loss DOUBLE, validation_auroc DOUBLE)[]",
    "sittings": "STRUCT(salt BIGINT, auroc DOUBLE, ci_low DOUBLE, ci_high DOUBLE, gap DOUBLE, "
    "hits BIGINT, n BIGINT, low DOUBLE, high DOUBLE, evidence_hits BIGINT, evidence_n BIGINT, "
    "evidence_low DOUBLE, evidence_high DOUBLE, middle_hits BIGINT, middle_n BIGINT, "
    "middle_low DOUBLE, middle_high DOUBLE)[]",
    "calibration": "STRUCT(stage VARCHAR, bin BIGINT, n BIGINT, mean_score DOUBLE, "
    "positive_rate DOUBLE, low DOUBLE, high DOUBLE, ece DOUBLE)[]",
    "scores": "STRUCT(label VARCHAR, bin_low DOUBLE, bin_high DOUBLE, count BIGINT)[]",
    "split": "STRUCT(part VARCHAR, patients BIGINT, sentences BIGINT, positives BIGINT)[]",
}
"""One row a trained variant. ``seconds``: of training, in the pass that finished it.
``sittings``: its evaluations, one for each process (salt) that it scored in."""


def evaluation_row(
    salt: int, answers: Answers, resamples: int, rng: np.random.Generator, widened: bool
) -> dict[str, Any]:
    """One evaluation: AUROC, score gap and recall, with intervals over patients.

    ``widened``: the interval of the AUROC contains its score interval (``protocol.intervals``).
    """
    area = clustered_auroc(
        answers.logits, answers.labels, answers.patients, resamples, rng, widened=widened
    )
    row = {
        "salt": salt,
        "auroc": known(area.estimate),
        "ci_low": known(area.low),
        "ci_high": known(area.high),
        "gap": known(score_gap(answers.logits, answers.labels)),
    }
    for name, recalled in (
        ("", answers.lexical),
        ("evidence_", answers.evidence),
        ("middle_", answers.middle),
    ):
        row |= {f"{name}hits": sum(recalled.hit), f"{name}n": len(recalled.hit)}
        row |= ends(name, share_interval(recalled.hit, recalled.patient))
    return row


def calibration_rows(
    logits: Floats, labels: Floats, patients: NDArray[np.str_], temperature: float
) -> Table:
    """Reliability as trained (raw) and with the temperature (scaled).

    ``low`` and ``high`` are the interval of a bin's ``positive_rate`` by patient.
    """
    rows: Table = []
    for stage, divisor in (("raw", 1.0), ("scaled", temperature)):
        bins = reliability(logits, labels, divisor)
        error = expected_calibration_error(bins)
        for one in bins:
            inside = one.rows
            rows.append(
                {
                    "stage": stage,
                    "bin": round(one.low * 10),
                    "n": one.n,
                    "mean_score": one.predicted,
                    "positive_rate": one.observed,
                    **ends("", share_interval(labels[inside] > 0.5, patients[inside])),
                    "ece": error,
                }
            )
    return rows


def score_rows(logits: Floats, labels: Floats) -> Table:
    """Histogram of the probabilities of positives and of negatives, in twenty equal bins."""
    from scipy.special import expit

    probability = expit(np.asarray(logits, dtype=np.float64))
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    return [
        {
            "label": label,
            "bin_low": i / SCORE_BINS,
            "bin_high": (i + 1) / SCORE_BINS,
            "count": int(count),
        }
        for label, inside in (("positive", labels > 0.5), ("negative", labels <= 0.5))
        for i, count in enumerate(np.histogram(probability[inside], edges)[0])
    ]


def tables(store: RowStore) -> dict[str, Table]:
    """All tables of a run."""
    rows = store.select("variants", "*", "status = 'ok'")
    return {
        "training": nested(rows, "curve", ("variant",)),
        "ablation": _ablation(rows),
        "calibration": _calibration(rows),
        "scores": nested(rows, "scores", ("variant",)),
        "faults": _faults(rows),
        "split": _split(rows),
        "published": published(rows),
        "failures": store.select("variants", "variant, reason", "status = 'failed'"),
    }


def _recall(result: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Recall of an evaluation with its interval, as columns; all null where n is 0."""
    prefix = f"{name}_" if name else ""
    n = result[f"{prefix}n"]
    return {
        f"{prefix}recall": result[f"{prefix}hits"] / n if n else None,
        f"{name or 'recall'}_low": result[f"{prefix}low"],
        f"{name or 'recall'}_high": result[f"{prefix}high"],
    }


def _without_fault(rows: Table) -> Table:
    return [row for row in rows if row["fault"] in ("", NO_FAULT)]


def _ablation(rows: Table) -> Table:
    """One row each variant without a fault; ``n`` counts the questions of ``recall``."""
    shape = ("variant", "ngram", "dim", "head", "query", "loss")
    return [
        {
            **pick(row, shape),
            **pick(result, (*AREA, "gap")),
            **_recall(result),
            **_recall(result, "evidence"),
            **pick(result, ("n", "evidence_n")),
            "seconds": row["seconds"],
        }
        for row in _without_fault(rows)
        for result in row["sittings"][:1]
    ]


def _calibration(rows: Table) -> Table:
    """Reliability of each variant, raw and scaled, by bin of predicted probability."""
    return [
        {
            "variant": row["variant"],
            **{name: one[name] for name in one if name != "ece"},
            "temperature": row["temperature"] if one["stage"] == "scaled" else 1.0,
            "ece": one["ece"],
        }
        for row in rows
        for one in row["calibration"]
    ]


def _faults(rows: Table) -> Table:
    """The corrected gate, and the gate under each published fault, in each process it scored in."""
    table: Table = []
    shown = [row for row in rows if row["fault"]]
    for row in sorted(shown, key=lambda row: FAULT_ORDER.index(row["fault"])):
        for result in row["sittings"]:
            name = row["fault"]
            if len(row["sittings"]) > 1:
                salt = result["salt"]
                name += ", same process" if salt == 0 else f", process {salt}"
            lexical = _recall(result)
            table.append(
                {
                    "fault": name,
                    **pick(result, AREA),
                    "recall": lexical["recall"],
                    "low": lexical["recall_low"],
                    "high": lexical["recall_high"],
                    **_recall(result, "evidence"),
                    **pick(result, ("n", "evidence_n")),
                }
            )
    return table


def _split(rows: Table) -> Table:
    """Patients (with a readable record), labelled pairs and positives, each part of the split.

    Pairs are those of a gate without a published fault in its examples, where there is one; the
    patients are the same for all.
    """
    return (_without_fault(rows) or rows)[0]["split"] if rows else []


def published(rows: Table) -> Table:
    """The paper's ablations, and the mean recall of our variants of the same factor and value.

    ``spread`` and ``low``, ``high`` are standard deviation, minimum and maximum over variants, as
    in the paper's table; for the ablation of the query ours are one gate each.
    """
    lines: list[
        tuple[str, str, str, Sequence[str | None], int | None, list[float], int | None]
    ] = []
    grid = [row for row in _ablation(rows) if row["query"] and row["loss"] == "bce"]
    columns = {"ngram": "ngram", "embedding_dim": "dim", "mlp": "head"}
    for line in read_published("gate_ablation.csv"):
        factor, value = line["factor"], line["value"]
        column, wanted = columns.get(factor), PUBLISHED_HEADS.get(value, value)
        recalls = [row["recall"] for row in grid if not column or str(row[column]) == wanted]
        paper = [line[name] for name in ("mean_recall_pct", "sd", "low_pct", "high_pct")]
        ours = [recall for recall in recalls if recall is not None]
        lines.append(("gate_ablation", factor, value, paper, None, ours, None))
    standard = {"ngram": 3, "dim": 64, "head": "standard", "loss": "bce"}
    for line in read_published("query_ablation.csv"):
        wanted = standard | {"query": line["condition"] == "with_query"}
        results = [
            row["sittings"][0] for row in _without_fault(rows) if pick(row, wanted) == wanted
        ][:1]
        for value, hits, n in (("overall", "hits", "n"), ("middle", "middle_hits", "middle_n")):
            ours = [result[hits] / result[n] for result in results if result[n]]
            paper = [line[f"{value}_pct"], None, None, None]
            # The paper gives one n, that of all its questions.
            paper_n = int(line["n"]) if value == "overall" else None
            our_n = results[0][n] if results else None
            lines.append(("query_ablation", line["condition"], value, paper, paper_n, ours, our_n))
    table: Table = []
    for name, factor, value, paper, paper_n, ours, n in lines:
        several = len(ours) > 1
        shares = [None if cell is None else round(float(cell) / 100, 6) for cell in paper]
        table.append(
            {
                "table": name,
                "factor": factor,
                "value": value,
                **dict(zip(PAPER_COLUMNS, shares, strict=True)),
                "paper_n": paper_n,
                "recall": fmean(ours) if ours else None,
                "spread": stdev(ours) if several else None,
                "low": min(ours) if several else None,
                "high": max(ours) if several else None,
                "variants": len(ours),
                "n": n,
            }
        )
    return table
