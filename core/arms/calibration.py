"""Calibration of the arm ``certain`` on a cohort's questions with located evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from core import config as settings
from core.arms.candidates import Candidates, candidates
from core.arms.certain import (
    ALPHA,
    FIELDS,
    FORMAT,
    Calibration,
    CalibrationQuestion,
    RankedByBoth,
    Thresholds,
    read_calibration,
    token_positions,
)
from core.errors import DataError, InputError
from core.loaders.gold import gold_under
from core.loaders.open import content_digest
from core.protocol import Protocol
from core.provenance import digest
from core.stats.ranking import patients_needed
from core.storage.files import replacing
from core.storage.lock import exclusive
from core.text.evidence import band_of, gold_sentence_ids
from core.types import Cohort, Instruction

UNLIKE = 0.01
"""Patients differ from those of a calibration where the test's p is below this."""
TESTED = 200
"""Most patients of a cohort whose best cosine is compared with a calibration's."""
SPLITS = 500
"""Random halves of the patients for which coverage is computed."""
VERSION = "certain-1"
"""Changed whenever a calibration would hold other numbers."""


def calibrate(
    cohort: Cohort,
    protocol: Protocol,
    path: Path,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Write a calibration file from a cohort's questions with located evidence.

    It holds numbers and hashes of records, no text. A record that cannot be read is left out.
    Raises InputError where there is no question with located evidence, MissingModel without MiniLM,
    OSError where ``path`` cannot be written.
    """
    arm = RankedByBoth(protocol)
    questions: list[CalibrationQuestion] = []
    for done, (instruction, evidence, pool) in enumerate(_located(cohort, protocol)):
        rank = -arm.score(pool, instruction)
        cosine = arm.cosines(pool, instruction.question)
        place = token_positions(pool)
        band = band_of(place[evidence[0]])
        near = [i for i in evidence if band_of(place[i]) == band]
        others = np.delete(cosine, evidence)
        questions.append(
            {
                "patient": pool.key[0],
                "position": float(place[evidence[0]]),
                "rank": float(rank[near].min()),
                "best": float(cosine.max()),
                "best_without": float(others.max()) if len(others) else None,
            }
        )
        if progress is not None:
            progress(done + 1, len(cohort.instructions))
    if not questions:
        raise InputError(
            f"{cohort.path}: no question has located evidence; mark the evidence of questions on "
            "page Patient first"
        )
    calibration: Calibration = {
        "format": FORMAT,
        "cohort": cohort.manifest.name,
        "model": arm.embedder.id,
        "protocol": {field: getattr(protocol, field) for field in FIELDS},
        "questions": questions,
    }
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(calibration, indent=1), "utf-8")
    return calibration


def _located(
    cohort: Cohort, protocol: Protocol
) -> Iterator[tuple[Instruction, list[int], Candidates]]:
    """Each question with located evidence: the places of its evidence sentences among its
    candidates, in reading order."""
    cohort = gold_under(cohort, protocol)
    for instruction in cohort.instructions:
        try:
            gold = cohort.gold.get(instruction.id)
            record = cohort.records[instruction.record_id] if gold and gold.spans else None
        except DataError:
            continue
        if record is None or gold is None:
            continue
        pool = candidates(record, instruction.cutoff, protocol)
        ids = gold_sentence_ids(pool.sentences, gold.spans)
        places = [i for i, sentence in enumerate(pool.sentences) if sentence.id in ids]
        if places:
            yield instruction, places, pool


def split_coverage(
    calibration: Calibration, alpha: float = ALPHA, splits: int = SPLITS, seed: int = 42
) -> dict[str, Any]:
    """How often the evidence is kept where half of the patients calibrate and half are asked.

    One question of each asked patient is drawn, so that the asked questions are independent.
    ``coverage`` is the mean over ``splits`` random halves; ``low`` and ``high`` are the exact
    binomial 95 % interval (Clopper and Pearson) of a share of the whole numbers nearest to the
    mean. Null where half of the patients are too few for a threshold.
    """
    by_patient: dict[str, list[CalibrationQuestion]] = {}
    for question in calibration["questions"]:
        by_patient.setdefault(question["patient"], []).append(question)
    patients = list(by_patient)
    facts: dict[str, Any] = {
        "questions": len(calibration["questions"]),
        "patients": len(patients),
        "alpha": alpha,
        "splits": splits,
        "coverage": None,
    }
    half, asked = len(patients) // 2, len(patients) - len(patients) // 2
    if half < patients_needed(alpha):
        return facts
    from scipy.stats import binomtest

    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(splits):
        order = rng.permutation(len(patients))
        calibrating = [q for i in order[:half] for q in by_patient[patients[i]]]
        thresholds = Thresholds(calibrating, alpha)
        for i in order[half:]:
            questions = by_patient[patients[i]]
            covered += thresholds.keeps(questions[rng.integers(len(questions))])
    coverage = covered / (splits * asked)
    interval = binomtest(round(coverage * asked), asked).proportion_ci(0.95, "exact")
    return facts | {
        "coverage": coverage,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def own_calibration(cohort: Cohort, protocol: Protocol) -> Path:
    """The calibration file of a cohort in the cache, made once for its files and protocol."""
    values = repr([getattr(protocol, field) for field in (*FIELDS, "locate", "locate_threshold")])
    name = digest(VERSION, values, content_digest(Path(cohort.path)))[:16]
    path = settings.cache_folder() / "calibrations" / f"{name}.json"
    if not path.exists():
        with exclusive(path.with_suffix(".lock")):
            if not path.exists():
                calibrate(cohort, protocol, path)
    return path


def withdrawn(cohort: Cohort, protocol: Protocol, path: Path) -> str:
    """Why a calibration's guarantee does not hold for a cohort; "" where nothing speaks against it.

    The best cosine of the first question of each patient is compared with the calibration's
    (Kolmogorov and Smirnov's test for two samples), for up to :data:`TESTED` patients who are not
    among the calibration's.
    """
    calibration = read_calibration(path)
    known: dict[str, float] = {}
    for question in calibration["questions"]:
        known.setdefault(question["patient"], question["best"])
    arm, new = RankedByBoth(protocol), dict[str, float]()
    for instruction in cohort.instructions:
        if len(new) == TESTED:
            break
        try:
            record = cohort.records[instruction.record_id]
        except DataError:
            continue
        pool = candidates(record, instruction.cutoff, protocol)
        if record.digest not in known and record.digest not in new and pool.sentences:
            new[record.digest] = float(arm.cosines(pool, instruction.question).max())
    if not new:
        return ""
    from scipy.stats import ks_2samp

    compared: Any = ks_2samp(list(known.values()), list(new.values()))
    p = float(compared.pvalue)
    if p >= UNLIKE:
        return ""
    return (
        f"the best cosine of {len(new)} patients is unlike that of the {len(known)} of the "
        f"calibration (Kolmogorov-Smirnov p = {p:.1g})"
    )
