"""Prediction-powered means: PPI++ where that applies, priority samples, coverage by patients.

PPI++ is written out here from its paper (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453, the mean:
equations of section 2 and example 1), as the package ``ppi-python`` computes it: power tuning
clipped to [0, 1], variances with n and the tuning's with n − 1.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from midchart.core.stats.paired import share_interval
from midchart.core.stats.prediction_powered import drawn_with, prediction_powered, priority_order
from midchart.extras.lab.simulations import SETTINGS, Setting, simulate


def ppi_plus_plus(
    people: np.ndarray, machine: np.ndarray, machine_alone: np.ndarray, tuning: float | None
) -> tuple[float, float]:
    """Estimate and standard error from n judged items and N that the machine alone judged."""
    n, rest = len(people), len(machine_alone)
    if tuning is None:
        covariance = np.mean((people - people.mean()) * (machine - machine.mean()))
        both = np.concatenate([machine, machine_alone])
        tuning = float(np.clip(covariance / ((1 + n / rest) * both.var(ddof=1)), 0, 1))
    estimate = tuning * machine_alone.mean() + (people - tuning * machine).mean()
    variance = tuning**2 * machine_alone.var() / rest + (people - tuning * machine).var() / n
    return float(estimate), float(np.sqrt(variance))


def simple_sample(n: int, cards: int, seed: int, accuracy: float = 0.85):
    """Independent items of which some, drawn alike, are judged: machine, judged, probability."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.6).astype(float)
    machine = np.where(rng.random(n) < accuracy, truth, 1 - truth)
    judged = np.full(n, np.nan)
    drawn = rng.permutation(n)[:cards]
    judged[drawn] = truth[drawn]
    return machine, judged, np.full(n, cards / n)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tuning", [None, 0.0, 0.4, 1.0])
def test_with_equal_probabilities_it_is_ppi_plus_plus(seed, tuning):
    machine, judged, probability = simple_sample(400, 60, seed, accuracy=0.7)
    known = ~np.isnan(judged)
    expected, _ = ppi_plus_plus(judged[known], machine[known], machine[~known], tuning)
    # There the machine's mean is of the other items, here of all: a share of the tuning.
    strength = None if tuning is None else tuning * 400 / 340
    result = prediction_powered(
        machine, judged, probability, np.arange(400), 50, np.random.default_rng(0), tuning=strength
    )
    assert result.estimate == pytest.approx(expected, abs=1e-12)


def test_with_many_independent_items_its_interval_is_that_of_ppi_plus_plus():
    machine, judged, probability = simple_sample(6000, 600, 3)
    known = ~np.isnan(judged)
    expected, error = ppi_plus_plus(judged[known], machine[known], machine[~known], None)
    result = prediction_powered(
        machine, judged, probability, np.arange(6000), 1000, np.random.default_rng(0)
    )
    low, high = result.interval
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)
    assert (low + high) / 2 == pytest.approx(expected, abs=0.2 * error)


def test_it_corrects_a_biased_machine_and_is_narrower_than_the_judgements_alone():
    machine, judged, probability = simple_sample(2000, 100, 4, accuracy=0.95)
    machine = np.minimum(machine, (np.arange(2000) % 5 > 0))  # every fifth item is said to be 0
    patients = np.arange(2000) // 10
    result, alone = (
        prediction_powered(
            machine, judged, probability, patients, 500, np.random.default_rng(1), tuning=tuning
        )
        for tuning in (None, 0.0)
    )
    assert machine.mean() < 0.52 and 0.55 < result.estimate < 0.68
    assert 0 < result.tuning < 1.1
    assert np.ptp(result.interval) < 0.85 * np.ptp(alone.interval)
    assert alone.estimate == pytest.approx(np.nanmean(judged))


def test_with_every_item_judged_it_is_their_mean_with_its_interval_by_patient():
    rng = np.random.default_rng(5)
    patients = np.repeat(np.arange(20), 5)
    judged = (rng.random(100) < 0.6).astype(float)
    result = prediction_powered(
        1 - judged, judged, np.ones(100), patients, 500, np.random.default_rng(0)
    )
    assert result.estimate == judged.mean() == result.predicted
    low, high = share_interval(judged, patients)
    assert result.interval[0] <= low < high <= result.interval[1]
    assert np.ptp(result.interval) < 1.25 * (high - low)
    assert result.width_after(10) == np.ptp(result.interval)


def test_items_that_do_not_count_leave_the_mean():
    """Of the items that count 0.8 are 1; the machine counts all, and says 0 of the others."""
    rng, n = np.random.default_rng(6), 3000
    counts = (rng.random(n) < 0.7).astype(float)
    truth = (rng.random(n) < 0.8) * counts
    drawn = rng.permutation(n)[:1500]
    judged = np.full(n, np.nan)
    judged[drawn] = truth[drawn]
    result = prediction_powered(
        truth, judged, np.full(n, 0.5), np.arange(n), 200, np.random.default_rng(0),
        judged_counts=counts,
    )  # fmt: skip
    assert truth.mean() < 0.6
    assert result.interval[0] < 0.8 < result.interval[1] and np.ptp(result.interval) < 0.08
    assert result.judged == counts[drawn].sum()


def test_judgements_that_all_agree_leave_doubt():
    machine = np.ones(100)
    judged = np.full(100, np.nan)
    judged[:10] = 1.0
    result = prediction_powered(
        machine, judged, np.full(100, 0.1), np.arange(100) // 5, 200, np.random.default_rng(0)
    )
    assert result.estimate == 1.0 and result.interval[0] < 0.85


def test_a_priority_sample_grows_one_by_one_and_makes_unbiased_totals():
    rng = np.random.default_rng(7)
    sizes = np.array([1.0, 1.0, 1.0, 2.0, 4.0, 8.0])
    values = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])
    sums, times = [], np.zeros(6)
    for _ in range(20_000):
        uniform = 1.0 - rng.random(6)
        order, chance = priority_order(sizes, uniform), drawn_with(sizes, uniform, 3)
        sums.append((values / chance)[order[:3]].sum())
        times[order[:3]] += 1
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - values.sum()) < 4 * error
    assert times[0] < times[3] < times[4] < times[5] and times.min() > 0
    chances = [drawn_with(sizes, uniform, count) for count in range(7)]
    assert all((a <= b).all() for a, b in pairwise(chances))
    assert chances[6].tolist() == [1.0] * 6


def test_the_expected_width_with_more_cards_is_the_width_with_more_cards():
    setting = Setting(0.7, 0.9, 20)
    now, later = (
        simulate(replace(setting, cards=cards), 120, 8) for cards in (20, 30)
    )  # fmt: skip
    assert later.width < 0.95 * now.width
    assert now.width_after_ten == pytest.approx(later.width, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_intervals_of_20_patients_hold_the_share_of_the_population(setting):
    result = simulate(setting, 1000, 10)
    assert result.coverage >= 0.93
    assert abs(result.estimate - setting.share) < 0.04
