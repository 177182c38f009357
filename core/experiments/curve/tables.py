"""Statistics of one curve, its tables, its verdict in words, and the paper's own curve.

Two contrasts are pre-specified and adjusted by Holm: middle against edge, and the quadratic term.
The gap between the best and the worst bin and the homogeneity of all bins have separate p values; a
maximum minus a minimum is large by chance alone, so the gap's expectation without an effect of
position is given with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isnan
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import needs
from midchart.core.errors import InputError
from midchart.core.experiments.curve.rows import MEANS, CurveChoice, Observed, select
from midchart.core.format import count, finite, p_value, percent, points, with_interval
from midchart.core.results.tables import ends, nested, pick, read_published
from midchart.core.runs.experiment import Table
from midchart.core.stats.intervals import (
    clustered_intervals,
    pooled_correlation,
    ratio,
    square_and_add,
    wilson_of_share,
)
from midchart.core.stats.paired import FEWEST_CLUSTERS as FEWEST_REPORTED
from midchart.core.stats.paired import holm_adjust, reported_interval, share_floor, share_sums
from midchart.core.stats.positions import (
    Cells,
    LogisticFit,
    Responses,
    bin_edges,
    bootstrap_totals,
    cells,
    clustered_logistic,
    clusters_in,
    is_within,
    permutation_totals,
)
from midchart.core.storage.rows import Schema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAN = float("nan")
ALPHA, POWER = 0.05, 0.8
FEWEST_CLUSTERS = 30
"""Clusters below which the quadratic term is not tested: the sandwich needs more to keep its
level."""
UNIFORM_SHARE = 0.8
"""Share between the 10th and 90th percentile of positions spread evenly."""
QUADRATIC = 2
"""Index of the quadratic term among the coefficients of 1, u, u² with u = 2x − 1."""


@dataclass(frozen=True, eq=False, slots=True)
class Curve:
    """A curve and its tests; undefined values are nan.

    By bin, float64 or int64 [bins]: ``low`` and ``high`` edges, ``n`` responses, ``clusters`` with
    a response there, ``accuracy``, its interval ``ci_low``, ``ci_high`` (nan with one cluster), the
    pointwise 95 % band ``null_low``, ``null_high`` of no effect of position. ``gap`` is the best
    bin (``peak``, ``peak_bin``) minus the worst, ``null_gap`` its mean without an effect;
    ``gap_low``, ``gap_high`` the paper's interval, the percentiles over resamples that each choose
    the best and worst bin again, and so are higher than those of the same two bins (nan below 5
    clusters).
    ``difference`` is middle minus edge, its interval the bootstrap's, its p the permutation's.
    ``quadratic`` is the coefficient of u², u = 2x − 1: the log odds at the ends of the record
    minus those at its middle, apart from the linear term; above 0 the curve sags in the middle.
    ``difference_holm``, ``quadratic_holm``: the two pre-specified p values after Holm.
    ``smallest_difference``: the one that these data show with 80 % power at the first step of Holm.
    ``held``: share of responses whose position the permutation could not move.
    """

    low: Floats
    high: Floats
    n: Ints
    clusters: Ints
    accuracy: Floats
    ci_low: Floats
    ci_high: Floats
    null_low: Floats
    null_high: Floats
    rows: int
    cluster_count: int
    peak_bin: int
    trough_bin: int
    peak: float
    trough: float
    gap: float
    gap_low: float
    gap_high: float
    null_gap: float
    gap_p: float
    homogeneity_p: float
    middle: float
    edge: float
    difference: float
    difference_low: float
    difference_high: float
    difference_p: float
    difference_holm: float
    quadratic: float
    quadratic_low: float
    quadratic_high: float
    quadratic_p: float
    quadratic_holm: float
    smallest_difference: float
    share_10_90: float
    held: float


@dataclass(frozen=True, eq=False, slots=True)
class Statistics:
    """Statistics of totals by cell, each [draws], ``means`` [draws, bins]."""

    means: Floats
    gap: Floats
    homogeneity: Floats
    difference: Floats
    middle: Floats
    edge: Floats


def statistics(right: Floats, n: Floats, cut: Cells) -> Statistics:
    """Means by bin, gap, weighted between-bin sum of squares, and middle minus edge. ``right`` and
    ``n`` float64 [draws, cells]. The homogeneity statistic is Σ n_b (a_b − a)²."""
    counts = n @ cut.bins
    means = ratio(right @ cut.bins, counts)
    overall = ratio(right.sum(axis=1), n.sum(axis=1))
    zones = ratio(right @ cut.zones, n @ cut.zones)
    squares = np.where(counts > 0, counts * (means - overall[:, None]) ** 2, 0.0).sum(axis=1)
    high = np.where(counts > 0, means, -np.inf).max(axis=1)
    low = np.where(counts > 0, means, np.inf).min(axis=1)
    return Statistics(
        means, high - low, squares, zones[:, 0] - zones[:, 1], zones[:, 0], zones[:, 1]
    )


def study(
    responses: Responses, bins: int, resamples: int, seed: int, widened: bool = False
) -> Curve:
    """The curve of responses, with ``resamples`` draws each for intervals and null.

    The intervals' draws are those of ``default_rng(seed)``, the null's of a separate stream.
    ``widened``: intervals by :mod:`midchart.core.stats.paired`, none for fewer than 5 clusters;
    else plain percentiles (the paper's), none for one cluster. Raises ValueError for no responses.
    """
    if not responses.rows:
        raise ValueError("a curve takes at least one answer")
    # Observed means, and their intervals by question.
    cut = cells(responses.position, bins)
    right, n = (
        np.bincount(cut.index, weights=sums, minlength=cut.count).astype(np.float64)[None, :]
        for sums in (responses.right, responses.n)
    )
    seen = statistics(right, n, cut)
    rng = np.random.default_rng(seed)
    drawn = statistics(*bootstrap_totals(responses, cut, resamples, rng), cut)
    groups = cut.bins.argmax(axis=1)[cut.index]
    clusters = clusters_in(responses.clusters, groups, responses.count, bins)
    # Of the means of the bins, and of middle minus edge.
    intervals = _widened if widened else _percentiles
    ci_low, ci_high, (difference_low, difference_high) = intervals(responses, cut, drawn, clusters)

    # The null: what the same answers give at permuted positions.
    totals = permutation_totals(responses, cut, resamples, np.random.default_rng([seed, 1]))
    null = None if totals is None else statistics(totals, n, cut)
    null_low, null_high = np.full((2, bins), np.nan)
    if null:
        null_low, null_high = clustered_intervals(null.means)
    gap_low = gap_high = NAN
    if responses.count >= FEWEST_REPORTED:
        gap_low, gap_high = (float(end[0]) for end in clustered_intervals(drawn.gap[:, None]))
    # The quadratic term, and Holm over the two pre-specified tests.
    quadratic = _quadratic(responses)
    limits = quadratic.interval(QUADRATIC) if quadratic else None
    tested = (
        _p("difference", seen, null, two_sided=True),
        quadratic.p(QUADRATIC) if quadratic else NAN,
    )
    # A test that could not be made counts as one of the two all the same.
    holm = np.where(np.isnan(tested), np.nan, holm_adjust(np.nan_to_num(tested, nan=1.0)))
    means = seen.means[0]
    alone = np.bincount(responses.layouts)[responses.layouts] == 1
    shares = (
        responses.n[is_within(responses.position)].sum(),
        responses.n[alone[responses.clusters]].sum(),
    )
    return Curve(
        low=bin_edges(bins)[:-1],
        high=bin_edges(bins)[1:],
        n=(n[0] @ cut.bins).astype(np.int64),
        clusters=clusters,
        accuracy=means,
        ci_low=ci_low,
        ci_high=ci_high,
        null_low=null_low,
        null_high=null_high,
        rows=responses.rows,
        cluster_count=responses.count,
        peak_bin=int(np.nanargmax(means)),
        trough_bin=int(np.nanargmin(means)),
        peak=float(np.nanmax(means)),
        trough=float(np.nanmin(means)),
        gap=float(seen.gap[0]),
        gap_low=gap_low,
        gap_high=gap_high,
        null_gap=float(null.gap.mean()) if null else NAN,
        gap_p=_p("gap", seen, null),
        homogeneity_p=_p("homogeneity", seen, null),
        middle=float(seen.middle[0]),
        edge=float(seen.edge[0]),
        difference=float(seen.difference[0]),
        difference_low=difference_low,
        difference_high=difference_high,
        difference_p=tested[0],
        difference_holm=float(holm[0]),
        quadratic=limits.estimate if limits else NAN,
        quadratic_low=limits.low if limits else NAN,
        quadratic_high=limits.high if limits else NAN,
        quadratic_p=tested[1],
        quadratic_holm=float(holm[1]),
        smallest_difference=_smallest(null),
        share_10_90=float(shares[0] / responses.n.sum()),
        held=float(shares[1] / responses.n.sum()),
    )


def _smallest(null: Statistics | None) -> float:
    """The difference shown with 80 % power at the first step of Holm, from its spread under no
    effect; nan where it has none."""
    spread = float(null.difference.std()) if null else 0.0
    normal = NormalDist()
    distance = normal.inv_cdf(1.0 - ALPHA / 4.0) + normal.inv_cdf(POWER)
    return distance * spread if spread > 1e-12 else NAN


def _p(name: str, seen: Statistics, null: Statistics | None, two_sided: bool = False) -> float:
    """(b + 1)/(m + 1) with b of m permutations at least as extreme: never 0 (Phipson and Smyth
    2010). nan where nothing can be permuted or the statistic is not defined."""
    observed = float(getattr(seen, name)[0])
    if null is None or np.isnan(observed):
        return NAN
    draws: Floats = getattr(null, name)
    # Equal in exact arithmetic is equal: rounding must not turn a tie into "less extreme".
    slack = 1e-9 * max(1.0, abs(observed))
    above = (int((draws >= observed - slack).sum()) + 1) / (len(draws) + 1)
    if not two_sided:
        return above
    below = (int((draws <= observed + slack).sum()) + 1) / (len(draws) + 1)
    return min(1.0, 2.0 * min(above, below))


def _percentiles(
    responses: Responses, _: Cells, drawn: Statistics, clusters: Ints
) -> tuple[Floats, Floats, tuple[float, float]]:
    low, high = (np.where(clusters > 1, end, np.nan) for end in clustered_intervals(drawn.means))
    if responses.count < 2:
        return low, high, (NAN, NAN)
    ends = clustered_intervals(drawn.difference[:, None])
    return low, high, (float(ends[0][0]), float(ends[1][0]))


def _widened(
    responses: Responses, cut: Cells, drawn: Statistics, _: Ints
) -> tuple[Floats, Floats, tuple[float, float]]:
    def by_cluster(groups: Floats) -> tuple[Floats, Floats]:
        """Scores and responses of each cluster in each group of cells, [clusters, groups]."""
        width = groups.shape[1]
        index = responses.clusters * width + groups.argmax(axis=1)[cut.index]
        right, n = (
            np.bincount(index, sums, responses.count * width).reshape(-1, width).astype(np.float64)
            for sums in (responses.right, responses.n)
        )
        return right, n

    right, n = by_cluster(cut.bins)
    ends = np.full((2, n.shape[1]), np.nan)
    # Of shares the score interval at one correlation of a question's answers; of means, whose
    # spread is not theirs, the draws as well.
    counts, known = bool((right == np.rint(right)).all()), np.flatnonzero(n.sum(axis=0))
    alike = pooled_correlation(share_sums(right[:, b], n[:, b]) for b in known) if counts else None
    for b in known:
        floor = share_floor(right[:, b], n[:, b], correlation=alike)
        draws = None if counts else drawn.means[:, b]
        interval = reported_interval(draws, int((n[:, b] > 0).sum()), floor)
        ends[:, b] = interval or (NAN, NAN)
    difference = None
    right, n = by_cluster(cut.zones)
    if (n.sum(axis=0) > 0).all():
        middle, edge = (share_floor(right[:, zone], n[:, zone]) for zone in (0, 1))
        fewest = int((n > 0).sum(axis=0).min())
        difference = reported_interval(drawn.difference, fewest, square_and_add(middle, edge))
    return ends[0], ends[1], difference or (NAN, NAN)


def _quadratic(responses: Responses) -> LogisticFit | None:
    """The logistic model of 1, u and u², u = 2x − 1; None where it cannot be fitted."""
    if responses.count < FEWEST_CLUSTERS:
        return None
    u = 2.0 * responses.position - 1.0
    design = np.column_stack([np.ones_like(u), u, u * u])
    return clustered_logistic(design, responses.right, responses.n, responses.clusters)


# Tables.


NAMES = ("stratum", "value", "score", "position", "bins")
BIN_COLUMNS: Schema = {
    "bin": "BIGINT",
    **dict.fromkeys(("low", "high"), "DOUBLE"),
    **dict.fromkeys(("n", "clusters"), "BIGINT"),
    **dict.fromkeys(("accuracy", "ci_low", "ci_high", "null_low", "null_high"), "DOUBLE"),
}
COUNTS = ("n", "clusters", "peak_bin", "trough_bin", "unlocated", "unscored", "weak")
SUMMARY: Schema = {
    **dict.fromkeys(COUNTS, "BIGINT"),
    **{field.name: "DOUBLE" for field in fields(Curve) if field.type == "float"},
    "uniform_share": "DOUBLE",
    "simulated": "BOOLEAN",
}
"""As in :class:`Curve`; shares and differences of shares, and ``quadratic`` in log odds.
``unlocated`` (not located, or in an entry without a date), ``unscored`` and ``weak`` responses are
in no bin."""


def curve_columns(choice: CurveChoice, bins: int) -> dict[str, Any]:
    """The columns that identify a curve."""
    names = ("stratum", "value", "score", "position")
    return {name: getattr(choice, name) for name in names} | {"bins": bins}


def curve_row(observed: Observed, choice: CurveChoice, bins: int, resamples: int) -> dict[str, Any]:
    """A choice's curve: the columns of :data:`SUMMARY`, ``curve``, a row a bin
    (:data:`BIN_COLUMNS`), and its verdict ``text``; null where a value is not defined. Raises
    InputError where no answer has both the score and a position."""
    responses, counts = select(observed, choice)
    if responses is None:
        raise InputError(
            f"no answer has both the score {choice.score!r} and a {choice.position} position of "
            f"its evidence ({counts['unscored']} without the score, {counts['unlocated']} without "
            "a position: not located, or in an entry without a date; "
            f"{counts['weak']} left out for a weak location)"
        )
    protocol = observed.protocol
    widened = protocol.intervals == "widened"
    curve = study(responses, bins, resamples, protocol.seed, widened)
    of: dict[str, Any] = {"n": curve.rows, "clusters": curve.cluster_count, **counts}
    of |= {"uniform_share": UNIFORM_SHARE}
    for name in SUMMARY:
        value: Any = of.get(name, getattr(curve, name, None))
        of[name] = finite(value) if SUMMARY[name] == "DOUBLE" else value
    columns = {name: getattr(curve, name).tolist() for name in BIN_COLUMNS if name != "bin"}
    drawn = [
        {"bin": b} | {name: None if isnan(of[b]) else of[b] for name, of in columns.items()}
        for b in range(bins)
    ]
    text = verdict(curve, choice.score, counts["simulated"], choice.stratum != "all")
    return {**of, "curve": drawn, "text": text}


def tables_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """The tables of curves, each with its columns, ``status`` and ``reason``."""
    done = [row for row in rows if row["status"] == "ok"]
    return {
        "curve": [with_plain(row) for row in nested(done, "curve", NAMES)],
        "summary": [pick(row, (*NAMES, *SUMMARY)) for row in done],
        "verdict": [pick(row, (*NAMES, "text")) for row in done],
        "failures": [pick(row, (*NAMES, "reason")) for row in rows if row["status"] == "failed"],
    }


def with_plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a bin with ``plain_low``, ``plain_high``: Wilson's interval, answers as independent.
    The clustered interval keeps the answers to a question together; the paper compares both. Null
    for a score that is a mean, and in a bin without an answer."""
    plain = None
    if row["score"] not in MEANS and row["n"]:
        plain = wilson_of_share(row["accuracy"], row["n"])
    return {**row, **ends("plain_", plain)}


@needs("viewer")
def published_curve() -> Table:
    """The paper's curve: bin, low, high, accuracy, ci_low, ci_high; shares."""
    columns = {"accuracy": "accuracy", "ci_low": "cluster_ci_low", "ci_high": "cluster_ci_high"}
    table: Table = []
    for row in read_published("clitm_curve.csv"):
        low, high = (int(edge) / 100 for edge in row["decile"].split("-"))
        values = {name: float(row[column]) for name, column in columns.items()}
        table.append({"bin": len(table), "low": low, "high": high, **values})
    return table


# The verdict in words.

MEASURED = {
    "clinician": "{} of the answers are correct (clinicians' verdict)",
    "exact": "{} of the answers are correct (exact match)",
    "jaccard": "the mean token overlap is {} (Jaccard)",
    "exact_or_jaccard": "the mean score is {} (exact match of structured values, else overlap)",
}
SIMULATED = (
    "Simulated answers: generated with a declared effect of position and say nothing "
    "about any real model."
)
ONE_OF_MANY = "This is one of several groups looked at; p values are not corrected for that."


def verdict(curve: Curve, score: str, simulated: bool = False, one_of_many: bool = False) -> str:
    """The curve in words. ``score`` is a name of :data:`MEASURED`; ``simulated`` says first that no
    model gave these answers; ``one_of_many`` adds that the curve is that of one group among
    several."""
    sentences = [SIMULATED] if simulated else []
    if isnan(curve.difference) or isnan(curve.difference_p):
        sentences.append(_untestable(curve, score))
    else:
        sentences += [_contrast(curve, score), _gap(curve), _caution(curve)]
    return " ".join([*sentences, ONE_OF_MANY] if one_of_many else sentences)


def _untestable(curve: Curve, score: str) -> str:
    subject = "Nothing can be said about position"
    why = "no two questions have the same models' answers, so that no permutation is possible"
    if isnan(curve.difference):
        value = percent(curve.edge if isnan(curve.middle) else curve.middle)
        subject += f": {MEASURED[score].format(value)}, but"
        why = "all evidence lies on one side: in the middle of the record (30–70 %), or outside it"
    else:
        subject += ":"
    return f"{subject} {why}; {_counts(curve)}."


def _counts(curve: Curve) -> str:
    questions = count(curve.cluster_count, "question")
    return f"n = {count(curve.rows, 'answer')} to {questions}"


def _contrast(curve: Curve, score: str) -> str:
    """What the middle is against the edge, with interval and n; in a second sentence, the tests."""
    finding = "No difference shown between the middle of the chart and its edge"
    if significant := _significant(curve.difference_holm):
        finding = f"{'Worse' if curve.difference < 0 else 'Better'} in the middle of the chart"
    elif _significant(curve.quadratic_holm):
        finding = "The curve bends, though no difference is shown between the middle and its edge"
    difference = with_interval(
        curve.difference, curve.difference_low, curve.difference_high, "points"
    ).replace(" [", " points [")
    if isnan(curve.difference_low):
        few = f"no interval: fewer than {FEWEST_REPORTED} questions on one side"
        difference += f" points ({few})"
    middle = MEASURED[score].format(percent(curve.middle))
    text = (
        f"{finding}: with the evidence at 30–70 %, {middle}, "
        f"elsewhere {percent(curve.edge)}; {difference}, {_counts(curve)}. "
        f"Middle against edge, corrected for two tests: {p_value(curve.difference_holm)}"
    )
    quadratic = "" if isnan(curve.quadratic_p) else p_value(curve.quadratic_holm)
    if _significant(curve.quadratic_holm):
        shape = f"the curve as a whole {'sags' if curve.quadratic > 0 else 'rises'} in the middle"
        text += f"{', and' if significant else ', but'} {shape} ({quadratic})"
    elif quadratic:
        text += f"; the quadratic term is not significant ({quadratic})"
    elif curve.cluster_count < FEWEST_CLUSTERS:
        text += ", with too few questions to test the quadratic term"
    else:
        text += "; these answers allow no test of the quadratic term"
    return text + "."


def _gap(curve: Curve) -> str:
    part = {10: "tenth", 5: "fifth"}[len(curve.n)]
    best, worst = (
        f"{100 * curve.low[bin]:.0f}–{100 * curve.high[bin]:.0f} %"
        for bin in (curve.peak_bin, curve.trough_bin)
    )
    claim = "chance alone hardly explains the gap"
    if not _significant(curve.gap_p):
        claim = "the gap alone shows no curve"
    return (
        f"The best {part} of the record ({best}) and the worst ({worst}) are {points(curve.gap)} "
        f"apart; without any effect of position they would be {points(curve.null_gap)} apart on "
        f"average ({p_value(curve.gap_p)}), so {claim}."
    )


def _caution(curve: Curve) -> str:
    if _significant(curve.difference_holm) or _significant(curve.quadratic_holm):
        return (
            "This is an association: questions about one part of the record may be harder for "
            "other reasons, and only moving the same fact (a needle run) can tell."
        )
    text = "Not significant is not the same as no effect"
    if isnan(curve.smallest_difference):
        return text + "."
    power = (
        "no difference, however large, would have been found with 80 % power"
        if curve.smallest_difference >= 1.0
        else f"a difference of {points(curve.smallest_difference)} between middle and edge would "
        "have been found with 80 % power, a smaller one less often"
    )
    return f"{text}: with {count(curve.cluster_count, 'question')}, {power}."


def _significant(p: float) -> bool:
    return not isnan(p) and p <= ALPHA
