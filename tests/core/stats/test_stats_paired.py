"""Paired differences, power, multiple tests, intervals of agreement: equal to other libraries and
published figures."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import confint_proportions_2indep

from core.stats.agreement import (
    ac1_of,
    kappa_of,
    positive_of,
    repeat_agreement,
)
from core.stats.intervals import (
    cluster_totals,
    clustered_bootstrap,
    clustered_intervals,
    clustered_wilson,
    square_and_add,
    wilson_interval,
)
from core.stats.paired import (
    benjamini_hochberg,
    cochran_q,
    holm_adjust,
    mcnemar_exact,
    mcnemar_power,
    newcombe_paired,
    smallest_difference,
)

CELLS = st.tuples(*[st.integers(0, 60)] * 4).filter(lambda cells: sum(cells) > 0)


def rng(seed: int = 42) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_newcombe_interval_of_the_published_paired_example():
    # Complete response before and after consolidation (Cavo et al. 2012: 59, 6, 16, 80), as
    # printed by R's contingencytables, Newcombe_square_and_add_CI_paired_2x2.
    interval = newcombe_paired(59, 6, 16, 80)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(
        (-0.0621, -0.1186, -0.0046), abs=5e-5
    )


@given(CELLS)
def test_newcombe_interval_contains_its_difference_and_is_symmetric(cells):
    both, first, second, neither = cells
    interval = newcombe_paired(*cells)
    mirrored = newcombe_paired(both, second, first, neither)
    assert -1 <= interval.low <= interval.estimate <= interval.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx(
        (-interval.high, -interval.low), abs=1e-12
    )
    # Right and wrong exchanged: the same difference, the other way round.
    turned = newcombe_paired(neither, first, second, both)
    assert turned.low == pytest.approx(interval.low, abs=1e-12)


@given(st.integers(1, 80), st.integers(1, 80), st.data())
def test_newcombe_for_two_samples_equals_statsmodels(n, m, data):
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    interval = square_and_add(wilson_interval(a, n), wilson_interval(b, m))
    low, high = confint_proportions_2indep(a, n, b, m, method="newcomb", compare="diff")
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9)


def test_mcnemar_of_many_pairs_equals_exact_integers_and_is_never_zero():
    exact = min(1.0, 2 * sum(comb(1001, i) for i in range(461)) / 2**1001)
    assert mcnemar_exact(460, 541) == pytest.approx(exact, rel=1e-9)
    assert mcnemar_exact(500, 501) == pytest.approx(1.0)
    assert 0 < mcnemar_exact(0, 5000) < 1e-300


@given(st.lists(st.floats(0, 1), max_size=20))
def test_benjamini_hochberg_equals_scipy_and_is_at_most_holm(p):
    ours = benjamini_hochberg(p)
    assert ours == pytest.approx(false_discovery_control(p) if p else np.empty(0), abs=1e-12)
    assert (ours <= holm_adjust(p) + 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=30))
def test_cochran_q_equals_statsmodels(rows):
    ours = cochran_q(rows)
    table = np.array(rows, dtype=int)
    patterns, times = np.unique(table, axis=0, return_counts=True)
    assert cochran_q(patterns, times) == ours
    if ours.telling == 0:
        assert (ours.statistic, ours.p) == (0.0, 1.0)
        return
    expected = cochrans_q(table)
    assert (ours.statistic, ours.p) == pytest.approx(
        (expected.statistic, expected.pvalue), abs=1e-9
    )
    assert ours.df == 3
    assert ours.n == len(rows)


def test_power_equals_the_rejection_rate_of_simulated_tests():
    draw = rng(9)
    cells = draw.multinomial(80, (0.25, 0.05, 0.7), size=4000)
    seen = np.mean([mcnemar_exact(int(a), int(b)) <= 0.05 for a, b, _ in cells])
    # Discordant .30, difference .20; 3 standard errors of 4,000 trials are .02.
    assert mcnemar_power(80, 0.3, 0.2) == pytest.approx(seen, abs=0.02)


def test_power_computed_by_hand():
    # All ten pairs discordant and pointing one way with chance .9: p ≤ .05 from 9 of 10 on
    # (2·11/1024 = .021), so power = .9^10 + 10·.9^9·.1 and the other tail, .1^10 + 10·.1^9·.9.
    hand = 0.9**10 + 10 * 0.9**9 * 0.1 + 0.1**10 + 10 * 0.1**9 * 0.9
    assert mcnemar_power(10, 1.0, 0.8) == pytest.approx(hand, rel=1e-9)
    # Five pairs cannot reach p ≤ .05 (2/32 = .0625).
    assert mcnemar_power(5, 1.0, 1.0) == 0.0
    assert mcnemar_power(100, 0.0, 0.0) == 0.0


def test_power_is_near_the_normal_approximation_for_many_pairs():
    # Connor's formula (Biometrics 43 (1987) 207–211): (1.95996·√.3 + .84162·√(.3 − .0016))² / .0016
    # = (1.07352 + .45974)² / .0016 = 1469.3 pairs. The exact test is a little more careful.
    assert mcnemar_power(1469, 0.3, 0.04) == pytest.approx(0.8, abs=0.015)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.floats(0, 1))
def test_the_smallest_detectable_difference_has_the_power_and_a_smaller_one_has_not(n, discordant):
    smallest = smallest_difference(n, discordant)
    if smallest is None:
        assert n <= 5
        return
    assert mcnemar_power(n, max(discordant, smallest), smallest) >= 0.8 - 1e-9
    less = max(0.0, smallest - 1e-4)
    assert mcnemar_power(n, max(discordant, less), less) <= 0.8 + 1e-6
    # A stricter level (the first step of Holm over twelve tests) sees less.
    stricter = smallest_difference(n, discordant, alpha=0.05 / 12)
    assert stricter is None or stricter >= smallest - 1e-6


def test_the_smallest_difference_of_a_million_pairs_is_computed_and_small():
    assert 0 < smallest_difference(1_000_000, 0.2) < 0.002


def test_positive_agreement_of_tables():
    tables = [[[3, 1], [2, 10]], [[0, 0], [0, 4]]]
    assert positive_of(tables) == pytest.approx([6 / 9, np.nan], nan_ok=True)


ABSTRACTORS = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
"""R irrCAC's cont3x3abstractors."""


def test_kappa_and_ac1_equal_statsmodels_and_r():
    assert kappa_of(ABSTRACTORS) == pytest.approx(0.7964094, abs=1e-7), "irrCAC kappa2.table"
    assert kappa_of(ABSTRACTORS) == pytest.approx(cohens_kappa(np.array(ABSTRACTORS)).kappa)
    assert ac1_of(ABSTRACTORS) == pytest.approx(0.8493305, abs=1e-7), "irrCAC gwet.ac1.table"
    assert np.isnan(kappa_of([[5, 0], [0, 0]])), "one category only"


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30))
def test_repeat_agreement_equals_the_share_of_agreeing_pairs(yes):
    counts = np.array([[y, 4 - y] for y in yes])
    by_hand = [
        np.mean([a == b for i, a in enumerate(marks) for j, b in enumerate(marks) if i != j])
        for marks in ([1] * y + [0] * (4 - y) for y in yes)
    ]
    assert repeat_agreement(counts) == pytest.approx(by_hand)


def test_an_item_judged_once_has_no_self_agreement():
    assert repeat_agreement([[1, 0], [2, 0]]) == pytest.approx([np.nan, 1.0], nan_ok=True)


def _sums(correct, n):
    c, m = np.asarray(correct, float), np.asarray(n, float)
    return int(c.sum()), int(m.sum()), len(c), float(c @ c), float(c @ m), float(m @ m)


def test_clusters_of_one_row_give_nearly_the_wilson_interval():
    # Rows that are their own clusters: variance excess n/(n−1), then Student's t for the normal.
    clustered = clustered_wilson(*_sums([1] * 200 + [0] * 300, [1] * 500))
    plain = wilson_interval(200, 500)
    assert (clustered.low, clustered.high) == pytest.approx((plain.low, plain.high), abs=2e-3)
    assert clustered.low < plain.low


def test_clusters_of_equal_answers_have_an_effective_n_of_their_number():
    # Twenty patients, each with ten equal answers: the effective n is near 20, not 200.
    clustered = clustered_wilson(*_sums([10] * 8 + [0] * 12, [10] * 20))
    few, many = wilson_interval(8, 20), wilson_interval(80, 200)
    assert clustered.high - clustered.low > 0.95 * (few.high - few.low)
    assert clustered.high - clustered.low > 2 * (many.high - many.low)
    # None right: each cluster counts once. One cluster says nothing.
    none = clustered_wilson(*_sums([0] * 10, [3] * 10))
    assert none.low == 0.0
    assert none.high > wilson_interval(0, 30).high
    alone = clustered_wilson(*_sums([3], [5]))
    assert (alone.low, alone.high) == (0.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_clustered_wilson_interval_contains_its_proportion(pairs):
    rows = [(min(a, b), max(a, b)) for a, b in pairs if max(a, b) > 0]
    if not rows:
        return
    interval = clustered_wilson(*_sums(*zip(*rows, strict=True)))
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


def test_clustered_wilson_refuses_impossible_sums():
    with pytest.raises(ValueError, match="cannot have"):
        clustered_wilson(3, 5, 6, 3, 3, 5)


def test_cluster_totals_equal_the_clustered_bootstrap():
    # Clusters of which each has a row: the same stream of numbers gives the same means.
    draw = rng(2)
    clusters = np.concatenate([np.arange(12), draw.integers(0, 12, 28)])
    values = draw.integers(0, 2, 40).astype(float)
    totals = np.stack([np.bincount(clusters, values), np.bincount(clusters)], axis=1)
    drawn = cluster_totals(totals, 300, rng())
    bootstrap = clustered_bootstrap(
        values, clusters, np.zeros(40, dtype=int), 300, rng(), bin_count=1
    )
    assert drawn[:, 0] / drawn[:, 1] == pytest.approx(bootstrap.means[:, 0])
    low, high = clustered_intervals((drawn[:, 0] / drawn[:, 1])[:, None])
    assert (low[0], high[0]) == pytest.approx((bootstrap.low[0], bootstrap.high[0]))
