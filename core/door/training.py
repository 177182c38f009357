"""Training a gate from a cohort, as the command line asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core import settings
from core.door.cohorts import cohort_key, open_data
from core.gate.recipe import Epoch
from core.protocol import parse
from core.run.gating.training import train_gate
from core.run.gating.training_plus import train_plus_gate

TOLD = ("pairs", "unread_records", "curve", "test_auroc", "recipe")
"""What of a gate's card a training tells."""


def make_gate(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train a QCCS gate on a cohort and say where it lies and how it did (``train-gate --json``).

    Raises DataUseError where the cohort's tag forbids training, InputError where it has too few
    patients or no reference answers.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = (
        Path(out) if out is not None else settings.cache_folder() / "gates" / cohort_key(cohort)
    )

    def told(epoch: Epoch, epochs: int) -> bool:
        if progress is not None:
            progress(epoch.epoch, epochs)
        return True

    gate = train_gate(cohort, chosen, folder, told)
    return {
        "folder": str(folder.resolve()),
        "hash": gate.config.hashing.name,
        "n": gate.config.hashing.n,
        "temperature": gate.temperature,
        "split": {part: len(getattr(gate.split, part)) for part in ("train", "validation", "test")},
        **{name: gate.facts[name] for name in TOLD},
    }


def make_plus(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train QCCS plus on a cohort's training patients (``train-gate --plus --json``).

    Raises as :func:`make_gate` does, and InputError where no evidence was located.
    """
    cohort = open_data(data)
    gates = settings.cache_folder() / "gates"
    folder = gates / f"{cohort_key(cohort)}-plus" if out is None else Path(out)

    def told(done: int, steps: int) -> bool:
        if progress is not None:
            progress(done, steps)
        return True

    plus = train_plus_gate(cohort, parse(protocol), folder, told)
    names = ("questions", "unread_records", "losses", "test", "recipe")
    return {"folder": str(folder.resolve()), **{name: plus.facts[name] for name in names}}
