"""The tables of a curve: its bins, its summary, its verdict in words, and the paper's own curve."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from core import config as settings
from core.errors import InputError
from core.experiments.curve.rows import Choice, Observed, Taken, take
from core.experiments.curve.study import UNIFORM_SHARE, Curve, study
from core.experiments.curve.verdict import verdict
from core.runs.tables import known
from core.storage.query import Schema

Table = list[dict[str, Any]]

BIN_COLUMNS = (
    "bin", "low", "high", "n", "clusters", "accuracy", "ci_low", "ci_high", "null_low", "null_high",
)  # fmt: skip
SUMMARY: Schema = {
    "n": "BIGINT",
    "clusters": "BIGINT",
    "peak": "DOUBLE",
    "peak_bin": "BIGINT",
    "trough": "DOUBLE",
    "trough_bin": "BIGINT",
    "gap": "DOUBLE",
    "null_gap": "DOUBLE",
    "gap_p": "DOUBLE",
    "homogeneity_p": "DOUBLE",
    "middle": "DOUBLE",
    "edge": "DOUBLE",
    "difference": "DOUBLE",
    "difference_low": "DOUBLE",
    "difference_high": "DOUBLE",
    "difference_p": "DOUBLE",
    "quadratic": "DOUBLE",
    "quadratic_low": "DOUBLE",
    "quadratic_high": "DOUBLE",
    "quadratic_p": "DOUBLE",
    "share_10_90": "DOUBLE",
    "uniform_share": "DOUBLE",
    "unlocated": "BIGINT",
    "simulated": "BOOLEAN",
    "difference_holm": "DOUBLE",
    "quadratic_holm": "DOUBLE",
    "smallest_difference": "DOUBLE",
    "held": "DOUBLE",
    "unscored": "BIGINT",
    "weak": "BIGINT",
}
"""Shares are shares, differences of shares too; ``difference`` is middle minus edge, ``quadratic``
log odds (:class:`core.experiments.curve.Curve` says of what). p values are each test's own;
``_holm`` are the
two pre-specified ones after Holm. ``smallest_difference``: what the answers would have shown with
80 % power. ``held``: share of answers whose position no permutation could move. ``unlocated`` and
``unscored`` answers are in no bin, nor those left out for a ``weak`` location."""


def drawn(
    observed: Observed, choice: Choice, bins: int, resamples: int, seed: int
) -> tuple[Curve, Taken]:
    """A choice's curve; raises InputError where no answer has both the score and a position."""
    taken = take(observed, choice)
    if taken.placed is None:
        raise InputError(
            f"no answer has both the score {choice.score!r} and a {choice.position} position of "
            f"its evidence ({taken.unscored} without the score, {taken.unlocated} unlocated, "
            f"{taken.weak} left out for a weak location)"
        )
    widened = observed.protocol.intervals == "widened"
    return study(taken.placed, bins, resamples, seed, widened), taken


def named(choice: Choice, bins: int) -> dict[str, Any]:
    """The columns that say which curve a row is of."""
    return {
        "stratum": choice.stratum,
        "value": choice.value,
        "score": choice.score,
        "position": choice.position,
        "bins": bins,
    }


def bin_rows(curve: Curve) -> Table:
    """One row a bin; a share, interval or band that is not defined is null."""
    return [
        {
            "bin": b,
            "low": float(curve.low[b]),
            "high": float(curve.high[b]),
            "n": int(curve.n[b]),
            "clusters": int(curve.clusters[b]),
            "accuracy": known(curve.accuracy[b]),
            "ci_low": known(curve.ci_low[b]),
            "ci_high": known(curve.ci_high[b]),
            "null_low": known(curve.null_low[b]),
            "null_high": known(curve.null_high[b]),
        }
        for b in range(len(curve.n))
    ]


def summary_row(curve: Curve, taken: Taken) -> dict[str, Any]:
    """The summary's own columns (:data:`SUMMARY`)."""
    own = {
        "n": curve.rows,
        "clusters": curve.cluster_count,
        "uniform_share": UNIFORM_SHARE,
        "unlocated": taken.unlocated,
        "unscored": taken.unscored,
        "weak": taken.weak,
        "simulated": taken.simulated,
        "smallest_difference": known(curve.smallest),
        "peak_bin": curve.peak_bin,
        "trough_bin": curve.trough_bin,
    }
    return {name: own[name] if name in own else known(getattr(curve, name)) for name in SUMMARY}


def in_words(curve: Curve, choice: Choice, taken: Taken) -> str:
    """The curve's verdict."""
    return verdict(curve, choice.score, taken.simulated, choice.stratum != "all")


def published_curve() -> Table:
    """The paper's curve: bin, low, high, accuracy, ci_low, ci_high; shares."""
    table: Table = []
    for row in _read("clitm_curve.csv"):
        low, high = (int(edge) / 100 for edge in row["decile"].split("-"))
        table.append(
            {
                "bin": len(table),
                "low": low,
                "high": high,
                "accuracy": float(row["accuracy"]),
                "ci_low": float(row["cluster_ci_low"]),
                "ci_high": float(row["cluster_ci_high"]),
            }
        )
    return table


def published_summary() -> Table:
    """The paper's figures about its curve: quantity, value, ci_low, ci_high, unit, as printed."""
    return [
        {
            "quantity": row["quantity"],
            "value": float(row["value"]),
            "ci_low": float(row["ci_low"]) if row["ci_low"] else None,
            "ci_high": float(row["ci_high"]) if row["ci_high"] else None,
            "unit": row["unit"],
        }
        for row in _read("clitm_summary.csv")
    ]


def _read(name: str) -> list[Mapping[str, str]]:
    path = settings.published_folder() / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
