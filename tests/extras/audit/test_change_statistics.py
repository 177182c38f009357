"""Changes of a share measured twice: paired where patients are the same, exact by exchange."""

from __future__ import annotations

import numpy as np
import pytest

from midchart.extras.audit.change_statistics import change_interval, change_p, share_change


def counted(patients: int, share: float, rng: np.random.Generator, rates=None) -> np.ndarray:
    """Rows right and rows of each patient, of five, whose shares vary."""
    rates = rng.beta(2.3 * share, 2.3 * (1 - share), patients) if rates is None else rates
    return np.stack([rng.binomial(5, rates), np.full(len(rates), 5)], axis=1).astype(float)


def samples(patients: int, both: int, first: float, second: float, rng: np.random.Generator):
    """Two samples of so many patients, of whom ``both`` are in each with the same share."""
    alone = patients - both
    rates = rng.beta(2.3 * first, 2.3 * (1 - first), both)
    changed = rates * second / first
    nobody = np.zeros((alone, 2))
    before = [counted(both, 0, rng, rates), counted(alone, first, rng), nobody]
    after = [counted(both, 0, rng, changed), nobody, counted(alone, second, rng)]
    return np.concatenate(before), np.concatenate(after)


def test_the_change_is_that_of_the_shares():
    assert share_change([[1, 2], [3, 3]], [[2, 2], [0, 3]]) == pytest.approx(2 / 5 - 4 / 5)


def test_pairs_are_narrower_than_other_patients():
    rng = np.random.default_rng(1)
    widths = {
        both: np.mean([
            np.ptp(change_interval(*samples(40, both, 0.7, 0.6, rng), 200, rng)) for _ in range(20)
        ])
        for both in (0, 40)
    }  # fmt: skip
    assert widths[40] < 0.8 * widths[0]


@pytest.mark.parametrize("both", [0, 6, 12])
def test_p_values_of_no_change_are_uniform_or_larger(both):
    rng = np.random.default_rng(both)
    p = np.array([change_p(*samples(12, both, 0.7, 0.7, rng), 200, rng) for _ in range(200)])
    for alpha in (0.05, 0.2, 0.5):
        assert np.mean(p <= alpha) <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 200)
    assert p.min() >= 1 / 201


def test_the_p_value_of_pairs_is_that_of_all_exchanges():
    """Four patients, each one row right more in the second: 2 of 16 exchanges are as large."""
    before, after = np.array([[1.0, 3]] * 4), np.array([[2.0, 3]] * 4)
    p = change_p(before, after, 40_000, np.random.default_rng(0))
    assert p == pytest.approx(2 / 16, abs=0.02)


def test_the_p_value_of_other_patients_is_that_of_all_permutations():
    """Three patients with none right against three with all: 2 of 20 splits are as large."""
    nobody = np.zeros((3, 2))
    none_right, all_right = np.array([[0.0, 2]] * 3), np.array([[2.0, 2]] * 3)
    p = change_p(
        np.concatenate([none_right, nobody]), np.concatenate([nobody, all_right]), 40_000,
        np.random.default_rng(0),
    )  # fmt: skip
    assert p == pytest.approx(2 / 20, abs=0.02)
