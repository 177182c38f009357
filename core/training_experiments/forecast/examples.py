"""Examples of a task, the same for every variant, and baselines on counts of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midchart.core.errors import DataError, SpecError
from midchart.core.sequences.store import LENGTH, SPLITS, EventStore, Labels, last_events
from midchart.core.stats.auroc import ranking_areas

PADDING, UNKNOWN = 0, 1
FEWEST_EVENTS = 5
"""A code with fewer events in the training part is unknown."""
RANGES = 10
"""Most ranges of a code's values."""
PER_RANGE = 20
"""Fewest values in each range of a code."""
RANDOM_SHARES = (0.7, 0.15, 0.15)
"""Shares of patients in each split where they are split at random."""

Codes = NDArray[np.int32]
Values = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token ids of codes and, where ``edges`` are given, of their ranges.

    A token is a code, or a code and the range of its value.
    ``first``: int32 [codes + 1], the token of each code without a value; ranges follow it.
    ``edges``: code → inner edges, float32 ascending; a value on an edge is in the range above.
    ``size``: number of tokens, padding and unknown included.
    """

    first: NDArray[np.int32]
    edges: dict[int, Values]
    size: int

    def tokens(self, codes: Codes, values: Values) -> NDArray[np.int32]:
        """Tokens [n, length] of events; 0 stays 0. ``values`` nan where an event has none."""
        known = codes < len(self.first)
        tokens = np.where(known, self.first[np.where(known, codes, 0)], UNKNOWN).astype(np.int32)
        if self.edges:
            flat, value = tokens.reshape(-1), values.reshape(-1)
            for code, rows in _valued(codes.reshape(-1), value):
                edges = self.edges.get(code)
                if edges is not None:
                    flat[rows] += 1 + np.searchsorted(edges, value[rows], "right").astype(np.int32)
        return tokens

    def code_of(self) -> NDArray[np.int32]:
        """The code of each token, int32 [size]; 0 for padding and unknown."""
        named = np.flatnonzero(self.first > UNKNOWN)
        order = named[np.argsort(self.first[named], kind="stable")]
        tokens = np.diff(np.append(self.first[order], self.size))
        none = np.zeros(self.size - tokens.sum(), np.int32)
        return np.concatenate([none, np.repeat(order, tokens).astype(np.int32)])


def _valued(codes: Codes, values: Values) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each code with values, and the indices of its events that have one; both arrays [events]."""
    rows = np.flatnonzero(np.isfinite(values) & (codes > 0))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    which, starts = np.unique(codes[rows], return_index=True)
    yield from zip(which.tolist(), np.split(rows, starts[1:]), strict=True)


def learn_vocabulary(codes: Codes, values: Values, with_values: bool) -> Vocabulary:
    """The vocabulary of training sequences [n, length]; code 0 is padding.

    Windows of one patient overlap; an event counts once for each window that contains it.
    """
    counts = np.bincount(codes.reshape(-1))
    first = np.full(len(counts), UNKNOWN, np.int32)
    first[0] = PADDING
    edges = _edges(codes.reshape(-1), values.reshape(-1)) if with_values else {}
    size = UNKNOWN + 1
    # Most frequent first, so that token ids are ranks of frequency.
    for code in (np.argsort(-counts[1:], kind="stable") + 1).tolist():
        if counts[code] < FEWEST_EVENTS:
            break
        first[code] = size
        size += 1 + (len(edges[code]) + 1 if code in edges else 0)
    return Vocabulary(first, {c: e for c, e in edges.items() if first[c] > UNKNOWN}, size)


def _edges(codes: Codes, values: Values) -> dict[int, Values]:
    edges: dict[int, Values] = {}
    for code, rows in _valued(codes, values):
        value = values[rows]
        ranges = min(RANGES, len(value) // PER_RANGE)
        if ranges > 1 and value.min() < value.max():  # a constant value has no ranges
            inner = np.quantile(value, np.arange(1, ranges) / ranges).astype(np.float32)
            edges[code] = np.unique(inner)
    return edges


@dataclass(frozen=True, eq=False)
class SplitExamples:
    """The examples of one split; n labels, L events at most.

    ``tokens``: int32 [n, L], latest last, 0 where padded. ``label``: uint8 [n]. ``patient``:
    int64 [n]. ``index``: int64 [n], which of the task's labels each is.
    """

    tokens: NDArray[np.int32]
    label: NDArray[np.uint8]
    patient: NDArray[np.int64]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.label)

    @property
    def positive(self) -> int:
        """Number of positive labels."""
        return int(self.label.sum())


@dataclass(frozen=True, eq=False)
class Examples:
    """A task's examples; no patient is in two of the parts."""

    task: str
    vocabulary: Vocabulary
    train: SplitExamples
    tuning: SplitExamples
    held_out: SplitExamples

    @property
    def parts(self) -> tuple[tuple[str, SplitExamples], ...]:
        """(split, part), in the order of :data:`midchart.core.sequences.SPLITS`."""
        return tuple(zip(SPLITS, (self.train, self.tuning, self.held_out), strict=True))


def shuffled(labels: Labels, seed: int) -> Labels:
    """The same labels with their patients split at random (:data:`RANDOM_SHARES`).

    Patients of no split stay in none.
    """
    patients = np.unique(labels.patient[labels.split >= 0])
    order = np.random.default_rng([seed, len(SPLITS)]).permutation(len(patients))
    ends = np.round(np.cumsum(RANDOM_SHARES) * len(patients)).astype(int)
    drawn = np.searchsorted(ends, order, "right").clip(max=len(SPLITS) - 1).astype(np.int8)
    at = np.searchsorted(patients, labels.patient).clip(max=max(len(patients) - 1, 0))
    inside = labels.split >= 0
    return replace(labels, split=np.where(inside, drawn[at], -1).astype(np.int8))


def chosen_rows(labels: Labels, split: str, most: int, seed: int) -> NDArray[np.int64]:
    """Indices of a split's labels, ascending; a random ``most`` of them (0: all)."""
    rows = labels.part(split)
    if not most or len(rows) <= most:
        return rows
    rng = np.random.default_rng([seed, SPLITS.index(split)])
    return np.sort(rng.choice(rows, most, replace=False))


def examples(
    store: EventStore,
    labels: Labels,
    *,
    with_values: bool,
    most: Mapping[str, int] | None = None,
    seed: int = 42,
    prediction_time: Literal["strict", "inclusive"] = "strict",
    length: int = LENGTH,
) -> Examples:
    """A task's examples by split, at most ``most`` labels of each (0: all).

    Raises SpecError where a split lacks a class, DataError where splits share a patient.
    """
    parts: list[SplitExamples] = []
    vocabulary: Vocabulary | None = None
    for split in SPLITS:
        rows = chosen_rows(labels, split, (most or {}).get(split, 0), seed)
        label = labels.positive[rows]
        if len(np.unique(label)) < 2:
            raise SpecError(
                f"task {labels.task!r}: {len(rows):,} labels of the split {split!r}, "
                f"{int(label.sum()):,} positive; training and evaluation need both classes in each"
            )
        events = last_events(store, labels, length, prediction_time, rows)
        if vocabulary is None:
            vocabulary = learn_vocabulary(events.codes, events.values, with_values)
        tokens = vocabulary.tokens(events.codes, events.values)
        parts.append(SplitExamples(tokens, label, labels.patient[rows], rows))
    patients = [set(part.patient.tolist()) for part in parts]
    shared = len(patients[0] & patients[1]) + len((patients[0] | patients[1]) & patients[2])
    if shared:
        problem = f"{shared:,} patients are in two splits"
        raise DataError(f"labels of {labels.task}", None, problem, "fix the splits")
    assert vocabulary is not None
    return Examples(labels.task, vocabulary, *parts)


# Baselines on event counts: a constant, logistic regression and boosted trees. They use the same
# events as the sequence models (the last ones before the prediction, as counts of tokens), the same
# tuning labels and the same held-out labels.


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


def counts(part: SplitExamples, size: int) -> Any:
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
