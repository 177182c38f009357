"""Paired differences, power, multiple tests, and the reported interval.

All equal other libraries and published figures. There is no interval for few clusters, never one of
zero width, and it has its nominal coverage.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import confint_proportions_2indep

from midchart.core.experiments.answers.tables import stage2
from midchart.core.protocol import Protocol, parse
from midchart.core.stats.agreement import (
    ac1_of,
    kappa_of,
    positive_of,
    raw_of,
    repeat_agreement,
)
from midchart.core.stats.auroc import (
    auprc_floor,
    auroc_difference_floor,
    auroc_floor,
    hanley_mcneil,
    placements,
)
from midchart.core.stats.intervals import (
    Interval,
    cluster_totals,
    clustered_wilson,
    pooled_correlation,
    square_and_add,
    wilson_interval,
)
from midchart.core.stats.paired import (
    FEWEST_CLUSTERS,
    agreement_floors,
    expanded_level,
    mcnemar_exact,
    mcnemar_power,
    newcombe_paired,
    reported_interval,
    share_floor,
    share_sums,
    smallest_difference,
)
from midchart.core.training_experiments.measures import area_columns
from tests.support.stage2_rows import made_rows, plan, store_of

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


@given(st.lists(st.integers(1, 5), min_size=2, max_size=12), st.floats(0, 1), st.data())
def test_at_one_correlation_more_rows_right_give_a_higher_interval(sizes, correlation, data):
    more = [data.draw(st.integers(0, n)) for n in sizes]
    fewer = [data.draw(st.integers(0, c)) for c in more]
    low, high = (
        clustered_wilson(*_sums(right, sizes), correlation=correlation) for right in (fewer, more)
    )
    assert low.low <= high.low + 1e-12 and low.high <= high.high + 1e-12


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        # Twenty patients with ten equal answers each are alike; nothing varies: nothing is known.
        ([([10] * 10 + [0] * 10, [10] * 20)], 1.0),
        ([([0] * 5, [3] * 5)], 1.0),
        # Answers that each patient has half right are less alike than independent ones.
        ([([2] * 8, [4] * 8)], 0.0),
        # A patient each: a correlation has no rows to show in.
        ([([1, 0, 1, 0, 1, 0], [1] * 6)], 0.0),
        # By hand: totals 2, 0, 1, 1 of pairs; squares 2, times 4/3, less 8 · 1/4; over 1/4 · 8.
        ([([2, 0, 1, 1], [2] * 4)], (2 * 4 / 3 - 2) / 2),
        # A sample without variation adds its rows to neither side.
        ([([2, 0, 1, 1], [2] * 4), ([0] * 4, [2] * 4)], (2 * 4 / 3 - 2) / 2),
    ],
)  # fmt: skip
def test_pooled_correlation_by_hand(samples, expected):
    assert pooled_correlation(share_sums(*one) for one in samples) == pytest.approx(expected)


def test_fewer_than_five_clusters_give_no_interval():
    floor = wilson_interval(1, 4)
    assert FEWEST_CLUSTERS == 5
    assert reported_interval(rng().random(100), 4, floor) is None
    assert reported_interval(rng().random(100), 5, floor) is not None
    assert reported_interval(np.ones(100), 9) is None  # no width and no score interval
    with pytest.raises(ValueError, match="draws, a score interval"):
        reported_interval(None, 9)


def test_reported_interval_is_the_expanded_percentiles_and_at_least_the_score_interval():
    draws = rng().normal(size=5000)
    level = expanded_level(10)
    assert 0.95 < expanded_level(1000) < 0.9505 < level < 0.99
    tail = (1 - level) / 2
    assert reported_interval(draws, 10) == pytest.approx(np.quantile(draws, [tail, 1 - tail]))
    wide = wilson_interval(0, 3)
    assert reported_interval(np.zeros(50), 6, wide) == (wide.low, wide.high)


def test_agreement_floors_are_the_measures_at_the_bounds_of_the_shares():
    cells = np.array([[2.0, 1, 0, 3], [1, 0, 1, 4], [3, 0, 0, 1], [0, 1, 0, 5], [2, 0, 0, 2]])
    table = cells.sum(axis=0).reshape(2, 2)
    floors = agreement_floors(cells)
    for name, of in (("raw", raw_of), ("kappa", kappa_of), ("ac1", ac1_of),
                     ("positive_agreement", positive_of)):  # fmt: skip
        assert floors[name].estimate == pytest.approx(float(of(table)))
        assert floors[name].low < floors[name].estimate < floors[name].high
    perfect = agreement_floors(np.tile([1.0, 0, 0, 1.0], (11, 1)))
    assert perfect["kappa"].estimate == perfect["kappa"].high == 1.0
    assert perfect["kappa"].low < 0.9
    assert set(agreement_floors(np.tile([0.0, 0, 0, 1.0], (9, 1)))) == {"raw", "ac1"}


@pytest.mark.parametrize("clusters", [5, 12, 40])
def test_reported_interval_covers_where_percentiles_do_not(clusters: int):
    drawn, p, size = rng(clusters), 0.85, 4
    held = plain = 0
    for _ in range(200):
        right = drawn.binomial(size, drawn.beta(2 * p, 2 * (1 - p), clusters)).astype(float)
        n = np.full(clusters, float(size))
        totals = cluster_totals(np.stack([right, n], 1), 300, drawn)
        shares = totals[:, 0] / totals[:, 1]
        ends = reported_interval(shares, clusters, share_floor(right, n))
        assert ends is not None
        held += ends[0] <= p <= ends[1]
        low, high = np.quantile(shares, [0.025, 0.975])
        plain += low <= p <= high
    assert held >= 0.91 * 200  # 95 % less three standard errors of 200 trials
    assert held >= plain


def test_no_interval_of_the_tables_has_zero_width(tmp_path):
    answers, verdicts = made_rows()
    for row in verdicts:  # every answer right: resamples are all alike
        row["outcome"] = "correct"
    store = store_of(tmp_path / "items", answers, verdicts)
    tables = stage2(store, plan())
    checked = 0
    for name, rows in tables.items():
        for row in rows:
            for low in [
                key
                for key in row
                if key.endswith("_low") and row[key] is not None and key != "bound_low"
            ]:
                if f"{low[:-4]}_high" in row:
                    checked += 1
                    assert row[low] < row[f"{low[:-4]}_high"], (name, low, row)
    assert checked > 100
    paper = replace(plan(), protocol=parse({"intervals": "percentile", "position": "order"}))
    overall = [r for r in stage2(store, paper)["accuracy"] if r["band"] == "overall"]
    assert {(r["ci_low"], r["ci_high"]) for r in overall} == {(1.0, 1.0)}
    assert all(r["wilson_low"] < 1 for r in overall)


def test_the_floor_of_an_auroc_is_the_score_interval_at_the_effective_size():
    """Rows of their own are near Hanley and McNeil's; ten copies of each row in one cluster leave
    it where it was; an area of 1 has a width, more so where its rows are few clusters'."""
    draw = rng(0)
    labels = np.repeat([1, 0], [400, 600])
    scores = labels + draw.normal(size=1000)
    placed, rows = placements(scores, labels), np.arange(1000)
    floor, plain = auroc_floor(placed, rows), hanley_mcneil(placed.area, 400, 600)
    assert (floor.low, floor.high) == pytest.approx((plain.low, plain.high), abs=0.004)
    tens = placements(np.repeat(scores, 10), np.repeat(labels, 10))
    copied = auroc_floor(tens, np.repeat(rows, 10))
    assert (copied.low, copied.high) == pytest.approx((floor.low, floor.high), abs=0.002)

    perfect = placements(labels, labels)
    alone, shared = auroc_floor(perfect, rows), auroc_floor(perfect, rows // 100)
    assert shared.low < alone.low < alone.estimate == alone.high == 1
    reversed_ = auroc_floor(placements(-labels, labels), rows)
    assert (reversed_.low, reversed_.high) == pytest.approx((0, 1 - alone.low))
    assert auroc_floor(perfect, np.zeros(1000)) == Interval(1.0, 0.0, 1.0)
    precision = auprc_floor(1.0, perfect, rows)
    assert precision.low < precision.estimate == precision.high == 1


def test_the_floor_of_a_difference_of_aurocs_is_narrower_the_more_alike_they_are():
    draw = rng(1)
    labels, rows = np.repeat([1, 0], 100), np.arange(200)
    base = labels + draw.normal(size=200)
    first, like, other = (
        placements(scores, labels)
        for scores in (base, base + 0.1 * draw.normal(size=200), labels + draw.normal(size=200))
    )
    near, far = (auroc_difference_floor(first, one, rows) for one in (like, other))
    assert near.low < near.estimate < near.high and far.low < far.estimate < far.high
    assert near.high - near.low < 0.5 * (far.high - far.low)
    perfect = placements(labels, labels)
    same = auroc_difference_floor(perfect, perfect, rows)
    assert same.low < same.estimate == 0 < same.high, "a difference of nothing has a width"


@pytest.mark.parametrize("patients", [6, 20])
def test_an_auroc_is_covered_where_percentiles_do_not_cover_it(patients: int):
    """Four rows a patient, half of them positive, patients with a level of their own."""
    draw = rng(3)

    def data(count: int, draw: np.random.Generator):
        level = np.repeat(draw.normal(0, 1, count), 4)
        labels = np.tile([1, 1, 0, 0], count)
        return 1.5 * labels + level + draw.normal(size=4 * count), labels

    truth = placements(*data(20_000, rng(2))).area
    held = np.zeros(2)
    for number in range(150):
        scores, labels = data(patients, draw)
        patient = np.repeat(np.arange(patients), 4)
        for i, intervals in enumerate(("widened", "percentile")):
            protocol = Protocol(resamples=200, seed=number, intervals=intervals)
            area, _ = area_columns(scores, labels, patient, protocol)
            held[i] += area["ci_low"] <= truth <= area["ci_high"]
    assert held[0] >= 0.92 * 150 and held[0] > held[1]
    few, _ = area_columns(*data(4, draw), np.repeat(np.arange(4), 4), Protocol(resamples=200))
    assert few["ci_low"] is few["ci_high"] is None
