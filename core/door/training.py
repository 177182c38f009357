"""Training a gate from a cohort, as the command line asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core import settings
from core.door.cohorts import cohort_key, open_data
from core.gate.config import Epoch, PlusStep
from core.protocol import Protocol, parse
from core.run.folder import writing
from core.run.gating.training import PLUS_FIELDS, PROTOCOL_FIELDS, train_gate, train_plus_gate
from core.run.rows import digest
from core.types import Cohort

TOLD = ("pairs", "unread_records", "curve", "test_auroc", "recipe")
"""What of a gate's card a training tells."""


def make_gate(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train a QCCS gate on a cohort and say where it lies and how it did (``train-gate --json``).

    Without ``out`` it lies in the cache, in a folder of this cohort and protocol. Raises
    DataUseError where the cohort's tag forbids training, InputError where it has too few patients
    or no reference answers, or where the folder cannot be written.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = _place(cohort, chosen, PROTOCOL_FIELDS) if out is None else Path(out)

    def told(epoch: Epoch, epochs: int) -> bool:
        if progress is not None:
            progress(epoch.epoch, epochs)
        return True

    with writing(folder):
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
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train QCCS plus on a cohort's training patients (``train-gate --plus --json``).

    Raises as :func:`make_gate` does, and InputError where no evidence was located.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = _place(cohort, chosen, PLUS_FIELDS, "-plus") if out is None else Path(out)

    def told(step: PlusStep, steps: int) -> bool:
        if progress is not None:
            progress(step.step, steps)
        return True

    with writing(folder):
        plus = train_plus_gate(cohort, chosen, folder, told)
    names = ("questions", "unread_records", "losses", "test", "recipe")
    return {"folder": str(folder.resolve()), **{name: plus.facts[name] for name in names}}


def _place(cohort: Cohort, protocol: Protocol, fields: Sequence[str], kind: str = "") -> Path:
    """A gate's folder in the cache; one for each way in which ``fields`` of a protocol differ from
    the corrected ones, so that no training overwrites the gate of another."""
    differing = {name: getattr(protocol, name) for name in fields}
    usual = {name: getattr(Protocol(), name) for name in fields}
    other = "" if differing == usual else f"-{digest(repr(sorted(differing.items())))[:8]}"
    return settings.cache_folder() / "gates" / f"{cohort_key(cohort)}{kind}{other}"
