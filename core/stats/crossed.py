"""Means over seeds and records, both resampled: every seed's model answers every record, so rows of
one seed are correlated, and so are rows of one record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.clustered import clustered_intervals
from core.stats.intervals import Interval, checked_level, checked_resamples
from core.stats.reported import FEWEST_CLUSTERS, widened

Floats = NDArray[np.float64]
FEWEST_SEEDS = 3
"""Fewer seeds give no interval."""
AT_ONCE = 256
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
    values: ArrayLike, resamples: int, rng: np.random.Generator, level: float = 0.95
) -> CrossedBootstrap:
    """Percentile intervals of means of ``values`` float [seeds, records, columns], finite.

    A resample draws as many seeds and, independently, as many records as there are, each with
    replacement, and takes every drawn seed with every drawn record. Raises ValueError for other
    shapes or values that are not finite.
    Source: Owen, Ann Appl Stat 1 (2007) 386–411 (the pigeonhole bootstrap, after McCullagh 2000).
    """
    data = np.asarray(values, dtype=np.float64)
    checked_level(level)
    checked_resamples(resamples)
    if data.ndim != 3 or data.size == 0 or not np.isfinite(data).all():
        raise ValueError(f"values {data.shape} are not finite [seeds, records, columns]")
    seeds, records, columns = data.shape
    flat = data.reshape(seeds, records * columns)
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    of_records = rng.multinomial(records, np.full(records, 1 / records), resamples) / records
    means = np.empty((resamples, columns))
    for begin in range(0, resamples, AT_ONCE):
        block = slice(begin, begin + AT_ONCE)
        by_record = (of_seeds[block] @ flat).reshape(-1, records, columns)
        means[block] = np.einsum("br,brc->bc", of_records[block], by_record)
    low, high = clustered_intervals(means, level)
    return CrossedBootstrap(data.mean(axis=(0, 1)), low, high, means, seeds, records)
