"""Evaluation of a trained model on held-out labels: its row's columns, its predictions on disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.experiments.forecast.examples import Part
from core.protocol import Protocol
from core.results.tables import ends
from core.runs.schemas import number
from core.stats.auroc import (
    Placements,
    Ranking,
    auprc_floor,
    auroc_floor,
    clustered_ranking,
    hanley_mcneil,
    placements,
    thresholds,
)
from core.stats.intervals import Interval, clustered_intervals
from core.stats.paired import reported_interval, share_interval
from core.storage.files import replacing

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]
Ends = tuple[float | None, float | None]
Maps = Callable[[NDArray[np.int32]], NDArray[np.float32]]
POINTS = 101
"""Most points of a curve."""
BINS = 10
SAMPLED = 64
"""Sequences whose attention maps are inspected."""
BATCH = 8
"""Sequences whose maps are computed at once."""


def evaluation_row(
    part: Part, scores: Floats, protocol: Protocol
) -> tuple[dict[str, Any], Ranking]:
    """The columns from ``auroc`` to ``pr`` for held-out scores [n], and their resamples.

    The same patients are drawn for every model of a task.
    """
    rng = np.random.default_rng(protocol.seed)
    ranking = clustered_ranking(scores, part.label, part.patient, protocol.resamples, rng)
    draws = np.stack([ranking.auroc_draws, ranking.auprc_draws], axis=1)
    placed = placements(scores, part.label)
    roc_ends, pr_ends = area_intervals(draws, placed, ranking.auprc, part.patient, protocol)
    paper = hanley_mcneil(ranking.auroc, part.positive, len(part) - part.positive)
    return {
        "auroc": ranking.auroc,
        "auprc": ranking.auprc,
        **ends("hm_", paper),
        **ends("ci_", roc_ends),
        **ends("auprc_", pr_ends),
        "n": len(part),
        "positive": part.positive,
        "prevalence": part.positive / len(part),
        "patients": len(np.unique(part.patient)),
        "roc": roc_points(scores, part.label),
        "pr": pr_points(scores, part.label),
    }, ranking


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

    Widened: :func:`core.stats.paired.reported_interval`; else plain percentiles.
    """
    if protocol.intervals == "widened":
        return reported_interval(draws, len(np.unique(patients)), floor) or (None, None)
    low, high = clustered_intervals(draws[:, None])
    return number(float(low[0])), number(float(high[0]))


def roc_points(scores: ArrayLike, labels: ArrayLike) -> Rows:
    """The ROC curve from (0, 0) to (1, 1), thinned: x, y, score."""
    curve = thresholds(scores, labels)
    x, y = curve.alarms / max(1, curve.alarms[-1]), curve.hits / max(1, curve.hits[-1])
    origin = {"x": 0.0, "y": 0.0, "score": float(curve.score[0])}
    return [origin, *_thinned(x, y, curve.score)]


def pr_points(scores: ArrayLike, labels: ArrayLike) -> Rows:
    """Precision over recall, thinned: x, y, score."""
    curve = thresholds(scores, labels)
    recall = curve.hits / max(1, curve.hits[-1])
    return _thinned(recall, curve.hits / (curve.hits + curve.alarms), curve.score)


def _thinned(x: Floats, y: Floats, score: Floats) -> Rows:
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return [{"x": float(x[i]), "y": float(y[i]), "score": float(score[i])} for i in rows]


def calibration_rows(probabilities: Mapping[str, Floats], part: Part) -> Rows:
    """Ten bins of equal number by predicted probability [n], for each stage.

    Intervals are by patient; a bin of fewer than 5 patients has none.
    """
    rows: Rows = []
    positive = part.label > 0.5
    for stage, values in probabilities.items():
        probability = np.asarray(values, np.float64)
        order = np.argsort(probability, kind="stable")
        for i, inside in enumerate(np.array_split(order, min(BINS, len(order)))):
            rows.append(
                {
                    "stage": stage,
                    "bin": i,
                    "n": len(inside),
                    "mean_score": float(probability[inside].mean()),
                    "positive_rate": float(positive[inside].mean()),
                    **ends("", share_interval(positive[inside], part.patient[inside])),
                }
            )
    return rows


def stages(logits: NDArray[np.float32], weight: float) -> dict[str, Floats]:
    """Probabilities of a sequence model, as trained and with the loss's positive weight undone.

    A loss that weighs positives w times multiplies the odds by w, so log w comes off the logit.
    """
    from scipy.special import expit

    wide = logits.astype(np.float64)
    return {"raw": expit(wide), "corrected": expit(wide - math.log(weight))}


def sparsity(tokens: NDArray[np.int32], maps: Maps) -> dict[str, Any]:
    """Shares of exact zeros and of negatives in ``maps(tokens)`` [b, heads, 1 + t, 1 + t].

    Padding is left out. ``zeros``, ``negatives``: among all ``entries``; ``cls_*``: in the row of
    CLS (position 0), which alone is read. ``sequences``: how many of ``tokens`` [n, t] were used,
    evenly spaced.
    """
    picked = np.unique(np.linspace(0, len(tokens) - 1, min(SAMPLED, len(tokens))).astype(int))
    totals = np.zeros((2, 3))
    for begin in range(0, len(picked), BATCH):
        batch = tokens[picked[begin : begin + BATCH]]
        real = np.concatenate([np.ones((len(batch), 1), bool), batch != 0], axis=1)
        values = maps(batch)
        pairs = (real[:, None, :, None] & real[:, None, None, :]) & np.ones_like(values, bool)
        for i, rows in enumerate((slice(None), slice(1))):
            value, pair = values[:, :, rows], pairs[:, :, rows]
            totals[i] += [((value == 0) & pair).sum(), ((value < 0) & pair).sum(), pair.sum()]
    shares = (totals[:, :2] / totals[:, 2:]).ravel().tolist()
    names = ("zeros", "negatives", "cls_zeros", "cls_negatives")
    counts = {"sequences": len(picked), "entries": int(totals[0, 2])}
    return dict(zip(names, shares, strict=True)) | counts


def prediction_files(folder: Path, item: str) -> tuple[Path, Path]:
    """The files of an item's predictions and of its resamples; ``folder`` is the run's."""
    return folder / "forecast" / f"{item}.parquet", folder / "forecast" / f"{item}.draws.parquet"


def write_predictions(
    folder: Path, item: str, part: Part, scores: Floats, ranking: Ranking
) -> None:
    """Write both files of an item, each atomically."""
    import pyarrow as arrow
    from pyarrow import parquet

    labels, draws = prediction_files(folder, item)
    labels.parent.mkdir(parents=True, exist_ok=True)
    predictions = {
        "patient": part.patient,
        "label_index": part.index,
        "label": part.label,
        "score": scores,
    }
    resamples = {"auroc": ranking.auroc_draws, "auprc": ranking.auprc_draws}
    for path, columns in ((labels, predictions), (draws, resamples)):
        with replacing(path) as fresh:
            parquet.write_table(arrow.table(columns), fresh)


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file that :func:`write_predictions` wrote."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}
