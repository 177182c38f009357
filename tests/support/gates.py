"""A small gate with random weights, for tests that need a gate but no training."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from midchart.core import config as settings
from midchart.core.gate.checkpoint import CARD, Gate, GateConfig, Split, save_gate, widths
from midchart.core.gate.examples import hashing_of
from midchart.core.gate.plus import FEATURES, HASHING, STEM, Plus, PlusWeights, save_plus
from midchart.core.protocol import Protocol

SPLIT = Split(("p1", "p2"), ("p3",), ("p4",))


def random_gate(config: GateConfig | None = None, seed: int = 0) -> Gate:
    """A gate of any shape, its weights drawn anew from a seed."""
    config = config or GateConfig()
    rng = np.random.default_rng(seed)
    shapes = {"embedding.weight": (config.hashing.buckets, config.dim)}
    for i, (before, after) in enumerate(pairwise(widths(config))):
        shapes |= {f"layers.{i}.weight": (after, before), f"layers.{i}.bias": (after,)}
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return Gate(config, weights, SPLIT)


def gate_folder(protocol: Protocol) -> str:
    """The folder of a random gate that fits a protocol, made once in the cache folder."""
    hashing = hashing_of(protocol)
    folder = settings.cache_folder() / f"random-gate-{hashing.name}-{hashing.characters}"
    if not (folder / CARD).exists():
        save_gate(Path(folder), random_gate(GateConfig(hashing)))
    return str(folder)


def random_plus(seed: int = 0, dim: int = 8) -> Plus:
    """A QCCS plus with random weights, its head as it is before training."""
    rng = np.random.default_rng(seed)
    weights = PlusWeights(
        rng.normal(0, 0.3, (HASHING.buckets, dim)).astype(np.float32),
        rng.normal(0, 0.3, HASHING.buckets).astype(np.float32),
        np.array([1.0, 0.0], dtype=np.float32),
        rng.uniform(0.1, 1.0, len(FEATURES)).astype(np.float32),
    )
    return Plus(weights, frozenset({"p1"}), {"recipe": {"dim": dim}})


def plus_folder() -> str:
    """The folder of a random QCCS plus, made once in the cache folder."""
    folder = settings.cache_folder() / "random-plus"
    if not (folder / f"{STEM}.json").exists():
        save_plus(folder, random_plus())
    return str(folder)
