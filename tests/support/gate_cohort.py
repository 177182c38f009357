"""A small synthetic cohort, and a gate trained on it in under a second."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from midchart.core.gate.checkpoint import Gate, GateConfig, GateRecipe
from midchart.core.gate.cohort_training import train_gate
from midchart.core.gate.examples import hashing_of
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.types import Cohort
from midchart.extras.lab.synthetic.cohort import make_clinical

PATIENTS, EVENTS, SEED = 12, 60, 42
SALTED = dataclasses.replace(Protocol(), hash="salted")


def make(folder: Path) -> Cohort:
    """The cohort, written to ``folder``."""
    make_clinical(folder, PATIENTS, EVENTS, SEED)
    return open_cohort(str(folder))


def train(cohort: Cohort, folder: Path, protocol: Protocol | None = None) -> Gate:
    """A gate of half the usual width, trained on the cohort and written to ``folder``."""
    protocol = protocol or Protocol()
    config = GateConfig(hashing_of(protocol), dim=32)
    return train_gate(cohort, protocol, folder, None, config, GateRecipe(epochs=6))
