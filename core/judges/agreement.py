"""How far judges agree with people, by kind of reference; from the card that ships.

``shipped/statements.json`` holds the measurements of the offline judges (``midchart agreement``);
what a run's own reviewers say is in :mod:`midchart.core.results.agreement`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from midchart.core.judges.exact import reference_polarity
from midchart.core.judges.values import quantities, take_dates
from midchart.core.parsing import read_json

CARD = Path(__file__).parent / "shipped" / "statements.json"
ALL, VALUES, POLARITY, WORDS = "all", "numbers and dates", "yes or no", "words"
KINDS = (ALL, VALUES, POLARITY, WORDS)
"""Kinds of reference: holding a number or date; opening with yes or no; other words."""


@cache
def card() -> dict[str, Any]:
    """The model of the judge ``statements`` and its card: coefficients, data, agreement."""
    return read_json(CARD.read_bytes(), CARD.name)


def kind_of(reference: str) -> str:
    """The kind of a reference: one of :data:`KINDS` but "all"."""
    days, rest = take_dates(reference)
    if days or quantities(rest):
        return VALUES
    return POLARITY if reference_polarity(reference) else WORDS


def measured(judge: str) -> list[dict[str, Any]]:
    """The rows of the card about a judge, by its name: kind, n, agreement, kappa; none for a judge
    that was not measured."""
    return [row for row in card()["agreement"] if row["judge"] == judge]
