"""A small gate with random weights, for tests that need a gate but no training."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from midchart.core import config as settings
from midchart.core.gate.checkpoint import CARD, Gate, GateConfig, Split, save_gate, widths
from midchart.core.gate.examples import hashing_of
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
