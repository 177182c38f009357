"""People as judges: answers without their arm, in an order of their own, and agreement."""

from core.run.review.agreement import review_agreement
from core.run.review.book import (
    OUTCOMES,
    REASONS,
    add_review,
    review_mark,
    reviewer_name,
    reviewers,
    share_cards,
    shared_cards,
)
from core.run.review.deck import Card, review_cards
from core.run.review.download import review_rows

__all__ = [
    "OUTCOMES",
    "REASONS",
    "Card",
    "add_review",
    "review_agreement",
    "review_cards",
    "review_mark",
    "review_rows",
    "reviewer_name",
    "reviewers",
    "share_cards",
    "shared_cards",
]
