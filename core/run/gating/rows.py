"""What is in the rows of a run of kind ``gate``: one row a trained variant, all that tables need.

``sittings`` are the examinations of one gate: one, or for a salted hash one a process, 0 being
that of the process it was trained in. Curve, calibration and histogram are those of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.gate.config import Epoch
from core.gate.measures import (
    Floats,
    expected_calibration_error,
    known,
    reliability,
    score_gap,
)
from core.run.gating.exam import Answers, Recalled
from core.stats import clustered_auroc, share_interval
from core.store import Schema

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


def curve_rows(curve: Sequence[Epoch]) -> list[dict[str, Any]]:
    """The epochs of a training."""
    return [
        {
            "epoch": one.epoch,
            "loss": one.loss,
            "validation_loss": known(one.validation_loss),
            "validation_auroc": known(one.validation_auroc),
        }
        for one in curve
    ]


def sitting_row(
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
