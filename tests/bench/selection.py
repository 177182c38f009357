"""Cutting notes into sentences and selecting these: BM25."""

from __future__ import annotations

from typing import Any

from midchart.core.bm25 import BM25Index
from midchart.core.text import count_tokens, words
from midchart.core.text.splitting import pieces
from tests.bench import BENCHES, QUESTION, compare, notes, texts


@BENCHES.register("bm25")
def bm25() -> dict[str, Any]:
    """A question to the index of a record, and its terms' postings read once."""
    question = words(QUESTION)
    index = BM25Index([words(text) for text in texts()])
    terms = [index.terms[one] for one in question if one in index.terms]
    rows = [slice(*index.starts[at : at + 2]) for at in terms]
    return compare(
        f"one question, {index.size:,} sentences",
        "its postings, added up",
        lambda: [index.parts[row].sum() + index.documents[row].sum() for row in rows],
        lambda: index.scores(question),
        at_most=2,
        calls=50,
    )


@BENCHES.register("split")
def split() -> dict[str, Any]:
    """Sentences of notes, and their words and marks counted."""
    written = [one.text for one in notes()]
    tokens = sum(map(count_tokens, written))
    return compare(
        f"{tokens:,} tokens",
        "tokens counted",
        lambda: [*map(count_tokens, written)],
        lambda: [*map(pieces, written)],
        at_most=7,
    )
