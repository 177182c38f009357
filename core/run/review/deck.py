"""In which order a reviewer is given the cards of a run: the shared ones first, each part in an
order of the reviewer's own.

The shared cards are the first of an order drawn once a run, in which patients take turns: so all
reviewers judge the same cards whatever they get to, a larger number keeps those of a smaller, and
agreement rests on as many patients as can be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from core.run.folder import find_run
from core.run.review.book import reviewed, reviewer_name, shared_cards
from core.run.review.cards import Distinct, distinct_answers
from core.run.rows import digest


@dataclass(frozen=True, slots=True)
class Card:
    """One answer to be judged: ``key`` names it, ``answers`` are the keys of the rows that gave it,
    ``shared`` says whether every reviewer gets it; ``outcome`` (None: nothing yet), ``reason`` and
    ``comment`` are what the reviewer said last."""

    key: str
    instruction: str
    answer: str
    answers: tuple[str, ...]
    shared: bool
    outcome: str | None
    reason: str = ""
    comment: str = ""


def _drawn(items: Iterable[str], *name: str) -> list[str]:
    """Items in an order that ``name`` alone decides."""
    found = sorted(items)
    rng = np.random.default_rng(int(digest(*name), 16))
    return [found[i] for i in rng.permutation(len(found))]


def overlap(run: str, cards: Mapping[str, Distinct], number: int) -> frozenset[str]:
    """The keys of the ``number`` cards of a run that every reviewer gets, all where there are
    fewer."""
    by_patient: dict[str, list[str]] = defaultdict(list)
    for card in cards.values():
        by_patient[card.record].append(card.key)
    turns = zip_longest(
        *(_drawn(by_patient[p], "shared", run, p) for p in _drawn(by_patient, "patients", run))
    )
    order = [key for turn in turns for key in turn if key is not None]
    return frozenset(order[:number])


def review_cards(run: str, reviewer: str) -> list[Card]:
    """All cards of a run in the order of a reviewer, with what that reviewer said already.

    Raises UnknownName, or InputError for a name that is none or a run without answers.
    """
    name = reviewer_name(reviewer)
    cards = distinct_answers(find_run(run))
    said = reviewed(run, name)
    shared = overlap(run, cards, shared_cards(run))
    found: list[Card] = []
    for part in (shared, cards.keys() - shared):
        for key in _drawn(part, "order", run, name):
            card, last = cards[key], said.get(key, {})
            found.append(
                Card(
                    key,
                    card.instruction,
                    card.answer,
                    card.answers,
                    key in shared,
                    last.get("outcome"),
                    last.get("reason", ""),
                    last.get("comment", ""),
                )
            )
    return found
