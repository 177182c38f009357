"""Resampled totals by cell: clusters drawn anew (for intervals) or positions dealt anew (the null).

Up to 2,000 clusters both are drawn one by one. With more, and with enough clusters in every bin,
they are drawn from their normal limit, which has exactly the mean and covariance of the resampled
totals: a million answers then cost what two thousand do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.curve.bins import Cells
from core.curve.placed import Placed
from core.stats import cluster_totals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ONE_BY_ONE = 2000
"""Most clusters that are always drawn one by one."""
ENOUGH = 50
"""Clusters in every bin and zone from which on the normal limit may stand for their draws."""
AT_ONCE = 1 << 18
"""Numbers drawn in one call: bounds memory. The calls are part of the stream of numbers."""


def bootstrap_totals(
    placed: Placed, cells: Cells, resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Scores and answers by cell, float64 [resamples, cells] each, clusters drawn with replacement.

    Each resample draws as many clusters as there are and takes all their answers (paper,
    Experiment 1; Davison and Hinkley, Bootstrap Methods, 1997, section 3.8).
    """
    count, width = placed.count, cells.count
    if count > ONE_BY_ONE and not _sparse(placed.clusters, cells.index, count, cells):
        held = np.stack([placed.right, placed.n])
        by_cell = [np.bincount(cells.index, one, width) for one in held]
        sums = np.concatenate(by_cell).astype(np.float64)
        spread = _products(placed.clusters, held, cells) - np.outer(sums, sums) / count
        totals = _normal(sums, spread, resamples, rng)
    else:
        both = np.zeros((count, 2 * width))
        np.add.at(both, (placed.clusters, cells.index), placed.right)
        np.add.at(both, (placed.clusters, cells.index + width), placed.n)
        totals = cluster_totals(both, resamples, rng)
    return totals[:, :width], totals[:, width:]


def _products(clusters: Ints, held: Floats, cells: Cells) -> Floats:
    """Σ over clusters of v vᵀ, v what the cluster has by cell of each row of ``held`` [m, p].

    float64 [m · cells, m · cells]; pairs of places of one cluster are neighbours in the arrays.
    """
    width = cells.count
    total = np.zeros((len(held) * width,) * 2)
    apart = 0
    while apart < len(clusters):
        first, second = slice(0, len(clusters) - apart), slice(apart, None)
        together = np.flatnonzero(clusters[first] == clusters[second])
        if not together.size:
            break
        where = cells.index[first][together] * width + cells.index[second][together]
        for i, one in enumerate(held):
            for j, other in enumerate(held):
                weights = one[first][together] * other[second][together]
                block = np.bincount(where, weights, width * width).reshape(width, width)
                total[i * width : (i + 1) * width, j * width : (j + 1) * width] += block
                if apart:
                    total[j * width : (j + 1) * width, i * width : (i + 1) * width] += block.T
        apart += 1
    return total


def permuted_totals(
    placed: Placed, cells: Cells, resamples: int, rng: np.random.Generator
) -> Floats | None:
    """Scores by cell, float64 [resamples, cells], the positions of clusters dealt anew.

    A cluster's positions, all together, go to a cluster of the same layout: who answered, how
    often, and for how many places; so the number of answers in every cell stays as it is. None
    where no cluster has a partner. Source of the normal limit's moments: Hoeffding, Ann Math
    Statist 22 (1951) 558–566.
    """
    starts = np.searchsorted(placed.clusters, np.arange(placed.count))
    places = np.diff(starts, append=len(placed.clusters))
    totals = np.zeros((resamples, cells.count))
    moved = False
    order = np.argsort(placed.layouts, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(placed.layouts[order])) + 1):
        entries = starts[members][:, None] + np.arange(int(places[members[0]]))
        scores, where = placed.right[entries], cells.index[entries]
        if len(members) == 1:
            totals += np.bincount(where[0], weights=scores[0], minlength=cells.count)
            continue
        moved = True
        own = np.broadcast_to(np.arange(len(members))[:, None], where.shape)
        if len(members) <= ONE_BY_ONE or _sparse(own, where, len(members), cells):
            totals += _dealt(scores, placed.position[entries], where, cells.count, resamples, rng)
        else:
            totals += _dealt_normal(scores, where, cells.count, resamples, rng)
    return totals if moved else None


def clusters_in(clusters: Ints, groups: Ints, count: int, width: int) -> Ints:
    """Distinct clusters (0 … count − 1) with an entry in each group, int64 [width]."""
    there = np.zeros(count * width, dtype=np.bool_)
    there[clusters * width + groups] = True
    return np.bincount(np.flatnonzero(there) % width, minlength=width).astype(np.int64)


def _sparse(clusters: Ints, where: Ints, count: int, cells: Cells) -> bool:
    """Whether a bin or zone that is not empty has too few clusters for the normal limit."""
    for groups in (cells.bins, cells.zones):
        held = clusters_in(clusters, groups.argmax(axis=1)[where], count, groups.shape[1])
        if ((held > 0) & (held < ENOUGH)).any():
            return True
    return False


def _dealt(
    scores: Floats, at: Floats, where: Ints, width: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """Totals of one layout's clusters one by one; scores, positions, cells: [g, places] each."""
    count, places = scores.shape
    # Clusters side by side by position, so that a cell's total is a sum of neighbours. A cell is
    # an interval of positions, and the deal the same however these are binned.
    sides = [np.argsort(at[:, slot], kind="stable") for slot in range(places)]
    starts: list[Ints] = []
    cells: list[Ints] = []
    for slot, side in enumerate(sides):
        own = where[side, slot]
        starts.append(np.flatnonzero(np.diff(own, prepend=own[0] - 1)))
        cells.append(own[starts[slot]])
    block = max(1, min(resamples, AT_ONCE // count))
    # With one place a cluster its score is dealt itself, not its number: the same deal.
    one = places == 1
    order = np.tile(scores[:, 0] if one else np.arange(count, dtype=np.int32), (block, 1))
    totals = np.zeros((resamples, width))
    for first in range(0, resamples, block):
        drawn = rng.permuted(order, axis=1)[: resamples - first]
        for slot in range(places):
            dealt = drawn if one else scores[:, slot][drawn[:, sides[slot]]]
            totals[first : first + block, cells[slot]] += np.add.reduceat(
                dealt, starts[slot], axis=1
            )
    return totals


def _dealt_normal(
    scores: Floats, where: Ints, width: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """As :func:`_dealt`, from the normal law with the mean and covariance of a random deal."""
    count, places = scores.shape
    centred = scores - scores.mean(axis=0)
    products = centred.T @ centred
    by_slot = np.stack([np.bincount(where[:, s], minlength=width) for s in range(places)])
    mean = scores.mean(axis=0) @ by_slot
    spread = np.zeros((width, width))
    for s in range(places):
        for t in range(places):
            pairs = np.bincount(where[:, s] * width + where[:, t], minlength=width * width)
            apart = pairs.reshape(width, width) - np.outer(by_slot[s], by_slot[t]) / count
            spread += products[s, t] * apart / (count - 1)
    return _normal(mean, spread, resamples, rng)


def _normal(mean: Floats, spread: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Draws [resamples, m] of a normal law, its covariance of any rank."""
    values, vectors = np.linalg.eigh((spread + spread.T) / 2.0)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + rng.standard_normal((resamples, len(mean))) @ root.T
