"""QCCS plus on disk: ``plus.safetensors`` and ``plus.json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import DataError
from core.gate.checkpoint import load_arrays, save_arrays
from core.gate.plus.features import FEATURES, HASHING, PlusWeights

STEM, FORMAT = "plus", "midchart-plus-2"


@dataclass(frozen=True, eq=False)
class Plus:
    """A trained QCCS plus. ``patients`` are the records it was trained on; ``facts`` say how, in
    plain JSON values."""

    weights: PlusWeights
    patients: frozenset[str]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    digest: str = ""


def save_plus(folder: Path, plus: Plus) -> None:
    """Write it; each file is written atomically."""
    arrays = {name: getattr(plus.weights, name) for name in PlusWeights.__slots__}
    card = {
        "hash": dataclasses.asdict(HASHING),
        "features": list(FEATURES),
        "patients": sorted(plus.patients),
        **plus.facts,
    }
    save_arrays(folder, STEM, FORMAT, arrays, card)


def load_plus(folder: Path) -> Plus:
    """What :func:`save_plus` wrote; raises DataError, one line, where it is missing, broken, or
    of another hash, size or feature set than this version's."""
    arrays, card, digest = load_arrays(folder, STEM, FORMAT)
    wanted = {"hash": dataclasses.asdict(HASHING), "features": list(FEATURES)}
    for name, value in wanted.items():
        if card.get(name) != value:
            raise DataError(
                str(folder), None, f"its {name} is not this version's", "train it again"
            )
    shapes = {
        "embedding": (HASHING.buckets, card.get("recipe", {}).get("dim")),
        "weight": (HASHING.buckets,),
        "idf": (2,),
        "head": (len(FEATURES),),
    }
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise DataError(
                str(folder), None, f"its {name} is not of the shape {shape}", "train it again"
            )
    facts = {k: v for k, v in card.items() if k not in (*wanted, "patients")}
    weights = PlusWeights(**{name: arrays[name] for name in shapes})
    return Plus(weights, frozenset(card["patients"]), facts, digest)
