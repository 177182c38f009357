"""Turns a note's sections into its text, and remembers where each marked piece came to lie."""

from __future__ import annotations

from core.synthetic.letters import wrap
from core.synthetic.model import Block, Note

_SHORT = (
    (" with ", " w/ "), ("history of", "h/o"), ("shortness of breath", "SOB"),
    ("follow-up", "f/u"), (" without ", " w/o "), ("twice daily", "BID"), ("blood pressure", "BP"),
    ("The patient", "Pt"), ("the patient", "pt"), (" and ", " & "),
)  # fmt: skip


def _header(block: Block, style: int) -> str:
    match style % 4:
        case 0:
            return block.title.upper() + "\n"
        case 1:
            return block.title + ": "
        case 2:
            return f"** {block.title} **\n"
        case _:
            return block.title + ":\n"


def _terse(text: str) -> str:
    for long, short in _SHORT:
        text = text.replace(long, short)
    return text


def render(note: Note) -> None:
    """Fill ``note.text`` and ``note.places`` (marked piece -> start and end in the text).

    Style 1 is the hurried author, who abbreviates; a marked piece is never touched.
    """
    out: list[str] = []
    length = 0

    def put(text: str) -> None:
        nonlocal length
        out.append(text)
        length += len(text)

    for n, block in enumerate(note.blocks):
        if not block.pieces:
            continue
        if n:
            put("\n\n" if note.style % 4 != 1 else "\n")
        listed = block.style == "list"
        if block.title:
            head = _header(block, note.style)
            put(head.rstrip() + "\n" if listed else head)
        for i, piece in enumerate(block.pieces):
            if listed:
                put(("\n" if i else "") + ("- " if note.style % 2 == 0 else "  "))
            elif i:
                put("\n" if block.style == "lines" else " ")
            text = piece.text if piece.id or note.style % 4 != 1 else _terse(piece.text)
            if piece.id:
                note.places[piece.id] = (length, length + len(text))
            put(text)
    note.text = "".join(out)
    if note.columns:
        note.text = wrap(note.text, note.columns)
