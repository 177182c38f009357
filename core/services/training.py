"""Training of gates, as the command line calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import CohortRef, LocalPath, needs
from midchart.core.gate.checkpoint import VALIDATED, GateEpoch, Split
from midchart.core.gate.cohort_training import (
    PROTOCOL_FIELDS,
    folds_of,
    split_of,
    train_gate,
)
from midchart.core.named_files import place_of
from midchart.core.protocol import Protocol, parse
from midchart.core.provenance import digest
from midchart.core.services.cohorts import cohort_key, open_data
from midchart.core.storage.files import writing
from midchart.core.training import Progress
from midchart.core.types import Cohort

_REPORTED = ("pairs", "curve", "test_auroc", "recipe")
"""Facts of a gate in the result of a training."""


@needs("researcher", paths=("folder",))
def make_gate(
    data: CohortRef,
    out: LocalPath | None = None,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
    folds: int = 0,
    new_questions: bool = False,
    validation: bool = True,
) -> dict[str, Any]:
    """Train a QCCS gate; gives its folder (default: in the cache) and evaluation.

    ``folds``: a gate for each of so many parts of the patients, trained on the others
    (``new_questions``: nor on their questions). Without ``validation`` it is trained on all of the
    70 % of patients, as in the paper. Raises DataUseError where the cohort's tag forbids training,
    InputError where it has too few patients or no reference answers or evidence.
    """
    cohort, chosen = open_data(data), parse(protocol)
    kind = "" if validation else "-no-validation"
    if folds:
        kind += f"-{folds}-folds" + ("-new-questions" if new_questions else "")
    folder = _gate_folder(cohort, chosen, kind) if out is None else place_of(out)

    def report(epoch: GateEpoch, epochs: int) -> bool:
        if progress is not None:
            progress(epoch.epoch, epochs)
        return True

    result: dict[str, Any] = {"folder": str(folder.resolve())}
    with writing(folder):
        if not folds:
            split = split_of(cohort, chosen, VALIDATED if validation else 0.0)
            return result | _train(cohort, chosen, folder, report, split)
        fits: list[dict[str, Any]] = []
        for number, split in enumerate(folds_of(cohort, chosen, folds, new_questions), 1):
            fits.append(_train(cohort, chosen, folder / f"fold-{number}", report, split))
    return result | {"folds": fits}


def _train(
    cohort: Cohort, protocol: Protocol, folder: Path, report: Progress[GateEpoch], split: Split
) -> dict[str, Any]:
    gate = train_gate(cohort, protocol, folder, report, split=split)
    hashing = gate.config.hashing
    return {
        "hash": hashing.name,
        "n": hashing.n,
        "temperature": gate.temperature,
        "split": {part: len(ids) for part, ids in asdict(gate.split).items()},
        **{name: gate.facts[name] for name in _REPORTED},
    }


def _gate_folder(cohort: Cohort, protocol: Protocol, kind: str) -> Path:
    """A gate's folder in the cache; one for each way in which a protocol differs from the corrected
    one in :data:`PROTOCOL_FIELDS`, so that no training overwrites the gate of another."""
    differing = {name: getattr(protocol, name) for name in PROTOCOL_FIELDS}
    default = {name: getattr(Protocol(), name) for name in PROTOCOL_FIELDS}
    other = "" if differing == default else f"-{digest(repr(sorted(differing.items())))[:8]}"
    return settings.gates_folder() / f"{cohort_key(cohort)}{kind}{other}"
