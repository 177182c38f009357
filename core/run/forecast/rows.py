"""What is in the rows of a run of kind ``forecast``: one row a model examined, with its curves.

Beside the rows, in the run's folder: ``forecast/<item>.parquet`` (one row a held-out label:
patient, label index, label, score), ``forecast/<item>.draws.parquet`` (AUROC and AUPRC of each
resample of patients), and for sequence models the chosen weights, ``<item>.safetensors``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.ehrshot.exam import calibration_bins, pr_points, roc_points
from core.ehrshot.examples import Examples, Part
from core.ehrshot.recipe import Epoch
from core.files import replacing
from core.protocol import Protocol
from core.run.rows import number
from core.stats import (
    Interval,
    Placements,
    Ranking,
    auprc_floor,
    auroc_floor,
    clustered_intervals,
    clustered_ranking,
    hanley_mcneil,
    placements,
    reported_interval,
)
from core.store import Schema

_POINTS = "STRUCT(x DOUBLE, y DOUBLE, score DOUBLE)[]"
EPOCH = (
    "STRUCT(epoch BIGINT, loss DOUBLE, gate_loss DOUBLE, tuning_loss DOUBLE, tuning_auroc DOUBLE, "
    "tuning_auprc DOUBLE, gate_gradient DOUBLE, head_gradient DOUBLE, gate_mean DOUBLE, "
    "gate_sd DOUBLE, seconds DOUBLE)[]"
)
MODELS: Schema = {
    "key": "VARCHAR",
    "item": "VARCHAR",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "time": "VARCHAR",
    "task": "VARCHAR",
    "variant": "VARCHAR",
    "attention": "VARCHAR",
    "seed": "BIGINT",
    "auroc": "DOUBLE",
    "auprc": "DOUBLE",
    "hm_low": "DOUBLE",
    "hm_high": "DOUBLE",
    "ci_low": "DOUBLE",
    "ci_high": "DOUBLE",
    "auprc_low": "DOUBLE",
    "auprc_high": "DOUBLE",
    "n": "BIGINT",
    "positive": "BIGINT",
    "prevalence": "DOUBLE",
    "patients": "BIGINT",
    "tuning_auroc": "DOUBLE",
    "best_epoch": "BIGINT",
    "seconds": "DOUBLE",
    "device": "VARCHAR",
    "tokens": "BIGINT",
    "parameters": "BIGINT",
    "splits": "STRUCT(split VARCHAR, n BIGINT, positive BIGINT, patients BIGINT)[]",
    "epochs": EPOCH,
    "roc": _POINTS,
    "pr": _POINTS,
    "calibration": "STRUCT(stage VARCHAR, bin BIGINT, n BIGINT, mean_score DOUBLE, "
    "positive_rate DOUBLE, low DOUBLE, high DOUBLE)[]",
    "gate": "STRUCT(mean DOUBLE, sd DOUBLE, collapsed BOOLEAN)",
    "sparsity": "STRUCT(zeros DOUBLE, negatives DOUBLE, cls_zeros DOUBLE, cls_negatives DOUBLE, "
    "sequences BIGINT, entries BIGINT)",
}
"""``variant``: its label, a baseline's name for one. ``seed``: null for a baseline. ``ci_*``: over
resampled patients. ``n`` … ``patients``: of the held-out labels examined. ``seconds``: of fitting.
``best_epoch``: chosen on tuning; for a baseline the number of trees or the place of the penalty.
``calibration``: "raw" is what the model says, "corrected" takes the positive weight of its loss
back out; a baseline has raw alone."""


def split_rows(found: Examples) -> list[dict[str, Any]]:
    """Labels, positives and patients of each split."""
    return [
        {
            "split": name,
            "n": len(part),
            "positive": part.positive,
            "patients": len(np.unique(part.patient)),
        }
        for name, part in found.parts
    ]


def epoch_rows(curve: Sequence[Epoch]) -> list[dict[str, Any]]:
    """The epochs of a training."""
    return [{name: number(value) for name, value in asdict(one).items()} for one in curve]


def calibration_rows(
    probability: dict[str, NDArray[np.float64]], part: Part
) -> list[dict[str, Any]]:
    """Calibration of each stage's probabilities."""
    return [
        {"stage": stage, **asdict(one)}
        for stage, values in probability.items()
        for one in calibration_bins(values, part.label, part.patient)
    ]


def stages(logits: NDArray[np.float32], weight: float) -> dict[str, NDArray[np.float64]]:
    """Probabilities of a sequence model, as trained and with the loss's positive weight undone.

    A loss that weighs positives w times multiplies the odds by w, so log w comes off the logit.
    """
    from scipy.special import expit

    wide = logits.astype(np.float64)
    return {"raw": expit(wide), "corrected": expit(wide - math.log(weight))}


def examined(
    part: Part, scores: NDArray[np.float64], protocol: Protocol
) -> tuple[dict[str, Any], Ranking]:
    """The figures of held-out scores [n], as columns, and their resamples.

    The same draws of patients for every model of a task.
    """
    rng = np.random.default_rng(protocol.seed)
    ranking = clustered_ranking(scores, part.label, part.patient, protocol.resamples, rng)
    draws = np.stack([ranking.auroc_draws, ranking.auprc_draws], axis=1)
    placed = placements(scores, part.label)
    (low, high), (pr_low, pr_high) = area_intervals(
        draws, placed, ranking.auprc, part.patient, protocol
    )
    paper = hanley_mcneil(ranking.auroc, part.positive, len(part) - part.positive)
    return {
        "auroc": ranking.auroc,
        "auprc": ranking.auprc,
        "hm_low": paper.low,
        "hm_high": paper.high,
        "ci_low": low,
        "ci_high": high,
        "auprc_low": pr_low,
        "auprc_high": pr_high,
        "n": len(part),
        "positive": part.positive,
        "prevalence": part.positive / len(part),
        "patients": len(np.unique(part.patient)),
        "roc": [asdict(point) for point in roc_points(scores, part.label)],
        "pr": [asdict(point) for point in pr_points(scores, part.label)],
    }, ranking


Ends = tuple[float | None, float | None]


def area_intervals(
    draws: NDArray[np.float64],
    placed: Placements,
    auprc: float,
    patients: NDArray[Any],
    protocol: Protocol,
) -> tuple[Ends, Ends]:
    """Intervals of AUROC and AUPRC from their resamples [resamples, 2], as the protocol says.

    ``placed`` are the placements that give the AUROC, ``patients`` [labels] whose they are.
    """
    floors = auroc_floor(placed, patients), auprc_floor(auprc, placed, patients)
    first, second = (
        ends_of(draws[:, i], floor, patients, protocol) for i, floor in enumerate(floors)
    )
    return first, second


def ends_of(
    draws: NDArray[np.float64], floor: Interval, patients: NDArray[Any], protocol: Protocol
) -> Ends:
    """The interval of a statistic from its resamples [resamples], as ``protocol.intervals`` says.

    Widened: :func:`core.stats.reported_interval`; else plain percentiles.
    """
    if protocol.intervals == "widened":
        return reported_interval(draws, len(np.unique(patients)), floor) or (None, None)
    low, high = clustered_intervals(draws[:, None])
    return number(float(low[0])), number(float(high[0]))


def prediction_files(folder: Path, item: str) -> tuple[Path, Path]:
    """Where an item's predictions and its resamples lie; ``folder`` is the run's."""
    place = folder / "forecast"
    return place / f"{item}.parquet", place / f"{item}.draws.parquet"


def write_predictions(
    folder: Path, item: str, part: Part, scores: NDArray[np.float64], ranking: Ranking
) -> None:
    """Write both files of an item, each whole or not at all."""
    import pyarrow as arrow
    from pyarrow import parquet

    labels, draws = prediction_files(folder, item)
    labels.parent.mkdir(parents=True, exist_ok=True)
    for path, columns in (
        (
            labels,
            {
                "patient": part.patient,
                "label_index": part.index,
                "label": part.label,
                "score": scores,
            },
        ),
        (draws, {"auroc": ranking.auroc_draws, "auprc": ranking.auprc_draws}),
    ):
        with replacing(path) as fresh:
            parquet.write_table(arrow.table(columns), fresh)


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file that :func:`write_predictions` wrote."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}
