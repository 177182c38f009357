"""Training of gates, as the command line calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import CohortRef, LocalPath, needs
from midchart.core.gate.checkpoint import VALIDATED, GateEpoch, PlusStep, Split
from midchart.core.gate.cohort_training import (
    PLUS_FIELDS,
    PROTOCOL_FIELDS,
    folds_of,
    split_of,
    train_gate,
    train_plus_gate,
)
from midchart.core.named_files import place_of
from midchart.core.protocol import Protocol, parse
from midchart.core.provenance import digest
from midchart.core.services.cohorts import cohort_key, open_data
from midchart.core.storage.files import writing
from midchart.core.types import Cohort

_REPORTED = (
    ("pairs", "curve", "test_auroc", "recipe"),
    ("questions", "losses", "test", "recipe"),
)
"""Facts of a gate, and of QCCS plus, in the result of a training."""


@needs("researcher", paths=("folder",))
def make_gate(
    data: CohortRef,
    out: LocalPath | None = None,
    protocol: str | Mapping[str, Any] = "corrected",
    progress: Callable[[int, int], None] | None = None,
    plus: bool = False,
    folds: int = 0,
    new_questions: bool = False,
    validation: bool = True,
) -> dict[str, Any]:
    """Train a QCCS gate, or QCCS ``plus``; gives its folder (default: in the cache) and evaluation.

    ``folds``: a gate for each of so many parts of the patients, trained on the others
    (``new_questions``: nor on their questions). Without ``validation`` it is trained on all of the
    70 % of patients, as in the paper. Raises DataUseError where the cohort's tag forbids training,
    InputError where it has too few patients or no reference answers or evidence.
    """
    cohort, chosen = open_data(data), parse(protocol)
    fields, kind = (PLUS_FIELDS, "-plus") if plus else (PROTOCOL_FIELDS, "")
    if not validation:
        kind += "-no-validation"
    if folds:
        kind += f"-{folds}-folds" + ("-new-questions" if new_questions else "")
    folder = _gate_folder(cohort, chosen, fields, kind) if out is None else place_of(out)

    def report(part: GateEpoch | PlusStep, parts: int) -> bool:
        if progress is not None:
            progress(part.epoch if isinstance(part, GateEpoch) else part.step, parts)
        return True

    result: dict[str, Any] = {"folder": str(folder.resolve())}
    train = _train_plus if plus else _train
    with writing(folder):
        if not folds:
            split = split_of(cohort, chosen, VALIDATED if validation else 0.0)
            return result | train(cohort, chosen, folder, report, split)
        fits: list[dict[str, Any]] = []
        for number, split in enumerate(folds_of(cohort, chosen, folds, new_questions), 1):
            fits.append(train(cohort, chosen, folder / f"fold-{number}", report, split))
    return result | {"folds": fits}


_Report = Callable[[GateEpoch | PlusStep, int], bool]


def _train(
    cohort: Cohort, protocol: Protocol, folder: Path, report: _Report, split: Split
) -> dict[str, Any]:
    gate = train_gate(cohort, protocol, folder, report, split=split)
    hashing = gate.config.hashing
    return {
        "hash": hashing.name,
        "n": hashing.n,
        "temperature": gate.temperature,
        "split": {part: len(ids) for part, ids in asdict(gate.split).items()},
        **{name: gate.facts[name] for name in _REPORTED[False]},
    }


def _train_plus(
    cohort: Cohort, protocol: Protocol, folder: Path, report: _Report, split: Split
) -> dict[str, Any]:
    facts = train_plus_gate(cohort, protocol, folder, report, split=split).facts
    return {name: facts[name] for name in _REPORTED[True]}


def _gate_folder(cohort: Cohort, protocol: Protocol, fields: Sequence[str], kind: str = "") -> Path:
    """A gate's folder in the cache; one for each way in which ``fields`` of a protocol differ from
    the corrected ones, so that no training overwrites the gate of another."""
    differing = {name: getattr(protocol, name) for name in fields}
    default = {name: getattr(Protocol(), name) for name in fields}
    other = "" if differing == default else f"-{digest(repr(sorted(differing.items())))[:8]}"
    return settings.gates_folder() / f"{cohort_key(cohort)}{kind}{other}"
