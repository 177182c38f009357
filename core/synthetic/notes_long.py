"""The long passages of real notes: background of each problem, maintenance, counselling, templates.

They carry little and take much room, which is what makes a single sentence hard to find.
"""

from __future__ import annotations

from datetime import datetime

from core.synthetic.medicine import diseases, drugs, spoken
from core.synthetic.model import Block, Piece
from core.synthetic.notes_parts import Writer, day, fitting, note_texts, some
from core.synthetic.patient import chance, pick
from core.synthetic.trajectory import active


def background(w: Writer, when: datetime, most: int) -> list[Piece]:
    """A paragraph on each long-term problem: since when, and what it is treated with.

    It is written as authors do from the list at hand, so it may name drugs of the last update.
    """
    pieces: list[Piece] = []
    for key in active(w.p, when)[:most]:
        disease, year = diseases()[key], w.p.diseases[key].year
        frame = pick(w.rng, note_texts().course)
        text = frame.format(year=year, specialty=disease.specialty)
        pieces.append(Piece(f"{disease.short[0].upper() + disease.short[1:]}: {text}"))
        at = w.list_when if w.list_when is not None and chance(w.rng, 0.5) else when
        taken = [c.drug for c in w.p.courses if c.disease == key and c.dose_at(at) is not None]
        if taken:
            names = [drugs()[d].brand if chance(w.rng, 0.4) else d for d in taken]
            pieces.append(Piece("Treated with " + ", ".join(names) + "."))
        if chance(w.rng, 0.4):
            pieces.append(Piece(pick(w.rng, note_texts().family)))
    return pieces


def history_of_values(w: Writer, when: datetime) -> list[Piece]:
    """Old values drawn into the note as a flowsheet, which is where stale numbers come from."""
    lines: list[Piece] = []
    for key, label in (("wt", "Weight"), ("sbp", "Systolic"), ("cr", "Cr"), ("hgb", "Hgb")):
        rows = [row for row in w.readings.get(key, []) if row[0] < when]
        chosen = rows[-40::10] if len(rows) > 12 else rows[-4:]
        if len(chosen) > 1:
            values = ", ".join(f"{spoken(key, float(value))} ({day(at)})" for at, value in chosen)
            lines.append(Piece(f"{label}: {values}"))
    return lines


def lengthen(w: Writer, when: datetime, blocks: list[Block], clinic: bool) -> list[Block]:
    """The note's blocks with the long passages put where authors put them.

    ``clinic``: a planned visit, with prevention and counselling; the acutely ill get neither, nor
    the template of a normal examination.
    """
    made: list[Block] = []
    for block in blocks:
        made.append(block)
        if block.kind == "ros":
            block.pieces = some(w, note_texts().long_review, 6, 11) + [
                p for p in block.pieces if p.text.startswith("Denies")
            ]
        elif block.kind == "exam" and clinic:
            long = some(w, note_texts().long_exam, 5, 10)
            block.pieces = [p for p in block.pieces if p.text not in note_texts().exam] + fitting(
                long, active(w.p, when)
            )
        elif block.kind in ("pmh", "hpi") and not any(b.kind == "background" for b in made):
            made.append(
                Block(
                    "background",
                    pick(
                        w.rng,
                        (
                            "Background",
                            "Problem Overview",
                            "Oncologic/Medical Summary"
                            if w.p.has("breast", when)
                            else "Medical Summary",
                        ),
                    ),
                    background(w, when, 5),
                )
            )
        elif block.kind == "results":
            made.append(Block("flow", "Flowsheet Trends", history_of_values(w, when), "list"))
        elif block.kind == "plan" and clinic:
            if chance(w.rng, 0.6):
                made.append(
                    Block(
                        "maintenance",
                        "Health Maintenance",
                        some(w, note_texts().maintenance, 4, 9),
                        "list",
                    )
                )
            made.append(
                Block(
                    "counsel",
                    pick(w.rng, ("Counseling", "Patient Instructions")),
                    some(w, note_texts().counsel, 4, 9),
                )
            )
    return made
