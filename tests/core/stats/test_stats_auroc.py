"""AUROC and AUPRC, their intervals and their paired tests, against published examples, against
scikit-learn, and against what theory says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from midchart.core.stats.auroc import (
    clustered_ranking,
    clustered_test,
    delong_test,
    hanley_mcneil,
    placements,
    ranking_areas,
)

# The data of DeLong, DeLong and Clarke-Pearson (1988): 43 women with ovarian cancer whose three
# tests are all known, as SAS/STAT prints them (PROC LOGISTIC, "Comparing Receiver Operating
# Characteristic Curves"). Columns: albumin, total protein, K-G score, benefit of surgery.
OVARIAN = """
3.0 5.8 10 0  3.2 6.3 5 1  3.9 6.8 3 1  2.8 4.8 6 0  3.2 5.8 3 1  0.9 4.0 5 0  2.5 5.7 8 0
1.6 5.6 5 1  3.8 5.7 5 1  3.7 6.7 6 1  3.2 5.4 4 1  3.8 6.6 6 1  4.1 6.6 5 1  3.6 5.7 5 1
4.3 7.0 4 1  3.6 6.7 4 0  2.3 4.4 6 1  4.2 7.6 4 0  4.0 6.6 6 0  3.5 5.8 6 1  3.8 6.8 7 1
3.0 4.7 8 0  4.5 7.4 5 1  3.7 7.4 5 1  3.1 6.6 6 1  4.1 8.2 6 1  4.3 7.0 5 1  4.3 6.5 4 1
3.2 5.1 5 1  2.6 4.7 6 1  3.3 6.8 6 0  1.7 4.0 7 0  3.7 6.1 5 1  3.3 6.3 7 1  4.2 7.7 6 1
3.5 6.2 5 1  2.9 5.7 9 0  2.1 4.8 7 1  2.8 6.2 8 0  4.0 7.0 7 1  3.3 5.7 6 1  3.7 6.9 5 1
3.6 6.6 5 1
"""


def _ovarian() -> tuple[dict[str, np.ndarray], np.ndarray]:
    table = np.array(OVARIAN.split(), float).reshape(-1, 4)
    return {"albumin": table[:, 0], "protein": table[:, 1], "kg": 10 - table[:, 2]}, table[:, 3]


def test_delong_gives_the_published_example() -> None:
    """The documentation's rows: areas .7366, .6478 and .7258; total protein less K-G −.0780,
    standard error .1046, −.2830 to .1271, χ² .5554, p .4561; albumin less K-G .0108, .0953,
    −.1761 to .1976, χ² .0127, p .9102."""
    tests, benefit = _ovarian()
    placed = {name: placements(scores, benefit) for name, scores in tests.items()}
    areas = {name: round(one.area, 4) for name, one in placed.items()}
    assert areas == {"albumin": 0.7366, "protein": 0.6478, "kg": 0.7258}
    for name, published in (
        ("protein", (-0.0780, 0.1046, -0.2830, 0.1271, 0.5554, 0.4561)),
        ("albumin", (0.0108, 0.0953, -0.1761, 0.1976, 0.0127, 0.9102)),
    ):
        test = delong_test(placed[name], placed["kg"])
        half = 1.959964 * test.se
        ends = test.difference - half, test.difference + half
        got = (test.difference, test.se, *ends, (test.difference / test.se) ** 2, test.p)
        assert tuple(round(value, 4) for value in got) == published


def test_hanley_and_mcneil_give_their_own_example() -> None:
    """Their 1982 paper: area .893 from 51 abnormal and 58 normal images. Q1 = .893/1.107 = .80668,
    Q2 = 2·.797449/1.893 = .84252; (.095551 + 50·.009234 + 57·.045071)/2958 = .001057, whose root
    is .03251 (the paper rounds to .032)."""
    interval = hanley_mcneil(0.893, 51, 58)
    assert (interval.estimate - interval.low) / 1.959964 == pytest.approx(0.03251, abs=5e-6)
    assert interval.low == pytest.approx(0.893 - 1.96 * 0.03251, abs=1e-5)
    assert hanley_mcneil(0.95, 5, 5).high == 1.0
    for area in (0.0, 1.0):
        degenerate = hanley_mcneil(area, 5, 5)
        assert np.isnan([degenerate.low, degenerate.high]).all()
    with pytest.raises(ValueError, match="each class"):
        hanley_mcneil(0.5, 0, 3)


labelled = st.integers(4, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-4, 4), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)),
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
    )
)


@given(labelled)
@settings(max_examples=60, deadline=None)
def test_areas_equal_scikit_learn_with_ties(
    drawn: tuple[list[int], list[bool], list[int]],
) -> None:
    scores, labels, _ = drawn
    auroc, auprc = ranking_areas(scores, labels)
    assert auroc == pytest.approx(roc_auc_score(labels, scores))
    assert auprc == pytest.approx(average_precision_score(labels, scores))
    assert placements(scores, labels).area == pytest.approx(auroc)


@given(labelled)
@settings(max_examples=30, deadline=None)
def test_every_resample_equals_scikit_learns_weighted_area(
    drawn: tuple[list[int], list[bool], list[int]],
) -> None:
    scores, labels, clusters = drawn
    ranking = clustered_ranking(scores, labels, clusters, 7, np.random.default_rng(0))
    names, member = np.unique(clusters, return_inverse=True)
    if len(names) == 1:
        assert np.isnan(ranking.auroc_draws).all()
        return
    picks = np.random.default_rng(0).integers(0, len(names), size=(64, len(names)), dtype=np.uint16)
    for i in range(7):
        weight = np.bincount(picks[i], minlength=len(names))[member]
        there = weight > 0
        drawn_labels = np.array(labels)[there]
        if drawn_labels.all() or not drawn_labels.any():
            assert np.isnan(ranking.auroc_draws[i])
            continue
        args = (drawn_labels, np.array(scores)[there])
        assert ranking.auroc_draws[i] == pytest.approx(
            roc_auc_score(*args, sample_weight=weight[there])
        )
        assert ranking.auprc_draws[i] == pytest.approx(
            average_precision_score(*args, sample_weight=weight[there])
        )


def test_copies_of_patients_do_not_shrink_the_clustered_error() -> None:
    """Ten copies of every patient: DeLong's error shrinks by √10, the clustered one stays."""
    rng = np.random.default_rng(5)
    labels = rng.random(200) < 0.4
    scores = rng.normal(size=(2, 200)) + labels * [[0.5], [0.9]]
    once = [placements(row, labels) for row in scores]
    tens = [placements(np.repeat(row, 10), np.repeat(labels, 10)) for row in scores]
    patient = np.arange(200)
    alone = delong_test(once[0], once[1])
    assert delong_test(*tens).se == pytest.approx(alone.se / np.sqrt(10), rel=0.01)
    assert clustered_test(*tens, np.repeat(patient, 10)).se == pytest.approx(
        clustered_test(*once, patient).se
    )
    assert clustered_test(*once, patient).se == pytest.approx(alone.se, rel=0.01)


def test_tests_hold_their_level_and_placements_average() -> None:
    """Scores of no difference: p is even over [0, 1], so its mean is 1/2 ± 4/√(12·300)."""
    rng = np.random.default_rng(9)
    p: list[float] = []
    for _ in range(300):
        labels = rng.random(120) < 0.5
        shared = rng.normal(size=120) + labels
        both = [placements(shared + rng.normal(size=120), labels) for _ in range(2)]
        p.append(delong_test(*both).p)
    assert abs(np.mean(p) - 0.5) < 4 / np.sqrt(12 * 300)
    labels = rng.random(50) < 0.5
    scores = rng.normal(size=(3, 50))
    mean = placements(scores, labels)
    assert mean.area == pytest.approx(np.mean([placements(row, labels).area for row in scores]))
    same = delong_test(mean, mean)
    assert (same.difference, same.p) == (0.0, 1.0)
    with pytest.raises(ValueError, match="same labels"):
        delong_test(mean, placements(scores, ~labels))
    with pytest.raises(ValueError, match="both classes"):
        placements([0.1, 0.2], [1, 1])
