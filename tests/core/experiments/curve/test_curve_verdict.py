"""The verdict in words: what it states and must not state for every combination of numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.experiments.curve.tables import Curve, study, verdict
from midchart.extras.lab.simulations import answers, even_design, stepped
from tests.reference.curve import place


def curve_of(difference: float, questions: int = 200, seed: int = 1) -> Curve:
    design, rng = even_design(questions), np.random.default_rng(seed)
    return study(answers(design, stepped(design, 0.5, difference), 0.1, rng), 10, 999, 42)


def test_absence_of_evidence_is_not_called_absence_of_effect():
    curve = curve_of(0.0)
    text = verdict(curve, "clinician")
    assert text.startswith("No difference shown") and "not significant" in text
    assert f"n = {curve.rows:,} answers to {curve.cluster_count} questions." in text
    ends = [f"{100 * end:+.1f}" for end in (curve.difference_low, curve.difference_high)]
    assert f"points [{', '.join(ends)}]".replace("-", "−") in text.partition(". ")[0]
    assert "Not significant is not the same as no effect" in text
    assert f"a difference of {100 * curve.smallest_difference:.1f} points" in text
    assert f"{100 * curve.middle:.1f} %" in text and f"{100 * curve.edge:.1f} %" in text
    assert f"{100 * curve.gap:.1f} points apart" in text
    assert f"would be {100 * curve.null_gap:.1f} points apart" in text
    assert "gap alone shows no curve" in text
    assert "Simulated" not in text and "several groups" not in text


def test_a_loss_in_the_middle_is_stated_and_not_called_a_cause():
    text = verdict(curve_of(-0.25), "exact")
    first = text.partition(". ")[0]
    assert first.startswith("Worse in the middle") and "correct (exact match)" in first
    assert "only moving the same fact" in text
    assert "Not significant" not in text


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=40
    ),
    st.sampled_from(["clinician", "exact", "jaccard"]),
    st.booleans(),
)  # fmt: skip
def test_any_curve_has_a_verdict_without_invalid_numbers(drawn, score: str, simulated: bool):
    values, clusters, positions = (np.array(column) for column in zip(*drawn, strict=True))
    placed = place(values, clusters, positions, slots=np.unique(positions, return_inverse=True)[1])
    curve = study(placed, 10, 49, 1)
    text = verdict(curve, score, simulated)
    assert "nan" not in text and "None" not in text and "inf" not in text
    assert "p = 0.000" not in text and "p = 0.00 " not in text
    assert text.startswith("Simulated") == simulated
    significant = min(np.nan_to_num([curve.difference_holm, curve.quadratic_holm], nan=1.0)) <= 0.05
    assert bool(re.search("Worse in|Better in|as a whole", text)) == significant


def test_the_gaps_interval_is_that_of_resamples_with_their_own_best_and_worst_bin():
    values = [1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0]
    positions = [0.05, 0.05, 0.15, 0.15, 0.25, 0.25, 0.95, 0.95, 0.95, 0.05, 0.15, 0.25]
    curve = study(place(values, range(len(values)), positions), 10, 2000, 7)
    rng, gaps = np.random.default_rng(99), list[float]()
    for _ in range(4000):
        drawn = rng.integers(0, len(values), len(values))
        bins: dict[float, list[int]] = {}
        for i in drawn:
            bins.setdefault(positions[i], []).append(values[i])
        means = [float(np.mean(bin)) for bin in bins.values()]
        gaps.append(max(means) - min(means))
    low, high = np.percentile(gaps, [2.5, 97.5])
    assert curve.gap_low == pytest.approx(low, abs=0.06)
    assert curve.gap_high == pytest.approx(high, abs=0.06)
    few = study(place([1, 0, 1], range(3), [0.1, 0.5, 0.9]), 10, 99, 1)
    assert np.isnan([few.gap_low, few.gap_high]).all(), "below five clusters"
