"""A calibration file with drawn ranks, for tests of the arm ``certain`` without a cohort."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from midchart.core.embedding.embedder import MINILM, shared
from midchart.core.protocol import Protocol
from midchart.extras.lab.certain import FIELDS, FORMAT, Calibration, CalibrationQuestion


def drawn_questions(patients: int, each: int = 2, seed: int = 0) -> list[CalibrationQuestion]:
    """Questions of one to three pieces of evidence, whose ranks depend on the patient and on the
    position of the piece that ranks last."""
    rng = np.random.default_rng(seed)
    questions: list[CalibrationQuestion] = []
    for patient in range(patients):
        hard = rng.exponential(1)
        for _ in range(rng.integers(1, each + 1)):
            position = float(rng.random())
            best = float(rng.normal(0.6, 0.1))
            hardness = hard * (2 if 0.3 <= position <= 0.7 else 1)
            pieces = 1 + rng.exponential(hardness, size=rng.integers(1, 4))
            questions.append(
                {
                    "patient": f"patient {seed} {patient}",
                    "position": position,
                    "sentences": len(pieces),
                    "first_rank": float(pieces.min()),
                    "last_rank": float(pieces.max()),
                    "best": best,
                    "best_without": best - float(rng.exponential(0.1)),
                }
            )
    return questions


def calibration_file(
    path: Path, protocol: Protocol, questions: list[CalibrationQuestion] | None = None
) -> str:
    """A file of ``questions``, drawn ones of 30 patients by default, that fits a protocol."""
    calibration: Calibration = {
        "format": FORMAT,
        "cohort": "drawn",
        "model": shared(MINILM).id,
        "protocol": {field: getattr(protocol, field) for field in FIELDS},
        "questions": drawn_questions(30) if questions is None else questions,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(calibration), "utf-8")
    return str(path)
