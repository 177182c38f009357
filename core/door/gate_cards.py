"""The trained gates in the cache, each with what its checkpoint says of itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from core import settings
from core.errors import DataError
from core.gate.checkpoint import CARD, Gate, load_gate
from core.gate.split import Split

PARTS = ("train", "validation", "test")


def gate_cards() -> list[dict[str, Any]]:
    """Every gate in ``cache/gates``, newest first.

    Each has ``folder``, ``made`` and ``problem``; one that can be read also digest, hash, n,
    buckets, dim, head, query, parameters, temperature, patients (of each part of the split),
    facts (curve, pairs, recipe, cohort, versions, … as trained). No id of a patient is in it.
    """
    folder = settings.cache_folder() / "gates"
    if not folder.is_dir():
        return []
    cards: list[tuple[float, dict[str, Any]]] = []
    for place in folder.iterdir():
        if not (place / CARD).is_file():
            continue
        written = (place / CARD).stat().st_mtime
        made = datetime.fromtimestamp(written).isoformat(" ", "minutes")
        card: dict[str, Any] = {"folder": str(place), "made": made, "problem": ""}
        try:
            card |= _told(load_gate(place))
        except DataError as error:
            card["problem"] = str(error)
        cards.append((written, card))
    return [card for _, card in sorted(cards, key=lambda pair: -pair[0])]


def _told(gate: Gate) -> dict[str, Any]:
    hashing = gate.config.hashing
    split: Split = gate.split
    return {
        "digest": gate.digest,
        "hash": hashing.name,
        "n": hashing.n,
        "buckets": hashing.buckets,
        "dim": gate.config.dim,
        "head": gate.config.head,
        "query": gate.config.query,
        "parameters": int(sum(np.prod(w.shape) for w in gate.weights.values())),
        "temperature": gate.temperature,
        "patients": {part: len(getattr(split, part)) for part in PARTS},
        "facts": dict(gate.facts),
    }
