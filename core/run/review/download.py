"""All verdicts of a run's reviewers as one table, to be taken along."""

from __future__ import annotations

from typing import Any

from core.run.folder import find_run
from core.run.review.book import history, reviewers_of, shared_cards
from core.run.review.cards import distinct_answers
from core.run.review.deck import overlap


def review_rows(run: str, reviewer: str = "") -> list[dict[str, Any]]:
    """Every verdict on a run, a row each, oldest first; of one ``reviewer`` where it is given.

    ``counts`` is False for a verdict that a later one replaced; ``copies`` is how many answers of
    the run have the card's words. Names no arm, reader or judge. Raises UnknownName, InputError.
    """
    folder = find_run(run)
    names = [name for name in reviewers_of(folder) if name == reviewer or not reviewer]
    cards = distinct_answers(folder)
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
