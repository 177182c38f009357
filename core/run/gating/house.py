"""What the program itself brings to an arm that needs a trained gate and was given none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.protocol import Protocol
from core.run.gating.training import house_gate, house_gate_place
from core.run.gating.training_plus import house_plus, house_plus_place

HOUSE: Mapping[str, Callable[[Protocol], Path]] = {"qccs": house_gate, "qccs_plus": house_plus}
"""Arm → what trains its gate, on first use, and says where it lies."""

_PLACES: Mapping[str, Callable[[Protocol], Path]] = {
    "qccs": house_gate_place,
    "qccs_plus": house_plus_place,
}


def house_place(name: str, protocol: Protocol) -> Path:
    """Where the house's gate for an arm of :data:`HOUSE` lies, or will when it is trained."""
    return _PLACES[name](protocol)


def arm_options(name: str, protocol: Protocol, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` of an arm, with the house's gate where it needs one and none is named."""
    given = dict(options)
    if name in HOUSE and not given.get("gate"):
        given["gate"] = str(HOUSE[name](protocol))
    return given
