"""How far people agree with each judge of a run, and with each other, with intervals.

The unit is the card: words that several arms gave are judged by a person once and count once.
A card counts where both sides said correct or incorrect; "cannot judge", and a judge's unparsed or
failed verdict, do not. Intervals resample patients, as everywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from core.experiments.answers.agreement import Totals, measured
from core.runs.directory import RunDirectory, find_run
from core.runs.plan import Plan
from core.runs.reviews import CONSENSUS, LABEL, Distinct, card_of_answer, reviews_of
from core.runs.rows import COUNTS
from core.runs.tables import Table

Said = dict[str, bool]
"""Card → whether it was called correct."""
CELL = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}


def review_agreement(run: str) -> Table:
    """A row each reviewer (and the consensus) × judge (``kind`` "judge") and each two reviewers
    ("reviewer").

    ``first``, ``second``: who; n cards, ``answers`` (rows with their words), patients, the four
    cells, and raw agreement, Cohen's kappa, Gwet's AC1 and positive agreement with intervals (null
    where not defined). Raises UnknownName.
    """
    folder = find_run(run)
    plan = folder.plan()
    reviews = reviews_of(folder)
    people: dict[str, Said] = {
        label: {key: said == "correct" for key, said in cards.items() if said != "unparsed"}
        for label, cards in reviews.said.items()
    }
    judges = _judges(folder, plan, reviews.cards)
    number = {p: i for i, p in enumerate(sorted({c.record for c in reviews.cards.values()}))}
    place = {key: number[card.record] for key, card in reviews.cards.items()}
    pairs = [("judge", name, judge) for name in people for judge in judges]
    alone = [name for name in people if name != LABEL + CONSENSUS]
    pairs += [("reviewer", first, second) for first, second in combinations(alone, 2)]
    rows: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    for kind, first, second in pairs:
        mine, theirs = people[first], judges[second] if kind == "judge" else people[second]
        both = [key for key in mine if key in theirs]
        answers = sum(len(reviews.cards[key].answers) for key in both)
        about = {"kind": kind, "first": first, "second": second, "answers": answers}
        rows.append((about, _cells(mine, theirs, both, place)))
    measured(rows, plan)
    return [row for row, _ in rows]


def _judges(folder: RunDirectory, plan: Plan, cards: Mapping[str, Distinct]) -> dict[str, Said]:
    """Judge → its verdict on each card: that on most rows with the words, none where they tie."""
    card = card_of_answer(cards)
    votes: dict[str, Counter[str]] = {judge: Counter() for judge in plan.judges}
    where = f"{COUNTS} AND status = 'ok' AND outcome IN ('correct', 'incorrect')"
    for row in folder.store(plan.kind).select("verdicts", "answer_key, judge, outcome", where):
        if row["answer_key"] in card:
            votes[row["judge"]][card[row["answer_key"]]] += 1 if row["outcome"] == "correct" else -1
    return {
        judge: {key: balance > 0 for key, balance in found.items() if balance}
        for judge, found in votes.items()
    }


def _cells(
    first: Said, second: Said, both: list[str], patient: Mapping[str, int]
) -> dict[int, Totals]:
    """Patient → cards that both, only the first, only the second or neither called correct."""
    found: dict[int, Totals] = defaultdict(lambda: np.zeros(4))
    for key in both:
        found[patient[key]][CELL[first[key], second[key]]] += 1
    return dict(found)
