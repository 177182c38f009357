"""Tables of a run of kind ``gate``: curves, ablation, faults, calibration, and the paper's figures
beside ours.

Shares are shares, not per cent. Intervals are by patient (:mod:`core.stats.reported`).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import config as settings
from core.experiments.gate.evaluation import Answers, Recalled
from core.experiments.gate.variants import ALL_FAULTS, FAULTS, NO_FAULT
from core.gate.measures import Floats, expected_calibration_error, known, reliability, score_gap
from core.stats.auroc import clustered_auroc
from core.stats.reported import share_interval
from core.storage.query import Schema
from core.storage.rows import RowStore

Table = list[dict[str, Any]]
_FAULT_ORDER = (NO_FAULT, *FAULTS, ALL_FAULTS)
PUBLISHED_HEADS = {"shallow": "linear", "standard": "standard", "deep": "deep"}


def recall_columns(sat: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Recall of an examination with its interval, as columns; all null where n is 0."""
    recall, low, high = (
        (f"{name}_recall", f"{name}_low", f"{name}_high")
        if name
        else ("recall", "recall_low", "recall_high")
    )
    own = f"{name}_" if name else ""
    n = sat[f"{own}n"]
    return {
        recall: sat[f"{own}hits"] / n if n else None,
        low: sat[f"{own}low"],
        high: sat[f"{own}high"],
    }


def trained(store: RowStore) -> Table:
    """The rows of the gates that were trained without fault, in the order of their training."""
    return store.select("variants", "*", "status = 'ok'")


def training(rows: Table) -> Table:
    """One row an epoch of each variant."""
    return [{"variant": row["variant"], **epoch} for row in rows for epoch in row["curve"]]


def ablation(rows: Table) -> Table:
    """One row each variant that shows no fault; ``n`` counts the questions of ``recall``."""
    table: Table = []
    for row in rows:
        if row["fault"] not in ("", NO_FAULT):
            continue
        sat = row["sittings"][0]
        table.append(
            {
                **{k: row[k] for k in ("variant", "ngram", "dim", "head", "query", "loss")},
                **{k: sat[k] for k in ("auroc", "ci_low", "ci_high", "gap")},
                **recall_columns(sat),
                **recall_columns(sat, "evidence"),
                "n": sat["n"],
                "evidence_n": sat["evidence_n"],
                "seconds": row["seconds"],
            }
        )
    return table


def calibration(rows: Table) -> Table:
    """Reliability of each variant, raw and scaled, by bin of predicted probability."""
    return [
        {
            "variant": row["variant"],
            **{k: one[k] for k in one if k != "ece"},
            "temperature": row["temperature"] if one["stage"] == "scaled" else 1.0,
            "ece": one["ece"],
        }
        for row in rows
        for one in row["calibration"]
    ]


def scores(rows: Table) -> Table:
    """Histogram of the raw probabilities of positives and negatives, each variant."""
    return [{"variant": row["variant"], **one} for row in rows for one in row["scores"]]


def faults(rows: Table) -> Table:
    """The corrected gate, and the gate under each published fault, in each process it scored in."""
    table: Table = []
    shown = [row for row in rows if row["fault"]]
    for row in sorted(shown, key=lambda row: _FAULT_ORDER.index(row["fault"])):
        for sat in row["sittings"]:
            name = row["fault"]
            if len(row["sittings"]) > 1:
                name += ", same process" if sat["salt"] == 0 else f", process {sat['salt']}"
            evidence = recall_columns(sat, "evidence")
            lexical = recall_columns(sat)
            table.append(
                {
                    "fault": name,
                    "auroc": sat["auroc"],
                    "ci_low": sat["ci_low"],
                    "ci_high": sat["ci_high"],
                    "recall": lexical["recall"],
                    "low": lexical["recall_low"],
                    "high": lexical["recall_high"],
                    **evidence,
                    "n": sat["n"],
                    "evidence_n": sat["evidence_n"],
                }
            )
    return table


def split(rows: Table) -> Table:
    """Patients (whose record could be read), labelled pairs of question and sentence, and
    positives, each part of the split.

    Pairs are those of a gate without a published fault in what it learns from, where there is
    one; the patients are the same for all.
    """
    plain = [row for row in rows if row["fault"] in ("", NO_FAULT)]
    return (plain or rows)[0]["split"] if rows else []


def published(rows: Table) -> Table:
    """The paper's ablations, and the mean recall of our variants of the same factor and value.

    ``spread`` and ``low``, ``high`` are standard deviation, least and most over variants, as in
    the paper's table; for the ablation of the query ours are one gate each.
    """
    ours = ablation(rows)
    grid = [row for row in ours if row["query"] and row["loss"] == "bce"]
    table: Table = []
    for paper in _read("gate_ablation.csv"):
        factor, value = paper["factor"], paper["value"]
        matches: dict[str, Callable[[dict[str, Any]], bool]] = {
            "ngram": lambda row, v=value: str(row["ngram"]) == v,
            "embedding_dim": lambda row, v=value: str(row["dim"]) == v,
            "mlp": lambda row, v=value: row["head"] == PUBLISHED_HEADS[v],
            "overall": lambda row: True,
        }
        mine = [row["recall"] for row in grid if matches[factor](row)]
        table.append(
            _beside(
                "gate_ablation",
                factor,
                value,
                [paper[name] for name in ("mean_recall_pct", "sd", "low_pct", "high_pct")],
                None,
                mine,
                None,
            )
        )
    for paper in _read("query_ablation.csv"):
        query = paper["condition"] == "with_query"
        sat = [
            row["sittings"][0]
            for row in rows
            if row["fault"] in ("", NO_FAULT)
            and (row["ngram"], row["dim"], row["head"], row["loss"]) == (3, 64, "standard", "bce")
            and row["query"] == query
        ][:1]
        for value, hits, n in (("overall", "hits", "n"), ("middle", "middle_hits", "middle_n")):
            mine = [one[hits] / one[n] for one in sat if one[n]]
            table.append(
                _beside(
                    "query_ablation",
                    paper["condition"],
                    value,
                    [paper[f"{value}_pct"], None, None, None],
                    # The paper gives one n, that of all its questions.
                    int(paper["n"]) if value == "overall" else None,
                    mine,
                    sat[0][n] if sat else None,
                )
            )
    return table


def _read(name: str) -> Iterable[dict[str, str]]:
    path = settings.published_folder() / name
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _beside(
    table: str,
    factor: str,
    value: str,
    paper: Sequence[str | None],
    paper_n: int | None,
    mine: Sequence[float | None],
    n: int | None,
) -> dict[str, Any]:
    known = [share for share in mine if share is not None]
    many = len(known) > 1
    row: dict[str, Any] = {"table": table, "factor": factor, "value": value}
    for name, cell in zip(("recall", "spread", "low", "high"), paper, strict=True):
        row[f"paper_{name}"] = None if cell is None else round(float(cell) / 100, 6)
    row["paper_n"] = paper_n
    row["recall"] = fmean(known) if known else None
    row["spread"] = stdev(known) if many else None
    row["low"] = min(known) if many else None
    row["high"] = max(known) if many else None
    row["variants"], row["n"] = len(known), n
    return row


def failures(store: RowStore) -> Table:
    """Variants that could not be trained, and why."""
    return store.select("variants", "variant, reason", "status = 'failed'")


# What is in the rows of a run of kind ``gate``: one row a trained variant, all that tables need.


VARIANTS: Schema = {
    "key": "VARCHAR",
    "item": "VARCHAR",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "time": "VARCHAR",
    "variant": "VARCHAR",
    "ngram": "BIGINT",
    "dim": "BIGINT",
    "head": "VARCHAR",
    "query": "BOOLEAN",
    "loss": "VARCHAR",
    "fault": "VARCHAR",
    "seconds": "DOUBLE",
    "temperature": "DOUBLE",
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
"""``seconds``: of training, in the pass that finished it."""
SCORE_BINS = 20


def evaluation_row(
    salt: int, answers: Answers, resamples: int, rng: np.random.Generator, widened: bool
) -> dict[str, Any]:
    """One examination: AUROC, score gap and recall, with intervals over patients.

    ``widened``: that of the AUROC holds its score interval, as ``protocol.intervals`` says.
    """
    area = clustered_auroc(
        answers.logits, answers.labels, answers.patients, resamples, rng, widened=widened
    )
    return {
        "salt": salt,
        "auroc": known(area.estimate),
        "ci_low": known(area.low),
        "ci_high": known(area.high),
        "gap": known(score_gap(answers.logits, answers.labels)),
        **_recalled("", answers.lexical),
        **_recalled("evidence_", answers.evidence),
        **_recalled("middle_", answers.middle),
    }


def _recalled(name: str, found: Recalled) -> dict[str, Any]:
    """Hits, questions, and the interval of the share by patient."""
    low, high = share_interval(found.hit, found.patient) or (None, None)
    counts = {"hits": sum(found.hit), "n": len(found.hit), "low": low, "high": high}
    return {f"{name}{column}": value for column, value in counts.items()}


def calibration_rows(
    logits: Floats, labels: Floats, patients: NDArray[np.str_], temperature: float
) -> list[dict[str, Any]]:
    """Reliability as trained (raw) and with the temperature (scaled).

    ``low`` and ``high`` are the interval of a bin's ``positive_rate`` by patient.
    """
    rows: list[dict[str, Any]] = []
    for stage, divisor in (("raw", 1.0), ("scaled", temperature)):
        bins = reliability(logits, labels, divisor)
        error = expected_calibration_error(bins)
        for one in bins:
            inside = one.rows
            low, high = share_interval(labels[inside] > 0.5, patients[inside]) or (None, None)
            rows.append(
                {
                    "stage": stage,
                    "bin": round(one.low * 10),
                    "n": one.n,
                    "mean_score": one.predicted,
                    "positive_rate": one.observed,
                    "low": low,
                    "high": high,
                    "ece": error,
                }
            )
    return rows


def score_rows(logits: Floats, labels: Floats) -> list[dict[str, Any]]:
    """How many positives and negatives got a probability in each of twenty equal bins."""
    from scipy.special import expit

    probability = expit(np.asarray(logits, dtype=np.float64))
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    rows: list[dict[str, Any]] = []
    for label, mine in (("positive", labels > 0.5), ("negative", labels <= 0.5)):
        counts, _ = np.histogram(probability[mine], edges)
        rows += [
            {
                "label": label,
                "bin_low": i / SCORE_BINS,
                "bin_high": (i + 1) / SCORE_BINS,
                "count": int(count),
            }
            for i, count in enumerate(counts)
        ]
    return rows
