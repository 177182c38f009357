"""Tables of verdicts (docs/methods.md, Stage 2: judging): accuracy by band, kind of question and k,
refusals, accuracy given evidence, comparisons, agreement of judges, failures and costs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import RunRef, needs
from midchart.core.client.claude import CallBudget, call_log
from midchart.core.format import finite
from midchart.core.results.agreement import corrected_accuracy
from midchart.core.results.comparison import detectable, multiplicity, paired, readers
from midchart.core.results.funnel import funnel
from midchart.core.results.reviews import CONSENSUS, LABEL, Distinct, card_of_answer, reviews_of
from midchart.core.results.tables import (
    ALL_BANDS,
    ALL_IN_PROMPT_NAME,
    ALL_PIECES,
    ANY_IN_PROMPT_NAME,
    ANY_PIECE,
    NOTHING,
    WIDE_BANDS,
    Cell,
    CellShare,
    Counts,
    cells,
    counted,
    ends,
    entry_columns,
    facts,
    failure_kinds,
    failures,
    generator,
    intervals,
    pick,
    share,
    shares,
    swept_by_k,
)
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import COUNTS
from midchart.core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of, repeat_agreement
from midchart.core.stats.intervals import cluster_members, cluster_totals
from midchart.core.stats.paired import agreement_floors, reported_interval, share_floor
from midchart.core.storage.rows import Ask, RowStore, literal
from midchart.core.types import UNLOCATED

LOCATED = f"band <> '{UNLOCATED}'"
STRATA = {"task_type": ("R", "Rn", "S"), "domain": ()}
"""Columns of questions that have a table, and the order of their values (default: sorted)."""


def _row(columns: Mapping[str, Any], count: Counts, **stratum: str) -> dict[str, Any]:
    outcomes = {name: count[name] for name in ("refusals", "unparsed", "cut_off", "failed")}
    return {**columns, **stratum, **share(count), **outcomes}


def by_band(ask: Ask) -> dict[Cell, Counts]:
    """Counts in every band, "middle", "edge" and "overall"; unlocated ones under their own name."""
    return {
        **counted(ask, "band"),
        **counted(ask, "CASE WHEN middle THEN 'middle' ELSE 'edge' END", LOCATED),
        **counted(ask, "'overall'"),
    }


def accuracy(plan: Plan, bands: dict[Cell, Counts], names: Sequence[str] = ALL_BANDS) -> Table:
    """One row each arm entry × reader × judge × band of ``names``; accuracy is null where n is 0.

    ``ci`` is the percentile bootstrap, which reproduces the paper's intervals; the others are as
    in :func:`midchart.core.results.tables.share`.
    """
    rows: Table = []
    for (columns, cell), band in product(cells(plan), names):
        row = _row(columns, bands.get((*cell, band), NOTHING), band=band)
        drawn = intervals(row["correct"], row["n"], plan, "accuracy", *cell, band)
        rows.append(row | pick(drawn, ("ci_low", "ci_high")))
    return rows


def unlocated(plan: Plan, bands: dict[Cell, Counts]) -> Table:
    """Accuracy where the evidence was not found in the record; such rows count in overall."""
    return [
        _row(columns, bands[*cell, UNLOCATED], band=UNLOCATED)
        for columns, cell in cells(plan)
        if (*cell, UNLOCATED) in bands
    ]


def by_stratum(ask: Ask, plan: Plan, column: str) -> Table:
    """Accuracy by a column of the questions (:data:`STRATA`) where it is known."""
    counts = counted(ask, column)
    order = {value: i for i, value in enumerate(STRATA[column])}
    values = sorted({cell[3] for cell in counts}, key=lambda v: (order.get(v, len(order)), v))
    return [
        _row(columns, counts[*cell, value], **{column: value})
        for (columns, cell), value in product(cells(plan), values)
        if (*cell, value) in counts
    ]


def k_sweep(plan: Plan, rows: Table) -> Table:
    """The rows of ``accuracy`` that differ in k alone: overall, middle and edge, k ascending."""
    order = {label: i for i, label in enumerate(swept_by_k(plan))}
    swept = [row for row in rows if row["label"] in order and row["band"] in WIDE_BANDS]
    return sorted(swept, key=lambda row: order[row["label"]])


PRESENCE = ("present", "part", "absent", "unknown")
IN_PROMPT = (
    "CASE WHEN NOT evidence_in_prompt THEN 'absent' WHEN evidence_all_in_prompt THEN 'present' "
    "WHEN NOT evidence_all_in_prompt THEN 'part' ELSE 'unknown' END"
)
"""SQL: whether all pieces of the evidence, some or none were in the prompt of an answer."""


def refusals(ask: Ask, plan: Plan) -> Table:
    """Answered and refused, of judged answers: how often each, how often right, and whether the
    evidence was in the prompt of what was refused, whatever the verdict; intervals by patient."""
    judged = "correct IS NOT NULL"
    refused = shares(ask, "refusal", judged)
    answered = shares(ask, "correct", f"{judged} AND NOT refusal")
    by_evidence = counted(ask, IN_PROMPT, f"{judged} AND refusal")
    unparsed = counted(ask, "''", "outcome = 'unparsed'")
    rows: Table = []
    for columns, cell in cells(plan):
        every, right = (of.get((*cell, ""), CellShare()) for of in (refused, answered))
        of = {where: by_evidence.get((*cell, where), NOTHING) for where in PRESENCE}
        rows.append(
            {
                **columns,
                "n": every.n,
                "refused": every.count,
                "refused_share": every.share,
                **ends("refused_", every.ends),
                "refused_correct": sum(count["correct"] for count in of.values()),
                "refused_with_evidence": of["present"]["n"],
                "refused_with_part": of["part"]["n"],
                "refused_without_evidence": of["absent"]["n"],
                "answered": right.n,
                "answered_correct": right.count,
                "answered_accuracy": right.share,
                **ends("answered_", right.ends),
                "unparsed": unparsed.get((*cell, ""), NOTHING)["unparsed"],
            }
        )
    return rows


CRITERIA = {
    ALL_IN_PROMPT_NAME: "evidence_all_in_prompt",
    ANY_IN_PROMPT_NAME: "evidence_in_prompt",
    ALL_PIECES.name: "evidence_all",
    ANY_PIECE.name: "evidence",
    "lexical": "lexical",
    "semantic": "semantic",
}
"""Criterion of a hit → the column of an answer that holds it."""
EVIDENCE = {
    ALL_IN_PROMPT_NAME: ("all in prompt", "not all in prompt"),
    ANY_IN_PROMPT_NAME: ("any in prompt", "none in prompt"),
}
"""Names of hit and miss other than these."""


def hit_miss(ask: Ask, plan: Plan) -> Table:
    """Accuracy given hit and given miss, a row each, by every criterion that the rows hold."""
    rows: Table = []
    known = _columns(ask, "judged")
    for criterion, column in CRITERIA.items():
        if column not in known:
            continue
        stratum = f"CASE WHEN {column} THEN 'hit' ELSE 'miss' END"
        counts = counted(ask, stratum, f"{column} IS NOT NULL")
        names = EVIDENCE.get(criterion, ("hit", "miss"))
        rows += [
            {
                **columns,
                "criterion": criterion,
                "evidence": name,
                "hit": key == "hit",
                **_row({}, counts.get((*cell, key), NOTHING)),
            }
            for columns, cell in cells(plan)
            for name, key in zip(names, ("hit", "miss"), strict=True)
            if counts
        ]
    return rows


FAULTS = {
    "question cut off": ("NOT question_survived", "question_survived"),
    'judged on "nan"': ("nan_evidence", "NOT nan_evidence"),
}
"""A published fault → SQL of the answers that it affected, and of those that it did not."""


def faults(ask: Ask, plan: Plan) -> Table:
    """Accuracy where a published fault struck and where not, for each fault that struck at all;
    ``continuations`` are answers that carry the record on (:mod:`midchart.core.judges.rules`)."""
    rows: Table = []
    continuation = "failure_kind = 'continuation'"
    for fault, (struck, spared) in FAULTS.items():
        stratum = f"CASE WHEN {struck} THEN 'struck' WHEN {spared} THEN 'spared' END"
        counts = counted(ask, stratum)
        if not any(cell[3] == "struck" for cell in counts):
            continue
        continued = shares(ask, continuation, "correct IS NOT NULL", stratum)
        for (columns, cell), where in product(cells(plan), ("struck", "spared")):
            of = continued.get((*cell, where), CellShare())
            rows.append(
                {
                    **columns,
                    "fault": fault,
                    "struck": where == "struck",
                    **_row({}, counts.get((*cell, where), NOTHING)),
                    "continuations": of.count,
                    "continuation_share": of.share,
                    **ends("continuation_", of.ends),
                }
            )
    return rows


SUMS = ("prompt_tokens", "read_tokens", "reused_tokens", "output_tokens", "seconds", "cost_usd")
"""Columns that are added up; null where no row holds one."""


def _columns(ask: Ask, table: str) -> set[str]:
    return {row["column_name"] for row in ask(f"DESCRIBE {table}")}


def costs(ask: Ask, plan: Plan) -> Table:
    """Tokens, seconds and US dollars: a row each arm entry × reader, and × each judge of its
    answers; sums over calls that succeeded (``n``) and failed. Dollars are null without a price
    list."""
    totals: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for table, judge in (("answered", "NULL AS judge"), ("verdict_rows", "judge")):
        known = _columns(ask, table)
        sums = (f"sum({name}) AS {name}" if name in known else f"NULL AS {name}" for name in SUMS)
        for row in ask(
            f"SELECT label, reader, {judge}, count(*) FILTER (status = 'ok') AS n, "
            f"count(*) FILTER (status = 'failed') AS failed, {', '.join(sums)} "
            f"FROM {table} GROUP BY ALL"
        ):
            totals[row["label"], row["reader"], row["judge"]] = row
    rows: Table = []
    for entry, reader, judge in product(plan.arms, plan.readers, (None, *plan.judges)):
        row = totals.get((entry.label, reader, judge))
        if row is not None:
            each = row["seconds"] / row["n"] if row["n"] and row["seconds"] is not None else None
            columns = pick(row, ("reader", "judge", "n", "failed", *SUMS))
            rows.append(entry_columns(entry) | columns | {"seconds_each": each})
    return rows


def spent(ask: Ask, plan: Plan, folder: Path) -> Table:
    """Dollars of each judge with a budget log in the run in ``folder``, resumes included: all of
    it, what of it is in rows (:func:`costs`), the rest (``elsewhere_usd``; a call that may have
    been charged counts at its most), and what is reserved. Null where the model's price is not
    known."""
    in_rows: dict[str, float | None] = {}
    if "cost_usd" in _columns(ask, "verdict_rows"):
        sums = ask("SELECT judge, sum(cost_usd) AS usd FROM verdict_rows GROUP BY judge")
        in_rows = {row["judge"]: row["usd"] for row in sums}
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


# Agreement of judges with each other, with people, and with themselves. The unit is the card: the
# same words in answer to the same question are judged once and count once, whichever arms gave
# them, as in midchart.core.results.reviews. Where a judge's verdicts on copies of the same words
# differ, the card has the verdict of most of them, and none where they tie; "cannot judge",
# unparsed and failed verdicts do not count. Raw agreement, Cohen's kappa, Gwet's AC1 and positive
# agreement are reported together, each with an interval by resampling patients, none for fewer than
# 5 (midchart.core.stats.paired).


CELLS = ("both_yes", "only_first", "only_second", "neither")
MEASURES = {
    "raw": raw_of,
    "kappa": kappa_of,
    "ac1": ac1_of,
    "positive_agreement": positive_of,
}
Totals = NDArray[np.float64]
Cards = tuple[int, dict[int, Totals]]
"""Of the cards that two judges scored: rows with their words, and patient → how many cards both,
only the first, only the second or neither called correct."""
Verdicts = dict[str, bool]
"""Card → whether it was called correct."""


def _cards(ask: Ask, first: str, second: str, label: str = "''") -> dict[tuple[str, str], Cards]:
    """(label, reader) → cards of two judges; ``label`` is SQL, by default one for all arms."""
    rows = ask(
        f"""
        WITH votes AS (
            SELECT {label} AS arm, reader, judge, card, any_value(patient) AS patient,
                count(*) AS answers, sum(CASE WHEN correct THEN 1 ELSE -1 END) AS balance
            FROM judged
            WHERE judge IN ({literal(first)}, {literal(second)}) AND correct IS NOT NULL
            GROUP BY ALL HAVING balance <> 0
        ), pairs AS (
            SELECT a.arm, a.reader, a.patient, least(a.answers, b.answers) AS answers,
                a.balance > 0 AS x, b.balance > 0 AS y
            FROM votes a JOIN votes b USING (arm, reader, card)
            WHERE a.judge = {literal(first)} AND b.judge = {literal(second)}
        ), cells AS (
            SELECT arm, reader, patient, sum(answers) AS answers,
                count(*) FILTER (x AND y) AS both_yes,
                count(*) FILTER (x AND NOT y) AS only_first,
                count(*) FILTER (y AND NOT x) AS only_second,
                count(*) FILTER (NOT x AND NOT y) AS neither
            FROM pairs GROUP BY ALL
        )
        SELECT arm, reader, sum(answers) AS answers, list(patient ORDER BY patient) AS patients,
            {", ".join(f"list({cell} ORDER BY patient) AS {cell}" for cell in CELLS)}
        FROM cells GROUP BY ALL
        """
    )
    cards: dict[tuple[str, str], Cards] = {}
    for row in rows:
        counts = np.array([row[cell] for cell in CELLS], dtype=np.float64).T
        patients = dict(zip(row["patients"], counts, strict=True))
        cards[row["arm"], row["reader"]] = int(row["answers"]), patients
    return cards


def _measure(rows: Sequence[tuple[dict[str, Any], dict[int, Totals]]], plan: Plan) -> Table:
    """Rows with counts, and measures with their intervals; null where not defined.

    The same draws of patients serve all rows.
    """
    everyone = sorted({patient for _, patients in rows for patient in patients})
    index = {patient: i for i, patient in enumerate(everyone)}
    totals = np.zeros((len(everyone), 4 * len(rows)))
    for i, (_, patients) in enumerate(rows):
        for patient, counts in patients.items():
            totals[index[patient], 4 * i : 4 * i + 4] = counts
    drawn = None
    if len(everyone) > 1:
        draws = cluster_totals(totals, plan.protocol.resamples, generator(plan, "agreement"))
        drawn = draws.reshape(len(draws), len(rows), 2, 2)
    table: Table = []
    for i, (columns, patients) in enumerate(rows):
        counts = totals[:, 4 * i : 4 * i + 4].sum(axis=0)
        row = columns | {"n": int(counts.sum()), "patients": len(patients)}
        row |= {cell: int(count) for cell, count in zip(CELLS, counts, strict=True)}
        floors = agreement_floors(totals[:, 4 * i : 4 * i + 4])
        for measure, of in MEASURES.items():
            value = finite(float(of(counts.reshape(2, 2)))) if patients else None
            interval = None
            if drawn is not None and value is not None:
                interval = reported_interval(of(drawn[:, i]), len(patients), floors.get(measure))
            row |= {measure: value, **ends(f"{measure}_", interval)}
        table.append(row)
    return table


def _agreement(ask: Ask, plan: Plan) -> tuple[Table, Table]:
    """Agreement of each two judges where both decided: over all arms, and arm by arm."""
    overall: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    by_arm: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    pairs = list(combinations(plan.judges, 2))
    of_all = {pair: _cards(ask, *pair) for pair in pairs}
    of_arms = {pair: _cards(ask, *pair, label="label") for pair in pairs}
    for reader, pair in product(plan.readers, pairs):
        columns = {"reader": reader, "first": pair[0], "second": pair[1]}
        answers, patients = of_all[pair].get(("", reader), (0, {}))
        overall.append((columns | {"answers": answers}, patients))
        for entry in plan.arms:
            answers, patients = of_arms[pair].get((entry.label, reader), (0, {}))
            by_arm.append((entry_columns(entry) | columns | {"answers": answers}, patients))
    table = _measure(overall + by_arm, plan)
    return table[: len(overall)], table[len(overall) :]


def _self_agreement(ask: Ask, plan: Plan) -> Table:
    """Agreement of a judge with itself over its repeats: of a card's verdicts (all arms), the share
    of pairs that are equal, averaged over cards; no row for a judge without repeats."""
    # How often each card has which counts of correct and incorrect.
    patterns: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ask(
        """
        WITH items AS (
            SELECT reader, judge, any_value(record) AS record, card,
                count(*) FILTER (outcome = 'correct') AS yes,
                count(*) FILTER (outcome = 'incorrect') AS no
            FROM verdict_rows JOIN cards USING (answer_key)
            WHERE judge IN (SELECT judge FROM verdict_rows WHERE repeat > 0)
            GROUP BY ALL
        )
        SELECT reader, judge, patient, yes, no, count(*) AS times
        FROM items JOIN patients USING (record) WHERE yes + no >= 2 GROUP BY ALL ORDER BY ALL
        """
    ):
        patterns[row["reader"], row["judge"]].append(row)
    rows: Table = []
    for reader, judge in product(plan.readers, plan.judges):
        cards = patterns.get((reader, judge))
        if not cards:
            continue
        # Agreement of each pattern, and its interval by patient.
        counts = np.array([[row["yes"], row["no"]] for row in cards], dtype=np.float64)
        times = np.array([row["times"] for row in cards], dtype=np.float64)
        equal = repeat_agreement(counts)
        _, patients = cluster_members([row["patient"] for row in cards])
        sums = [np.bincount(patients, times * equal), np.bincount(patients, times)]
        totals = np.stack(sums, 1, dtype=np.float64)
        rng = generator(plan, "self_agreement", reader, judge)
        drawn = cluster_totals(totals, plan.protocol.resamples, rng)
        floor = share_floor(totals[:, 0], totals[:, 1])
        interval = reported_interval(drawn[:, 0] / drawn[:, 1], len(totals), floor)
        rows.append(
            {
                "reader": reader,
                "judge": judge,
                "n": int(times.sum()),
                "patients": len(totals),
                "repeats": float(times @ counts.sum(axis=1) / times.sum()),
                "unanimous": float(times[equal == 1.0].sum() / times.sum()),
                "agreement": float(times @ equal / times.sum()),
                **ends("agreement_", interval),
            }
        )
    return rows


@needs("viewer")
def review_agreement(run: RunRef) -> Table:
    """A row each reviewer (and the consensus) × judge (``kind`` "judge") and each two reviewers
    ("reviewer"), as of :func:`_measure`. Raises UnknownName."""
    folder = find_run(run)
    plan = folder.plan()
    reviews = reviews_of(folder)
    people: dict[str, Verdicts] = {
        label: {
            key: outcome == "correct" for key, outcome in cards.items() if outcome != "unparsed"
        }
        for label, cards in reviews.by_judge.items()
    }
    judges = _majorities(folder, plan, reviews.cards)
    number = {p: i for i, p in enumerate(sorted({c.record for c in reviews.cards.values()}))}
    pairs = [("judge", name, judge) for name in people for judge in judges]
    alone = [name for name in people if name != LABEL + CONSENSUS]
    pairs += [("reviewer", first, second) for first, second in combinations(alone, 2)]
    rows: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    for kind, first, second in pairs:
        one, other = people[first], judges[second] if kind == "judge" else people[second]
        both = [key for key in one if key in other]
        patients: dict[int, Totals] = defaultdict(lambda: np.zeros(4))
        for key in both:
            patients[number[reviews.cards[key].record]][2 * (not one[key]) + (not other[key])] += 1
        answers = sum(len(reviews.cards[key].answers) for key in both)
        columns = {"kind": kind, "first": first, "second": second, "answers": answers}
        rows.append((columns, patients))
    return _measure(rows, plan)


def _majorities(
    folder: RunDirectory, plan: Plan, cards: Mapping[str, Distinct]
) -> dict[str, Verdicts]:
    """Judge → its verdict on each card: that on most rows with the words, none where they tie."""
    card = card_of_answer(cards)
    store = folder.store(plan)
    votes: dict[str, Counter[str]] = {judge: Counter() for judge in plan.judges}
    where = f"{COUNTS} AND status = 'ok' AND outcome IN ('correct', 'incorrect')"
    for row in store.select("verdicts", "answer_key, judge, outcome", where):
        if row["answer_key"] in card:
            votes[row["judge"]][card[row["answer_key"]]] += 1 if row["outcome"] == "correct" else -1
    return {
        judge: {key: balance > 0 for key, balance in balances.items() if balance}
        for judge, balances in votes.items()
    }


# All tables of Stage 2.


def stage2(
    store: RowStore,
    run: Plan,
    judged: Plan | None = None,
    reviews: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Table]:
    """The tables of Stage 2, by name.

    ``judged``: the plan with people as further judges, whose verdicts are ``reviews``; agreement
    over all arms, and costs, are of the ``run``'s own judges.
    """
    plan = judged or run
    with facts(store, plan, reviews) as ask:
        bands = by_band(ask)
        overall, by_arm = _agreement(ask, run)
        tables: dict[str, Table] = {
            "accuracy": accuracy(plan, bands),
            "unlocated": unlocated(plan, bands),
            **{name: by_stratum(ask, plan, name) for name in STRATA},
            "refusals": refusals(ask, plan),
            "hit_miss": hit_miss(ask, plan),
            "paired": paired(ask, plan),
            "readers": readers(ask, plan),
            "agreement": overall,
            "judges": by_arm,
            "self_agreement": _self_agreement(ask, run),
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
