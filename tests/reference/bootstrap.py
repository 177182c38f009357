"""The clustered bootstrap as one would write it down: draw clusters, walk their rows, take means.

Slow and plain on purpose. It shares the draws with
``midchart.core.stats.intervals.cluster_totals``, so the two must agree resample by resample.
"""

from __future__ import annotations

import numpy as np

from midchart.core.stats.intervals import (
    BLOCK,
    cluster_members,
    cluster_totals,
    draw_clusters,
    ratio,
)


def clustered_bootstrap(values, clusters, bins, resamples, rng, bin_count=10):
    """Resampled means by bin, float [resamples, bin_count]; nan where a bin was not drawn."""
    # Plain numbers: walking an array's own elements would be twice as slow for no clarity.
    columns = (np.asarray(column).tolist() for column in (values, clusters, bins))
    rows_of = {}
    for value, cluster, where in zip(*columns, strict=True):
        rows_of.setdefault(cluster, []).append((where, value))
    names = sorted(rows_of)
    means = np.full((resamples, bin_count), np.nan)
    for r in range(resamples):
        if r % BLOCK == 0:
            block = draw_clusters(len(names), rng).tolist()
        totals, counts = [0.0] * bin_count, [0] * bin_count
        for drawn in block[r % BLOCK]:
            for where, value in rows_of[names[drawn]]:
                totals[where] += value
                counts[where] += 1
        for b in range(bin_count):
            if counts[b]:
                means[r, b] = totals[b] / counts[b]
    return means


def binned_means(values, clusters, bins, resamples, rng):
    """The same means in ten bins, from the product's resampled totals."""
    count, member = cluster_members(clusters)
    totals = np.zeros((count, 20))
    np.add.at(totals, (member, np.asarray(bins)), values)
    np.add.at(totals, (member, 10 + np.asarray(bins)), 1.0)
    drawn = cluster_totals(totals, resamples, rng)
    return ratio(drawn[:, :10], drawn[:, 10:])
