"""Gate checkpoints of a run's arms: the gate or calibration pinned at an arm's first use.

``gates.json`` in the run's folder: arm's label → ``gate``, a hash of the gate's weights, and
``seen``, the run's patients it was trained or calibrated on. Another gate is refused on resume, so
that no label has rows of two gates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from midchart.core.arms import ARMS
from midchart.core.errors import DataError, InputError
from midchart.core.gate.checkpoint import CARD, gate_folders, read_arrays
from midchart.core.gate.cohort_training import default_gate, default_gate_folder
from midchart.core.named_files import place_of
from midchart.core.parsing import read_document
from midchart.core.protocol import Protocol
from midchart.core.runs.plan import ArmConfig
from midchart.core.runs.schemas import GATES
from midchart.core.storage.files import replacing
from midchart.core.storage.lock import exclusive
from midchart.core.types import Cohort

NOTE = "gates.json"
GATED = "qccs"
"""The arm with a trained gate."""


def arm_options(
    name: str, protocol: Protocol, options: Mapping[str, Any], cohort: Cohort | None
) -> dict[str, Any]:
    """``options`` of an arm, with the default gate where it needs one and none is named, and with
    what its method ``prepared`` makes of the ``cohort``."""
    filled = dict(options)
    if name == GATED and not filled.get("gate"):
        filled["gate"] = str(default_gate(protocol))
    prepared = getattr(ARMS.get(name), "prepared", None)
    return filled if prepared is None or cohort is None else prepared(protocol, filled, cohort)


def pinned_option(arm: str) -> str:
    """The option that names what an arm was trained to (its attribute ``pinned``); "" for none."""
    return "gate" if arm == GATED else getattr(ARMS.get(arm), "pinned", "")


def mark(arm: str, gate: Path) -> str:
    """A hash of a gate's weights, shape and n-gram hash, or what the arm's own ``mark`` gives of
    its file; raises DataError for a damaged one."""
    if arm != GATED:
        factory: Any = ARMS.get(arm)
        return factory.mark(gate)
    total = blake2b(digest_size=16)
    for folder in gate_folders(gate):
        arrays, card, _ = read_arrays(folder)
        total.update(repr([(name, card.get(name)) for name in ("hash", "shape")]).encode())
        for name, array in sorted(arrays.items()):
            total.update(f"{name} {array.dtype} {array.shape}".encode())
            total.update(array.tobytes())
    return total.hexdigest()


def seen_by(arm: str, gate: Path, cohort: Cohort, digest: str) -> list[str]:
    """The ids of a cohort's patients on whom a gate was trained or calibrated, sorted.

    In the gate's own cohort (``digest``: the hash of this one's files) these are the patients of
    its card; in another one a patient is the same where the id and the record's hash are, or where
    the cohort has the same name (it was edited). Of a cross-fitted gate, which scores a patient by
    the gate that was not trained on them, nobody is. Raises DataError for a broken gate.
    """
    if arm != GATED:  # such an arm answers no patient by what it learned of the same
        return []
    seen = [set(_seen_by_one(folder, cohort, digest)) for folder in gate_folders(gate)]
    return sorted(set.intersection(*seen))


def _seen_by_one(gate: Path, cohort: Cohort, digest: str) -> list[str]:
    _, card, _ = read_arrays(gate)
    split: dict[str, list[str]] = card.get("split", {})
    patients = {*split.get("train", ()), *split.get("validation", ())}
    trained: dict[str, str] = card.get("cohort", {})
    shared = sorted(patients & set(cohort.records))
    known: dict[str, str] | None = card.get("records")
    named = trained.get("name") or None
    if known is None or trained.get("digest") == digest or named == cohort.manifest.name:
        return shared
    same: list[str] = []
    for id in shared:
        with suppress(DataError):
            if cohort.records[id].digest == known.get(id):
                same.append(id)
    return same


def seen_patients(run: Path) -> dict[str, frozenset[str]]:
    """Label of each arm of a run with a trained gate → the run's patients that the gate has seen.

    Arms that have not been used yet are not among them.
    """
    return {label: frozenset(note["seen"]) for label, note in _noted(run).items()}


def pin(run: Path, entry: ArmConfig, gate: str, cohort: Cohort, digest: str) -> None:
    """Note the gate of an arm and whom it has seen, if none is noted yet, in a run's folder.

    ``digest``: the hash of the cohort's files. Raises InputError where another gate is noted.
    """
    path = place_of(gate)
    gate_hash = mark(entry.name, path)
    with exclusive(run / "gates.lock"):  # several processes may work for one run
        noted = _noted(run)
        if entry.label not in noted:
            note = {"gate": gate_hash, "seen": seen_by(entry.name, path, cohort, digest)}
            with replacing(run / NOTE) as fresh:
                fresh.write_text(json.dumps({**noted, entry.label: note}, indent=1), "utf-8")
            return
    if noted[entry.label]["gate"] != gate_hash:
        raise _other(run, entry.label)


def refuse_others(run: Path, arms: Iterable[ArmConfig], protocol: Protocol) -> None:
    """Raise InputError where an arm is not there, or its gate or calibration not the one noted,
    DataError where it is gone.

    A default gate that is gone from the cache is trained again when it is needed, and then compared
    with the note.
    """
    noted = _noted(run)
    for entry in arms:
        ARMS.get(entry.name)
        if entry.label not in noted:
            continue
        named = entry.options.get(pinned_option(entry.name))
        if not named and entry.name != GATED:
            continue  # made of the cohort: its name in the cache is its content
        gate = place_of(named) if named else default_gate_folder(protocol)
        if not named and not (gate / CARD).exists():
            continue
        if mark(entry.name, gate) != noted[entry.label]["gate"]:
            raise _other(run, entry.label)


def _noted(run: Path) -> dict[str, dict[str, Any]]:
    name, remedy = f"run {run.name}: {NOTE}", "restore the file"
    try:
        return read_document((run / NOTE).read_bytes(), name, GATES, remedy)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(name, None, f"cannot be read ({error.strerror})", remedy) from None


def _other(run: Path, label: str) -> InputError:
    return InputError(
        f"run {run.name} started with another gate checkpoint for its arm {label!r}: hash "
        "mismatch; restore that checkpoint, or start a new run"
    )
