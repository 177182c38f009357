"""Tables of a run of kind ``gate``: curves, ablation, faults, calibration, and the paper's figures
beside ours.

Shares are shares, not per cent. Intervals are by patient (:mod:`core.stats.reported`).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from core import settings
from core.run.gating.variants import ALL_FAULTS, FAULTS, NO_FAULT
from core.store import RowStore

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
