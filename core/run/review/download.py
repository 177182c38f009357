"""All verdicts of a run's reviewers as one table, to be taken along."""

from __future__ import annotations

from typing import Any

from core.run.folder import RunFolder, find_run
from core.run.review.book import history, reviewers_of, shared_cards
from core.run.review.cards import Distinct, distinct_answers
from core.run.review.deck import overlap
from core.run.review.verdicts import Reviews, summary

TEXT = ("answer", "comment")
"""Columns that hold words of an answer or of a reviewer."""


def review_rows(run: str, reviewer: str = "") -> list[dict[str, Any]]:
    """Every verdict on a run, a row each, oldest first; of one ``reviewer`` where it is given.

    ``counts`` is False for a verdict that a later one replaced; ``copies`` is how many answers of
    the run have the card's words. Names no arm, reader or judge. Raises UnknownName, InputError.
    """
    folder = find_run(run)
    names = [name for name in reviewers_of(folder) if name == reviewer or not reviewer]
    return _rows(folder, names, distinct_answers(folder))


def review_tables(folder: RunFolder, reviews: Reviews) -> dict[str, list[dict[str, Any]]]:
    """The tables of a report about its reviewers: ``reviews``, a row a human judge, and
    ``review_verdicts``, a row a verdict, without the words of answers and comments."""
    rows = _rows(folder, reviewers_of(folder), dict(reviews.cards)) if reviews.cards else []
    return {
        "reviews": summary(reviews),
        "review_verdicts": [
            {name: value for name, value in row.items() if name not in TEXT} for row in rows
        ],
    }


def _rows(folder: RunFolder, names: list[str], cards: dict[str, Distinct]) -> list[dict[str, Any]]:
    run = folder.id
    shared = overlap(run, cards, shared_cards(run))
    rows: list[dict[str, Any]] = []
    for name in names:
        lines = [line for line in history(run, name) if line["card"] in cards]
        last = {line["card"]: place for place, line in enumerate(lines)}
        for place, line in enumerate(lines):
            card = cards[line["card"]]
            rows.append(
                {
                    "run": run,
                    "reviewer": name,
                    "time": line["time"],
                    "card": card.key,
                    "counts": last[card.key] == place,
                    "shared": card.key in shared,
                    "record": card.record,
                    "instruction": card.instruction,
                    "answer": card.answer,
                    "copies": len(card.answers),
                    "outcome": line["outcome"],
                    "reason": line.get("reason", ""),
                    "comment": line.get("comment", ""),
                    "seconds": line.get("seconds"),
                }
            )
    return sorted(rows, key=lambda row: row["time"])
