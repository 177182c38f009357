"""Intervals, paired tests and agreement, against other libraries and published examples.

The clustered bootstrap equals its readable reference draw by draw.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from midchart.core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of
from midchart.core.stats.intervals import (
    bootstrap_proportion,
    wilson_interval,
    wilson_of_share,
)
from midchart.core.stats.paired import holm_adjust, mcnemar_exact
from tests.reference.bootstrap import binned_means
from tests.reference.bootstrap import clustered_bootstrap as plain

SHARES = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def rng(seed: int = 42) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_wilson_interval_of_0_in_30():
    # z²/(n + z²) = 3.8415/33.8415 = 11.35 %: the protocol's 0–11.4 %.
    interval = wilson_interval(0, 30)
    assert (interval.estimate, interval.low) == (0.0, 0.0)
    assert interval.high == pytest.approx(3.841459 / 33.841459, abs=1e-7)
    assert round(100 * interval.high, 1) == 11.4


@given(SHARES, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_interval_equals_statsmodels(share: tuple[int, int], level: float):
    hits, n = share
    low, high = proportion_confint(hits, n, alpha=1 - level, method="wilson")
    interval = wilson_of_share(hits / n, n, level)
    assert (interval.low, interval.high) == pytest.approx((max(0, low), min(1, high)), abs=1e-12)
    assert 0 <= interval.low <= hits / n <= interval.high <= 1


@pytest.mark.parametrize(("hits", "n"), [(9, 30), (1, 83), (40, 40), (0, 30)])
def test_bootstrap_of_a_proportion_equals_resampling_its_rows(hits: int, n: int):
    quick = bootstrap_proportion(hits, n, 40_000, rng())
    values = np.array([1.0] * hits + [0.0] * (n - hits))
    draws = values[rng(1).integers(0, n, (40_000, n))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    # Both are percentiles of one discrete distribution: equal, or one step of 1/n apart.
    assert quick.estimate == pytest.approx(values.mean())
    assert abs(quick.low - low) <= 1 / n + 1e-12
    assert abs(quick.high - high) <= 1 / n + 1e-12
    exact = scipy.stats.binom(n, hits / n).ppf([0.025, 0.975]) / n
    assert (quick.low, quick.high) == pytest.approx(tuple(exact), abs=1 / n + 1e-12)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_statsmodels(b: int, c: int):
    expected = mcnemar([[5, b], [c, 7]], exact=True).pvalue if b + c else 1.0
    assert mcnemar_exact(b, c) == pytest.approx(expected, abs=1e-12)
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_equals_statsmodels(p: list[float]):
    expected = multipletests(p, method="holm")[1] if p else np.zeros(0)
    assert holm_adjust(p) == pytest.approx(expected, abs=1e-12)


RATINGS = st.integers(1, 60).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2)
)


def table_of(first: list[int], second: list[int]) -> np.ndarray:
    categories = sorted({*first, *second})
    table = np.zeros((len(categories), len(categories)))
    for a, b in zip(first, second, strict=True):
        table[categories.index(a), categories.index(b)] += 1
    return table


@given(RATINGS)
def test_kappa_equals_scikit_learn(pair: tuple[list[int], list[int]]):
    ours = kappa_of(table_of(*pair))
    if len({*pair[0], *pair[1]}) == 1:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(cohen_kappa_score(*pair), abs=1e-12)
    assert ours == pytest.approx(kappa_of(table_of(*pair[::-1])), nan_ok=True)


def test_agreement_of_gwets_published_example():
    # Gwet, Statistical Methods for Inter-Rater Reliability Assessment 1 (2002), the paradox of
    # 118 ++, 5 +−, 2 −+, 0 −−: raw .944, kappa −.0234, AC1 .9408.
    table = [[118, 5], [2, 0]]
    assert raw_of(table) == pytest.approx(118 / 125)
    assert kappa_of(table) == pytest.approx(-0.0234, abs=5e-5)
    assert ac1_of(table) == pytest.approx(0.9408, abs=5e-5)
    assert positive_of(table) == pytest.approx(2 * 118 / (123 + 120))


def test_agreement_where_all_ratings_are_negative():
    table = [[0, 0], [0, 30]]
    assert ac1_of(table) == 1.0
    assert np.isnan(kappa_of(table))
    assert np.isnan(positive_of(table))


PAPER_N = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""Rows per decile of the paper's data, six models a cluster (docs/methods.md, Experiment 1)."""


def paper_sized(seed: int = 0):
    bins = np.repeat(np.arange(10), PAPER_N)
    clusters = np.arange(len(bins)) // 6
    return (np.random.default_rng(seed).random(len(bins)) < 0.5).astype(float), clusters, bins


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=40
    ),
    st.integers(0, 2**32),
)
def test_clustered_bootstrap_equals_the_reference_draw_by_draw(rows, seed):
    values, clusters, bins = (list(column) for column in zip(*rows, strict=True))
    slow = plain(values, clusters, bins, 30, np.random.default_rng(seed))
    fast = binned_means(values, clusters, bins, 30, np.random.default_rng(seed))
    assert fast == pytest.approx(slow, abs=1e-12, nan_ok=True)


def test_binary_outcomes_equal_the_reference_bit_for_bit():
    values, clusters, bins = paper_sized()
    slow = plain(values.tolist(), clusters.tolist(), bins.tolist(), 200, np.random.default_rng(42))
    for resamples in (200, 70):  # fewer resamples are the first of more
        fast = binned_means(values, clusters, bins, resamples, np.random.default_rng(42))
        assert np.array_equal(fast, slow[:resamples])


ROWS, LONGEST = 2_000, 10_000
