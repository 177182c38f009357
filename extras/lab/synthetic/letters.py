"""Hard-wrapped clinic letters, and long questions.

Wrapping turns blanks into line ends and nothing else, so a marked piece keeps its place in a text.
All draws are from separate generators: a cohort without letters keeps its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from midchart.extras.lab.synthetic.common import chance, pick, worded, wordings
from midchart.extras.lab.synthetic.medicine import local
from midchart.extras.lab.synthetic.notes import day, section, signature
from midchart.extras.lab.synthetic.patient import Block, Encounter, Fact, Note, Patient, RecordItem

LONG = 100
"""Characters that a long question has more than."""
_COLUMNS = (72, 81)
"""Range of a letter's columns, the last excluded."""
LETTER = "Clinic Letter"
_CHARACTERS = (6_000, 13_000)
"""Range of the length at which a letter of a record of letters takes in no further note."""
_SHARES = {"Consult Note": 0.6, "Discharge Summary": 0.6, "H&P": 0.25, "Progress Note": 0.2}
"""Share of letters by kind of note, in records of notes and letters."""
_INTERROGATIVES = ("What", "Which", "How", "Who", "When", "Where", "Why", "At", "For", "In")


@dataclass(frozen=True, slots=True)
class Dress:
    """Which texts a cohort has: letters among its notes, or letters ``only``; and whether a
    quarter of its questions are long."""

    letters: bool = False
    only: bool = False
    long_questions: bool = False


NOTES = Dress()
MIXED = Dress(letters=True, long_questions=True)
LETTERS = Dress(letters=True, only=True, long_questions=True)


def _frame(
    rng: np.random.Generator, p: Patient, note: Note, specialty: str, blocks: list[Block]
) -> None:
    """Make ``note`` a letter of these blocks: head, salutation, the blocks, and a closing."""
    words = {**p.words, "age": p.age(note.when)}
    when = note.when
    head = (
        "Harbor Valley Medical Group",
        f"Department of {specialty}",
        f"{when:%B} {when.day}, {when.year}",
    )
    about = f"Re: {p.words['Name']}, born {day(p.birth)}, record number {p.id}"
    note.blocks = [
        section("letterhead", "", head, "lines"),
        section("about", "", [about]),
        section("salutation", "", [f"Dear Dr. {worded(rng, 'letter_colleague')},"]),
        section("opening", "", [worded(rng, "letter_opening", **words)]),
        *blocks,
        section("closing", "", [worded(rng, "letter_closing", **words)]),
        section("sign", "", ["With kind regards,", signature(rng)], "lines"),
    ]
    note.style = 3
    note.columns = int(rng.integers(*_COLUMNS))


def _body(note: Note) -> list[Block]:
    return [block for block in note.blocks if block.kind != "sign" and block.pieces]


def among_notes(rng: np.random.Generator, p: Patient, encounters: list[Encounter]) -> None:
    """Make letters of some of the record's longer notes, which keep their order and name."""
    for e in encounters:
        for item in e.items:
            note = item.note
            if note is not None and chance(rng, _SHARES.get(note.kind, 0.0)):
                _frame(rng, p, note, e.specialty, _body(note))


def only_letters(
    rng: np.random.Generator, p: Patient, encounters: list[Encounter], facts: list[Fact]
) -> list[Encounter]:
    """The record as letters alone, each an encounter's one event, with the facts moved to them.

    A letter takes in the notes since the one before, each under its date, and is sent on the day of
    the last. Structured events are dropped: a fact must be stated in a note.
    """
    notes = [(i.when, i.order, e, i.note) for e in encounters for i in e.items if i.note]
    notes.sort(key=lambda row: row[:2])
    letters: list[Encounter] = []
    letter_of: dict[int, Note] = {}
    parts: list[Note] = []
    length, wanted = 0, int(rng.integers(*_CHARACTERS))
    for n, (when, _, e, note) in enumerate(notes):
        parts.append(note)
        length += note.length
        if length < wanted and n + 1 < len(notes):
            continue
        letter = Note(LETTER, when)
        blocks: list[Block] = []
        for part in parts:
            contact = worded(rng, "letter_contact", kind=part.kind, date=day(part.when))
            blocks += [section("contact", "", [contact]), *_body(part)]
            letter_of[id(part)] = letter
        _frame(rng, p, letter, e.specialty, blocks)
        item = RecordItem(when, "note", local("NOTE", LETTER), LETTER, note=letter)
        letters.append(Encounter("OP", e.specialty, when, when, e.focus, items=[item]))
        parts, length, wanted = [], 0, int(rng.integers(*_CHARACTERS))
    for fact in facts:
        for statement in fact.statements:
            if statement.note is not None:
                statement.note = letter_of[id(statement.note)]
    return letters


def is_long(index: int, number: int) -> bool:
    """Whether question ``number`` of patient ``index`` is a long one: three of any four patients'
    twelve, one of each task type."""
    return index % 4 == (number + index // 4) % 4


def lengthen_question(rng: np.random.Generator, p: Patient, fact: Fact) -> None:
    """Add the reason for asking to a question, so that it has more than ``LONG`` characters.

    The reason follows a question that must keep its first words (for a yes or no, or the latest
    value), and may precede any other.
    """
    texts = wordings()
    options = [f"{fact.question} {t.format_map(p.words)}" for t in texts["reason_after"]]
    if fact.task_type == "Rn":
        first, blank, rest = fact.question.partition(" ")
        start = first.lower() if first in _INTERROGATIVES else first
        question = start + blank + rest
        options += [t.format_map(p.words) + question for t in texts["reason_before"]]
    fact.question = pick(rng, [q for q in options if len(q) > LONG])
