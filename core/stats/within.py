"""Rows in two groupings: middle against edge within each row, and means over seeds and records.

Within: each row (a needle in a record), observed at every position, is its own control; paired and
clustered. Crossed: every seed's model answers every record, so rows of one seed are correlated, and
so are rows of one record; both are resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import (
    Interval,
    cluster_members,
    cluster_totals,
    clustered_intervals,
    ratio,
)
from midchart.core.stats.paired import (
    FEWEST_CLUSTERS,
    paired_cells,
    paired_floor,
    reported_interval,
    smallest_difference,
    widened,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class WithinContrast:
    """Mean of the middle columns less the mean of the others, over ``rows`` of ``clusters``.

    ``inside`` and ``outside``: the two means; ``low`` and ``high``: interval of the ``difference``,
    nan for fewer than 5 clusters; ``p_value`` two-sided. ``null`` float64 [resamples]: the
    difference under permutation; ``error``: its standard error by resampled clusters, nan for one;
    ``square``: mean of the rows' squared differences.
    """

    inside: float
    outside: float
    difference: float
    low: float
    high: float
    p_value: float
    rows: int
    clusters: int
    null: Floats
    error: float
    square: float

    def detectable(self, power: float, alpha: float) -> float | None:
        """The smallest difference that a two-sided test at ``alpha`` shows with this ``power``.

        The permutations' critical difference and the power's normal quantile times the standard
        error, and no less than McNemar's test of as many independent rows would show
        (:func:`midchart.core.stats.paired.smallest_difference`), as a difference adds a spread
        where the rows at hand have none. None for fewer than 5 clusters, for permutations too few
        to reach ``alpha``, and where it exceeds 1.
        """
        # p ≤ alpha needs (b + 1)/(m + 1) ≤ alpha: at most b permutations as far from 0.
        most = int(alpha * (len(self.null) + 1)) - 1
        least = smallest_difference(self.rows, self.square, power, alpha)
        if self.clusters < FEWEST_CLUSTERS or most < 0 or least is None:
            return None
        critical = float(np.sort(np.abs(self.null))[::-1][most])
        value = max(least, critical + NormalDist().inv_cdf(power) * self.error)
        return value if value <= 1 else None


def within_contrast(
    values: ArrayLike,
    clusters: ArrayLike,
    inside: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> WithinContrast | None:
    """Whether columns ``inside`` differ from the others, row by row.

    ``values`` float [rows, columns], nan where missing; ``clusters`` [rows], labels that sort
    (patients); ``inside`` bool [columns]. A row counts with its mean inside less its mean
    outside, where it has a value on both sides; None where no row has. The interval is
    :mod:`midchart.core.stats.paired`'s, of resampled clusters; where all values are in [0, 1] it
    holds Newcombe's paired one at the effective number of rows. For p the columns of a cluster are
    permuted, the same way in all its rows, as these share what is at each position; p is
    (b + 1)/(m + 1) with b of m permutations at least as far from 0, never 0.
    Source: Good, Permutation, Parametric and Bootstrap Tests
    of Hypotheses (2005), section 7 (blocks); Phipson and Smyth, Stat Appl Genet Mol Biol 9 (2010)
    article 39.
    """
    data = np.asarray(values, dtype=np.float64)
    mark = np.asarray(inside, dtype=bool)
    _, member = cluster_members(clusters)
    known = ~np.isnan(data)
    filled = np.where(known, data, 0.0)

    def sides(marks: Floats, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Mean inside and outside of each chosen row under each of marks [m, columns]."""
        chosen, present = filled[rows], known[rows].astype(np.float64)
        sums, counts = marks @ chosen.T, marks @ present.T
        rest, others = chosen.sum(axis=1) - sums, present.sum(axis=1) - counts
        return ratio(sums, counts), ratio(rest, others)

    # Difference of each row that has values on both sides.
    within, without = (side[0] for side in sides(mark[None].astype(np.float64), member >= 0))
    counts = ~np.isnan(within - without)
    if not counts.any():
        return None
    within, without = within[counts], without[counts]
    _, member = np.unique(member[counts], return_inverse=True)
    filled, known = filled[counts], known[counts]
    differences = within - without
    estimate = float(differences.sum() / counts.sum())
    # Interval by cluster.
    size = int(member.max()) + 1
    low = high = error = float("nan")
    if size > 1:
        sums = [np.bincount(member, weights=differences), np.bincount(member)]
        drawn = cluster_totals(np.column_stack(sums).astype(np.float64), resamples, rng)
        floor = _floor(within, without, member, level)
        draws = drawn[:, 0] / drawn[:, 1]
        error = float(draws.std())
        low, high = reported_interval(draws, size, floor, level) or (low, high)

    # The null: marks permuted within each cluster.
    sums, rows = np.zeros(resamples), np.zeros(resamples)
    for cluster in range(size):
        marks = rng.permuted(np.tile(mark, (resamples, 1)), axis=1).astype(np.float64)
        one, other = sides(marks, member == cluster)
        sums += np.nansum(one - other, axis=1)
        rows += (~np.isnan(one - other)).sum(axis=1)
    null = np.divide(sums, rows, out=np.zeros(resamples), where=rows > 0)
    # Equal in exact arithmetic is equal: rounding must not make a tie less extreme.
    extreme = int((np.abs(null) >= abs(estimate) - 1e-12).sum())
    return WithinContrast(
        float(within.mean()),
        float(without.mean()),
        estimate,
        low,
        high,
        (extreme + 1) / (resamples + 1),
        int(counts.sum()),
        size,
        null,
        error,
        float(np.mean(differences**2)),
    )


def _floor(
    inside: Floats, outside: Floats, member: NDArray[np.int64], level: float
) -> Interval | None:
    """Newcombe's interval of rows as pairs of means; None for values outside [0, 1]."""
    if min(inside.min(), outside.min()) < 0 or max(inside.max(), outside.max()) > 1:
        return None
    cells = [np.bincount(member, weights=of) for of in paired_cells(inside, outside).T]
    return paired_floor(np.column_stack(cells), level)


FEWEST_SEEDS = 3
"""Fewer seeds give no interval."""
_AT_ONCE = 256
"""Resamples computed at once."""


@dataclass(frozen=True, eq=False, slots=True)
class CrossedBootstrap:
    """Means by column with intervals: ``estimate``, ``low``, ``high`` float64 [columns], ``means``
    [resamples, columns] resampled; ``seeds`` and ``records`` they come from."""

    estimate: Floats
    low: Floats
    high: Floats
    means: Floats
    seeds: int
    records: int

    def reported(
        self, column: int, floor: Interval | None = None, level: float = 0.95
    ) -> tuple[float, float] | None:
        """Low and high of the interval to report of a column, widened to hold ``floor``.

        None for fewer than :data:`FEWEST_SEEDS` seeds or :data:`FEWEST_CLUSTERS`
        records, and without a floor where the resamples are equal. Percentiles are not expanded
        for few seeds, so a claim from this interval needs the seeds to agree as well.
        """
        if self.seeds < FEWEST_SEEDS or self.records < FEWEST_CLUSTERS:
            return None
        low, high = clustered_intervals(self.means[:, [column]], level)
        return widened(float(low[0]), float(high[0]), floor)


def crossed_bootstrap(
    values: ArrayLike, resamples: int, rng: np.random.Generator
) -> CrossedBootstrap:
    """Percentile intervals of means of ``values`` float [seeds, records, columns], finite.

    A resample draws as many seeds and, independently, as many records as there are, each with
    replacement, and takes every drawn seed with every drawn record. NaN bounds for one seed of one
    record; no width where all values of a column are equal. Raises ValueError for other shapes or
    values that are not finite.
    Source: Owen, Ann Appl Stat 1 (2007) 386–411 (the pigeonhole bootstrap, after McCullagh 2000).
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        raise ValueError("values are finite, at least one")
    seeds, records, columns = data.shape
    flat = data.reshape(seeds, records * columns)
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    of_records = rng.multinomial(records, np.full(records, 1 / records), resamples) / records
    means = np.empty((resamples, columns))
    for begin in range(0, resamples, _AT_ONCE):
        block = slice(begin, begin + _AT_ONCE)
        by_record = (of_seeds[block] @ flat).reshape(-1, records, columns)
        means[block] = np.einsum("br,brc->bc", of_records[block], by_record)
    low, high = clustered_intervals(means)
    if seeds * records < 2:
        low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    return CrossedBootstrap(data.mean(axis=(0, 1)), low, high, means, seeds, records)
