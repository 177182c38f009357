"""Areas and calibration of a model's scores on held-out labels, with intervals by patient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.format import finite
from midchart.core.protocol import Protocol
from midchart.core.results.tables import ends
from midchart.core.stats.auroc import (
    Placements,
    Ranking,
    auprc_floor,
    auroc_floor,
    clustered_ranking,
    placements,
)
from midchart.core.stats.intervals import Interval, clustered_intervals
from midchart.core.stats.paired import reported_interval, share_interval

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]
Ends = tuple[float | None, float | None]
BINS = 10


def area_columns(
    scores: Floats, labels: NDArray[Any], patients: NDArray[Any], protocol: Protocol
) -> tuple[dict[str, Any], Ranking]:
    """AUROC and AUPRC of scores [n] with their intervals, and their resamples.

    ``labels`` [n] are of both classes. The same patients are drawn for every scoring of the same
    labels.
    """
    rng = np.random.default_rng(protocol.seed)
    ranking = clustered_ranking(scores, labels, patients, protocol.resamples, rng)
    draws = np.stack([ranking.auroc_draws, ranking.auprc_draws], axis=1)
    placed = placements(scores, labels)
    roc_ends, pr_ends = area_intervals(draws, placed, ranking.auprc, patients, protocol)
    columns = {"auroc": ranking.auroc, "auprc": ranking.auprc}
    return columns | ends("ci_", roc_ends) | ends("auprc_", pr_ends), ranking


def area_intervals(
    draws: Floats, placed: Placements, auprc: float, patients: NDArray[Any], protocol: Protocol
) -> tuple[Ends, Ends]:
    """Intervals of AUROC and AUPRC from their resamples [resamples, 2].

    ``placed``: the placements that give the AUROC; ``patients`` [labels]: whose the labels are.
    """
    floors = auroc_floor(placed, patients), auprc_floor(auprc, placed, patients)
    return (
        interval_ends(draws[:, 0], floors[0], patients, protocol),
        interval_ends(draws[:, 1], floors[1], patients, protocol),
    )


def interval_ends(
    draws: Floats, floor: Interval, patients: NDArray[Any], protocol: Protocol
) -> Ends:
    """The interval of a statistic from its resamples [resamples], as ``protocol.intervals`` says.

    Widened: :func:`midchart.core.stats.paired.reported_interval`; else plain percentiles.
    """
    if protocol.intervals == "widened":
        return reported_interval(draws, len(np.unique(patients)), floor) or (None, None)
    low, high = clustered_intervals(draws[:, None])
    return finite(float(low[0])), finite(float(high[0]))


def calibration_rows(
    probabilities: Mapping[str, Floats],
    labels: NDArray[Any],
    patients: NDArray[Any],
    equal_width: bool = False,
) -> Rows:
    """Ten bins by predicted probability [n] for each stage: of equal number, or of equal width.

    Intervals are by patient; a bin of fewer than 5 patients has none, an empty one no row.
    """
    rows: Rows = []
    positive = labels > 0.5
    for stage, probability in probabilities.items():
        if equal_width:
            number = np.minimum((probability * BINS).astype(int), BINS - 1)
            bins = [np.flatnonzero(number == i) for i in range(BINS)]
        else:
            order = np.argsort(probability, kind="stable")
            bins = np.array_split(order, min(BINS, len(order)))
        rows += [
            {
                "stage": stage,
                "bin": i,
                "n": len(inside),
                "mean_score": float(probability[inside].mean()),
                "positive_rate": float(positive[inside].mean()),
                **ends("", share_interval(positive[inside], patients[inside])),
            }
            for i, inside in enumerate(bins)
            if len(inside)
        ]
    return rows


def calibration_error(rows: Rows) -> float:
    """Mean distance of prediction and observation over the bins of a stage, weighted by n
    (Guo et al. 2017, section 3)."""
    total = sum(row["n"] for row in rows)
    return sum(row["n"] * abs(row["mean_score"] - row["positive_rate"]) for row in rows) / total
