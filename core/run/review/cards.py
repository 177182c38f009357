"""A card: one question of one patient and one distinct answer to it, the unit that is judged.

Answers to a question with the same words (white space aside) are one card, whichever arms and
readers gave them: a reviewer judges it once, and every count of human verdicts counts it once.
A needle's question is the same at every depth and length, so its cards span these too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import InputError
from core.run.folder import RunFolder
from core.run.rows import digest
from core.text import one_line


@dataclass(frozen=True, slots=True)
class Distinct:
    """A distinct answer: ``key`` its hash, ``record`` and ``instruction`` what was asked of whom
    (of a needle, at the place of its first row), ``answers`` the keys of the rows that gave it."""

    key: str
    record: str
    instruction: str
    answer: str
    answers: tuple[str, ...]


def distinct_answers(folder: RunFolder) -> dict[str, Distinct]:
    """The cards of a run by key, in the order of their keys.

    Raises InputError for a run of a kind without answers.
    """
    kind = folder.plan().kind
    store = folder.store(kind)
    if "answers" not in store.schemas:
        raise InputError(f"the run {folder.id} of kind {kind} holds no answers to review")
    where = "status = 'ok' AND answer IS NOT NULL"  # a run brought here without text has none
    needles = "needle" in store.schemas["answers"]
    asked = "record || '/' || needle" if needles else "instruction"
    columns = f"key, record, instruction, {asked} AS asked, answer"
    rows = store.select("answers", columns, where)
    texts: dict[str, tuple[str, str, str]] = {}
    keys: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["key"]):
        card = digest("review", row["asked"], one_line(row["answer"]))
        texts.setdefault(card, (row["record"], row["instruction"], row["answer"].strip()))
        keys.setdefault(card, []).append(row["key"])
    return {card: Distinct(card, *texts[card], tuple(keys[card])) for card in sorted(texts)}


def card_of_answer(cards: Mapping[str, Distinct]) -> dict[str, str]:
    """Key of a row of answers → key of its card."""
    return {answer: card.key for card in cards.values() for answer in card.answers}
