"""How far a run's judge agrees with people, with other judges and with itself; and the corrected
accuracy.

What was measured on answers with people's verdicts is on the card that ships
(:mod:`midchart.core.judges.agreement`). Where reviewers judged cards of the run itself, they
correct the accuracy of each arm (:mod:`midchart.core.stats.prediction_powered`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import RunRef, needs
from midchart.core.format import finite, percent
from midchart.core.judges.agreement import ALL, card, measured
from midchart.core.results.reviews import CONSENSUS, LABEL, Distinct, card_of_answer, reviews_of
from midchart.core.results.tables import ends, entry_columns, generator, grouped
from midchart.core.results.titles import split_label, title
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import COUNTS
from midchart.core.stats.agreement import ac1_of, kappa_of, positive_of, raw_of, repeat_agreement
from midchart.core.stats.intervals import cluster_members, cluster_totals
from midchart.core.stats.paired import agreement_floors, reported_interval, share_floor
from midchart.core.stats.prediction_powered import prediction_powered
from midchart.core.storage.rows import Ask, literal


def agreement_words(label: str, short: bool = False) -> str:
    """How far a judge agrees with people, by its label, in a sentence or (``short``) a few words;
    "" without a judge."""
    if not label:
        return ""
    rows = {row["kind"]: row for row in measured(split_label(label)[0])}
    name = title("judge", label)
    if not rows:
        compared = "not compared with people"
        return f"{name}, {compared}" if short else f"The judge {name} was {compared}."
    kinds = "; ".join(f"{kind} κ {row['kappa']:.2f}" for kind, row in rows.items() if kind != ALL)
    overall = rows[ALL]
    if short:
        return f"{name}, κ {overall['kappa']:.2f} with people"
    return (
        f"The judge {name} agreed with people on {percent(overall['agreement'])} of "
        f"{overall['n']:,} answers to {overall['questions']:,} general questions (κ "
        f"{overall['kappa']:.2f}; {kinds}), none of them from charts."
    )


def agreement_rows(plan: Plan) -> Table:
    """What the card says of each judge of a run: ``judge``, ``kind`` of reference, ``n`` answers,
    ``questions``, ``agreement`` and ``kappa``; null where a judge was not measured."""
    unknown = {"kind": ALL, **dict.fromkeys(("n", "questions", "agreement", "kappa"))}
    return [
        {**row, "judge": label, "data": card()["data"]}
        for label in plan.judges
        for row in measured(split_label(label)[0]) or [{**unknown}]
    ]


def corrected_accuracy(ask: Ask, plan: Plan) -> Table:
    """The accuracy of each arm and reader if people judged all answers, from the primary judge's
    verdicts and people's on the run's cards; none where people judged none.

    ``n`` answers of ``patients``, ``cards`` of them judged by people (the consensus, or the one
    reviewer), ``accuracy`` of the judge, ``corrected`` with its interval by patient (null for fewer
    than five patients). Cards are taken as drawn with one probability.
    """
    people = [judge for judge in plan.judges if judge.startswith(LABEL)]
    if not people or not plan.primary_judge:
        return []
    who = LABEL + CONSENSUS if LABEL + CONSENSUS in people else people[0]
    rows = ask(
        "SELECT m.label::VARCHAR AS label, m.reader::VARCHAR AS reader, m.patient, m.card, "
        "m.correct AS predicted, p.correct AS judged FROM judged m LEFT JOIN judged p ON "
        f"p.answer = m.answer AND p.judge = {literal(who)} WHERE m.judge = "
        f"{literal(plan.primary_judge)} AND m.correct IS NOT NULL ORDER BY ALL"
    )
    cards = {row["card"] for row in rows}
    known = {row["card"] for row in rows if row["judged"] is not None}
    if not known:
        return []
    groups = grouped(rows, lambda row: (row["label"], row["reader"]))
    table: Table = []
    for (label, reader), answers in groups.items():
        judged = np.array([np.nan if a["judged"] is None else a["judged"] for a in answers], float)
        predicted = np.array([a["predicted"] for a in answers], dtype=float)
        patients = [a["patient"] for a in answers]
        seen = {a["card"] for a in answers if a["judged"] is not None}
        row: dict[str, Any] = {
            "label": label,
            "reader": reader,
            "judge": plan.primary_judge,
            "people": who,
            "n": len(answers),
            "patients": len(set(patients)),
            "cards": len(seen),
            "accuracy": float(predicted.mean()),
            "corrected": None,
            **ends("corrected_", None),
        }
        if seen:
            drawn = np.full(len(answers), len(known) / len(cards))
            rng = generator(plan, "corrected", label, reader)
            result = prediction_powered(
                predicted, judged, drawn, patients, plan.protocol.resamples, rng
            )
            row |= {"corrected": result.estimate, **ends("corrected_", result.interval)}
        table.append(row)
    return table


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
    """Rows with counts, and measures with their intervals; null where not defined. The same draws
    of patients serve all rows."""
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


def agreement(ask: Ask, plan: Plan) -> tuple[Table, Table]:
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


def self_agreement(ask: Ask, plan: Plan) -> Table:
    """Agreement of a judge with itself over its repeats: of a card's verdicts (all arms), the share
    of pairs that are equal, averaged over cards; no row for a judge without repeats."""
    # How often each card has which counts of correct and incorrect.
    patterns: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ask(
        """
        WITH items AS (
            SELECT reader, judge, any_value(patient) AS patient, card,
                count(*) FILTER (outcome = 'correct') AS yes,
                count(*) FILTER (outcome = 'incorrect') AS no
            FROM verdict_rows WHERE judge IN (SELECT judge FROM verdict_rows WHERE repeat > 0)
            GROUP BY ALL
        )
        SELECT reader, judge, patient, yes, no, count(*) AS times
        FROM items WHERE yes + no >= 2 GROUP BY ALL ORDER BY ALL
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
