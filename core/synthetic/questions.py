"""Chooses what to ask of a record, writes the facts into their notes, and finds their spans.

Position is a design variable, not an accident: question ``j`` of patient ``i`` belongs to decile
``3i + j + seed`` (mod 10), so any run of patients is even over the deciles, and 40 patients hold
every combination of decile, task type and domain exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.errors import WorkFailed
from core.synthetic.common import chance, pick
from core.synthetic.events import note_slot, number
from core.synthetic.facts_timed import InStretch, drug_facts, lab_facts
from core.synthetic.letters import (
    NOTES,
    Dress,
    among_notes,
    is_long,
    lengthen_question,
    only_letters,
)
from core.synthetic.library import Scene, Series, Single, make_series, make_single, series, singles
from core.synthetic.medicine import analyte_keys, analytes, diseases, spoken
from core.synthetic.model import (
    DOMAINS,
    TASK_TYPES,
    Block,
    Encounter,
    Fact,
    Item,
    Note,
    Patient,
    Piece,
    Statement,
)
from core.synthetic.notes import render, write_notes
from core.synthetic.notes_parts import Writer, day
from core.synthetic.schedule import extra_call
from core.synthetic.trajectory import active
from core.text import one_line

QUESTIONS = 3
"""Questions per patient: one of each task type."""

_PLACES = {
    "pmh_text": ("pmh", "hpi", "head", "course"), "results_text": ("results", "hpi", "course"),
    "allergy": ("allergy", "hpi", "course"), "social": ("social", "hpi", "course"),
    "exam": ("exam", "hpi"), "meds_text": ("hpi", "plan"), "hpi": ("hpi", "course", "plan"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """What one question must be: its domain, task type and decile."""

    domain: str
    task_type: str
    decile: int


def slots(index: int, seed: int) -> list[Slot]:
    """The questions of patient ``index``; a pure function, so patients can be made apart."""
    return [
        Slot(DOMAINS[(j + index + index // 10) % 4], TASK_TYPES[j], (3 * index + j + seed) % 10)
        for j in range(QUESTIONS)
    ]


def decile_of(order: int, events: int) -> int:
    """Decile of an event order; edges are left-closed, the last decile closed on both sides."""
    # Whole-number arithmetic: .3 must not fall under the edge at 3/10.
    return min(order * 10 // max(events - 1, 1), 9)


def is_open(item: Item) -> bool:
    """Whether a statement can be written into this event."""
    return item.note is not None and not item.note.closed


def ensure_hosts(p: Patient, encounters: list[Encounter], wanted: list[Slot]) -> list[Item]:
    """Number the events, adding a call or a nursing note where a wanted decile has no note."""
    flat = number(encounters)
    for attempt in range(40):
        held = {decile_of(i.order, len(flat)) for i in flat if is_open(i)}
        missing = [s.decile for s in wanted if s.decile not in held]
        if not missing:
            return flat
        place = (missing[0] + (0.35, 0.5, 0.65, 0.2)[attempt % 4]) / 10
        at = flat[int(place * (len(flat) - 1))].when
        stay = next(
            (e for e in encounters if e.setting in ("IP", "ED") and e.start <= at <= e.end), None
        )
        if stay is not None:
            note_slot(stay, at, "Nursing Note")
        else:
            call = extra_call(at, active(p, at)[:1])
            call.items.append(
                Item(call.start, "visit", "LOCAL/VISIT-telephone", "Telephone", "start|end")
            )
            note_slot(call, at, "Telephone Encounter")
            encounters.append(call)
            encounters.sort(key=lambda e: e.start)
        flat = number(encounters)
    raise WorkFailed(f"synthetic record {p.id}: no note could be placed in every wanted decile")


def _candidates(scene: Scene, slot: Slot) -> Fact | None:
    once = [t for t in singles() if t.domain == slot.domain and t.key not in scene.used]
    again = [t for t in series() if t.domain == slot.domain and t.key not in scene.used]
    rng = scene.rng
    made: Fact | None = None
    own = [t for t in again if t.need in diseases() and slot.task_type != "Rn"]
    # Findings of the patient's own disease first; then everything that anyone may have.
    pools: list[list[Single] | list[Series]] = (
        [again, once] if slot.task_type == "S" or chance(rng, 0.45) else [once, again]
    )
    if own and chance(rng, 0.5):
        pools.insert(0, own)
    for pool in pools:
        for i in (int(i) for i in rng.permutation(len(pool))):
            t = pool[i]
            made = (
                make_single(t, scene, slot.task_type)
                if isinstance(t, Single)
                else make_series(t, scene, slot.task_type)
            )
            if made is not None:
                return made
    return None


def _choose(w: Writer, flat: list[Item], slot: Slot, used: set[str], in_notes: bool) -> Fact:
    rng = w.rng

    def near(order: int) -> bool:
        return decile_of(order, len(flat)) == slot.decile

    timed = [f for f in _timed(w, flat, near, slot) if f.kind not in used]
    if in_notes:
        timed = [f for f in timed if all(s.item is None for s in f.statements)]
    if timed and chance(rng, 0.85):
        return pick(rng, timed)
    hosts = [i for i in flat if is_open(i)]
    here = [i for i in hosts if near(i.order)]
    # Long notes are where statements get lost, so they are the likelier hosts.
    here.sort(key=lambda i: -_length(i) * float(rng.uniform(0.4, 1)))
    for target in here:
        fact = _candidates(Scene(w.p, rng, hosts, target, used), slot)
        if fact is not None:
            return fact
    if timed:
        return pick(rng, timed)
    raise WorkFailed(f"synthetic record {w.p.id}: no {slot.domain} fact fits decile {slot.decile}")


def _length(item: Item) -> int:
    assert item.note is not None
    return sum(len(p.text) for b in item.note.blocks for p in b.pieces)


def _timed(w: Writer, flat: list[Item], near: InStretch, slot: Slot) -> list[Fact]:
    if slot.domain == "medication":
        orders = {id(i.note): i.order for i in flat if i.note is not None}
        texts = {
            p.id: p.text
            for i in flat
            if i.note is not None
            for b in i.note.blocks
            for p in b.pieces
            if p.id
        }
        return drug_facts(w, orders, texts, near, slot.task_type)
    if slot.domain == "laboratory":
        return lab_facts(w.rng, flat, near, slot.task_type)
    return []


def _insert(rng: np.random.Generator, note: Note, section: str, piece: Piece) -> None:
    for kind in _PLACES[section]:
        block = next((b for b in note.blocks if b.kind == kind), None)
        if block is not None:
            low = 0 if block.style == "list" or len(block.pieces) < 2 else 1
            block.pieces.insert(int(rng.integers(low, len(block.pieces) + 1)), piece)
            return
    note.blocks.insert(0, Block("hpi", "Note", [piece]))


def _plant(rng: np.random.Generator, fact: Fact, j: int, flat: list[Item]) -> None:
    for n, statement in enumerate(fact.statements):
        if statement.note is None or statement.id.startswith("step-"):
            continue
        old = statement.id.startswith("old")
        statement.id = f"q{j}-{'old' if old else ''}{n}"
        _insert(rng, statement.note, statement.section, Piece(statement.text, statement.id))
    own = {id(s.note) for s in fact.statements}
    hosts = [i for i in flat if is_open(i) and id(i.note) not in own]
    for section, text in fact.noise:
        if hosts and not any(text == s.text for s in fact.statements):
            host = pick(rng, hosts)
            assert host.note is not None
            _insert(rng, host.note, section, Piece(text))
    for statement in fact.statements:
        if statement.item is not None and fact.task_type != "S":
            _hide_shorthand(statement.item, flat)


def _hide_shorthand(reading: Item, flat: list[Item]) -> None:
    """Take a reading that a question asks for out of the notes' lists of results."""
    key = analyte_keys()[reading.code]
    said = f"{analytes()[key].short} {spoken(key, float(reading.text))}"
    for item in flat:
        if item.note is None:
            continue
        for block in item.note.blocks:
            kept: list[Piece] = []
            for piece in block.pieces:
                date, colon, rest = piece.text.partition(": ")
                if colon and date == day(reading.when):
                    values = [v for v in rest.split(", ") if v != said]
                    piece = Piece(f"{date}: " + ", ".join(values), piece.id) if values else None
                if piece is not None:
                    kept.append(piece)
            block.pieces = kept


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its evidence as it lies in the record: (order, start, end, text)."""

    fact: Fact
    slot: Slot
    evidence: tuple[tuple[int, int, int, str], ...]
    position: float


def _evidence(fact: Fact, flat: list[Item]) -> tuple[tuple[int, int, int, str], ...]:
    orders = {id(i.note): i for i in flat if i.note is not None}
    rows: list[tuple[int, int, int, str]] = []
    for s in fact.statements:
        if _is_old(s):
            continue
        if s.item is not None:
            rows.append((s.item.order, 0, len(s.text), s.text))
            continue
        assert s.note is not None
        start, end = s.note.places[s.id]
        told = one_line(s.note.text[start:end])
        rows.append((orders[id(s.note)].order, start, end, told))
    return tuple(rows)


def _is_old(statement: Statement) -> bool:
    return "old" in statement.id.split("-")[-1] and statement.id.startswith("q")


def ask(
    w: Writer,
    p: Patient,
    encounters: list[Encounter],
    index: int,
    seed: int,
    dress: Dress = NOTES,
    rng: np.random.Generator | None = None,
) -> tuple[list[Encounter], list[Item], list[Asked]]:
    """Write the notes, choose and plant the facts, and render everything.

    ``dress`` says which texts become letters, which ``rng`` then draws. Returns the encounters,
    the events in record order, and the questions with their evidence.
    """
    wanted = slots(index, seed)
    flat = ensure_hosts(p, encounters, wanted)
    write_notes(w, p, encounters, flat)
    used: set[str] = set()
    facts: list[Fact] = []
    for j, slot in enumerate(wanted):
        fact = _choose(w, flat, slot, used, dress.only)
        used.add(fact.kind)
        _plant(w.rng, fact, j, flat)
        facts.append(fact)
    if rng is not None:
        if dress.only:
            encounters = only_letters(rng, p, encounters, facts)
            flat = number(encounters)
        elif dress.letters:
            among_notes(rng, p, encounters)
        if dress.long_questions:
            for j, fact in enumerate(facts):
                if is_long(index, j):
                    lengthen_question(rng, p, fact)
    for item in flat:
        if item.note is not None:
            render(item.note)
            item.text = item.note.text
    asked: list[Asked] = []
    for fact, slot in zip(facts, wanted, strict=True):
        rows = _evidence(fact, flat)
        asked.append(Asked(fact, slot, rows, rows[0][0] / max(len(flat) - 1, 1)))
    return encounters, flat, asked
