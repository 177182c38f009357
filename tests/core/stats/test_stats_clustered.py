"""The clustered bootstrap equals its readable reference draw by draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.stats.intervals import clustered_bootstrap
from tests.reference.bootstrap import clustered_bootstrap as plain

PAPER_N = (366, 222, 168, 138, 150, 204, 174, 186, 246, 342)
"""Rows per decile of the paper's data, six models a cluster (PROTOCOL, Experiment 1)."""


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
    fast = clustered_bootstrap(values, clusters, bins, 30, np.random.default_rng(seed))
    assert fast.means == pytest.approx(slow, abs=1e-12, nan_ok=True)


def test_binary_outcomes_equal_the_reference_bit_for_bit():
    values, clusters, bins = paper_sized()
    slow = plain(values.tolist(), clusters.tolist(), bins.tolist(), 200, np.random.default_rng(42))
    fast = clustered_bootstrap(values, clusters, bins, 200, np.random.default_rng(42))
    assert np.array_equal(fast.means, slow)
    # Fewer resamples are the first of more.
    fewer = clustered_bootstrap(values, clusters, bins, 70, np.random.default_rng(42))
    assert np.array_equal(fewer.means, slow[:70])
    assert fast.n.tolist() == list(PAPER_N)
    assert fast.clusters.tolist() == [n // 6 for n in PAPER_N]
    low, high = np.quantile(slow, [0.025, 0.975], axis=0)
    # The same resamples; along an axis numpy interpolates in another order of operations.
    assert fast.low == pytest.approx(low, abs=1e-15)
    assert fast.high == pytest.approx(high, abs=1e-15)


def test_resamples_without_rows_of_a_bin_are_nan_and_left_out_of_its_interval():
    # One cluster of four holds bin 1: it is missing from (3/4)^4 = 32 % of resamples.
    values, clusters, bins = [0.0, 1.0, 0.0, 1.0], [0, 1, 2, 3], [0, 1, 0, 0]
    bootstrap = clustered_bootstrap(values, clusters, bins, 4000, np.random.default_rng(1), 3)
    missing = np.isnan(bootstrap.means).mean(axis=0)
    assert missing[1] == pytest.approx((3 / 4) ** 4, abs=0.03)
    assert (bootstrap.low[1], bootstrap.estimate[1], bootstrap.high[1]) == (1.0, 1.0, 1.0)
    assert missing[2] == 1.0
    assert np.isnan([bootstrap.estimate[2], bootstrap.low[2], bootstrap.high[2]]).all()
    assert bootstrap.n.tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    ("values", "clusters", "bins"),
    [
        ([], [], []),
        ([1.0], [0, 1], [0]),
        ([1.0], [0], [0, 1]),
        ([1.0], [0], [10]),
        ([1.0], [0], [-1]),
        ([1.0], [0], [0.5]),
        ([float("nan")], [0], [0]),
    ],
)
def test_impossible_bins_clusters_and_values_are_refused(values, clusters, bins):
    with pytest.raises(ValueError, match=r"\w"):
        clustered_bootstrap(values, clusters, bins, 10, np.random.default_rng(0))
