"""The reported interval: none for few clusters, never of zero width, with its nominal coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.experiments.answers.tables import stage2
from core.protocol import parse
from core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of
from core.stats.auroc import (
    auprc_floor,
    auroc_difference_floor,
    auroc_floor,
    clustered_auroc,
    hanley_mcneil,
    placements,
)
from core.stats.intervals import Interval, cluster_totals, wilson_interval
from core.stats.paired import (
    FEWEST_CLUSTERS,
    agreement_floors,
    expanded_level,
    newcombe_paired,
    paired_floor,
    reported_interval,
    share_floor,
)
from tests.support.stage2_rows import made_rows, plan, store_of


def rng(seed: int = 42) -> np.random.Generator:
    return np.random.default_rng(seed)


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
    with pytest.raises(ValueError, match="two clusters"):
        expanded_level(1)


def test_without_clusters_a_floor_is_near_the_independent_interval():
    each = np.ones(4000)
    right = np.repeat([1.0, 0.0], [1000, 3000])
    plain, floor = wilson_interval(1000, 4000), share_floor(right, each)
    assert (floor.low, floor.high) == pytest.approx((plain.low, plain.high), abs=2e-4)
    cells = np.eye(4)[np.repeat(range(4), [1500, 700, 600, 1200])]
    plain, floor = newcombe_paired(1500, 700, 600, 1200), paired_floor(cells)
    assert (floor.estimate, floor.low, floor.high) == pytest.approx(
        (plain.estimate, plain.low, plain.high), abs=2e-4
    )


def test_pairs_that_never_differ_still_have_a_width():
    same = np.tile([6.0, 0, 0, 4.0], (8, 1))
    floor = paired_floor(same)
    assert floor.estimate == 0.0 and floor.low < -0.1 and floor.high > 0.1
    better = np.tile([0.0, 5.0, 0, 5.0], (8, 1))  # +50 points in every patient
    floor = paired_floor(better)
    assert floor.low < 0.4 and floor.high > 0.6


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
    paper = replace(plan(), protocol=parse({"intervals": "percentile"}))
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
    assert auroc_floor(perfect, np.zeros(1000)) == Interval(1.0, 0.0, 1.0, 0.95)
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
    for _ in range(150):
        scores, labels = data(patients, draw)
        patient = np.repeat(np.arange(patients), 4)
        for i, widened in enumerate((True, False)):
            auroc = clustered_auroc(scores, labels, patient, 200, draw, widened=widened)
            held[i] += auroc.low <= truth <= auroc.high
    assert held[0] >= 0.92 * 150 and held[0] > held[1]
    few = clustered_auroc(*data(4, draw), np.repeat(np.arange(4), 4), 200, draw)
    assert np.isnan([few.low, few.high]).all()
