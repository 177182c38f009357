"""Baselines on event counts: a constant, logistic regression and boosted trees.

They use the same events as the sequence models (the last ones before the prediction, as counts of
tokens), the same tuning labels and the same held-out labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.experiments.forecast.examples import Examples, Part
from core.stats.auroc import ranking_areas

Scores = NDArray[np.float64]
PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Candidate inverse strengths C of the ridge penalty."""
ROUNDS = 200
"""Most trees; their number is chosen on tuning."""
WIDEST = 400
"""Tokens that boosted trees use: the most frequent of the training part."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted baseline: held-out scores (probabilities), the AUROC on tuning, and the index of
    what was chosen there."""

    held_out: Scores
    tuning_auroc: float
    best: int


def counts(part: Part, size: int) -> Any:
    """How often each token is in each sequence: a sparse matrix [n, size], padding left out."""
    from scipy.sparse import csr_matrix

    row, column = np.nonzero(part.tokens)
    ones = np.ones(len(row), np.float32)
    matrix = csr_matrix((ones, (row, part.tokens[row, column])), (len(part), size))
    matrix.sum_duplicates()
    return matrix


def _constant(data: Examples, seed: int) -> Fitted:
    share = data.train.positive / len(data.train)
    return Fitted(np.full(len(data.held_out), share), 0.5, 0)


def _logistic(data: Examples, seed: int) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler()
    logs = [counts(part, data.vocabulary.size).log1p() for _, part in data.parts]
    train = scaler.fit_transform(logs[0])
    tuning, held_out = (scaler.transform(matrix) for matrix in logs[1:])
    models = [
        LogisticRegression(C=strength, max_iter=1000).fit(train, data.train.label)
        for strength in PENALTIES
    ]
    areas = [
        ranking_areas(model.predict_proba(tuning)[:, 1], data.tuning.label)[0] for model in models
    ]
    best = int(np.argmax(areas))
    return Fitted(models[best].predict_proba(held_out)[:, 1], areas[best], best)


def _boosting(data: Examples, seed: int) -> Fitted:
    from sklearn.ensemble import HistGradientBoostingClassifier

    sparse = [counts(part, data.vocabulary.size) for _, part in data.parts]
    common = np.argsort(-np.asarray(sparse[0].sum(axis=0)).ravel(), kind="stable")[:WIDEST]
    train, tuning, held_out = (matrix[:, common].toarray() for matrix in sparse)
    model = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=ROUNDS,
        l2_regularization=1.0,
        early_stopping=False,  # pyright: ignore[reportArgumentType]
        random_state=seed,
    )
    model.fit(train, data.train.label)
    areas = [
        ranking_areas(score[:, 1], data.tuning.label)[0]
        for score in model.staged_predict_proba(tuning)
    ]
    best = int(np.argmax(areas))
    staged = next(islice(model.staged_predict_proba(held_out), best, None))
    return Fitted(np.asarray(staged[:, 1], np.float64), areas[best], best)


def fit(name: str, data: Examples, seed: int) -> Fitted:
    """Fit a baseline on one thread, which is faster than several here; deterministic by seed.

    Raises KeyError for a name not in :data:`BASELINES`.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return BASELINES[name](data, seed)


BASELINES: Mapping[str, Callable[[Examples, int], Fitted]] = {
    "constant": _constant,
    "logistic_counts": _logistic,
    "boosting_counts": _boosting,
}
"""Name → how it is fitted on examples with a seed."""
