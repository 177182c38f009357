"""Answers summed up by cluster and place of the evidence: all that the curve needs of its rows.

A cluster is a (patient, question): its answers stand or fall together. Its *layout* is who
answered how often for each of its places; a permutation moves positions only between clusters of
the same layout, so that clusters and the number of answers in each bin stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class Placed:
    """One entry a cluster and place of evidence, clusters ascending.

    ``clusters`` int64 [p] in 0 … C − 1; ``right`` float64 [p], the sum of the scores of its
    answers (each in [0, 1]); ``n`` float64 [p], how many they are; ``position`` float64 [p] in
    [0, 1]; ``layouts`` int64 [C], the code of each cluster's layout.
    """

    clusters: Ints
    right: Floats
    n: Floats
    position: Floats
    layouts: Ints

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return len(self.layouts)

    @property
    def rows(self) -> int:
        """How many answers there are."""
        return int(self.n.sum())


def hashed(codes: ArrayLike) -> Hashes:
    """A well-mixed 64-bit number of each whole number (splitmix64's finisher): sums of these tell
    bags of codes apart. Source: Steele, Lea and Flood, OOPSLA 2014, 453–472."""
    z = np.asarray(codes).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def assemble(
    clusters: ArrayLike, right: ArrayLike, n: ArrayLike, position: ArrayLike, bags: ArrayLike
) -> Placed:
    """:class:`Placed` from sums [p], sorted by cluster; clusters may be any ascending numbers.

    ``bags`` uint64 [p] is the sum of :func:`hashed` over who answered. The order of a cluster's
    places is part of its layout. Raises ValueError for clusters that do not ascend.
    """
    labels = np.asarray(clusters, dtype=np.int64)
    if (np.diff(labels) < 0).any():
        raise ValueError("entries are sorted by cluster")
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1 if labels.size else 0))
    sizes = np.diff(starts, append=labels.size)
    slot = np.arange(labels.size) - np.repeat(starts, sizes)
    mixed = hashed(np.asarray(bags, dtype=np.uint64) ^ hashed(slot))
    keys = np.add.reduceat(mixed, starts) if labels.size else mixed
    layouts = np.unique(keys, return_inverse=True)[1]
    return Placed(
        np.repeat(np.arange(len(starts)), sizes),
        np.asarray(right, dtype=np.float64),
        np.asarray(n, dtype=np.float64),
        np.asarray(position, dtype=np.float64),
        layouts.astype(np.int64),
    )


def place(
    values: ArrayLike,
    clusters: ArrayLike,
    positions: ArrayLike,
    models: ArrayLike | None = None,
    slots: ArrayLike | None = None,
) -> Placed:
    """:class:`Placed` from rows.

    ``values`` [rows] in [0, 1]; ``clusters`` [rows], any labels that sort; ``positions`` [rows];
    ``models`` [rows], who answered (default: nobody is told apart); ``slots`` [rows], which piece
    of the cluster's evidence a row is placed by (default: one), with one position each. Raises
    ValueError for lengths that differ, or a slot with two positions.
    """
    data = np.asarray(values, dtype=np.float64)
    labels = np.unique(np.asarray(clusters), return_inverse=True)[1]
    who = np.zeros(data.size) if models is None else np.asarray(models)
    kinds = np.unique(who, return_inverse=True)[1]
    pieces = np.zeros(data.size, dtype=np.int64) if slots is None else np.asarray(slots)
    at = np.asarray(positions, dtype=np.float64)
    if not data.shape == labels.shape == kinds.shape == pieces.shape == at.shape:
        raise ValueError("values, clusters, positions, models and slots are rows of one length")
    order = np.lexsort((pieces, labels))
    labels, pieces, at = labels[order], pieces[order], at[order]
    new = (np.diff(labels, prepend=-1) != 0) | (np.diff(pieces, prepend=0) != 0)
    starts = np.flatnonzero(new)
    entry = np.cumsum(new) - 1
    if (at != at[starts][entry]).any():
        raise ValueError("a piece of evidence has one position")
    sums = np.bincount(entry, weights=data[order], minlength=len(starts))
    counts = np.bincount(entry, minlength=len(starts))
    bags = np.add.reduceat(hashed(kinds[order]), starts) if data.size else hashed(kinds)
    return assemble(labels[starts], sums, counts, at[starts], bags)
