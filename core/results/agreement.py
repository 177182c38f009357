"""How far a run's judge agrees with people, beside every accuracy; and the corrected accuracy.

What was measured on answers with people's verdicts is on the card that ships
(:mod:`midchart.core.judges.agreement`). Where reviewers judged cards of the run itself, they
correct the accuracy of each arm (:mod:`midchart.core.stats.prediction_powered`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from midchart.core.format import percent
from midchart.core.judges.agreement import ALL, card, measured
from midchart.core.results.reviews import CONSENSUS, LABEL
from midchart.core.results.tables import ends, generator
from midchart.core.results.titles import split_label, title
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
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
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["label"], row["reader"]].append(row)
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
