"""Tables of a needle run: depth × length, depth alone, length alone, middle against edge.

Depth is that of the spec; two tables go by the needle's position in its record instead, in tenths.
A cell's Wilson interval takes its items as independent; the intervals of ``depths`` and ``lengths``
resample patients, and ``contrast`` compares each needle with itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from midchart.core.results.tables import (
    CELL,
    OUTCOME_COUNTS,
    SITE_COLUMNS,
    Key,
    cells,
    correlations,
    counted,
    ends,
    facts,
    failures,
    generator,
    grouped,
    share,
)
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.job import Row
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import ANSWERS, VERDICTS
from midchart.core.stats.intervals import (
    cluster_members,
    cluster_totals,
    clustered_intervals,
    ratio,
)
from midchart.core.stats.paired import FEWEST_CLUSTERS
from midchart.core.stats.within import WithinContrast, within_contrast
from midchart.core.storage.rows import Ask, RowStore, Schema, literal
from midchart.core.text.evidence import is_middle
from midchart.core.types import Instruction

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


ITEMS = "(SELECT j.*, a.prompt_tokens FROM judged j LEFT JOIN answered a USING (answer))"
"""SQL of the verdicts that count, with columns of their answers."""


def needle_rows(ask: Ask, where: str = "true") -> list[Row]:
    """A row a verdict that counts, with columns of its answer; no text. ``correct`` is null where
    nothing was judged (unparsed or failed)."""
    names = (*CELL, "outcome", "record", "instruction", *SITE_COLUMNS, *OF_VERDICTS)
    return ask(
        f"SELECT {', '.join(names)}, prompt_tokens FROM {ITEMS} WHERE {where} ORDER BY "
        "label::VARCHAR, reader::VARCHAR, judge::VARCHAR, record, needle::BIGINT, length, "
        "distractors, depth"
    )


@needs("viewer")
def needle_items(run: RunRef, **cell: str | int) -> list[Row]:
    """The items of a needle run in a cell of its tables, a row a verdict, no text. ``cell`` names
    any of label, reader, judge, record, fact, length, depth, distractors. Raises UnknownName for an
    unknown run, InputError for a run of another kind or another column."""
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
    with facts(folder.store(plan), plan, reviews.rows()) as ask:
        return needle_rows(ask, " AND ".join(where))


def needle_tables(
    store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Table]:
    """All tables of a needle run, by name; ``plan`` names the people whose verdicts are
    ``reviews`` among its judges."""
    of_notes = "moved" in plan.options
    with facts(store, plan, reviews) as ask:
        # How alike a patient's answers are is pooled over arms.
        alike = correlations(counted(ask, CELL))
        accuracies = {
            name: _accuracy(ask, plan, alike, *declared)
            for name, declared in TABLES.items()
            if name != "domains" or not of_notes
        }
        for name in ("heatmap", "depths"):
            accuracies[f"{name}_positions"] = [
                {"position": kind, **row}
                for kind in POSITIONS
                for row in _accuracy(ask, plan, alike, *TABLES[name], position=f"{kind}_position")
            ]
        pairs = contrasts(needle_rows(ask), plan)
    names = ("arm", "k", "label", "budget", "reader", "judge")
    return {
        **accuracies,
        "contrast": [row for row, _ in pairs],
        "funnel": funnel(store, plan, "depth / 100.0"),
        "verdict": [
            {n: row[n] for n in names} | {"text": in_words(row, of_notes)} for row, _ in pairs
        ],
        **({"detectable": _detectable(pairs, names)} if of_notes else {}),
        "cuts": [dict(cut) for cut in plan.raw["found"]["cuts"]],
        "failures": failures(store, plan),
    }


_DOMAINS = " ".join(f"WHEN '{kind.kind}' THEN '{kind.domain}'" for kind in needle_kinds())
BY = {
    "domain": f"CASE fact {_DOMAINS} END",
    "band": "unnest(['all', CASE WHEN depth BETWEEN 30 AND 70 THEN 'middle' ELSE 'edge' END])",
}
"""Columns of tables whose values are not those of the items → their SQL."""
TABLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "heatmap": (("length", "depth", "distractors"), ()),
    "depths": (("distractors", "depth"), ("reached",)),
    "lengths": (("distractors", "length"), ("haystack_tokens", "prompt_tokens")),
    "facts": (("fact", "distractors"), ()),
    "domains": (("domain", "distractors", "band"), ()),
}
"""Tables of accuracy: the columns by which items are counted, and of a table along one axis (the
last of them) the columns whose means it has. ``domains``: by the clinical domain of the fact, in
the middle of the record (30 to 70 %), at its edges and at all depths."""
IN_PROMPT = {
    "in_prompt": "evidence_all_in_prompt",
    "any_piece_in_prompt": "evidence_in_prompt",
    "question_survived": "question_survived",
}


def _accuracy(
    ask: Ask,
    plan: Plan,
    alike: Mapping[Key, float],
    by: Sequence[str],
    means: Sequence[str],
    position: str = "",
) -> Table:
    """A table of :data:`TABLES`: accuracy and the shares of prompts with all pieces of the
    evidence, any, and the question. With ``position``, a column of positions, ``depth`` is where
    the tenth of the record begins that holds the needle, in per cent; a needle without one is left
    out.

    Along an axis ``ci`` resamples patients by ``protocol.intervals``, null for fewer than 5 if
    widened.
    """
    tenth = f"10 * least(9, floor(10 * round({position}, 12)))::BIGINT"
    replaced = [f"{BY[name]} AS {name}" for name in by if name in BY]
    replaced += [f"{tenth} AS depth"] if position else []
    columns = f"* REPLACE ({', '.join(replaced)})" if replaced else "*"
    rows = f"(SELECT {columns} FROM {ITEMS})"
    averages = {**IN_PROMPT, **{name: name for name in means}}
    columns = ", ".join(f"avg({sql}::DOUBLE) AS {name}_mean" for name, sql in averages.items())
    columns += f", {OUTCOME_COUNTS}, count(DISTINCT record) AS records"
    counts = counted(ask, (*CELL, *by), rows=rows, columns=columns, alike=alike)
    drawn = _resampled(ask, plan, rows, by) if means else {}
    table: Table = []
    for named, cell in cells(plan):
        for key in sorted(key for key in counts if key[:3] == cell):
            count = counts[key]
            row: Row = {**named, **dict(zip(by, key[3:], strict=True)), **share(count)}
            del row["patients"]
            row |= {name: count[f"{name}_mean"] for name in averages}
            if means:
                reported = drawn.get(key)
                if plan.protocol.intervals == "widened":
                    reported = row["patient_low"], row["patient_high"]
                row |= {"patients": count["records"], **ends("ci_", reported)}
            table.append(row)
    return table


def _resampled(
    ask: Ask, plan: Plan, rows: str, by: Sequence[str]
) -> dict[Key, tuple[float, float]]:
    """Percentiles over resampled patients, by cell and the columns ``by``, of which the last is the
    axis; none under another rule of intervals."""
    if plan.protocol.intervals != "percentile":
        return {}
    *outer, axis = (*CELL, *by)
    ends: dict[Key, tuple[float, float]] = {}
    items = ask(f"FROM {rows} WHERE correct IS NOT NULL ORDER BY {', '.join((*outer, axis))}")
    for cell, judged in _grouped(items, *outer).items():
        values = list(dict.fromkeys(row[axis] for row in judged))
        count, patient = cluster_members([row["record"] for row in judged])
        # Of each patient, how many items of each value are right, and how many there are.
        totals = np.zeros((2, count, len(values)))
        at = patient, np.array([values.index(row[axis]) for row in judged])
        np.add.at(totals[0], at, [float(row["correct"]) for row in judged])
        np.add.at(totals[1], at, 1.0)
        if count > 1:
            rng = generator(plan, axis, *cell)
            drawn = cluster_totals(np.hstack(list(totals)), plan.protocol.resamples, rng)
            low, high = clustered_intervals(ratio(drawn[:, : len(values)], drawn[:, len(values) :]))
            low[(totals[1] > 0).sum(axis=0) < 2] = high[(totals[1] > 0).sum(axis=0) < 2] = np.nan
            ends |= {(*cell, v): (float(low[i]), float(high[i])) for i, v in enumerate(values)}
    return ends


def _grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of columns, ascending."""
    groups = grouped(rows, lambda row: tuple(row[name] for name in names))
    return dict(sorted(groups.items()))


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """Mean of the known values of a column; None without one."""
    values = [float(row[name]) for row in rows if row[name] is not None]
    return sum(values) / len(values) if values else None


def contrasts(rows: Sequence[Row], plan: Plan) -> list[tuple[Row, WithinContrast | None]]:
    """Middle less edge for every arm entry × reader × judge, with the contrast of the judged items;
    ``rows`` as of :func:`needle_rows`.

    ``moving`` counts series that are right at one depth and wrong at another, ``left_out`` those
    without a judged item on both sides; all is null where no series has both. Bounds and
    ``p_bound`` as in :mod:`midchart.core.results.comparison`.
    """
    pairs: list[tuple[Row, WithinContrast | None]] = []
    groups = _grouped(rows, *CELL)
    for cell, key in cells(plan):
        cell_rows = groups.get(key, [])
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
