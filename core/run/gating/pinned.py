"""Which gate an arm of a run has: noted at its first use, and refused where it is another later.

A gate lies in the cache or where its owner put it, so it can be trained anew between a run's
beginning and its resume. Rows of two gates must not stand under one label: the run's folder keeps
``gates.json``, arm's label → hash of what the gate computes with. A gate that was made again and
came out the same is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from core.errors import InputError
from core.files import alone, replacing
from core.gate import checkpoint
from core.gate.arrays import load_arrays
from core.gate.plus import checkpoint as plus
from core.protocol import Protocol
from core.run.entries import ArmEntry
from core.run.gating.house import HOUSE, house_place

NOTE = "gates.json"
FORMATS = {
    "qccs": (checkpoint.STEM, checkpoint.FORMAT),
    "qccs_plus": (plus.STEM, plus.FORMAT),
}
"""Arm → what its gate's files are called, and the format of their card."""


def mark(arm: str, gate: Path) -> str:
    """A hash of a gate's weights, shape and n-gram hash; raises DataError where it is not whole."""
    arrays, card, _ = load_arrays(gate, *FORMATS[arm])
    total = blake2b(digest_size=16)
    total.update(repr([(name, card.get(name)) for name in ("hash", "shape")]).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def pin(run: Path, entry: ArmEntry, gate: str) -> None:
    """Note the gate of an arm, if none is noted yet, in a run's folder.

    Raises InputError where another one is.
    """
    found = mark(entry.name, Path(gate).expanduser())
    with alone(run / "gates.lock"):  # several processes may work for one run
        noted = _noted(run)
        if entry.label not in noted:
            with replacing(run / NOTE) as fresh:
                fresh.write_text(json.dumps({**noted, entry.label: found}, indent=1), "utf-8")
            return
    if noted[entry.label] != found:
        raise _other(run, entry.label)


def refuse_others(run: Path, arms: Iterable[ArmEntry], protocol: Protocol) -> None:
    """Raise InputError where an arm's gate is not the one noted, DataError where it is gone.

    The house's own, where it is gone from the cache, is made again when it is needed, and then
    held against the note.
    """
    noted = _noted(run)
    for entry in arms:
        if entry.name not in HOUSE or entry.label not in noted:
            continue
        given = entry.options.get("gate")
        gate = Path(given).expanduser() if given else house_place(entry.name, protocol)
        if not given and not (gate / f"{FORMATS[entry.name][0]}.json").exists():
            continue
        if mark(entry.name, gate) != noted[entry.label]:
            raise _other(run, entry.label)


def _noted(run: Path) -> dict[str, str]:
    try:
        return json.loads((run / NOTE).read_text("utf-8"))
    except FileNotFoundError:
        return {}


def _other(run: Path, label: str) -> InputError:
    return InputError(
        f"run {run.name} began with another gate for its arm {label!r} than is here now; "
        "put that one back, or start a new run"
    )
