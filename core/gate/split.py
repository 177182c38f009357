"""Patients parted once: into those that train, those that calibrate, those that are kept apart.

One split serves training, evaluation, ablation and later stages; it is saved with the weights and
its disjointness is asserted wherever it is made or read (PROTOCOL, The QCCS gate).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from core.errors import InputError

TRAINED, VALIDATED = 0.7, 0.15
"""Share of patients that training may see, and the share of those that it only validates on."""


@dataclass(frozen=True, slots=True)
class Split:
    """Record ids, each list sorted. Raises ValueError where a patient is in two."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        parts = (self.train, self.validation, self.test)
        if len(set().union(*parts)) != sum(map(len, parts)):
            raise ValueError("a patient is in two parts of a split")

    def part_of(self, record_id: str) -> str:
        """train, validation or test; empty for a patient the split does not know."""
        for name in ("train", "validation", "test"):
            if record_id in getattr(self, name):
                return name
        return ""


def split_patients(record_ids: Iterable[str], seed: int) -> Split:
    """70 % of patients for training (of these 15 % to validate on), 30 % for testing.

    The same for the same set of ids, in whatever order they come. Raises InputError for fewer
    than four patients: no part may be empty.
    """
    ids = sorted(set(record_ids))
    if len(ids) < 4:
        raise InputError(
            f"a split by patients needs at least 4 patients with questions, not {len(ids)}"
        )
    order = np.random.default_rng(seed).permutation(len(ids))
    seen = min(max(round(TRAINED * len(ids)), 3), len(ids) - 1)
    held = max(round(VALIDATED * seen), 1)
    parts = (order[held:seen], order[:held], order[seen:])
    return Split(*(tuple(sorted(ids[i] for i in part)) for part in parts))
