"""The curve's tests put to the test: false alarms at their level, planted effects found.

Small simulations from fixed seeds, held against exact binomial bounds; docs/power.md has the
large ones (``python -m midchart.extras.lab.simulations power``).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from midchart.extras.lab.simulations import (
    LIKENESS,
    TESTS,
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
