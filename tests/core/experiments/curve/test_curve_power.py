"""The curve's tests put to the test: false alarms at their level, planted effects found.

Small simulations from fixed seeds, held against exact binomial bounds; docs/power.md has the
large ones (``python -m tests.simulations.curve_power``).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from midchart.core.experiments.curve.tables import published_curve, study
from tests.simulations.curve_power import (
    LIKENESS,
    PUBLISHED_N,
    TESTS,
    answers,
    even_design,
    power,
    published_design,
)


def even(questions: int, _: np.random.Generator):
    return even_design(questions)






@pytest.mark.parametrize(
    ("design", "likeness"),
    [(partial(even, 60), 0.0), (partial(even, 120), LIKENESS), (published_design, LIKENESS)],
    ids=["60 independent", "120 alike", "published"],
)
@pytest.mark.slow
def test_without_an_effect_they_give_false_alarms_as_often_as_they_say(design, likeness: float):
    datasets = 300
    rates = power(design, 0.45, 0.0, likeness, datasets, np.random.default_rng(11), 199)
    for test in TESTS:
        level = 0.06 if test in ("quadratic", "either") else 0.05  # the sandwich's own is about 6 %
        most = binom.ppf(0.999, datasets, level)
        assert rates.rejected[test] <= most, test
    # Nor do they never reject: at 5 %, 300 datasets give none with chance 2e-7.
    assert all(rates.rejected[test] > 0 for test in TESTS if test != "either")


def test_a_planted_effect_is_found():
    rates = power(published_design, 0.45, -0.2, LIKENESS, 40, np.random.default_rng(3), 199)
    # Power by the large simulation is 99 % for the contrast; 33 of 40 has chance 1e-7 then.
    assert rates.rejected["difference"] >= 34
    assert rates.rejected["either"] >= 34
    assert rates.gap > rates.null_gap


def test_published_counts_give_a_gap_near_19_points_by_chance():
    """Accuracy is the published curve's own, 44.6 %; the answers to a question are alike by .42."""
    curve = published_curve()
    accuracy = sum(row["accuracy"] * n for row, n in zip(curve, PUBLISHED_N, strict=True)) / 2196
    assert accuracy == pytest.approx(0.446, abs=0.0005)
    rates = power(published_design, accuracy, 0.0, LIKENESS, 60, np.random.default_rng(5), 300)
    assert rates.null_gap == pytest.approx(0.19, abs=0.007)
    assert rates.gap == pytest.approx(0.19, abs=0.02)
    # With the same likeness the intervals are as wide as the published ones: mean width 23.7.
    widths, rng = [], np.random.default_rng(6)
    for seed in range(6):
        drawn = study(answers(published_design(rng), accuracy, LIKENESS, rng), 10, 500, seed)
        widths.append(np.mean(drawn.ci_high - drawn.ci_low))
    published = np.mean([row["ci_high"] - row["ci_low"] for row in curve])
    assert published == pytest.approx(0.237, abs=0.001)
    assert np.mean(widths) == pytest.approx(published, abs=0.015)
