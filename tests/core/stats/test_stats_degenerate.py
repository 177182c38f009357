"""Every p value and interval on degenerate data: no p of 0, no interval without width, no warning.

Data: no row, one row, one cluster, one class or one label of a class, constant scores, ties alone,
NaN. A statistic refuses them (ValueError), or gives NaN, or a value that its docstring states.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from math import isnan, nan
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.protocol import Protocol
from midchart.core.stats import (
    auroc,
    intervals,
    paired,
    positions,
    prediction_powered,
    within,
)
from midchart.core.training_experiments.measures import area_columns

RESAMPLES = 20
SCORES = {
    "constant": lambda n, rng: np.full(n, 0.5),
    "tied": lambda n, rng: rng.integers(0, 2, n).astype(float),
    "different": lambda n, rng: rng.permutation(n) / max(1, n),
    "nan": lambda n, rng: np.where(np.arange(n) == n // 2, np.nan, rng.random(n)),
}
LABELS = {
    "none": lambda n, rng: np.zeros(n),
    "all": lambda n, rng: np.ones(n),
    "one": lambda n, rng: (np.arange(n) == n // 2).astype(float),
    "all but one": lambda n, rng: (np.arange(n) != n // 2).astype(float),
    "mixed": lambda n, rng: (np.arange(n) % 2).astype(float),
}
CLUSTERS = {
    "one": lambda n: np.zeros(n, int),
    "two": lambda n: np.arange(n) * 2 // max(1, n),
    "each": lambda n: np.arange(n),
    "alternating": lambda n: np.arange(n) % 2,
}


@dataclass(frozen=True)
class Data:
    """Rows with two scorings [n], labels [n] of 0 and 1, and clusters [n]."""

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    clusters: np.ndarray

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(3)

    @property
    def right(self) -> np.ndarray:
        """Rows of label 1 in each cluster."""
        return np.bincount(self.clusters, self.labels)

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.clusters).astype(float)

    @property
    def cells(self) -> np.ndarray:
        """Of each cluster: both right, only the first, only the second, neither."""
        a, b = self.labels > 0, self.second > 0.5
        table = [np.bincount(self.clusters, x & y) for x, y in ((a, b), (a, ~b), (~a, b), (~a, ~b))]
        return np.stack(table, axis=1).astype(float)

    def powered(self) -> prediction_powered.PredictionPowered:
        """Every second label is known, with its probability."""
        judged = np.where(np.arange(self.n) % 2, np.nan, self.labels)
        half = np.full(self.n, 0.5)
        return prediction_powered.prediction_powered(
            self.second > 0.5, judged, half, self.clusters, RESAMPLES, self.rng
        )

    def placed(self) -> tuple[auroc.Placements, auroc.Placements]:
        return (
            auroc.placements(self.first, self.labels),
            auroc.placements(self.second, self.labels),
        )

    def area(self) -> tuple[float, int, int]:
        positives = int(self.labels.sum())
        return auroc.ranking_areas(self.first, self.labels)[0], positives, self.n - positives

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.first, self.labels, self.clusters

    def fit(self) -> positions.LogisticFit | None:
        design = np.column_stack([np.ones(self.n), self.first])
        return positions.clustered_logistic(design, self.labels, np.ones(self.n), self.clusters)

    def contrast(self) -> within.WithinContrast | None:
        values = np.column_stack([self.first, self.second, self.labels])
        inside = [False, True, False]
        return within.within_contrast(values, self.clusters, inside, RESAMPLES, self.rng)

    def crossed(self) -> within.CrossedBootstrap:
        values = self.first[None, :, None]
        return within.crossed_bootstrap(values, RESAMPLES, self.rng)


def draws(data: Data) -> np.ndarray:
    both = np.stack([data.right, data.sizes], axis=1)
    totals = intervals.cluster_totals(both, RESAMPLES, data.rng)
    return intervals.ratio(totals[:, 0], totals[:, 1])


def of_fit(use: Callable[[positions.LogisticFit], Any]) -> Callable[[Data], Any]:
    def call(data: Data) -> Any:
        fit = data.fit()
        return None if fit is None else use(fit)

    return call


def table(data: Data) -> np.ndarray:
    return data.cells.sum(axis=0).reshape(2, 2)


def wilson_sums(data: Data) -> tuple[float, float, int, float, float, float]:
    c, n = data.right, data.sizes
    return float(c.sum()), float(n.sum()), len(n), float(c @ c), float(c @ n), float(n @ n)


def area_of(data: Data, by: Literal["widened", "percentile"]) -> intervals.Interval:
    protocol = Protocol(resamples=100, intervals=by)
    columns, _ = area_columns(*(np.asarray(of) for of in data.rows()), protocol)
    ends = (columns[name] for name in ("ci_low", "ci_high"))
    return intervals.Interval(columns["auroc"], *(nan if end is None else end for end in ends))


P = "p"
"""The result is a p value or several."""
ENDS = "ends"
"""The result is the low and the high of an interval."""
PLAIN = "plain"
"""The interval is of plain percentiles, which have no width for equal rows, as documented; it has
none for one cluster."""
ANY = ""
UNCLUSTERED = ("bootstrap_proportion", "crossed_bootstrap")
"""Of these the rows themselves are resampled."""

CALLS: dict[str, tuple[Callable[[Data], Any], str]] = {
    "delong_test": (lambda d: auroc.delong_test(*d.placed()), ANY),
    "clustered_test": (lambda d: auroc.clustered_test(*d.placed(), d.clusters), ANY),
    "hanley_mcneil": (lambda d: auroc.hanley_mcneil(*d.area()), ANY),
    "auroc": (lambda d: area_of(d, "widened"), ANY),
    "auroc, percentiles": (lambda d: area_of(d, "percentile"), PLAIN),
    "auroc_floor": (lambda d: auroc.auroc_floor(d.placed()[0], d.clusters), ANY),
    "auprc_floor": (lambda d: auroc.auprc_floor(0.5, d.placed()[0], d.clusters), ANY),
    "auroc_difference": (lambda d: auroc.auroc_difference_floor(*d.placed(), d.clusters), ANY),
    "prediction_powered": (lambda d: d.powered().interval, ENDS),
    "bootstrap_proportion": (
        lambda d: intervals.bootstrap_proportion(int(d.labels.sum()), d.n, RESAMPLES, d.rng),
        PLAIN,
    ),
    "wilson_interval": (lambda d: intervals.wilson_interval(int(d.labels.sum()), d.n), ANY),
    "wilson_of_share": (
        lambda d: intervals.wilson_of_share(float(np.sum(d.first)) / max(1, d.n), d.n),
        ANY,
    ),
    "square_and_add": (
        lambda d: intervals.square_and_add(
            auroc.hanley_mcneil(d.area()[0], 2, 2),
            intervals.wilson_interval(int(d.labels.sum()), d.n),
        ),
        ANY,
    ),
    "clustered_wilson": (lambda d: intervals.clustered_wilson(*wilson_sums(d)), ANY),
    "mcnemar_exact": (lambda d: paired.mcnemar_exact(*table(d).ravel()[1:3].astype(int)), P),
    "newcombe_paired": (lambda d: paired.newcombe_paired(*table(d).ravel()), ANY),
    "holm_adjust": (lambda d: paired.holm_adjust(d.second * 0.5 + 0.1), P),
    "reported_interval": (lambda d: paired.reported_interval(draws(d), len(d.sizes)), ENDS),
    "share_floor": (lambda d: paired.share_floor(d.right, d.sizes), ANY),
    "share_interval": (lambda d: paired.share_interval(d.first, d.clusters), ENDS),
    "simultaneous": (lambda d: paired.simultaneous([d.cells])[0], ENDS),
    "paired_floor": (lambda d: paired.paired_floor(d.cells), ANY),
    "agreement_floors": (lambda d: paired.agreement_floors(d.cells), ANY),
    "LogisticFit.interval": (of_fit(lambda fit: fit.interval(1)), ANY),
    "LogisticFit.p": (of_fit(lambda fit: fit.p(1)), P),
    "within_contrast": (lambda d: d.contrast(), ANY),
    "crossed_bootstrap": (lambda d: d.crossed(), PLAIN),
    "CrossedBootstrap.reported": (lambda d: d.crossed().reported(0), ENDS),
}


def ps_and_ends(result: Any, use: str) -> Iterator[tuple[str, float, float]]:
    """Each p value ("p", p, 1) and interval ("ends", low, high) of a result."""
    if use == P and result is not None:
        yield from (("p", float(p), 1.0) for p in np.atleast_1d(result))
    elif use == ENDS and result is not None:
        yield "ends", *result
    elif isinstance(result, dict):
        for one in result.values():
            yield from ps_and_ends(one, use)
    elif is_dataclass(result):
        named = {field.name: getattr(result, field.name) for field in fields(result)}
        for name in named.keys() & {"p", "p_value"}:
            yield "p", named[name], 1.0
        if "low" in named:
            ends = zip(np.atleast_1d(named["low"]), np.atleast_1d(named["high"]), strict=True)
            yield from (("ends", float(low), float(high)) for low, high in ends)


@st.composite
def degenerate(draw: st.DrawFn) -> Data:
    n = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 5)))
    first, second = (SCORES[draw(st.sampled_from(sorted(SCORES)))](n, rng) for _ in range(2))
    labels = LABELS[draw(st.sampled_from(sorted(LABELS)))](n, rng)
    return Data(first, second, labels, CLUSTERS[draw(st.sampled_from(sorted(CLUSTERS)))](n))


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=60, deadline=None)
@given(data=degenerate())
def test_degenerate_data_give_no_certainty(name: str, data: Data) -> None:
    call, use = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = call(data)
        except ValueError as error:
            assert str(error)
            return
    several = len(data.sizes) > 1 if name not in UNCLUSTERED else data.n > 1
    equal_rows = use == PLAIN and several
    for of, low, high in ps_and_ends(result, use):
        assert isnan(low) == isnan(high) or of == "p"
        if of == "p":
            assert not low <= 0.0
        else:
            assert not high - low <= 0.0 or equal_rows
    if getattr(result, "p", 0.0) != getattr(result, "p", 0.0):
        assert result.reason


@pytest.mark.parametrize("of_class", [1, 0])
def test_one_label_of_a_class_gives_no_test_of_two_areas_and_says_why(of_class: int) -> None:
    labels = np.full(40, 1 - of_class)
    labels[7] = of_class
    best = np.where(labels == 1, 1.0, 0.0)
    other = np.random.default_rng(0).random(40)
    both = auroc.placements(best, labels), auroc.placements(other, labels)
    name = ("negative", "positive")[of_class]
    plain = auroc.delong_test(*both)
    clustered = auroc.clustered_test(*both, np.arange(40) // 4)
    for test in (plain, clustered):
        assert test.difference == both[0].area - both[1].area
        assert np.isnan([test.p, test.se]).all()
    assert plain.reason == f"there is one {name} label"
    assert clustered.reason == f"all {name} labels are of one patient"


def test_a_difference_without_variance_has_no_p_and_equal_rankings_have_p_1() -> None:
    labels = np.arange(40) % 2
    perfect, constant = (auroc.placements(s, labels) for s in (labels, np.zeros(40)))
    test = auroc.delong_test(perfect, constant)
    assert (test.difference, test.reason) == (0.5, "the placements do not vary within a class")
    assert np.isnan([test.p, test.se]).all()
    same = auroc.delong_test(perfect, perfect)
    assert (same.difference, same.se, same.p, same.reason) == (0, 0, 1, "the rankings are equal")
