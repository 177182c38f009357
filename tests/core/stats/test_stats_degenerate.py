"""Every public statistic on degenerate data: no p of 0, no interval without width, no warning.

Data: no row, one row, one cluster, one class or one label of a class, constant scores, ties alone,
NaN. A statistic refuses them (ValueError), or gives NaN, or a value that its docstring states.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from math import isnan
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import midchart.core.stats
from midchart.core.stats import (
    agreement,
    auroc,
    intervals,
    paired,
    positions,
    prediction_powered,
    ranking,
    within,
)

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

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows right and rows of each cluster [clusters, 2], by the labels and by the other."""
        right = np.bincount(self.clusters, self.second > 0.5)
        return (
            np.stack([self.right, self.sizes], axis=1),
            np.stack([right, self.sizes], axis=1),
        )

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

    def responses(self) -> tuple[positions.Responses, positions.Cells]:
        order = np.argsort(self.clusters, kind="stable")
        place = self.second[order]
        one = np.ones(self.n)
        models = positions.hashed(np.zeros(self.n, int))
        assembled = positions.assemble(self.clusters[order], self.labels, one, place, models)
        return assembled, positions.cells(place, 5)

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


def detectable(data: Data) -> Any:
    contrast = data.contrast()
    return None if contrast is None else contrast.detectable(0.8, 0.05)


def table(data: Data) -> np.ndarray:
    return data.cells.sum(axis=0).reshape(2, 2)


def wilson_sums(data: Data) -> tuple[float, float, int, float, float, float]:
    c, n = data.right, data.sizes
    return float(c.sum()), float(n.sum()), len(n), float(c @ c), float(c @ n), float(n @ n)


P = "p"
"""The result is a p value or several."""
ENDS = "ends"
"""The result is the low and the high of an interval."""
PLAIN = "plain"
"""The interval is of plain percentiles, which have no width for equal rows, as documented; it has
none for one cluster."""
ANY = ""
UNCLUSTERED = ("intervals.bootstrap_proportion", "within.crossed_bootstrap")
"""Of these the rows themselves are resampled."""

CALLS: dict[str, tuple[Callable[[Data], Any], str]] = {
    "agreement.raw_of": (lambda d: agreement.raw_of(table(d)), ANY),
    "agreement.kappa_of": (lambda d: agreement.kappa_of(table(d)), ANY),
    "agreement.ac1_of": (lambda d: agreement.ac1_of(table(d)), ANY),
    "agreement.positive_of": (lambda d: agreement.positive_of(table(d)), ANY),
    "agreement.repeat_agreement": (lambda d: agreement.repeat_agreement(d.cells), ANY),
    "auroc.placements": (lambda d: d.placed(), ANY),
    "auroc.delong_test": (lambda d: auroc.delong_test(*d.placed()), ANY),
    "auroc.clustered_test": (lambda d: auroc.clustered_test(*d.placed(), d.clusters), ANY),
    "auroc.hanley_mcneil": (
        lambda d: auroc.hanley_mcneil(
            auroc.ranking_areas(d.first, d.labels)[0],
            int(d.labels.sum()),
            int(d.n - d.labels.sum()),
        ),
        ANY,
    ),
    "auroc.clustered_auroc": (
        lambda d: auroc.clustered_auroc(d.first, d.labels, d.clusters, RESAMPLES, d.rng),
        ANY,
    ),
    "auroc.clustered_auroc, percentiles": (
        lambda d: auroc.clustered_auroc(
            d.first, d.labels, d.clusters, RESAMPLES, d.rng, widened=False
        ),
        PLAIN,
    ),
    "auroc.auroc_floor": (lambda d: auroc.auroc_floor(d.placed()[0], d.clusters), ANY),
    "auroc.auprc_floor": (lambda d: auroc.auprc_floor(0.5, d.placed()[0], d.clusters), ANY),
    "auroc.auroc_difference_floor": (
        lambda d: auroc.auroc_difference_floor(*d.placed(), d.clusters),
        ANY,
    ),
    "auroc.thresholds": (lambda d: auroc.thresholds(d.first, d.labels), ANY),
    "auroc.ranking_areas": (lambda d: auroc.ranking_areas(d.first, d.labels), ANY),
    "auroc.clustered_ranking": (
        lambda d: auroc.clustered_ranking(d.first, d.labels, d.clusters, RESAMPLES, d.rng),
        ANY,
    ),
    "prediction_powered.priority_order": (
        lambda d: prediction_powered.priority_order(d.first, d.rng.random(d.n)),
        ANY,
    ),
    "prediction_powered.drawn_with": (
        lambda d: prediction_powered.drawn_with(d.first, d.rng.random(d.n), d.n // 2),
        ANY,
    ),
    "prediction_powered.prediction_powered": (lambda d: d.powered().interval, ENDS),
    "prediction_powered.PredictionPowered.width_after": (lambda d: d.powered().width_after(5), ANY),
    "prediction_powered.PredictionPowered.cards_to_narrow": (
        lambda d: d.powered().cards_to_narrow(0.5, 100),
        ANY,
    ),
    "intervals.checked_level": (lambda d: intervals.checked_level(0.95), ANY),
    "intervals.checked_resamples": (lambda d: intervals.checked_resamples(RESAMPLES), ANY),
    "intervals.percentiles": (lambda d: intervals.percentiles(draws(d), 0.95), ANY),
    "intervals.ratio": (lambda d: intervals.ratio(d.labels, d.labels), ANY),
    "intervals.bootstrap_proportion": (
        lambda d: intervals.bootstrap_proportion(int(d.labels.sum()), d.n, RESAMPLES, d.rng),
        PLAIN,
    ),
    "intervals.wilson_interval": (
        lambda d: intervals.wilson_interval(int(d.labels.sum()), d.n),
        ANY,
    ),
    "intervals.wilson_of_share": (
        lambda d: intervals.wilson_of_share(float(np.sum(d.first)) / max(1, d.n), d.n),
        ANY,
    ),
    "intervals.square_and_add": (
        lambda d: intervals.square_and_add(
            auroc.hanley_mcneil(auroc.ranking_areas(d.first, d.labels)[0], 2, 2),
            intervals.wilson_interval(int(d.labels.sum()), d.n),
        ),
        ANY,
    ),
    "intervals.clustered_bootstrap": (
        lambda d: intervals.clustered_bootstrap(
            d.first, d.clusters, np.arange(d.n) % 2, RESAMPLES, d.rng, 3
        ),
        PLAIN,
    ),
    "intervals.cluster_members": (lambda d: intervals.cluster_members(d.clusters), ANY),
    "intervals.cluster_totals": (draws, ANY),
    "intervals.clustered_intervals": (
        lambda d: intervals.clustered_intervals(draws(d)[:, None]),
        ANY,
    ),
    "intervals.clustered_wilson": (lambda d: intervals.clustered_wilson(*wilson_sums(d)), ANY),
    "intervals.pooled_correlation": (
        lambda d: intervals.pooled_correlation([paired.share_sums(d.right, d.sizes)]),
        ANY,
    ),
    "intervals.size_at": (
        lambda d: intervals.size_at(0.5, *(wilson_sums(d)[i] for i in (1, 2, 5)), level=0.95),
        ANY,
    ),
    "intervals.effective_size": (
        lambda d: intervals.effective_size(0.5, 0.25, *wilson_sums(d)[1:], level=0.95),
        ANY,
    ),
    "intervals.t_shrinkage": (lambda d: intervals.t_shrinkage(len(d.sizes)), ANY),
    "intervals.draw_clusters": (lambda d: intervals.draw_clusters(len(d.sizes), d.rng), ANY),
    "paired.mcnemar_exact": (lambda d: paired.mcnemar_exact(*table(d).ravel()[1:3].astype(int)), P),
    "paired.newcombe_paired": (lambda d: paired.newcombe_paired(*table(d).ravel()), ANY),
    "paired.holm_adjust": (lambda d: paired.holm_adjust(d.second * 0.5 + 0.1), P),
    "paired.mcnemar_power": (
        lambda d: paired.mcnemar_power(d.n, d.labels.sum() / max(1, d.n), 0),
        ANY,
    ),
    "paired.smallest_difference": (
        lambda d: paired.smallest_difference(d.n, float(d.labels.sum()) / max(1, d.n)),
        ANY,
    ),
    "paired.expanded_level": (lambda d: paired.expanded_level(len(d.sizes)), ANY),
    "paired.reported_interval": (
        lambda d: paired.reported_interval(draws(d), len(d.sizes)),
        ENDS,
    ),
    "paired.widened": (lambda d: paired.widened(*intervals.percentiles(draws(d), 0.9), None), ENDS),
    "paired.share_floor": (lambda d: paired.share_floor(d.right, d.sizes), ANY),
    "paired.share_interval": (lambda d: paired.share_interval(d.first, d.clusters), ENDS),
    "paired.share_sums": (lambda d: paired.share_sums(d.right, d.sizes), ANY),
    "paired.cluster_counts": (lambda d: paired.cluster_counts(d.first, d.clusters), ANY),
    "paired.correlation_of": (lambda d: paired.correlation_of([(d.first, d.clusters)]), ANY),
    "paired.paired_sums": (lambda d: paired.paired_sums(d.cells), ANY),
    "paired.simultaneous": (lambda d: paired.simultaneous([d.cells])[0], ENDS),
    "paired.paired_floor": (lambda d: paired.paired_floor(d.cells), ANY),
    "paired.agreement_floors": (lambda d: paired.agreement_floors(d.cells), ANY),
    "positions.bin_edges": (lambda d: positions.bin_edges(5), ANY),
    "positions.bins_of": (lambda d: positions.bins_of(d.first, 5), ANY),
    "positions.is_middle_of": (lambda d: positions.is_middle_of(d.first), ANY),
    "positions.is_within": (lambda d: positions.is_within(d.first), ANY),
    "positions.cells": (lambda d: positions.cells(d.first, 10), ANY),
    "positions.hashed": (lambda d: positions.hashed(d.clusters), ANY),
    "positions.assemble": (lambda d: d.responses()[0], ANY),
    "positions.bootstrap_totals": (
        lambda d: positions.bootstrap_totals(*d.responses(), RESAMPLES, d.rng),
        ANY,
    ),
    "positions.permutation_totals": (
        lambda d: positions.permutation_totals(*d.responses(), RESAMPLES, d.rng),
        ANY,
    ),
    "positions.clusters_in": (
        lambda d: positions.clusters_in(d.clusters, d.clusters, len(d.sizes), len(d.sizes)),
        ANY,
    ),
    "positions.clustered_logistic": (lambda d: d.fit(), ANY),
    "positions.LogisticFit.errors": (of_fit(lambda fit: fit.errors), ANY),
    "positions.LogisticFit.interval": (of_fit(lambda fit: fit.interval(1)), ANY),
    "positions.LogisticFit.p": (of_fit(lambda fit: fit.p(1)), P),
    "positions.Cells.count": (lambda d: positions.cells(d.first, 10).count, ANY),
    "positions.Responses.count": (lambda d: d.responses()[0].count, ANY),
    "positions.Responses.rows": (lambda d: d.responses()[0].rows, ANY),
    "ranking.ranks": (lambda d: ranking.ranks(d.first), ANY),
    "ranking.reciprocal_ranks": (lambda d: ranking.reciprocal_ranks(d.first, d.second), ANY),
    "ranking.standardised_sum": (lambda d: ranking.standardised_sum(d.first, d.second), ANY),
    "ranking.patients_needed": (lambda d: ranking.patients_needed(0.1), ANY),
    "ranking.hierarchical_quantile": (
        lambda d: ranking.hierarchical_quantile(d.first, d.clusters.tolist(), 0.1),
        ANY,
    ),
    "within.within_contrast": (lambda d: d.contrast(), ANY),
    "within.WithinContrast.detectable": (detectable, ANY),
    "within.crossed_bootstrap": (lambda d: d.crossed(), PLAIN),
    "within.CrossedBootstrap.reported": (lambda d: d.crossed().reported(0), ENDS),
}


def public() -> Iterator[str]:
    """Every public function of core.stats, and every public method of its public classes."""
    for info in iter_modules(midchart.core.stats.__path__):
        if info.name == "coverage":  # a command that prints a table
            continue
        module = import_module(f"midchart.core.stats.{info.name}")
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(inspect.unwrap(value)):
                yield f"{info.name}.{name}"
            elif inspect.isclass(value):
                yield from (
                    f"{info.name}.{name}.{method}"
                    for method, one in vars(value).items()
                    if not method.startswith("_")
                    and (inspect.isfunction(one) or isinstance(one, property))
                )


def test_every_public_statistic_is_called() -> None:
    assert {name.partition(",")[0] for name in CALLS} == set(public())


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
        assert np.isnan([test.p, test.se, test.z, test.low, test.high]).all()
    assert plain.reason == f"there is one {name} label"
    assert clustered.reason == f"all {name} labels are of one patient"


def test_a_difference_without_variance_has_no_p_and_equal_rankings_have_p_1() -> None:
    labels = np.arange(40) % 2
    perfect, constant = (auroc.placements(s, labels) for s in (labels, np.zeros(40)))
    test = auroc.delong_test(perfect, constant)
    assert (test.difference, test.reason) == (0.5, "the placements do not vary within a class")
    assert np.isnan([test.p, test.low, test.high]).all()
    same = auroc.delong_test(perfect, perfect)
    assert (same.difference, same.se, same.p, same.reason) == (0, 0, 1, "the rankings are equal")
    assert np.isnan([same.low, same.high]).all()
