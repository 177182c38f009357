"""What a reviewer is shown: a question and one answer to it, without arm, reader, judge or order.

Answers to a question that are word for word the same are one card, judged once for all of them: a
reviewer who saw the same words twice would learn that two arms gave them. The order of cards is
drawn anew for each reviewer and is the same whenever that reviewer comes back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from core.errors import InputError
from core.run.folder import find_run
from core.run.review.book import reviewed, reviewer_name
from core.run.rows import digest


@dataclass(frozen=True, slots=True)
class Card:
    """One answer to be judged: ``key`` names it, ``answers`` are the keys of the rows that gave it,
    ``outcome`` is what the reviewer said last (None: nothing yet)."""

    key: str
    instruction: str
    answer: str
    answers: tuple[str, ...]
    outcome: str | None


def answers_by_card(run: str) -> dict[str, tuple[str, str, list[str]]]:
    """Card → its instruction, its answer, and the keys of the rows of answers that gave it.

    Raises UnknownName, or InputError for a run of a kind without answers.
    """
    folder = find_run(run)
    store = folder.store(folder.plan().kind)
    if "answers" not in store.schemas:
        raise InputError(f"the run {run} holds no answers to review")
    found: dict[str, tuple[str, str, list[str]]] = {}
    keys: dict[str, list[str]] = defaultdict(list)
    rows = store.select("answers", "key, instruction, answer", "status = 'ok'")
    for row in sorted(rows, key=lambda row: (row["instruction"], row["key"])):
        card = digest("review", row["instruction"], row["answer"].strip())
        keys[card].append(row["key"])
        found[card] = (row["instruction"], row["answer"].strip(), keys[card])
    return found


def review_cards(run: str, reviewer: str) -> list[Card]:
    """All cards of a run in the order of a reviewer, with what that reviewer said already.

    Raises UnknownName, or InputError for a name that is none or a run without answers.
    """
    name = reviewer_name(reviewer)
    said = reviewed(run, name)
    cards = [
        Card(key, instruction, answer, tuple(keys), said.get(key))
        for key, (instruction, answer, keys) in sorted(answers_by_card(run).items())
    ]
    rng = np.random.default_rng(int(digest("order", run, name), 16))
    return [cards[i] for i in rng.permutation(len(cards))]
