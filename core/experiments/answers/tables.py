"""Tables of verdicts (docs/methods.md, Stage 2: judging): accuracy by band, kind of question and k,
refusals, accuracy given evidence, comparisons, agreement of judges, failures and costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from midchart.core.client.claude import CallBudget, call_log
from midchart.core.results.agreement import agreement, corrected_accuracy, self_agreement
from midchart.core.results.comparison import detectable, multiplicity, paired, readers
from midchart.core.results.funnel import funnel
from midchart.core.results.tables import (
    ALL_BANDS,
    ALL_IN_PROMPT_NAME,
    ALL_PIECES,
    ANY_IN_PROMPT_NAME,
    ANY_PIECE,
    CELL,
    CRITERIA,
    NOTHING,
    PROMPTED,
    WIDE_BANDS,
    Counts,
    Key,
    by_patient,
    cells,
    counted,
    ends,
    entry_columns,
    facts,
    failure_kinds,
    failures,
    intervals,
    pick,
    share,
    share_of,
    swept_by_k,
)
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.storage.rows import Ask, RowStore
from midchart.core.types import UNLOCATED

STRATA = {"task_type": ("R", "Rn", "S"), "domain": ()}
"""Columns of questions that have a table, and the order of their values (default: sorted)."""


def by_band(ask: Ask) -> dict[Key, Counts]:
    """Counts in every band, "middle", "edge" and "overall"; unlocated ones under their own name."""
    located, zone = f"band <> '{UNLOCATED}'", "CASE WHEN middle THEN 'middle' ELSE 'edge' END"
    return {
        **counted(ask, (*CELL, "band")),
        **counted(ask, (*CELL, zone), where=located),
        **counted(ask, (*CELL, "'overall'")),
    }


def shares(
    plan: Plan, counts: Mapping[Key, Counts], named: Sequence[tuple[Key, dict[str, Any]]]
) -> Table:
    """A row each arm entry × reader × judge × value of further columns: ``named`` has, of each
    value, the end of its key in ``counts`` and its columns."""
    return [
        {**columns, **more, **share(counts.get((*cell, *end), NOTHING))}
        for (columns, cell), (end, more) in product(cells(plan), named)
    ]


def accuracy(plan: Plan, bands: dict[Key, Counts], names: Sequence[str] = ALL_BANDS) -> Table:
    """One row each arm entry × reader × judge × band of ``names``; accuracy is null where n is 0.
    ``ci`` is the percentile bootstrap, which reproduces the paper's intervals; the others are as in
    :func:`midchart.core.results.tables.share`."""
    rows = shares(plan, bands, [((band,), {"band": band}) for band in names])
    for row in rows:
        name = pick(row, (*CELL, "band")).values()
        drawn = intervals(row["correct"], row["n"], plan, "accuracy", *name)
        row |= pick(drawn, ("ci_low", "ci_high"))
    return rows


def by_value(plan: Plan, counts: dict[Key, Counts], column: str, order: Sequence[str]) -> Table:
    """Accuracy by the values of a column of questions that occur, those of ``order`` first."""
    values = sorted({key[3] for key in counts})
    values.sort(key=lambda value: order.index(value) if value in order else len(order))
    return [
        {**columns, column: value, **share(counts[*cell, value])}
        for (columns, cell), value in product(cells(plan), values)
        if (*cell, value) in counts
    ]


def k_sweep(plan: Plan, rows: Table) -> Table:
    """The rows of ``accuracy`` that differ in k alone: overall, middle and edge, k ascending."""
    order = {label: i for i, label in enumerate(swept_by_k(plan))}
    swept = [row for row in rows if row["label"] in order and row["band"] in WIDE_BANDS]
    return sorted(swept, key=lambda row: order[row["label"]])


def refusals(ask: Ask, plan: Plan) -> Table:
    """Answered and refused, of judged answers: how often each, how often right, and whether the
    evidence was in the prompt of what was refused, whatever the verdict; intervals by patient."""
    judged = "correct IS NOT NULL"
    refused = counted(ask, CELL, "coalesce(refusal, false)", judged)
    answered = counted(ask, CELL, where=f"{judged} AND NOT refusal")
    names = {
        "with_evidence": "evidence_in_prompt AND evidence_all_in_prompt",
        "with_part": "evidence_in_prompt AND NOT evidence_all_in_prompt",
        "without_evidence": "NOT evidence_in_prompt",
    }
    listed = ", ".join(f"count(*) FILTER ({sql}) AS {name}" for name, sql in names.items())
    by_evidence = counted(ask, CELL, where=f"{judged} AND refusal", columns=listed)
    every = counted(ask, CELL)
    rows: Table = []
    for columns, cell in cells(plan):
        declined, right = (of.get(cell, NOTHING) for of in (refused, answered))
        of = by_evidence.get(cell, {**NOTHING, **dict.fromkeys(names, 0)})
        rows.append(
            {
                **columns,
                "n": declined["n"],
                "refused": declined["correct"],
                "refused_share": share_of(declined),
                **ends("refused_", by_patient(declined)),
                "refused_correct": of["correct"],
                **{f"refused_{name}": of[name] for name in names},
                "answered": right["n"],
                "answered_correct": right["correct"],
                "answered_accuracy": share_of(right),
                **ends("answered_", by_patient(right)),
                "unparsed": every.get(cell, NOTHING)["unparsed"],
            }
        )
    return rows


EVIDENCE = {
    ALL_IN_PROMPT_NAME: ("all in prompt", "not all in prompt"),
    ANY_IN_PROMPT_NAME: ("any in prompt", "none in prompt"),
}
"""Names of hit and miss other than these."""


def hit_miss(ask: Ask, plan: Plan) -> Table:
    """Accuracy given hit and given miss, a row each, by every criterion that the rows hold."""
    rows: Table = []
    criteria = {name: CRITERIA[name][0] for name in (*PROMPTED, ALL_PIECES, ANY_PIECE, "lexical")}
    criteria |= {"semantic": "semantic"} if plan.options.get("semantic") else {}
    for criterion, column in criteria.items():
        counts = counted(ask, (*CELL, column))
        names = EVIDENCE.get(criterion, ("hit", "miss"))
        named = [
            ((hit,), {"criterion": criterion, "evidence": name, "hit": hit})
            for name, hit in zip(names, (True, False), strict=True)
        ]
        rows += shares(plan, counts, named) if counts else []
    return rows


FAULTS = {"question cut off": "NOT question_survived", 'judged on "nan"': "nan_evidence"}
"""A published fault → SQL of whether it affected an answer."""


def faults(ask: Ask, plan: Plan) -> Table:
    """Accuracy where a published fault struck and where not, for each fault that struck at all;
    ``continuations`` are answers that carry the record on (:mod:`midchart.core.judges.rules`)."""
    rows: Table = []
    continuation = "coalesce(failure_kind = 'continuation', false)"
    for fault, struck in FAULTS.items():
        counts = counted(ask, (*CELL, struck))
        continued = counted(ask, (*CELL, struck), continuation, "correct IS NOT NULL")
        if not any(key[3] for key in counts):
            continue
        named = [((where,), {"fault": fault, "struck": where}) for where in (True, False)]
        for row in shares(plan, counts, named):
            of = continued.get(tuple(pick(row, (*CELL, "struck")).values()), NOTHING)
            row |= {"continuations": of["correct"], "continuation_share": share_of(of)}
            rows.append(row | ends("continuation_", by_patient(of)))
    return rows


SUMS = ("prompt_tokens", "read_tokens", "reused_tokens", "output_tokens", "seconds", "cost_usd")
"""Columns that are added up; null where no row holds one."""


def costs(ask: Ask, plan: Plan) -> Table:
    """Tokens, seconds and US dollars: a row each arm entry × reader, and × each judge of its
    answers; sums over calls that succeeded (``n``) and failed. Dollars are null without a price
    list. ``tokens_per_second``: of tokens read (none that were reused) and written."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
    totals = {
        (row["label"], row["reader"], row["judge"]): row
        for row in ask(
            "SELECT label, reader, judge, count(*) FILTER (status = 'ok') AS n, "
            f"count(*) FILTER (status = 'failed') AS failed, {sums} "
            "FROM (FROM answered UNION ALL BY NAME FROM verdict_rows) GROUP BY ALL"
        )
    }
    rows: Table = []
    for entry, reader, judge in product(plan.arms, plan.readers, (None, *plan.judges)):
        row = totals.get((entry.label, reader, judge))
        if row is not None:
            columns = pick(row, ("reader", "judge", "n", "failed", *SUMS))
            seconds, tokens = row["seconds"], (row["read_tokens"], row["output_tokens"])
            each = seconds / row["n"] if row["n"] and seconds is not None else None
            speed = sum(tokens) / seconds if seconds and None not in tokens else None
            rates = {"seconds_each": each, "tokens_per_second": speed}
            rows.append(entry_columns(entry) | columns | rates)
    return rows


def spent(ask: Ask, plan: Plan, folder: Path) -> Table:
    """Dollars of each judge with a budget log in the run in ``folder``, resumes included: all of
    it, what of it is in rows (:func:`costs`), the rest (``elsewhere_usd``; a call that may have
    been charged counts at its most), and what is reserved. Null where the model's price is not
    known."""
    sums = ask("SELECT judge, sum(cost_usd) AS usd FROM verdict_rows GROUP BY judge")
    in_rows: dict[str, float | None] = {row["judge"]: row["usd"] for row in sums}
    rows: Table = []
    for entry in plan.judge_entries:
        file = call_log(folder, entry.label)
        if file is None or not file.exists():
            continue
        budget, usd = CallBudget(file), in_rows.get(entry.label)
        known = usd is not None or budget.spent > 0 or budget.reserved > 0
        rows.append(
            {
                "judge": entry.label,
                "spent_usd": budget.spent if known else None,
                "rows_usd": (usd or 0.0) if known else None,
                "elsewhere_usd": round(budget.spent - (usd or 0.0), 9) if known else None,
                "aside_usd": budget.reserved if known else None,
            }
        )
    return rows


# All tables of Stage 2.


def stage2(
    store: RowStore,
    run: Plan,
    judged: Plan | None = None,
    reviews: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Table]:
    """The tables of Stage 2, by name. ``judged``: the plan with people as further judges, whose
    verdicts are ``reviews``; agreement over all arms, and costs, are of the ``run``'s own
    judges."""
    plan = judged or run
    with facts(store, plan, reviews) as ask:
        bands = by_band(ask)
        unlocated = {key: count for key, count in bands.items() if key[3] == UNLOCATED}
        overall, by_arm = agreement(ask, run)
        tables: dict[str, Table] = {
            "accuracy": accuracy(plan, bands),
            "unlocated": by_value(plan, unlocated, "band", ()),
            **{
                name: by_value(plan, counted(ask, (*CELL, name)), name, order)
                for name, order in STRATA.items()
            },
            "refusals": refusals(ask, plan),
            "hit_miss": hit_miss(ask, plan),
            "paired": paired(ask, plan),
            "readers": readers(ask, plan),
            "agreement": overall,
            "judges": by_arm,
            "self_agreement": self_agreement(ask, run),
            "corrected_accuracy": corrected_accuracy(ask, plan),
            "failure_kinds": failure_kinds(ask, plan),
            "faults": faults(ask, plan),
            "costs": costs(ask, run),
            "spent": spent(ask, run, store.folder.parent),
        }
    tables["funnel"] = funnel(store, plan)
    tables["k_sweep"] = k_sweep(plan, tables["accuracy"])
    tables["detectable"] = detectable(tables["paired"])
    tables["multiplicity"] = multiplicity(tables)
    tables["failures"] = failures(store, plan)
    return tables
