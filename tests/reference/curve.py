"""The curve as one would write it down: walk the rows for each bin, each resample, each shuffle.

Slow and plain on purpose; for clusters with one place of evidence and the same models. It shares
the draws with ``midchart.core.experiments.curve``, so the two must agree.
"""

from __future__ import annotations

import numpy as np

from midchart.core.stats.intervals import BLOCK, draw_clusters
from midchart.core.stats.positions import AT_ONCE, assemble, hashed
from midchart.core.text.evidence import decile_of, is_middle


def mean(values):
    """The mean of a list; nan of an empty one."""
    return sum(values) / len(values) if values else float("nan")


def figures(rows, bins):
    """Accuracy by bin, gap, homogeneity and middle minus edge of rows ((bin, is middle), value)."""
    in_bin = [[] for _ in range(bins)]
    middle, edge, everything = [], [], []
    for (where, central), value in rows:
        in_bin[where].append(value)
        (middle if central else edge).append(value)
        everything.append(value)
    means = [mean(values) for values in in_bin]
    held = [m for m in means if m == m]
    overall = mean(everything)
    spread = sum(
        len(values) * (m - overall) ** 2 for values, m in zip(in_bin, means, strict=True) if values
    )
    return means, max(held) - min(held), spread, mean(middle) - mean(edge)


def curve(values, clusters, positions, bins, resamples, seed):
    """Figures as seen, of each resample of clusters, and of each shuffle of positions."""
    columns = (np.asarray(column).tolist() for column in (clusters, positions, values))
    answers, place = {}, {}
    for cluster, position, value in zip(*columns, strict=True):
        answers.setdefault(cluster, []).append(value)
        place[cluster] = position
    names = sorted(answers)
    count = len(names)

    def rows(drawn, placed):
        return [(placed[name], value) for name in drawn for value in answers[name]]

    by_position = sorted(names, key=lambda name: place[name])
    place = {name: (decile_of(at) * bins // 10, is_middle(at)) for name, at in place.items()}
    seen = figures(rows(names, place), bins)
    rng = np.random.default_rng(seed)
    resampled = []
    for r in range(resamples):
        if r % BLOCK == 0:
            block = draw_clusters(count, rng).tolist()
        resampled.append(figures(rows([names[i] for i in block[r % BLOCK]], place), bins))
    rng = np.random.default_rng([seed, 1])
    size = max(1, min(resamples, AT_ONCE // count))
    order = np.tile(np.arange(count, dtype=np.int32), (size, 1))
    shuffled = []
    for r in range(resamples):
        if r % size == 0:
            deal = rng.permuted(order, axis=1).tolist()
        # The first position, the second, ... go to the clusters as they were drawn.
        turns = zip(deal[r % size], by_position, strict=True)
        places = {names[drawn]: place[name] for drawn, name in turns}
        shuffled.append(figures(rows(names, places), bins))
    return seen, resampled, shuffled


def place(values, clusters, positions, models=None, slots=None):
    """:class:`Responses` from rows.

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
