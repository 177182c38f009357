"""Hard-wrapped letters, as clinics write to each other, and the long questions of those who ask.

Wrapping turns blanks into line ends and nothing else, so a marked piece keeps its place in a text.
All draws are from generators of their own: a cohort without letters has the bytes it always had.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.medicine import PERSON_SLOTS, Reason, local, slots_of
from core.synthetic.model import Block, Encounter, Fact, Item, Note, Patient, Piece
from core.synthetic.notes_parts import day, signature
from core.synthetic.reference import DATA, STRICT, Key, read_yaml

LONG = 100
"""Characters that a long question has more than."""
COLUMNS = (72, 81)
"""A letter's columns are drawn from here, the last left out."""
LETTER = "Clinic Letter"
CHARACTERS = (6_000, 13_000)
"""A letter of a record of letters takes in notes until it has so many, drawn between the two."""

_WRITTEN = {
    "Consult Note": 0.6,
    "Discharge Summary": 0.6,
    "H&P": 0.25,
    "Progress Note": 0.2,
}
"""How often a note of this kind is a letter, in records of notes and letters."""

_Frame = Annotated[str, Key("slot", lambda: PERSON_SLOTS | {"age"}, slots_of)]
_ASKING = ("What", "Which", "How", "Who", "When", "Where", "Why", "At", "For", "In")


@dataclass(frozen=True, slots=True)
class LetterTexts:
    """What frames a letter, and reasons for asking: ``after`` a question that must keep its first
    words (for a yes or no, or the latest value), or ``before`` any other."""

    __pydantic_config__ = STRICT
    colleagues: tuple[str, ...]
    opening: tuple[_Frame, ...]
    closing: tuple[_Frame, ...]
    contact: tuple[Annotated[str, Key("slot", lambda: ("kind", "date"), slots_of)], ...]
    after: tuple[Reason, ...]
    before: tuple[Reason, ...]


@cache
def letter_texts() -> LetterTexts:
    """The table of such texts."""
    return read_yaml(LetterTexts, DATA / "letters.yaml")


@dataclass(frozen=True, slots=True)
class Dress:
    """Which texts a cohort has: letters among its notes, or nothing but letters; and whether a
    quarter of its questions are long."""

    letters: bool = False
    only: bool = False
    long_questions: bool = False


NOTES = Dress()
MIXED = Dress(letters=True, long_questions=True)
LETTERS = Dress(letters=True, only=True, long_questions=True)


def wrap(text: str, columns: int) -> str:
    """The text with blanks turned into line ends so that no line with a blank is longer than
    ``columns``; every other character stays where it is."""
    made: list[str] = []
    for line in text.split("\n"):
        characters, begin = list(line), 0
        first = len(line) - len(line.lstrip(" "))
        while len(line) - begin > columns:
            cut = line.rfind(" ", max(begin, first) + 1, begin + columns + 1)
            if cut < 0:
                cut = line.find(" ", begin + columns)
            if cut < 0:
                break
            characters[cut] = "\n"
            begin = cut + 1
        made.append("".join(characters))
    return "\n".join(made)


def _frame(
    rng: np.random.Generator, p: Patient, note: Note, specialty: str, blocks: list[Block]
) -> None:
    """Make ``note`` a letter of these blocks: head, salutation, them, and a closing."""
    words = {**p.words, "age": str(p.age(note.when))}
    when = note.when
    head = (
        "Harbor Valley Medical Group",
        f"Department of {specialty}",
        f"{when:%B} {when.day}, {when.year}",
    )
    about = f"Re: {p.words['Name']}, born {day(p.birth)}, record number {p.id}"
    note.blocks = [
        Block("letterhead", "", [Piece(line) for line in head], "lines"),
        Block("about", "", [Piece(about)]),
        Block("salutation", "", [Piece(f"Dear Dr. {pick(rng, letter_texts().colleagues)},")]),
        Block("opening", "", [Piece(pick(rng, letter_texts().opening).format_map(words))]),
        *blocks,
        Block("closing", "", [Piece(pick(rng, letter_texts().closing).format_map(words))]),
        Block("sign", "", [Piece("With kind regards,"), Piece(signature(rng))], "lines"),
    ]
    note.style = 3
    note.columns = int(rng.integers(*COLUMNS))


def _body(note: Note) -> list[Block]:
    return [block for block in note.blocks if block.kind != "sign" and block.pieces]


def among_notes(rng: np.random.Generator, p: Patient, encounters: list[Encounter]) -> None:
    """Make letters of some of the record's longer notes, which keep their order and name."""
    for e in encounters:
        for item in e.items:
            note = item.note
            if note is not None and chance(rng, _WRITTEN.get(note.kind, 0.0)):
                _frame(rng, p, note, e.specialty, _body(note))


def only_letters(
    rng: np.random.Generator, p: Patient, encounters: list[Encounter], facts: list[Fact]
) -> list[Encounter]:
    """The record as letters alone, each an encounter's one event, with the facts moved to them.

    A letter takes in the notes since the one before, each under its date, and is sent on the day of
    the last. What was structured is left out: a fact must be told in a note.
    """
    found = [(i.when, i.order, e, i.note) for e in encounters for i in e.items if i.note]
    found.sort(key=lambda row: row[:2])
    made: list[Encounter] = []
    into: dict[int, Note] = {}
    held: list[tuple[Encounter, Note]] = []
    length, wanted = 0, int(rng.integers(*CHARACTERS))
    for n, (when, _, e, note) in enumerate(found):
        held.append((e, note))
        length += sum(len(piece.text) for block in note.blocks for piece in block.pieces)
        if length < wanted and n + 1 < len(found):
            continue
        item = Item(when, "note", local("NOTE", LETTER), LETTER)
        item.note = letter = Note(LETTER, when)
        blocks: list[Block] = []
        for _, part in held:
            frame = pick(rng, letter_texts().contact)
            contact = frame.format(kind=part.kind, date=day(part.when))
            blocks += [Block("contact", "", [Piece(contact)]), *_body(part)]
            into[id(part)] = letter
        _frame(rng, p, letter, e.specialty, blocks)
        made.append(Encounter("OP", e.specialty, when, when, e.focus, items=[item]))
        held, length, wanted = [], 0, int(rng.integers(*CHARACTERS))
    for fact in facts:
        for statement in fact.statements:
            if statement.note is not None:
                statement.note = into[id(statement.note)]
    return made


def is_long(index: int, number: int) -> bool:
    """Whether question ``number`` of patient ``index`` is a long one: three of any four patients'
    twelve, one of each task type."""
    return index % 4 == (number + index // 4) % 4


def lengthen_question(rng: np.random.Generator, p: Patient, fact: Fact) -> None:
    """Put the reason for asking to a question, so that it has more than ``LONG`` characters."""
    frames = [t.format_map(p.words) for t in letter_texts().after]
    made = [f"{fact.question} {t}" for t in frames]
    if fact.task_type == "Rn":
        first, blank, rest = fact.question.partition(" ")
        start = first.lower() if first in _ASKING else first
        made += [t.format_map(p.words) + start + blank + rest for t in letter_texts().before]
    fact.question = pick(rng, tuple(q for q in made if len(q) > LONG))
