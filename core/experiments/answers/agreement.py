"""How far judges agree, with each other and with themselves.

The unit is the card: the same words in answer to the same question are judged once and count once,
whichever arms gave them, as in :mod:`core.runs.reviews`. Where a judge's verdicts on copies of
the same words differ, the card has the verdict of most of them, and none where they tie.

Raw agreement, Cohen's kappa, Gwet's AC1 and positive agreement always stand together (with few
answers right kappa is near 0 however well two judges agree), each with an interval by resampling
patients: a patient's answers, under all arms, belong together. Fewer than 5 patients give none
(:func:`core.stats.reported_interval`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.runs.plan import Plan
from core.runs.tables import Table, entry_columns, generator, known, literal
from core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of, repeat_agreement
from core.stats.clustered import cluster_totals
from core.stats.reported import agreement_floors, reported_interval, share_floor
from core.storage.rows import Ask

CELLS = ("both_yes", "only_first", "only_second", "neither")
MEASURES = {
    "raw": raw_of,
    "kappa": kappa_of,
    "ac1": ac1_of,
    "positive_agreement": positive_of,
}
Totals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Cards:
    """Cards that two judges scored: ``answers``, rows with their words, and ``patients``, patient
    → how many both, the first, the second or neither called correct."""

    answers: int
    patients: dict[int, Totals]


NONE = _Cards(0, {})


def _cards(ask: Ask, first: str, second: str, label: str = "''") -> dict[tuple[str, str], _Cards]:
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
    found: dict[tuple[str, str], _Cards] = {}
    for row in rows:
        counts = np.array([row[cell] for cell in CELLS], dtype=np.float64).T
        patients = dict(zip(row["patients"], counts, strict=True))
        found[row["arm"], row["reader"]] = _Cards(int(row["answers"]), patients)
    return found


def measured(rows: list[tuple[dict[str, Any], dict[int, Totals]]], plan: Plan) -> None:
    """Put counts and measures with their intervals into each row; null where not defined.

    The same draws of patients serve all rows.
    """
    everyone = sorted({patient for _, patients in rows for patient in patients})
    place = {patient: i for i, patient in enumerate(everyone)}
    totals = np.zeros((len(everyone), 4 * len(rows)))
    for i, (_, patients) in enumerate(rows):
        for patient, counts in patients.items():
            totals[place[patient], 4 * i : 4 * i + 4] = counts
    drawn = None
    if len(everyone) > 1:
        draws = cluster_totals(totals, plan.protocol.resamples, generator(plan, "agreement"))
        drawn = draws.reshape(len(draws), len(rows), 2, 2)
    for i, (row, patients) in enumerate(rows):
        counts = totals[:, 4 * i : 4 * i + 4].sum(axis=0)
        row |= {"n": int(counts.sum()), "patients": len(patients)}
        row |= {cell: int(count) for cell, count in zip(CELLS, counts, strict=True)}
        floors = agreement_floors(totals[:, 4 * i : 4 * i + 4])
        for measure, of in MEASURES.items():
            value = known(float(of(counts.reshape(2, 2)))) if patients else None
            ends = None
            if drawn is not None and value is not None:
                ends = reported_interval(of(drawn[:, i]), len(patients), floors.get(measure))
            low, high = ends or (None, None)
            row |= {measure: value, f"{measure}_low": low, f"{measure}_high": high}


def agreement(ask: Ask, plan: Plan) -> tuple[Table, Table]:
    """How far each two judges agree where both said correct or incorrect.

    Two tables: over all arms, and arm by arm (the crosstab of a sighted and a blind judge). ``n``
    counts cards, ``answers`` the rows with their words.
    """
    whole: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    by_arm: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    pairs = list(combinations(plan.judges, 2))
    together = {pair: _cards(ask, *pair) for pair in pairs}
    apart = {pair: _cards(ask, *pair, label="label") for pair in pairs}
    for reader in plan.readers:
        for first, second in pairs:
            named = {"reader": reader, "first": first, "second": second}
            cards = together[first, second].get(("", reader), NONE)
            whole.append((named | {"answers": cards.answers}, cards.patients))
            for entry in plan.arms:
                cards = apart[first, second].get((entry.label, reader), NONE)
                about = entry_columns(entry) | named | {"answers": cards.answers}
                by_arm.append((about, cards.patients))
    measured(whole + by_arm, plan)
    return [row for row, _ in whole], [row for row, _ in by_arm]


def self_agreement(ask: Ask, plan: Plan) -> Table:
    """How far a judge that was asked repeatedly agrees with itself: none where none was.

    ``agreement``: of a card's verdicts (all arms), the share of pairs that are equal, meaned over
    cards, with an interval by resampling patients; ``unanimous``: the share of cards whose verdicts
    are all equal. Unparsed and failed verdicts are left out.
    """
    patterns: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ask(
        """
        WITH items AS (
            SELECT reader, judge, any_value(record) AS record, card,
                count(*) FILTER (outcome = 'correct') AS yes,
                count(*) FILTER (outcome = 'incorrect') AS no
            FROM said JOIN cards USING (answer_key)
            WHERE judge IN (SELECT judge FROM said WHERE repeat > 0)
            GROUP BY ALL
        )
        SELECT reader, judge, patient, yes, no, count(*) AS times
        FROM items JOIN patients USING (record) WHERE yes + no >= 2 GROUP BY ALL ORDER BY ALL
        """
    ):
        patterns[row["reader"], row["judge"]].append(row)
    rows: Table = []
    for reader in plan.readers:
        for judge in plan.judges:
            seen = patterns.get((reader, judge))
            if not seen:
                continue
            counts = np.array([[row["yes"], row["no"]] for row in seen], dtype=np.float64)
            times = np.array([row["times"] for row in seen], dtype=np.float64)
            equal = repeat_agreement(counts)
            _, patients = np.unique([row["patient"] for row in seen], return_inverse=True)
            totals = np.stack(
                [np.bincount(patients, times * equal), np.bincount(patients, times)],
                1,
                dtype=np.float64,
            )
            name = ("self_agreement", reader, judge)
            drawn = cluster_totals(totals, plan.protocol.resamples, generator(plan, *name))
            ends = reported_interval(
                drawn[:, 0] / drawn[:, 1], len(totals), share_floor(totals[:, 0], totals[:, 1])
            )
            low, high = ends or (None, None)
            rows.append(
                {
                    "reader": reader,
                    "judge": judge,
                    "n": int(times.sum()),
                    "patients": len(totals),
                    "repeats": float(times @ counts.sum(axis=1) / times.sum()),
                    "unanimous": float(times[equal == 1.0].sum() / times.sum()),
                    "agreement": float(times @ equal / times.sum()),
                    "agreement_low": low,
                    "agreement_high": high,
                }
            )
    return rows
