"""How far reviewers agree with each judge of a run, and with each other, with intervals.

An answer counts where both sides said correct or incorrect; a reviewer's "cannot tell", a judge's
unparsed or failed verdict do not. Intervals resample patients, as everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any

import numpy as np

from core.run.compare import COUNTS
from core.run.folder import find_run
from core.run.review.book import reviewed, reviewers
from core.run.review.cards import answers_by_card
from core.run.tables.agreement import Totals, measured
from core.run.tables.common import Table

Said = dict[str, bool]
"""Key of a row of answers → whether it was called correct."""
CELL = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}


def review_agreement(run: str) -> Table:
    """A row each reviewer × judge (``kind`` "judge") and each two reviewers ("reviewer").

    ``first``, ``second``: who; n answers, patients, the four cells, and raw agreement, Cohen's
    kappa, Gwet's AC1 and positive agreement with intervals (null where not defined).
    """
    folder = find_run(run)
    plan = folder.plan()
    people = {name: _person(run, name) for name in reviewers(run)}
    judges: dict[str, Said] = {judge: {} for judge in plan.judges}
    store = folder.store(plan.kind)
    where = f"{COUNTS} AND status = 'ok' AND outcome IN ('correct', 'incorrect')"
    for row in store.select("verdicts", "answer_key, judge, outcome", where):
        judges[row["judge"]][row["answer_key"]] = row["outcome"] == "correct"
    patients = {row["key"]: row["record"] for row in store.select("answers", "key, record")}
    number = {record: i for i, record in enumerate(sorted(set(patients.values())))}
    place = {key: number[record] for key, record in patients.items()}
    rows: list[tuple[dict[str, Any], dict[int, Totals]]] = []
    for name, said in people.items():
        for judge, theirs in judges.items():
            about = {"kind": "judge", "first": name, "second": judge}
            rows.append((about, _cells(said, theirs, place)))
    for first, second in combinations(people, 2):
        about = {"kind": "reviewer", "first": first, "second": second}
        rows.append((about, _cells(people[first], people[second], place)))
    measured(rows, plan)
    return [row for row, _ in rows]


def _person(run: str, name: str) -> Said:
    cards = answers_by_card(run)
    return {
        key: outcome == "correct"
        for card, outcome in reviewed(run, name).items()
        if outcome != "cannot_tell" and card in cards
        for key in cards[card][2]
    }


def _cells(first: Said, second: Said, patient: dict[str, int]) -> dict[int, Totals]:
    """Patient → answers that both, only the first, only the second or neither called correct."""
    found: dict[int, Totals] = defaultdict(lambda: np.zeros(4))
    for key, said in first.items():
        if key in second:
            found[patient[key]][CELL[said, second[key]]] += 1
    return dict(found)
