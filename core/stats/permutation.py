"""Permutation test: what a statistic looks like when labels mean nothing.

Labels can be moved by whole clusters, so that six answers to one question keep one position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[NDArray[Any], NDArray[Any]], float]


@dataclass(frozen=True, eq=False, slots=True)
class PermutationTest:
    """``statistic`` as observed, ``p_value``, and its ``null`` values, float64 [resamples]."""

    statistic: float
    p_value: float
    null: NDArray[np.float64]


def permutation_test(
    values: ArrayLike,
    labels: ArrayLike,
    statistic: Statistic,
    resamples: int,
    rng: np.random.Generator,
    alternative: Literal["greater", "less", "two-sided"] = "greater",
    clusters: ArrayLike | None = None,
) -> PermutationTest:
    """Test whether ``statistic(values, labels)`` could come from labels dealt at random.

    ``values`` [n], ``labels`` [n]. With ``clusters`` [n] labels are dealt to clusters, all rows
    of a cluster moving together; labels must then be constant in each. p is (b + 1)/(m + 1)
    with b of m permutations at least as extreme, so it is never 0. Raises ValueError for wrong
    shapes or a label that varies in a cluster. Source: Phipson and Smyth, Stat Appl Genet Mol
    Biol 9 (2010) article 39.
    """
    data, marks = np.asarray(values), np.asarray(labels)
    if data.ndim != 1 or data.shape != marks.shape or data.size == 0:
        raise ValueError(f"values and labels are one row each: {data.shape} and {marks.shape}")
    if resamples < 1:
        raise ValueError(f"a permutation test needs at least one permutation, not {resamples}")
    groups = np.arange(data.size) if clusters is None else np.asarray(clusters)
    if groups.shape != data.shape:
        raise ValueError(f"{data.size} values but {groups.size} clusters")
    _, first, members = np.unique(groups, return_index=True, return_inverse=True)
    per_cluster = marks[first]
    if (per_cluster[members] != marks).any():
        raise ValueError("a label varies inside a cluster, so it cannot be dealt by clusters")
    observed = float(statistic(data, marks))
    null = np.array(
        [statistic(data, rng.permutation(per_cluster)[members]) for _ in range(resamples)],
        dtype=np.float64,
    )
    # Equal in exact arithmetic is equal: rounding must not turn a tie into "less extreme".
    slack = 1e-12 * max(1.0, abs(observed))
    above = (int((null >= observed - slack).sum()) + 1) / (resamples + 1)
    below = (int((null <= observed + slack).sum()) + 1) / (resamples + 1)
    p = {"greater": above, "less": below, "two-sided": min(1.0, 2 * min(above, below))}
    return PermutationTest(observed, p[alternative], null)
