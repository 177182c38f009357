"""Conformal quantiles: by hand, against numpy, and their coverage of new patients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from midchart.core.stats.ranking import hierarchical_quantile, patients_needed


def test_one_question_a_patient_is_the_usual_conformal_quantile():
    scores = np.random.default_rng(1).normal(size=37)
    rank = math.ceil(0.9 * 38)
    assert hierarchical_quantile(scores, list(range(37)), 0.1) == np.sort(scores)[rank - 1]


def test_every_patient_weighs_the_same():
    """Nine questions of one patient weigh as one of each of nine others: 0.5 · 11 = 5.5 is reached
    by the sixth patient."""
    scores = [*range(1, 10), *[100] * 9]
    patients = [*range(9), *["many"] * 9]
    assert hierarchical_quantile(scores, patients, 0.5) == 6


@pytest.mark.parametrize(("alpha", "needed"), [(0.1, 9), (0.05, 19), (0.2, 4), (0.3, 3)])
def test_too_few_patients_give_no_finite_threshold(alpha, needed):
    assert patients_needed(alpha) == needed
    assert hierarchical_quantile([1.0] * needed, list(range(needed)), alpha) == 1
    assert hierarchical_quantile([1.0] * (needed - 1), list(range(needed - 1)), alpha) == math.inf


def test_a_question_of_a_new_patient_is_covered_although_those_of_one_patient_are_alike():
    rng = np.random.default_rng(7)
    covered, trials = 0, 1500
    for _ in range(trials):
        sizes = rng.integers(1, 8, 25)
        levels = rng.normal(0, 2, 25) + 0.5 * sizes  # large patients have large scores
        patients = np.repeat(np.arange(25), sizes)
        scores = levels[patients] + rng.normal(size=len(patients))
        known = patients > 0
        quantile = hierarchical_quantile(scores[known], patients[known].tolist(), 0.1)
        covered += rng.choice(scores[~known]) <= quantile
    assert 0.9 - 2.6 * math.sqrt(0.09 / trials) <= covered / trials <= 0.95
