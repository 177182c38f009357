"""BM25 without lines that only look like answers: headings, prompts, fragments.

docs/methods.md, Arms. What is dropped is dropped before the index is built, so it weighs in no idf;
the recency buffer is not filtered.
"""

from __future__ import annotations

import re

from midchart.core.arms import ARMS
from midchart.core.arms.base import BM25Arm, Candidates

SHORTEST = 5
"""A text of fewer characters is dropped."""
LONGEST_HEADING = 40
"""An all-caps text of at most so many characters is dropped."""

_OPENING = re.compile(
    r"(?:question|answer|counseling|follow-up|review of systems|chief complaint|assessment|plan"
    r"|subjective|objective|disposition)\b",
    re.IGNORECASE,
)


def dropped(text: str) -> bool:
    """Whether the filter drops a text: a fragment, an all-caps heading, or a form's opening word.

    Opening words are whole words: "Plan: rest" goes, "Planned for May" stays.
    """
    text = text.strip()
    return (
        len(text) < SHORTEST
        or (len(text) <= LONGEST_HEADING and text.isupper())
        or _OPENING.match(text) is not None
    )


@ARMS.register("bm25_filtered")
class BM25Filtered(BM25Arm):
    """BM25 over the candidates that :func:`dropped` leaves."""

    name, title = "bm25_filtered", "BM25, filtered"

    def pool(self, everything: Candidates) -> Candidates:
        return everything.only([not dropped(s.text) for s in everything.sentences], "filter")
