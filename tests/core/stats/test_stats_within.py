"""The contrast of middle and edge within rows: by hand, without an effect, with a planted one."""

from __future__ import annotations

import numpy as np
import pytest

from midchart.core.stats.paired import smallest_difference
from midchart.core.stats.within import within_contrast

MIDDLE = np.array([3 <= i <= 7 for i in range(11)])


def test_contrast_computed_by_hand():
    # Rows: 1/2 − 2/2 and 0/2 − 1/2; both −.5.
    values = [[1, 1, 0, 1], [1, 0, 0, 0]]
    contrast = within_contrast(values, ["a", "b"], [False, True, True, False], 200, rng(1))
    assert contrast is not None
    assert (contrast.inside, contrast.outside, contrast.difference) == (0.25, 0.75, -0.5)
    assert (contrast.rows, contrast.clusters) == (2, 2)
    assert np.isnan([contrast.low, contrast.high]).all()  # fewer than five clusters
    # Of the 6 splits of row one's columns: 3 give −.5 and 3 +.5; of row two's also. |sum| ≥ 1
    # where both have one sign: half of the permutations.
    assert contrast.p_value == pytest.approx(0.5, abs=0.1)


def test_missing_values_and_rows_without_both_sides_are_left_out():
    nan = float("nan")
    values = [[1, nan, 0, 1], [nan, 0, 1, nan], [nan, nan, nan, nan]]
    contrast = within_contrast(values, [0, 0, 1], [False, True, True, False], 100, rng(1))
    assert contrast is not None
    assert (contrast.rows, contrast.clusters, contrast.difference) == (1, 1, -1.0)
    assert np.isnan(contrast.low) and np.isnan(contrast.high)
    assert within_contrast([[nan, 1.0]], [0], [True, False], 100, rng(1)) is None


def test_without_an_effect_it_rejects_at_its_level_though_rows_of_a_patient_share_positions():
    # Every patient has hard places of its own, the same for all its rows.
    drawn, rejected, sets = rng(5), 0, 300
    for _ in range(sets):
        hard = np.repeat(drawn.random((8, 11)), 6, axis=0)
        values = (drawn.random((48, 11)) < hard).astype(float)
        contrast = within_contrast(values, np.repeat(np.arange(8), 6), MIDDLE, 199, drawn)
        assert contrast is not None
        rejected += contrast.p_value <= 0.05
    # Binomial(300, .05) exceeds 27 with chance .2 %.
    assert rejected <= 27


def test_a_planted_effect_is_significant_and_inside_its_interval():
    drawn = rng(6)
    values = (drawn.random((60, 11)) < np.where(MIDDLE, 0.5, 0.8)).astype(float)
    contrast = within_contrast(values, np.repeat(np.arange(10), 6), MIDDLE, 2000, drawn)
    assert contrast is not None
    assert contrast.p_value < 0.001
    assert contrast.low < -0.3 < contrast.high < 0


def test_a_difference_of_the_detectable_size_is_shown_eight_times_in_ten():
    drawn, clusters = rng(7), np.repeat(np.arange(15), 6)

    def contrast(middle: float):
        values = (drawn.random((90, 11)) < np.where(MIDDLE, middle, 0.6)).astype(float)
        return within_contrast(values, clusters, MIDDLE, 199, drawn)

    size = float(np.median([contrast(0.6).detectable(0.8, 0.05) for _ in range(9)]))
    shown = sum(contrast(0.6 - size).p_value <= 0.05 for _ in range(100))
    # Binomial(100, .8) leaves 66 to 92 with chance .1 %; the size is an estimate itself.
    assert 66 <= shown <= 95
    assert contrast(0.6).detectable(0.8, 0.001) is None, "199 permutations cannot reach .001"
    same = within_contrast(np.ones((90, 11)), clusters, MIDDLE, 199, drawn)
    assert same is not None and same.detectable(0.8, 0.05) == smallest_difference(90, 0.0)
    few = within_contrast(np.ones((4, 11)), [0, 1, 2, 3], MIDDLE, 199, drawn)
    assert few is not None and few.detectable(0.8, 0.05) is None


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
