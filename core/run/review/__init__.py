"""A person as judge: answers without their arm, in an order of their own, and agreement."""

from core.run.review.agreement import review_agreement
from core.run.review.book import OUTCOMES, add_review, reviewer_name, reviewers
from core.run.review.cards import Card, review_cards

__all__ = [
    "OUTCOMES",
    "Card",
    "add_review",
    "review_agreement",
    "review_cards",
    "reviewer_name",
    "reviewers",
]
