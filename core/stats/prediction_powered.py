"""The mean of a judgement that people make of a few items and a machine of all of them.

The machine's mean is corrected by how far the two differ on the items that people judged, each
weighted by the inverse of the probability with which it was drawn. Rows come in clusters
(patients). ``extras/lab/simulations/prediction_powered.py`` has the simulated coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midchart.core.stats.intervals import (
    ROUNDING,
    Interval,
    cluster_members,
    cluster_totals,
    effective_size,
    ratio,
    t_shrinkage,
    wilson_of_share,
)
from midchart.core.stats.paired import newcombe_paired, paired_cells, reported_interval, share_floor

Floats = NDArray[np.float64]


# Which items people judge: a sample that grows one by one, its probabilities known at any size.


def priority_order(sizes: ArrayLike, uniform: ArrayLike) -> NDArray[np.intp]:
    """Items in the order in which they are drawn, [n]: the first k are a sample of k.

    ``sizes`` float [n] > 0: an item of twice the size is about twice as likely to be drawn;
    ``uniform`` float [n] in (0, 1], independent random numbers. Source: Duffield, Lund and Thorup,
    J ACM 54 (2007) 32 (priority sampling).
    """
    size, chance = np.asarray(sizes, dtype=np.float64), np.asarray(uniform, dtype=np.float64)
    return np.argsort(-size / chance, kind="stable")


def drawn_with(sizes: ArrayLike, uniform: ArrayLike, count: int) -> Floats:
    """The probability with which each item is among the first ``count`` of
    :func:`priority_order`, [n].

    It is that of passing the priority of the first item left out; weights of its inverse make
    unbiased totals. All are 1 where every item is drawn. Source: as there, section 2.
    """
    order = priority_order(sizes, uniform)
    size, chance = np.asarray(sizes, dtype=np.float64), np.asarray(uniform, dtype=np.float64)
    if count == len(size):
        return np.ones(len(size))
    first_out = order[count]
    return np.minimum(1.0, size * chance[first_out] / size[first_out])


# The estimate.


@dataclass(frozen=True, slots=True)
class PredictionPowered:
    """A corrected mean with its interval (None for fewer than five clusters).

    ``predicted``: the mean of what is known and of the machine's judgement of the rest;
    ``judged``: items that people judged and that count; ``tuning``: how far the machine's judgement
    is used, from 0 (not at all); ``narrowest``: the width of the interval if people judged all
    items. ``squares`` and ``probability`` [m] of the items judged by chance: squared residuals, and
    with which probability they were drawn.
    """

    estimate: float
    interval: tuple[float, float] | None
    predicted: float
    judged: int
    tuning: float
    narrowest: float
    squares: Floats
    probability: Floats

    def width_after(self, more: int) -> float | None:
        """The expected width of the interval after ``more`` further judgements, whose probabilities
        grow in proportion; None without an interval."""
        if self.interval is None:
            return None
        width, judgements = self.interval[1] - self.interval[0], len(self.squares)
        if not judgements:
            return width
        least = min(self.narrowest, width)
        now, later = (
            _of_cards(self.squares, self.probability, judgements + some) for some in (0, more)
        )
        left = later / now if now else 0.0
        return sqrt(least**2 + (width**2 - least**2) * left)

    def cards_to_narrow(self, share: float, most: int) -> int | None:
        """How many further judgements are expected to narrow the interval to ``share`` of its
        width; None where ``most`` do not, as patients differ too, or without an interval."""
        now = self.width_after(0)
        if now is None:
            return None
        few, many = 0, most + 1
        while many - few > 1:
            middle = (few + many) // 2
            width = self.width_after(middle)
            assert width is not None, "there is an interval"
            few, many = (middle, many) if width > share * now else (few, middle)
        return many if many <= most else None


def prediction_powered(
    predicted: ArrayLike,
    judged: ArrayLike,
    probability: ArrayLike,
    clusters: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    *,
    predicted_counts: ArrayLike | None = None,
    judged_counts: ArrayLike | None = None,
    tuning: float | None = None,
) -> PredictionPowered:
    """The mean of what people would say of all items.

    ``predicted`` float [n] in [0, 1]: the machine's judgement; ``judged`` float [n] in [0, 1]:
    people's, nan where they have not judged; ``probability`` float [n] in (0, 1]: with which an
    item was drawn to be judged (1: known in any case); ``clusters`` [n] labels that sort.
    ``predicted_counts`` and ``judged_counts`` [n] in [0, 1]: whether an item is one of those whose
    mean is sought (default: all are). ``tuning``: how far the machine is used; None: the regression
    of people's judgement on the machine's.

    The estimate is the sum of what is judged, of tuning × predicted over the others, and of their
    number × the mean of judged − tuning × predicted, weighted by 1/probability − 1; over the number
    of items. For equal probabilities, independent items and all items counting it is that of PPI++.
    The interval is the cluster bootstrap with expanded percentiles, widened to hold a score
    interval: the sum, after Zou and Donner, of the Wilson interval of what is known or predicted
    and of Newcombe's interval of the correction at their effective sizes, as a few judgements
    that all agree leave doubt.

    Raises ValueError for wrong shapes or values, and where items are not judged but none is that
    could have been left out, or none counts.
    Source: Angelopoulos, Duchi and Zrnic, PPI++, arXiv 2311.01453 (2023); Zrnic and Candès, Active
    statistical inference, ICML (2024) (probabilities); Zou and Donner, Statist Med 27 (2008)
    1693–1702.
    """
    items = _items(predicted, judged, probability, clusters, predicted_counts, judged_counts)
    totals = items.totals().sum(axis=0, keepdims=True)
    strength = items.slope(float(_means(totals, 1.0)[0])) if tuning is None else float(tuning)
    estimate = float(_means(totals, strength)[0])
    counting = float(_parts(totals, strength, 1)[0])
    if not counting > 0:
        raise ValueError("none of the items that were judged counts")
    draws = _means(cluster_totals(items.totals(), resamples, rng), strength)
    floor = items.floor(estimate, strength, counting)
    ends = reported_interval(draws, items.clusters, floor)
    value, machine = items.with_neutral(estimate)
    drawn = items.weight > 0
    residuals = (value - strength * machine)[drawn]
    if drawn.any():
        residuals -= np.average(residuals, weights=items.weight[drawn])
    chance = 1.0 / (1.0 + items.weight[drawn])
    spread = float(np.nanvar(draws)) - _of_cards(residuals**2, chance, len(chance)) / counting**2
    t = NormalDist().inv_cdf(0.975) / sqrt(t_shrinkage(max(2, items.clusters)))
    return PredictionPowered(
        estimate,
        None if ends is None else (max(0.0, ends[0]), min(1.0, ends[1])),
        items.predicted_mean(),
        int((items.judged_counts[items.known] > 0).sum()),
        strength,
        2.0 * t * sqrt(max(0.0, spread)),
        # As if one more judgement differed by 1: judgements that all agree leave doubt.
        residuals**2 + 1.0 / max(1, len(residuals)),
        chance,
    )


def _of_cards(squares: Floats, chance: Floats, judgements: int) -> float:
    """Variance of a corrected sum from judging only so many items, of the squared residuals [m] of
    those judged and the probability [m] with which they were; Poisson sampling, whose variance is
    not below that of priority sampling."""
    later = np.minimum(1.0, chance * judgements / max(1, len(chance)))
    return float(np.sum(squares / chance * (1.0 - later) / later))


@dataclass(frozen=True, slots=True)
class _Items:
    """Arguments of :func:`prediction_powered`, checked.

    ``member`` int [n]: the number of an item's cluster, of ``clusters``; ``known`` bool [n]: it is
    judged; ``weight`` [n]: 1/probability − 1 of a judged item, else 0; ``judged`` is 0 where not
    known.
    """

    predicted: Floats
    judged: Floats
    predicted_counts: Floats
    judged_counts: Floats
    known: NDArray[np.bool_]
    weight: Floats
    member: NDArray[Any]
    clusters: int

    def totals(self) -> Floats:
        """What each cluster holds, [clusters, 10]: of the items judged the sum of values and of
        counts, of the others both of the machine and their number, and weighted, of the items
        judged, values and counts of people and of the machine and the weights."""
        value, count = self.judged * self.judged_counts, self.judged_counts
        machine, machine_count = self.predicted * self.predicted_counts, self.predicted_counts
        known, other = self.known.astype(np.float64), (~self.known).astype(np.float64)
        weighted = (value, count, machine, machine_count, np.ones(len(known)))
        columns = (
            *(known * value, known * count, other * machine, other * machine_count, other),
            *(self.weight * of for of in weighted),
        )  # fmt: skip
        sums = [np.bincount(self.member, weights=of, minlength=self.clusters) for of in columns]
        return np.stack(sums, axis=1).astype(np.float64)

    def with_neutral(self, mean: float) -> tuple[Floats, Floats]:
        """Judgements of people and of the machine, [n]; what does not count has the mean."""
        return (
            self.judged * self.judged_counts + mean * (1.0 - self.judged_counts),
            self.predicted * self.predicted_counts + mean * (1.0 - self.predicted_counts),
        )

    def predicted_mean(self) -> float:
        """The mean of what is known and of the machine's judgement of the rest."""
        value = np.where(self.known, self.judged, self.predicted)
        count = np.where(self.known, self.judged_counts, self.predicted_counts)
        return float((value * count).sum() / count.sum()) if count.any() else float("nan")

    def slope(self, mean: float) -> float:
        """The regression of people's judgement on the machine's, from 0 to 1/(share not judged)."""
        value, machine = self.with_neutral(mean)
        spread = float(machine.var(ddof=1)) if len(machine) > 1 else 0.0
        if not spread or not self.weight.any() or self.known.all():
            return 1.0
        share = self.weight / self.weight.sum()
        covariance = float(share @ ((value - share @ value) * (machine - share @ machine)))
        return min(max(covariance / spread, 0.0), len(self.known) / float((~self.known).sum()))

    def floor(self, mean: float, strength: float, counting: float) -> Interval:
        """The score interval that the reported one must hold."""
        # What is known or predicted.
        value, machine = self.with_neutral(mean)
        mixed = np.clip(np.where(self.known, value, machine), 0.0, 1.0)
        n, unknown = len(mixed), float((~self.known).sum())
        sums, sizes = (np.bincount(self.member, weights=of) for of in (mixed, np.ones(n)))
        of_all = share_floor(sums, sizes)
        part = (n - unknown + min(strength, 1.0) * unknown) / n
        below, above = part * (of_all.estimate - of_all.low), part * (of_all.high - of_all.estimate)
        # The correction: people − tuning × machine is a mixture of people − machine and of people
        # alone, whose half-widths are scaled by what the two cancel.
        if unknown:
            pairs, alone = self._correction(value, machine)
            of_pairs, of_alone = strength, max(0.0, 1.0 - strength)
            share = self.weight / self.weight.sum()
            apart, together, people = (
                sqrt(float(share @ (of - share @ of) ** 2))
                for of in (value - strength * machine, value - machine, value)
            )
            parts = of_pairs * together + of_alone * people
            cancelled = min(1.0, apart / parts) if parts > ROUNDING else 1.0
            under, over = (
                of_pairs * abs(pairs.estimate - getattr(pairs, end))
                + of_alone * abs(alone.estimate - getattr(alone, end))
                for end in ("low", "high")
            )
            extent = cancelled * unknown / n
            below, above = hypot(below, extent * under), hypot(above, extent * over)
        scale = n / counting
        return Interval(mean, mean - scale * below, mean + scale * above)

    def _correction(self, value: Floats, machine: Floats) -> tuple[Interval, Interval]:
        """Intervals of people minus machine and of people's judgement, of the weighted items."""
        drawn = self.weight > 0
        first, second = np.clip(value[drawn], 0, 1), np.clip(machine[drawn], 0, 1)
        kish = float(self.weight.sum() ** 2 / (self.weight @ self.weight))
        share = self.weight[drawn] / self.weight.sum()
        cells = paired_cells(first, second)
        sizes: list[float] = []
        for of in (first - second, first):
            mean = float(share @ of)
            independent = float(share @ of**2) - mean**2
            by_cluster = [
                np.bincount(self.member[drawn], weights=kish * share * column)
                for column in (of, np.ones(len(of)))
            ]
            held = by_cluster[1] > 0
            if held.sum() < 2:
                nothing = Interval(mean, -1.0, 1.0)
                return nothing, nothing
            sums, counts = (one[held] for one in by_cluster)
            squares = float(sums @ sums), float(sums @ counts), float(counts @ counts)
            size = effective_size(mean, independent, kish, int(held.sum()), *squares)
            sizes.append(min(size, kish))
        both, only_first, only_second, neither = (sizes[0] * (share @ cells)).tolist()
        pairs = newcombe_paired(both, only_first, only_second, neither)
        return pairs, wilson_of_share(min(1.0, float(share @ first)), sizes[1])


def _items(
    predicted: ArrayLike,
    judged: ArrayLike,
    probability: ArrayLike,
    clusters: ArrayLike,
    predicted_counts: ArrayLike | None,
    judged_counts: ArrayLike | None,
) -> _Items:
    machine, people, chance = (
        np.asarray(of, dtype=np.float64) for of in (predicted, judged, probability)
    )
    count, member = cluster_members(clusters)
    of_machine, of_people = (
        np.ones(machine.size) if of is None else np.asarray(of, dtype=np.float64)
        for of in (predicted_counts, judged_counts)
    )
    known = ~np.isnan(people)
    people, of_people = np.where(known, people, 0.0), np.where(known, of_people, 0.0)
    if not all(((of >= 0) & (of <= 1)).all() for of in (machine, people, of_machine, of_people)):
        raise ValueError("judgements lie between 0 and 1")
    weight = np.zeros(machine.size)
    weight[known] = 1.0 / chance[known] - 1.0
    if not known.all() and not weight.any():
        raise ValueError("items are not judged, and none is judged that could have been left out")
    return _Items(machine, people, of_machine, of_people, known, weight, member, count)


def _parts(totals: Floats, strength: float, of: int) -> Floats:
    """Corrected sums [rows] of values (``of`` 0) or counts (1) from totals of clusters."""
    judged, machine, others = totals[:, of], totals[:, 2 + of], totals[:, 4]
    correction = ratio(totals[:, 5 + of] - strength * totals[:, 7 + of], totals[:, 9])
    extended = np.where(others > 0, others * correction, 0.0)
    return judged + strength * machine + extended


def _means(totals: Floats, strength: float) -> Floats:
    """Corrected means, [rows]; nan where none counts or no weighted item is there."""
    return ratio(_parts(totals, strength, 0), np.maximum(_parts(totals, strength, 1), 0.0))
