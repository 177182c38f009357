"""The clustered logistic fit equals statsmodels, by row and with summed rows."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.discrete.discrete_model import Logit
from statsmodels.genmod import families
from statsmodels.genmod.generalized_estimating_equations import GEE

from midchart.core.stats.positions import clustered_logistic


def rows(seed: int, clusters: int = 60, models: int = 6):
    """Design with 1, u, u², 0/1 outcomes alike within clusters, and the clusters."""
    rng = np.random.default_rng(seed)
    u = 2 * rng.random(clusters) - 1
    cluster_effect = rng.normal(0, 1, clusters)
    odds = -0.2 + 0.3 * u + 0.8 * u * u + cluster_effect
    y = (rng.random((clusters, models)) < 1 / (1 + np.exp(-odds[:, None]))).astype(float)
    x = np.column_stack([np.ones(clusters), u, u * u])
    return x, y


@pytest.mark.parametrize("seed", range(4))
def test_fit_equals_statsmodels_clustered_logit(seed: int):
    x, y = rows(seed)
    clusters, models = y.shape
    by_row, group = np.repeat(x, models, axis=0), np.repeat(np.arange(clusters), models)
    expected = Logit(y.ravel(), by_row).fit(
        disp=False, tol=1e-12, cov_type="cluster", cov_kwds={"groups": group}
    )
    summed = clustered_logistic(x, y.sum(axis=1), np.full(clusters, models), np.arange(clusters))
    plain = clustered_logistic(by_row, y.ravel(), np.ones(y.size), group)
    assert summed is not None and plain is not None
    for fit in (summed, plain):
        assert fit.coefficients == pytest.approx(expected.params, abs=1e-8)
        assert fit.covariance == pytest.approx(expected.cov_params(), abs=1e-8)
        assert (fit.clusters, fit.n) == (clusters, y.size)


def test_fit_equals_statsmodels_gee_with_independence():
    x, y = rows(9)
    clusters, models = y.shape
    by_row, group = np.repeat(x, models, axis=0), np.repeat(np.arange(clusters), models)
    expected = GEE(y.ravel(), by_row, groups=group, family=families.Binomial()).fit()
    fit = clustered_logistic(x, y.sum(axis=1), np.full(clusters, models), np.arange(clusters))
    assert fit is not None
    assert fit.coefficients == pytest.approx(expected.params, abs=1e-7)
    # GEE leaves out the factor C/(C − 1) · (N − 1)/(N − k).
    factor = clusters / (clusters - 1) * (y.size - 1) / (y.size - 3)
    assert fit.errors == pytest.approx(expected.bse * np.sqrt(factor), rel=1e-6)


def test_interval_and_p_follow_students_t():
    from scipy.stats import t

    x, y = rows(3, clusters=25)
    fit = clustered_logistic(x, y.sum(axis=1), np.full(25, 6), np.arange(25))
    assert fit is not None
    law = t(df=24)
    value, error = fit.coefficients[2], fit.errors[2]
    interval = fit.interval(2)
    assert (interval.low, interval.high) == pytest.approx(
        (value - law.ppf(0.975) * error, value + law.ppf(0.975) * error)
    )
    assert fit.p(2) == pytest.approx(2 * law.sf(abs(value) / error))
    assert fit.p(2) > 0.0


def test_data_without_a_finite_fit_give_none():
    u = np.linspace(-1, 1, 40)
    x = np.column_stack([np.ones(40), u, u * u])
    one, label = np.ones(40), np.arange(40)
    assert clustered_logistic(x, np.zeros(40), one, label) is None  # one outcome only
    assert clustered_logistic(x, (u > 0).astype(float), one, label) is None  # separated
    flat = np.column_stack([np.ones(40), np.ones(40), u])
    assert clustered_logistic(flat, (np.arange(40) % 2).astype(float), one, label) is None
    assert clustered_logistic(x, (np.arange(40) % 2).astype(float), one, label // 20) is None


def test_clusters_that_fit_exactly_give_no_standard_error():
    # One of two answers right in every cluster: the fit is exact, its robust errors are rounding.
    u = np.random.default_rng(0).uniform(-1, 1, 40)
    x = np.column_stack([np.ones(40), u, u * u])
    two, label = np.full(40, 2.0), np.arange(40)
    assert clustered_logistic(x, np.ones(40), two, label) is None
    assert clustered_logistic(x, np.r_[2.0, np.ones(38), 0.0], two, label) is not None
