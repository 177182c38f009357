"""A task's labels made ready: tokens before each, by official split, the same for every variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.ehrshot.tokens import Vocabulary, learn_vocabulary
from core.errors import DataError, SpecError
from core.sequences import LENGTH, SPLITS, EventStore, Labels, last_events

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
                f"{int(label.sum()):,} positive; training and examining need both classes in each"
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
            f"labels of {task}", None, f"{shared:,} patients are in two splits", "mend the splits"
        )
