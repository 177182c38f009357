"""A task's labels made ready: tokens before each, by official split, the same for every variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError, SpecError
from core.sequences.gather import LENGTH, last_events
from core.sequences.labels import Labels
from core.sequences.store import SPLITS, EventStore

# What an event is called: its code, or its code with the range its value lies in.


PADDING, UNKNOWN = 0, 1
LEAST = 5
"""Events of a code in the training part, below which it is unknown."""
RANGES = 10
"""Most ranges of a code's values."""
PER_RANGE = 20
"""Values of a code for each range it is cut into, at least."""

Codes = NDArray[np.int32]
Values = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token ids of codes and, where ``edges`` are given, of their ranges.

    ``first``: int32 [codes + 1], the token of each code without a value; ranges follow it.
    ``edges``: code → inner edges, float32 ascending; a value on an edge is of the range above.
    ``size``: number of tokens, padding and unknown included.
    """

    first: NDArray[np.int32]
    edges: dict[int, Values]
    size: int

    @property
    def with_values(self) -> bool:
        """Whether any token tells ranges apart."""
        return bool(self.edges)

    def tokens(self, codes: Codes, values: Values) -> NDArray[np.int32]:
        """Tokens [n, length] of events; 0 stays 0. ``values`` nan where an event has none."""
        known = codes < len(self.first)
        found = np.where(known, self.first[np.where(known, codes, 0)], UNKNOWN).astype(np.int32)
        flat, code, value = found.reshape(-1), codes.reshape(-1), values.reshape(-1)
        if not self.edges:
            return found
        valued = np.flatnonzero(np.isfinite(value) & (code > 0))
        valued = valued[np.argsort(code[valued], kind="stable")]
        which, starts = np.unique(code[valued], return_index=True)
        for one, rows in zip(which.tolist(), np.split(valued, starts[1:]), strict=True):
            edges = self.edges.get(one)
            if edges is not None:
                flat[rows] += 1 + np.searchsorted(edges, value[rows], "right").astype(np.int32)
        return found

    def code_of(self) -> NDArray[np.int32]:
        """The code of each token, int32 [size]; 0 for padding and unknown."""
        found = np.zeros(self.size, np.int32)
        named = np.flatnonzero(self.first > UNKNOWN)
        order = named[np.argsort(self.first[named], kind="stable")]
        ends = np.append(self.first[order][1:], self.size)
        for code, begin, end in zip(order, self.first[order], ends, strict=True):
            found[begin:end] = code
        return found


def learn_vocabulary(codes: Codes, values: Values, with_values: bool) -> Vocabulary:
    """The vocabulary of training sequences [n, length]; code 0 is padding.

    Windows of one patient overlap, so an event counts once for each window that holds it.
    """
    counts = np.bincount(codes.reshape(-1))
    first = np.full(len(counts), UNKNOWN, np.int32)
    first[0] = PADDING
    edges = _edges(codes.reshape(-1), values.reshape(-1)) if with_values else {}
    at = UNKNOWN + 1
    # The most frequent first, so that ids say how common a token is.
    order = np.argsort(-counts[1:], kind="stable") + 1
    for code in order.tolist():
        if counts[code] < LEAST:
            break
        first[code] = at
        at += 1
        if code in edges:
            at += len(edges[code]) + 1
    kept = {code: found for code, found in edges.items() if first[code] > UNKNOWN}
    return Vocabulary(first, kept, at)


def _edges(code: Codes, value: Values) -> dict[int, Values]:
    valued = np.flatnonzero(np.isfinite(value) & (code > 0))
    valued = valued[np.argsort(code[valued], kind="stable")]
    which, starts = np.unique(code[valued], return_index=True)
    found: dict[int, Values] = {}
    for one, rows in zip(which.tolist(), np.split(value[valued], starts[1:]), strict=True):
        ranges = min(RANGES, len(rows) // PER_RANGE)
        if ranges > 1:
            inner = np.quantile(rows, np.arange(1, ranges) / ranges).astype(np.float32)
            edges = np.unique(inner)
            # A constant value tells nothing.
            if rows.min() < rows.max():
                found[one] = edges
    return found


RANDOM_SHARES = (0.7, 0.15, 0.15)
"""Patients of each split where they are split at random."""


@dataclass(frozen=True, eq=False)
class Part:
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
    train: Part
    tuning: Part
    held_out: Part

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        """(split, part), in the order of :data:`core.sequences.SPLITS`."""
        return tuple(zip(SPLITS, (self.train, self.tuning, self.held_out), strict=True))


def shuffled(labels: Labels, seed: int) -> Labels:
    """The same labels with their patients split anew at random, 70, 15 and 15 %.

    What a comparison does that leaves the official split; patients of no split stay in none.
    """
    patients = np.unique(labels.patient[labels.split >= 0])
    order = np.random.default_rng([seed, len(SPLITS)]).permutation(len(patients))
    ends = np.round(np.cumsum(RANDOM_SHARES) * len(patients)).astype(int)
    drawn = np.searchsorted(ends, order, "right").clip(max=len(SPLITS) - 1).astype(np.int8)
    at = np.searchsorted(patients, labels.patient).clip(max=max(len(patients) - 1, 0))
    inside = labels.split >= 0
    return replace(labels, split=np.where(inside, drawn[at], -1).astype(np.int8))


def chosen_rows(labels: Labels, split: str, most: int, seed: int) -> NDArray[np.int64]:
    """Indices of a split's labels, ascending; at random ``most`` of them where there are more.

    0 takes all.
    """
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
    """A task's examples by official split; ``most`` labels of each where it is given (0: all).

    Raises SpecError where a split has no labels of one class, DataError where splits share a
    patient.
    """
    parts: list[Part] = []
    vocabulary: Vocabulary | None = None
    for split in SPLITS:
        rows = chosen_rows(labels, split, (most or {}).get(split, 0), seed)
        label = labels.positive[rows]
        if len(np.unique(label)) < 2:
            raise SpecError(
                f"task {labels.task!r}: {len(rows):,} labels of the split {split!r}, "
                f"{int(label.sum()):,} positive; training and evaluation need both classes in each"
            )
        found = last_events(store, labels, length, prediction_time, rows)
        if vocabulary is None:
            vocabulary = learn_vocabulary(found.codes, found.values, with_values)
        tokens = vocabulary.tokens(found.codes, found.values)
        parts.append(Part(tokens, found.label, found.patient, rows))
    _disjoint(labels.task, parts)
    assert vocabulary is not None
    return Examples(labels.task, vocabulary, *parts)


def _disjoint(task: str, parts: list[Part]) -> None:
    patients = [set(part.patient.tolist()) for part in parts]
    shared = len(patients[0] & patients[1]) + len((patients[0] | patients[1]) & patients[2])
    if shared:
        raise DataError(
            f"labels of {task}", None, f"{shared:,} patients are in two splits", "fix the splits"
        )
