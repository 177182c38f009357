"""Scores by position in [0, 1]: bins, bootstrap, permutation null, and logistic regression.

The regression has cluster-robust standard errors: an independence working model by Newton's method,
and the sandwich covariance; outcomes may be shares or scores between 0 and 1.

Everything by position is computed from totals by cell, a cell being a bin cut at the ends of the
middle.
``tests/reference/curve.py`` is the plain version and draws the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import Interval, cluster_members, cluster_totals
from midchart.core.types import MIDDLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_Hashes = NDArray[np.uint64]

BINS = (10, 5)
"""Deciles and quintiles."""
AT_ONCE = 1 << 18
"""Numbers drawn in one call. Changing it changes the RNG stream and so the results."""


def _rounded(positions: ArrayLike) -> Floats:
    """To 12 decimals, so that .1 · 3 is the edge it means; raises ValueError outside [0, 1]."""
    rounded = np.round(np.asarray(positions, dtype=np.float64), 12)
    if rounded.size and not ((rounded >= 0.0) & (rounded <= 1.0)).all():
        raise ValueError("positions lie in [0, 1]")
    return rounded


def bin_edges(bins: int) -> Floats:
    """The edges 0, 1/bins, … 1, float64 [bins + 1]; raises ValueError unless 10 or 5 bins."""
    if bins not in BINS:
        raise ValueError(f"there are {' or '.join(map(str, BINS))} bins, not {bins}")
    return np.array([i / bins for i in range(bins + 1)])


def bins_of(positions: ArrayLike, bins: int) -> Ints:
    """Bin 0 … bins − 1 of each position, int64; an edge belongs to the right, 1 to the last."""
    index = np.searchsorted(bin_edges(bins)[1:-1], _rounded(positions), side="right")
    return index.astype(np.int64)


def is_middle_of(positions: ArrayLike) -> Bools:
    """Which positions are in the middle, [.3, .7], both ends included."""
    rounded = _rounded(positions)
    return (rounded >= MIDDLE[0]) & (rounded <= MIDDLE[1])


def is_within(positions: ArrayLike) -> Bools:
    """Which positions are between the 10th and the 90th percentile of the record, [.1, .9)."""
    rounded = _rounded(positions)
    return (rounded >= 0.1) & (rounded < 0.9)


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """``index`` int64 [p], the cell of each position; ``bins`` [cells, bins] and ``zones``
    [cells, 2] (middle, edge) of 0 and 1: totals by cell times these are totals by bin and zone."""

    index: Ints
    bins: Floats
    zones: Floats

    @property
    def count(self) -> int:
        """Cells that hold a position."""
        return len(self.bins)


def cells(positions: ArrayLike, bins: int) -> Cells:
    """The cells of positions [p]."""
    codes, index = np.unique(
        bins_of(positions, bins) * 2 + is_middle_of(positions), return_inverse=True
    )
    in_bin = np.zeros((len(codes), bins))
    in_bin[np.arange(len(codes)), codes // 2] = 1.0
    middle = (codes % 2).astype(np.float64)
    return Cells(index.astype(np.int64), in_bin, np.column_stack([middle, 1.0 - middle]))


@dataclass(frozen=True, eq=False, slots=True)
class Responses:
    """Scores summed by cluster and position of its evidence, clusters ascending.

    ``clusters`` int64 [p] in 0 … C − 1; ``right`` float64 [p], the sum of the scores of its
    responses (each in [0, 1]); ``n`` float64 [p], their number; ``position`` float64 [p] in
    [0, 1]; ``layouts`` int64 [C], equal for clusters with as many positions and the same models.
    """

    clusters: Ints
    right: Floats
    n: Floats
    position: Floats
    layouts: Ints

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.layouts)

    @property
    def rows(self) -> int:
        """Number of responses."""
        return int(self.n.sum())


def hashed(codes: ArrayLike) -> _Hashes:
    """A 64-bit hash of each whole number (splitmix64's finisher); sums of these identify multisets.
    Source: Steele, Lea and Flood, OOPSLA 2014, 453–472."""
    z = np.asarray(codes).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def assemble(
    clusters: ArrayLike, right: ArrayLike, n: ArrayLike, position: ArrayLike, models: ArrayLike
) -> Responses:
    """:class:`Responses` from sums [p], sorted by cluster; clusters may be any ascending numbers.

    ``models`` uint64 [p] is the sum of :func:`hashed` over the models that answered. The order of a
    cluster's positions is part of its layout. Raises ValueError for clusters that do not ascend.
    """
    labels = np.asarray(clusters, dtype=np.int64)
    if (np.diff(labels) < 0).any():
        raise ValueError("entries are sorted by cluster")
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1 if labels.size else 0))
    sizes = np.diff(starts, append=labels.size)
    slot = np.arange(labels.size) - np.repeat(starts, sizes)
    mixed = hashed(np.asarray(models, dtype=np.uint64) ^ hashed(slot))
    keys = np.add.reduceat(mixed, starts) if labels.size else mixed
    layouts = np.unique(keys, return_inverse=True)[1]
    return Responses(
        np.repeat(np.arange(len(starts)), sizes),
        np.asarray(right, dtype=np.float64),
        np.asarray(n, dtype=np.float64),
        np.asarray(position, dtype=np.float64),
        layouts.astype(np.int64),
    )


def bootstrap_totals(
    responses: Responses, cells: Cells, resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Scores and responses by cell, float64 [resamples, cells] each, clusters drawn with
    replacement (paper, Experiment 1; Davison and Hinkley, Bootstrap Methods, 1997, section 3.8).
    """
    count, width = responses.count, cells.count
    both = np.zeros((count, 2 * width))
    np.add.at(both, (responses.clusters, cells.index), responses.right)
    np.add.at(both, (responses.clusters, cells.index + width), responses.n)
    drawn = cluster_totals(both, resamples, rng)
    return drawn[:, :width], drawn[:, width:]


def permutation_totals(
    responses: Responses, cells: Cells, resamples: int, rng: np.random.Generator
) -> Floats | None:
    """Scores by cell, float64 [resamples, cells], positions permuted among clusters.

    The positions of a cluster, all together, go to a cluster of the same layout, so that the number
    of responses in every cell stays. None where no two clusters have the same layout, or where
    there is none.
    """
    if not responses.count:
        return None
    starts = np.searchsorted(responses.clusters, np.arange(responses.count))
    sizes = np.diff(starts, append=len(responses.clusters))
    totals = np.zeros((resamples, cells.count))
    movable = False
    order = np.argsort(responses.layouts, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(responses.layouts[order])) + 1):
        entries = starts[members][:, None] + np.arange(int(sizes[members[0]]))
        scores, index = responses.right[entries], cells.index[entries]
        if len(members) == 1:
            totals += np.bincount(index[0], weights=scores[0], minlength=cells.count)
            continue
        movable = True
        position = responses.position[entries]
        totals += _permuted(scores, position, index, cells.count, resamples, rng)
    return totals if movable else None


def clusters_in(clusters: Ints, groups: Ints, count: int, width: int) -> Ints:
    """Distinct clusters (0 … count − 1) with an entry in each group, int64 [width]."""
    present = np.zeros(count * width, dtype=np.bool_)
    present[clusters * width + groups] = True
    return np.bincount(np.flatnonzero(present) % width, minlength=width).astype(np.int64)


def _permuted(
    scores: Floats,
    position: Floats,
    index: Ints,
    width: int,
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Totals of one layout's clusters, permuted; scores, positions, cells: [g, positions] each."""
    count, slots = scores.shape
    # Clusters sorted by position, so that a cell's total is a sum of neighbours, and the
    # permutation is the same however positions are binned.
    sides = [np.argsort(position[:, slot], kind="stable") for slot in range(slots)]
    starts: list[Ints] = []
    cells: list[Ints] = []
    for slot, side in enumerate(sides):
        sorted_cells = index[side, slot]
        starts.append(np.flatnonzero(np.diff(sorted_cells, prepend=sorted_cells[0] - 1)))
        cells.append(sorted_cells[starts[slot]])
    block = max(1, min(resamples, AT_ONCE // count))
    # With one position a cluster its score is permuted itself, not its number: the same draws.
    one = slots == 1
    order = np.tile(scores[:, 0] if one else np.arange(count, dtype=np.int32), (block, 1))
    totals = np.zeros((resamples, width))
    for first in range(0, resamples, block):
        drawn = rng.permuted(order, axis=1)[: resamples - first]
        for slot in range(slots):
            permuted = drawn if one else scores[:, slot][drawn[:, sides[slot]]]
            sums = np.add.reduceat(permuted, starts[slot], axis=1)
            totals[first : first + block, cells[slot]] += sums
    return totals


_GRADIENT = 1e-11
"""Of the log likelihood at the fit, relative to the rows."""
_FLAT = 20.0
"""Log odds beyond which the data count as separated."""
_LEAST_ERROR = 1e-10
"""Robust errors up to this are rounding."""


@dataclass(frozen=True, eq=False, slots=True)
class LogisticFit:
    """``coefficients`` float64 [k], their robust ``covariance`` [k, k], ``clusters`` and rows."""

    coefficients: Floats
    covariance: Floats
    clusters: int
    n: int

    @property
    def errors(self) -> Floats:
        """Robust standard errors, float64 [k]."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, index: int) -> Interval:
        """A coefficient with its interval, by Student's t with clusters − 1 degrees of freedom."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.clusters - 1, 0.975)) * float(self.errors[index])
        value = float(self.coefficients[index])
        return Interval(value, value - half, value + half)

    def p(self, index: int) -> float:
        """Two-sided p value that a coefficient is 0, by the same t; never 0."""
        from scipy.special import stdtr

        t = abs(float(self.coefficients[index])) / float(self.errors[index])
        return max(float(np.finfo(np.float64).tiny), 2.0 * float(stdtr(self.clusters - 1, -t)))


def clustered_logistic(
    design: ArrayLike, right: ArrayLike, n: ArrayLike, clusters: ArrayLike
) -> LogisticFit | None:
    """Fit log odds = design · coefficients to shares ``right / n``, robust to clusters.

    ``design`` float [p, k], full rank; ``right`` [p] in 0 … n; ``n`` [p] rows behind each entry;
    ``clusters`` [p], any labels that sort. None where there is no finite fit (one outcome only, or
    outcomes that the design separates), no spread to test (clusters that all fit exactly), or fewer
    clusters than coefficients plus one. The covariance is that of statsmodels' clustered Logit: the
    sandwich times C/(C − 1) · (N − 1)/(N − k). Source: Liang and Zeger, Biometrika 73 (1986) 13–22
    (independence estimating equations); Cameron and Miller, J Hum Resour 50 (2015) 317–372 (factor
    and t); Papke and Wooldridge, J Appl Econom 11 (1996) 619–632 (fractional outcomes).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    x = np.ascontiguousarray(np.asarray(design, dtype=np.float64).T)
    y, m = np.asarray(right, dtype=np.float64), np.asarray(n, dtype=np.float64)
    count, member = cluster_members(clusters)
    k, rows = len(x), float(m.sum())
    if count < k + 1 or y.sum() <= 0 or y.sum() >= rows or _rank_deficient(_gram(x, m), k):
        return None

    def pull(b: Floats) -> Floats:
        return x * (y - m * expit(b @ x))

    def information(b: Floats) -> Floats:
        share = expit(b @ x)
        return _gram(x, m * share * (1.0 - share))

    def cost(b: Floats) -> tuple[float, Floats]:
        z = b @ x
        return float((m * np.logaddexp(0.0, z) - y * z).sum()), -pull(b).sum(axis=1)

    fit = minimize(
        cost,
        np.zeros(k),
        method="trust-exact",
        jac=True,
        hess=information,
        options={"gtol": _GRADIENT * rows},
    )
    b: Floats = fit.x
    if np.abs(b @ x).max() > _FLAT or _rank_deficient(information(b), k):
        return None
    b = b + np.linalg.solve(information(b), pull(b).sum(axis=1))
    # The sandwich covariance, by cluster.
    bread = np.linalg.inv(information(b))
    sums = np.stack([np.bincount(member, column).astype(np.float64) for column in pull(b)])
    factor = count / (count - 1) * (rows - 1) / (rows - k)
    meat = _gram(sums, np.ones(count))
    covariance = factor * bread @ meat @ bread
    if (np.diag(covariance) <= _LEAST_ERROR**2).any():
        return None
    return LogisticFit(b, covariance, count, int(rows))


def _gram(x: Floats, weights: Floats) -> Floats:
    """Σ w x xᵀ of columns, x [k, p]. By einsum: long thin products gain nothing from threads, and
    lose much on a busy machine."""
    return np.stack([np.einsum("p,kp->k", row * weights, x) for row in x])


def _rank_deficient(matrix: Floats, k: int) -> bool:
    return bool(np.linalg.matrix_rank(matrix) < k)
