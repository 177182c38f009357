"""Tables of a needle run: depth × length, depth alone, length alone, middle against edge.

Depth is that of the spec; two tables go by the needle's position in its record instead, in tenths.
A cell's Wilson interval takes its items as independent; the intervals of ``depths`` and ``lengths``
resample patients, and ``contrast`` compares each needle with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import RunRef, needs
from midchart.core.arms.hits import Question, question_of
from midchart.core.errors import InputError
from midchart.core.experiments.needles.cohort import NeedleCohort
from midchart.core.experiments.needles.needles import needle_kinds
from midchart.core.format import count, finite, interval, p_value, percent, signed
from midchart.core.protocol import Protocol
from midchart.core.results.comparison import ALPHA, POWER, adjust_holm
from midchart.core.results.funnel import funnel
from midchart.core.results.reviews import reviews_of, with_reviews
from midchart.core.results.tables import SITE_COLUMNS, cells, ends, facts, failures, generator
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.job import Row
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import ANSWERS, VERDICTS
from midchart.core.stats.intervals import clustered_bootstrap, wilson_interval
from midchart.core.stats.paired import FEWEST_CLUSTERS, correlation_of, share_interval
from midchart.core.stats.positions import bins_of
from midchart.core.stats.within import WithinContrast, within_contrast
from midchart.core.storage.rows import RowStore, Schema, literal
from midchart.core.text.evidence import is_middle
from midchart.core.types import CUT_OFF, Instruction

SITE: Schema = {
    **dict.fromkeys(("needle", "fact"), "VARCHAR"),
    **dict.fromkeys(("length", "depth", "distractors"), "BIGINT"),
    "reached": "DOUBLE",
    "haystack_tokens": "BIGINT",
}
"""``record`` is the source record and ``needle`` a number among its needles; ``fact`` the needle's
kind; ``length`` in tokens of the spec and ``haystack_tokens`` of the cut record; ``depth`` of the
spec in per cent, and ``reached``, the share of the cut record's tokens that precede the needle.
``instruction`` names one needle at one site."""

NEEDLE_ANSWERS: Schema = {**ANSWERS, **SITE}
NEEDLE_VERDICTS: Schema = {**VERDICTS, **SITE}
POSITIONS = ("order", "time", "token")
OF_VERDICTS = (
    "answer_key", "correct", "refusal", "ended", "evidence", "evidence_in_prompt",
    "evidence_all_in_prompt", "question_survived",
)  # fmt: skip
SERIES = ("record", "needle", "length", "distractors")
"""Columns that name a series: one needle at every depth."""


def needle_question(cohort: NeedleCohort, instruction: Instruction, protocol: Protocol) -> Question:
    """The question of one needle at one site, without the chance level of recall."""
    plain = question_of(cohort, instruction, protocol)
    return replace(plain, chance=None, check=None, site=cohort.columns[instruction.id])


def needle_rows(
    store: RowStore,
    plan: Plan,
    reviews: Sequence[Mapping[str, Any]] = (),
    where: str = "true",
) -> list[Row]:
    """A row a verdict that counts, with columns of its answer; no text.

    ``reviews``: verdicts of people, whom ``plan`` names among its judges. ``correct`` is null where
    nothing was judged (unparsed or failed).
    """
    texts = ", ".join(f"j.{name}::VARCHAR AS {name}" for name in ("label", "reader", "judge"))
    columns = ", ".join(f"j.{name}" for name in (*SITE_COLUMNS, *OF_VERDICTS))
    with facts(store, plan, reviews) as ask:
        return ask(
            f"SELECT * FROM (SELECT {texts}, j.outcome::VARCHAR AS outcome, q.record, "
            f"q.instruction, {columns}, a.prompt_tokens FROM judged j "
            "JOIN questions q USING (question) LEFT JOIN answered a USING (answer)) "
            f"WHERE {where} ORDER BY label, reader, judge, record, needle::BIGINT, length, "
            "distractors, depth"
        )


@needs("viewer")
def needle_items(run: RunRef, **cell: str | int) -> list[Row]:
    """The items of a needle run in a cell of its tables, a row a verdict, no text.

    ``cell`` names any of label, reader, judge, record, fact, length, depth, distractors. Raises
    UnknownName for an unknown run, InputError for a run of another kind or another column.
    """
    folder = find_run(run)
    plan = folder.plan()
    if plan.kind != "needles":
        raise InputError(f"run {run} is of kind {plan.kind!r}; only a needle run has needles")
    names, numbers = (
        ("label", "reader", "judge", "record", "fact"),
        ("length", "depth", "distractors"),
    )
    where = ["true"]
    for name, value in cell.items():
        if name in numbers and type(value) is int:
            where.append(f"{name} = {value}")
        elif name in names and isinstance(value, str):
            where.append(f"{name} = {literal(value)}")
        else:
            valid = ", ".join((*names, *numbers))
            raise InputError(f"a cell has no {name} {value!r}. Valid: {valid} (whole numbers last)")
    reviews = reviews_of(folder)
    plan = with_reviews(plan, reviews)
    return needle_rows(folder.store(plan), plan, reviews.rows(), " AND ".join(where))


def needle_tables(
    store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Table]:
    """All tables of a needle run, by name; ``plan`` names the people whose verdicts are
    ``reviews`` among its judges."""
    rows = _with_correlation(needle_rows(store, plan, reviews))
    pairs = contrasts(rows, plan)
    contrast = [row for row, _ in pairs]
    of_notes = "moved" in plan.options
    names = ("arm", "k", "label", "budget", "reader", "judge")

    def heatmap(rows: Sequence[Row]) -> Table:
        return _accuracy(rows, plan, "length", "depth", "distractors")

    def depths(rows: Sequence[Row]) -> Table:
        return _marginal(rows, plan, "depth", "reached")

    return {
        "heatmap": heatmap(rows),
        "depths": depths(rows),
        "heatmap_positions": _by_position(rows, heatmap),
        "depths_positions": _by_position(rows, depths),
        "lengths": _marginal(rows, plan, "length", "haystack_tokens", "prompt_tokens"),
        "facts": _accuracy(rows, plan, "fact", "distractors"),
        **({} if of_notes else {"domains": _by_domain(rows, plan)}),
        "contrast": contrast,
        "funnel": funnel(store, plan, "depth / 100.0"),
        "verdict": [
            {n: row[n] for n in names} | {"text": in_words(row, of_notes)} for row in contrast
        ],
        **({"detectable": _detectable(pairs, names)} if of_notes else {}),
        "cuts": [dict(cut) for cut in plan.raw["found"]["cuts"]],
        "failures": failures(store, plan),
    }


def _grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of columns, ascending."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return dict(sorted(groups.items()))


def _by_cell(rows: Sequence[Row], plan: Plan) -> Iterator[tuple[Row, list[Row]]]:
    """Every arm entry × reader × judge of the spec: the columns that name it, and its rows."""
    groups = _grouped(rows, "label", "reader", "judge")
    for columns, cell in cells(plan):
        yield columns, groups.get(cell, [])


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """Mean of the known values of a column; None without one."""
    values = [float(row[name]) for row in rows if row[name] is not None]
    return sum(values) / len(values) if values else None


def _counted(rows: Sequence[Row]) -> Row:
    """The columns of a cell, as docs/guide.md has them, and shares of its prompts with all pieces
    of the evidence, any, and the question; bounds are those of
    :func:`core.results.tables.share`."""
    judged = [row for row in rows if row["correct"] is not None]
    n, correct = len(judged), sum(row["correct"] for row in judged)
    share = wilson_interval(correct, n) if n else None
    alike = judged[0].get("alike") if judged else None
    return {
        "n": n,
        "correct": correct,
        "accuracy": share.estimate if share else None,
        **ends("patient_", share_interval(*_by_patient(judged), correlation=alike)),
        **ends("wilson_", share),
        "bound_low": correct / len(rows) if rows else None,
        "bound_high": (correct + len(rows) - n) / len(rows) if rows else None,
        "refusals": sum(row["refusal"] for row in judged),
        "unparsed": sum(row["outcome"] == "unparsed" for row in rows),
        "cut_off": sum(row["ended"] in CUT_OFF for row in rows),
        "failed": sum(row["outcome"] == "failed" for row in rows),
        "in_prompt": _mean(rows, "evidence_all_in_prompt"),
        "any_piece_in_prompt": _mean(rows, "evidence_in_prompt"),
        "question_survived": _mean(rows, "question_survived"),
    }


def _by_patient(judged: Sequence[Row]) -> tuple[list[bool], list[str]]:
    return [row["correct"] for row in judged], [row["record"] for row in judged]


def _with_correlation(rows: Sequence[Row]) -> list[Row]:
    """The rows with ``alike``: the correlation of a patient's answers, pooled over the arms of a
    reader and judge."""
    pooled: dict[tuple[Any, ...], float] = {}
    judged = [row for row in rows if row["correct"] is not None]
    for family, of_family in _grouped(judged, "reader", "judge").items():
        arms = _grouped(of_family, "label").values()
        pooled[family] = correlation_of(map(_by_patient, arms))
    return [row | {"alike": pooled.get((row["reader"], row["judge"]))} for row in rows]


def _accuracy(rows: Sequence[Row], plan: Plan, *names: str) -> Table:
    return [
        {**cell, **dict(zip(names, values, strict=True)), **_counted(group)}
        for cell, cell_rows in _by_cell(rows, plan)
        for values, group in _grouped(cell_rows, *names).items()
    ]


def _by_domain(rows: Sequence[Row], plan: Plan) -> Table:
    """Accuracy by the clinical domain of the fact, in the middle of the record (30 to 70 %), at its
    edges and at all depths (``band``)."""
    domains = {kind.kind: kind.domain for kind in needle_kinds()}
    placed = [
        {**row, "domain": domains[row["fact"]], "band": band}
        for row in rows
        for band in ("all", "middle" if is_middle(row["depth"] / 100) else "edge")
    ]
    return _accuracy(placed, plan, "domain", "distractors", "band")


def _by_position(rows: Sequence[Row], table: Callable[[Sequence[Row]], Table]) -> Table:
    """A table for each kind of ``position``, in which ``depth`` is where the tenth of the record
    begins that holds the needle, in per cent; a needle without a position is left out."""
    return [
        {"position": kind, **line}
        for kind in POSITIONS
        for line in table(
            [
                {**row, "depth": 10 * int(bins_of([row[f"{kind}_position"]], 10)[0])}
                for row in rows
                if row[f"{kind}_position"] is not None
            ]
        )
    ]


def _marginal(rows: Sequence[Row], plan: Plan, axis: str, *means: str) -> Table:
    """Accuracy along one axis for each number of distractors, and the means of columns.

    ``ci`` resamples patients by ``protocol.intervals``, null for fewer than 5 if widened.
    """
    table: Table = []
    for cell, cell_rows in _by_cell(rows, plan):
        for (distractors,), group in _grouped(cell_rows, "distractors").items():
            by_value = _grouped(group, axis)
            index = {value: i for i, (value,) in enumerate(by_value)}
            judged = [row for row in group if row["correct"] is not None]
            percentiles = plan.protocol.intervals == "percentile"
            drawn = None
            if percentiles and len({row["record"] for row in judged}) > 1:
                name = (axis, cell["label"], cell["reader"], cell["judge"], distractors)
                drawn = clustered_bootstrap(
                    [float(row["correct"]) for row in judged],
                    [row["record"] for row in judged],
                    np.array([index[row[axis]] for row in judged]),
                    plan.protocol.resamples,
                    generator(plan, *name),
                    bin_count=len(index),
                )
            for (value,), at_value in by_value.items():
                counts, reported = _counted(at_value), None
                if drawn:
                    reported = float(drawn.low[index[value]]), float(drawn.high[index[value]])
                elif not percentiles:
                    reported = counts["patient_low"], counts["patient_high"]
                table.append(
                    {
                        **cell,
                        axis: value,
                        "distractors": distractors,
                        **counts,
                        "patients": len({row["record"] for row in at_value}),
                        **ends("ci_", reported),
                        **{name: _mean(at_value, name) for name in means},
                    }
                )
    return table


def contrasts(rows: Sequence[Row], plan: Plan) -> list[tuple[Row, WithinContrast | None]]:
    """Middle less edge for every arm entry × reader × judge, with the contrast of the judged items;
    ``rows`` as of :func:`needle_rows`.

    ``moving`` counts series that are right at one depth and wrong at another, ``left_out`` those
    without a judged item on both sides; all is null where no series has both. Bounds and
    ``p_bound`` as in :mod:`midchart.core.results.comparison`.
    """
    pairs: list[tuple[Row, WithinContrast | None]] = []
    for cell, cell_rows in _by_cell(rows, plan):
        sides = {True: list[Row](), False: list[Row]()}
        for row in cell_rows:
            sides[is_middle(row["depth"] / 100)].append(row)
        row, scored = _contrast(cell_rows, plan, cell["label"], cell["reader"], cell["judge"])
        row = {
            **cell,
            **row,
            "in_prompt_middle": _mean(sides[True], "evidence_all_in_prompt"),
            "in_prompt_edge": _mean(sides[False], "evidence_all_in_prompt"),
        }
        pairs.append((row, scored))
    for family in _grouped([row for row, _ in pairs], "judge").values():
        adjust_holm(family)
        tests = sum(row["p"] is not None for row in family)
        for row in family:
            row["tests"] = 0 if row["p"] is None else tests
    return pairs


def _detectable(pairs: Sequence[tuple[Row, WithinContrast | None]], names: Sequence[str]) -> Table:
    """The null of each contrast (the middle 95 % of its permutations) and the smallest difference
    that it shows with power .8, by one test at .05 and as the first step of Holm."""
    return [
        {
            **{name: row[name] for name in (*names, "series", "patients", "tests")},
            "null_low": float(np.quantile(one.null, 0.025)),
            "null_high": float(np.quantile(one.null, 0.975)),
            "power": POWER,
            "alpha": ALPHA,
            "alone": one.detectable(POWER, ALPHA),
            "among_all": one.detectable(POWER, ALPHA / row["tests"]),
        }
        for row, one in pairs
        if one is not None
    ]


def _contrast(rows: Sequence[Row], plan: Plan, *name: str) -> tuple[Row, WithinContrast | None]:
    # Answers as a matrix: series by depth.
    depths = sorted({row["depth"] for row in rows})
    series = list(_grouped(rows, *SERIES))
    index = {key: i for i, key in enumerate(product(series, depths))}
    values = np.full(len(index), np.nan)
    missing = np.zeros(len(index), dtype=bool)
    for row in rows:
        at = index[tuple(row[name] for name in SERIES), row["depth"]]
        missing[at] = row["correct"] is None
        values[at] = np.nan if missing[at] else row["correct"]
    shape = len(series), len(depths)
    values, missing = values.reshape(shape), missing.reshape(shape)
    inside = np.array([is_middle(depth / 100) for depth in depths], dtype=bool)

    def contrast(filled: NDArray[np.float64]) -> WithinContrast | None:
        rng = generator(plan, "contrast", *name)
        patients = [key[0] for key in series]
        level = 1 - ALPHA / (len(plan.arms) * len(plan.readers))  # of all contrasts of a judge
        return within_contrast(filled, patients, inside, plan.protocol.resamples, rng, level)

    # The contrast, and its bounds with unscored answers counted either way.
    columns = (
        "middle", "edge", "difference", "ci_low", "ci_high", "bound_low", "bound_high", "p",
        "p_bound",
    )  # fmt: skip
    scored = contrast(values) if series else None
    row: Row = {"series": 0, "moving": 0, "patients": 0, **dict.fromkeys(columns)}
    row |= {"left_out": len(series), "unscored": int(missing.sum())}
    if scored is None:
        return row, None
    low = high = scored
    if missing.any():
        low = contrast(np.where(missing, ~inside, values)) or scored
        high = contrast(np.where(missing, inside, values)) or scored
    against = low if scored.difference > 0 else high
    holds = against.difference * scored.difference > 0
    row |= {
        "series": scored.rows,
        "moving": int(((values == 1).any(axis=1) & (values == 0).any(axis=1)).sum()),
        "patients": scored.clusters,
        "middle": scored.inside,
        "edge": scored.outside,
        "difference": scored.difference,
        "ci_low": finite(scored.low),
        "ci_high": finite(scored.high),
        "bound_low": low.difference,
        "bound_high": high.difference,
        "p": scored.p_value,
        "p_bound": against.p_value if holds else 1.0,
        "left_out": len(series) - scored.rows,
    }
    return row, scored


def in_words(row: Row, of_notes: bool = False) -> str:
    """One contrast in words; ``of_notes``: notes with evidence were moved, not facts inserted."""
    of, what = ("question", "evidence") if of_notes else ("needle", "needle")
    its = "the depth of its note" if of_notes else "its depth"
    who = f"{row['label']} read by {row['reader']}, judged by {row['judge']}"
    # No comparison.
    if row["difference"] is None:
        return (
            f"{who}: middle and edge cannot be compared; no {of} has a judged answer at a middle "
            "depth (30 to 70 %) and at another."
        )
    counted = f"{count(row['series'], 'series', 'series')} of {count(row['patients'], 'patient')}"
    middle, edge, difference = row["middle"], row["edge"], row["difference"]
    unscored = ""
    if row["unscored"]:
        unscored = (
            f" {count(row['unscored'], 'answer')} unscored: with all of them counted the "
            f"difference lies in{interval(row['bound_low'], row['bound_high'], signed)} points."
        )
    # No answer changes with the depth.
    if middle == edge and middle in (0.0, 1.0):
        result, why = "correct at every depth", "try longer records or distractors."
        if middle == 0.0:
            result, why = "incorrect at every depth", "the task is too hard."
        return (
            f"{who}: {result} ({counted}), so this run cannot show an effect of position; {why}"
            f"{unscored}"
        )
    if not row["moving"]:
        return (
            f"{who}: no {of}'s answer changes with {its}; {percent(middle)} are correct at "
            f"every depth, the others at none ({counted}). In this run position made no "
            f"difference.{unscored}"
        )
    # The difference with its interval and test.
    ends = f"no interval: fewer than {FEWEST_CLUSTERS} patients"
    if row["ci_low"] is not None:
        ends = f"95 % interval{interval(row['ci_low'], row['ci_high'], signed)}"
    numbers = (
        f"{percent(middle)} correct at middle depths, {percent(edge)} at the edges, difference "
        f"{signed(difference)} points ({ends}), {p_value(row['p_holm'])} after Holm over "
        f"{count(row['tests'], 'test')}, {counted}, {row['moving']} of which change with depth"
    )
    if row["p_holm"] > ALPHA:
        return (
            f"{who}: no difference between middle and edge was shown: {numbers}. That is no proof "
            f"that there is none: what the interval holds stays possible.{unscored}"
        )
    if row["p_bound_holm"] > ALPHA:
        return (
            f"{who}: no difference between middle and edge is claimed, as unscored answers could "
            f"overturn it: {numbers}.{unscored}"
        )
    # Whether the reader or the selection is the cause.
    in_middle, at_edge = row["in_prompt_middle"], row["in_prompt_edge"]
    cause = ""
    if in_middle == at_edge == 1.0:
        cause = f" Every prompt held the {what}, so the difference is the reader's."
    elif None not in (in_middle, at_edge):
        cause = (
            f" The prompt held the {what} in {percent(in_middle)} of the middle and "
            f"{percent(at_edge)} of the edge items, so part of it may be the selection's."
        )
    worse = "worse" if difference < 0 else "better"
    return f"{who}: {worse} in the middle: {numbers}. Only the position changed.{cause}{unscored}"
