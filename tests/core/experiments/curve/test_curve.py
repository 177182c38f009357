"""The curve equals its reference, its null brute force, and the figures of the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.experiments.curve.tables import published_curve, statistics, study
from midchart.core.results.tables import read_published
from midchart.core.stats.paired import holm_adjust
from midchart.core.stats.positions import (
    Responses,
    bins_of,
    cells,
    is_middle_of,
    permutation_totals,
)
from midchart.extras.lab.simulations import PUBLISHED_N
from tests.reference.curve import curve as plain
from tests.reference.curve import place

POSITIONS = st.one_of(st.floats(0, 1), st.integers(0, 30).map(lambda i: i / 30))


def rows(seed: int = 0, clusters: int = 40, models: int = 3, effect: float = 0.0):
    """Values, clusters, positions, models of made-up answers, one place a cluster."""
    rng = np.random.default_rng(seed)
    position = rng.random(clusters)
    chance = 0.5 + effect * is_middle_of(position)
    values = (rng.random((clusters, models)) < chance[:, None]).astype(float)
    return (
        values.ravel(),
        np.repeat(np.arange(clusters), models),
        np.repeat(position, models),
        np.tile(np.arange(models), clusters),
    )


@pytest.mark.parametrize("bins", [10, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_curve_equals_the_reference_draw_by_draw(bins: int, seed: int):
    values, clusters, positions, models = rows(seed)
    seen, resampled, shuffled = plain(values, clusters, positions, bins, 200, 42)
    curve = study(place(values, clusters, positions, models), bins, 200, 42)
    assert curve.accuracy == pytest.approx(seen[0], abs=1e-12, nan_ok=True)
    assert (curve.gap, curve.difference) == pytest.approx((seen[1], seen[3]), abs=1e-12)
    low, high = np.nanquantile([r[0] for r in resampled], [0.025, 0.975], axis=0)
    many = curve.clusters > 1
    assert curve.ci_low[many] == pytest.approx(low[many], abs=1e-12)
    assert curve.ci_high[many] == pytest.approx(high[many], abs=1e-12)
    ends = np.quantile([r[3] for r in resampled], [0.025, 0.975])
    assert [curve.difference_low, curve.difference_high] == pytest.approx(list(ends), abs=1e-12)
    low, high = np.nanquantile([s[0] for s in shuffled], [0.025, 0.975], axis=0)
    assert curve.null_low == pytest.approx(low, abs=1e-12, nan_ok=True)
    assert curve.null_high == pytest.approx(high, abs=1e-12, nan_ok=True)
    gaps, spreads, differences = (np.array([s[i] for s in shuffled]) for i in (1, 2, 3))
    assert curve.null_gap == pytest.approx(gaps.mean(), abs=1e-12)
    assert curve.gap_p == ((gaps >= seen[1] - 1e-9).sum() + 1) / 201
    assert curve.homogeneity_p == ((spreads >= seen[2] - 1e-9).sum() + 1) / 201
    tails = [(sign * (differences - seen[3]) >= -1e-9).sum() + 1 for sign in (1, -1)]
    assert curve.difference_p == min(1.0, 2 * min(tails) / 201)
    assert (curve.difference_holm, curve.quadratic_holm) == pytest.approx(
        tuple(holm_adjust([curve.difference_p, curve.quadratic_p]))
    )


def test_the_null_is_every_permutation_of_positions_equally_often():
    # Two layouts (one place, two places), three and two clusters: 3! · 2! = 12 deals.
    values = [1, 0, 0.5, 1, 0, 0.25, 1]
    clusters, slots = [0, 1, 2, 3, 3, 4, 4], [0, 0, 0, 0, 1, 0, 1]
    positions = np.array([0.05, 0.15, 0.95, 0.05, 0.55, 0.95, 0.45])
    placed = place(values, clusters, positions, slots=slots)
    cut = cells(placed.position, 10)
    wanted = set()
    for one in itertools.permutations(range(3)):
        for two in itertools.permutations([0, 1]):
            at = np.concatenate(
                [positions[:3][list(one)], positions[3:].reshape(2, 2)[list(two)].ravel()]
            )
            totals = np.zeros(10)
            np.add.at(totals, bins_of(at, 10), values)
            wanted.add(tuple(totals.round(9)))
    drawn = permutation_totals(placed, cut, 6000, np.random.default_rng(0))
    assert drawn is not None
    seen, often = np.unique((drawn @ cut.bins).round(9), axis=0, return_counts=True)
    assert {tuple(row) for row in seen} == wanted
    # 12 deals give 12 different totals, each 1/12 of 6,000 = 500; sd 21.4, five of them 107.
    assert len(wanted) == 12
    assert np.abs(often - 500).max() < 107


def test_clusters_and_answers_in_each_bin_stay_as_they_are():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 5, 60)
    clusters = np.repeat(np.arange(60), sizes)
    models = np.concatenate([np.arange(n) for n in sizes])
    positions = np.repeat(rng.random(60), sizes)
    placed = place(np.ones(len(clusters)), clusters, positions, models)
    cut = cells(placed.position, 10)
    drawn = permutation_totals(placed, cut, 50, rng)
    # All answers right: a cell's total is the number of answers in it, whatever is dealt.
    assert drawn is not None
    n = np.bincount(cut.index, weights=placed.n, minlength=cut.count)
    assert np.array_equal(drawn, np.tile(n, (50, 1)))


def test_positions_move_between_clusters_that_the_same_models_answered():
    # A good model answered the early questions, a bad one the late: that is no effect of position.
    position = np.concatenate([np.linspace(0.31, 0.69, 20), np.linspace(0.8, 1, 20)])
    model = np.repeat([0, 1], 20)
    right = 1.0 - model
    told_apart = study(place(right, np.arange(40), position, model), 10, 999, 1)
    mixed = study(place(right, np.arange(40), position), 10, 999, 1)
    assert told_apart.difference == mixed.difference == 1.0
    assert (told_apart.difference_p, told_apart.gap_p) == (1.0, 1.0)
    assert mixed.difference_p == 2 / 1000  # the least there is: p is never 0
    assert mixed.homogeneity_p == 1 / 1000


def test_the_papers_figures_are_reproduced():
    accuracy = np.array([row["accuracy"] for row in published_curve()])
    n = np.array(PUBLISHED_N)
    position = (np.arange(10) + 0.5) / 10
    right = (accuracy * n)[None, :]
    computed = statistics(right, n[None, :].astype(float), cells(position, 10))
    assert n.sum() == 2196
    assert accuracy[2] - accuracy[7] == pytest.approx(0.219)
    assert computed.gap[0] == pytest.approx(0.219)
    # Middle and edge are means over answers, not over deciles: 43.2 and 45.2.
    rows = read_published("clitm_summary.csv")
    published = {row["quantity"]: float(row["value"] or "nan") for row in rows}
    assert 100 * computed.middle[0] == pytest.approx(published["middle_band_accuracy"], abs=0.05)
    assert 100 * computed.edge[0] == pytest.approx(published["edge_band_accuracy"], abs=0.05)
    # Share between the 10th and 90th percentile: answers in [.1, .9), 1488 of 2196.
    placed = Responses(np.arange(10), right[0], n.astype(float), position, np.zeros(10, np.int64))
    share = study(placed, 10, 10, 0).share_10_90
    assert share == 1488 / 2196
    assert 100 * share == pytest.approx(published["answers_between_p10_and_p90"], abs=0.05)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 5), POSITIONS, st.integers(0, 2)),
        min_size=1, max_size=25,
    ),
    st.sampled_from([10, 5]),
)  # fmt: skip
def test_any_answers_give_a_valid_curve(drawn, bins: int):
    values, clusters, positions, models = (np.array(column) for column in zip(*drawn, strict=True))
    slots = np.unique(positions, return_inverse=True)[1]
    placed = place(values, clusters, positions, models, slots)
    curve = study(placed, bins, 30, 1)
    assert curve.n.sum() == curve.rows == len(drawn)
    assert curve.clusters.max() <= curve.cluster_count == len(set(clusters.tolist()))
    held = curve.n > 0
    assert np.array_equal(held, ~np.isnan(curve.accuracy))
    assert curve.trough <= curve.peak
    assert curve.gap == pytest.approx(curve.peak - curve.trough, abs=1e-9)
    for p in (curve.gap_p, curve.homogeneity_p, curve.difference_p, curve.quadratic_p):
        assert np.isnan(p) or 0.0 < p <= 1.0
    assert np.array_equal(np.isnan(curve.ci_low), curve.clusters < 2)
