"""Another process: trains the small gate again, and scores test patients with gates made elsewhere.

``python -m tests.support.gate_other COHORT FIXED SALTED FOLDER`` prints one JSON document.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from midchart.core.arms import ARMS
from midchart.core.gate.checkpoint import Gate, load_gate
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.training_experiments.gate.evaluation import Evaluation
from midchart.core.types import Cohort
from tests.support import gate_cohort

SALTS = range(1, 9)


def weights_of(gate: Gate) -> str:
    """A hash of all weights, bit by bit."""
    return sha256(
        b"".join(gate.weights[name].tobytes() for name in sorted(gate.weights))
    ).hexdigest()


def scored(cohort: Cohort, folder: str, protocol: Protocol) -> list[float]:
    """Scores of the labelled test sentences, by the arm as the program builds it."""
    arm = ARMS.build("qccs", protocol, gate=folder)
    split = load_gate(Path(folder)).split
    return Evaluation(cohort, split, Protocol()).evaluate(arm.scorers[0]).logits.tolist()  # type: ignore[attr-defined]


def main(cohort: str, fixed: str, salted: str, folder: str) -> dict[str, Any]:
    """What this process makes of them."""
    data = open_cohort(cohort)
    return {
        "weights": weights_of(gate_cohort.train(data, Path(folder))),
        "fixed": scored(data, fixed, Protocol()),
        "salted": [
            scored(data, salted, dataclasses.replace(gate_cohort.SALTED, hash_salt=salt))
            for salt in SALTS
        ],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
