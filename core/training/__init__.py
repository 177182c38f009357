"""The training kit: one loop with checkpoints, seeds, cancellation and progress for every model.

A model's own module subclasses :class:`midchart.core.training.trainer.Trainer` and says what one
part of its training (an epoch, or some steps) does. This file holds what callers need, and loads no
torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from midchart.core.errors import WorkFailed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Entry = TypeVar("Entry")
Progress = Callable[[Entry, int], bool]
"""Called after each part with its history entry and the total of epochs or steps; returns whether
to continue."""


class Aborted(Exception):
    """The progress callback stopped the training; the checkpoint, if one is kept, is up to date."""


def history_rows(history: Sequence[DataclassInstance]) -> list[dict[str, float | None]]:
    """The history of a training as rows; null for numbers that are not finite."""
    return [
        {name: value if math.isfinite(value) else None for name, value in asdict(entry).items()}
        for entry in history
    ]


def require_finite(loss: float, where: str) -> float:
    """Return ``loss``; raises WorkFailed, with ``where`` ("epoch 3"), if it is NaN or infinite."""
    if not math.isfinite(loss):
        raise WorkFailed(f"training stopped: the loss is NaN or infinite in {where}")
    return loss
