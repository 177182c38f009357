"""Chooses the questions of a record, writes their facts into notes, and records the evidence spans.

Position is a design variable: question ``j`` of patient ``i`` belongs to decile ``3i + j + seed``
(mod 10), so any run of patients is even over the deciles, and 40 patients have every combination
of decile, task type and domain exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from midchart.core.errors import WorkFailed
from midchart.core.text import one_line
from midchart.extras.lab.synthetic.common import chance, pick, shuffled
from midchart.extras.lab.synthetic.events import extra_call, note_slot, number
from midchart.extras.lab.synthetic.facts import (
    InDecile,
    Scene,
    Series,
    Single,
    drug_facts,
    lab_facts,
    make_fact,
    series,
    singles,
)
from midchart.extras.lab.synthetic.letters import (
    NOTES,
    Dress,
    among_notes,
    is_long,
    lengthen_question,
    only_letters,
)
from midchart.extras.lab.synthetic.medicine import analyte_keys, analytes, diseases, spoken
from midchart.extras.lab.synthetic.notes import Writer, day, render, write_notes
from midchart.extras.lab.synthetic.patient import (
    DOMAINS,
    TASK_TYPES,
    Block,
    Encounter,
    Fact,
    Note,
    NotePiece,
    Patient,
    RecordItem,
)
from midchart.extras.lab.synthetic.trajectory import active

_SECTIONS = {
    "pmh_text": ("pmh", "hpi", "head", "course"), "results_text": ("results", "hpi", "course"),
    "allergy": ("allergy", "hpi", "course"), "social": ("social", "hpi", "course"),
    "exam": ("exam", "hpi"), "meds_text": ("hpi", "plan"), "hpi": ("hpi", "course", "plan"),
}  # fmt: skip
"""Sections that take a statement, by where it belongs, the preferred first."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Domain, task type and decile that a question must have."""

    domain: str
    task_type: str
    decile: int


def slots(index: int, seed: int) -> list[_Slot]:
    """The questions of patient ``index``, one of each task type."""
    return [
        _Slot(DOMAINS[(j + index + index // 10) % 4], task, (3 * index + j + seed) % 10)
        for j, task in enumerate(TASK_TYPES)
    ]


def decile_of(order: int, events: int) -> int:
    """Decile of an event order; edges are left-closed, the last decile closed on both sides."""
    # Whole-number arithmetic: .3 must not fall under the edge at 3/10.
    return min(order * 10 // max(events - 1, 1), 9)


def _is_open(item: RecordItem) -> bool:
    """Whether a statement can be written into this event."""
    return item.note is not None and not item.note.closed


def _ensure_hosts(p: Patient, encounters: list[Encounter], wanted: list[_Slot]) -> list[RecordItem]:
    """Number the events, adding a call or a nursing note where a wanted decile has no note."""
    events = number(encounters)
    for attempt in range(40):
        covered = {decile_of(i.order, len(events)) for i in events if _is_open(i)}
        missing = [s.decile for s in wanted if s.decile not in covered]
        if not missing:
            return events
        position = (missing[0] + (0.35, 0.5, 0.65, 0.2)[attempt % 4]) / 10
        at = events[int(position * (len(events) - 1))].when
        stays = (e for e in encounters if e.setting in ("IP", "ED") and e.start <= at <= e.end)
        stay = next(stays, None)
        if stay is not None:
            note_slot(stay, at, "Nursing Note")
        else:
            encounters.append(extra_call(at, active(p, at)[:1]))
            encounters.sort(key=lambda e: e.start)
        events = number(encounters)
    raise WorkFailed(f"synthetic record {p.id}: no note could be placed in every wanted decile")


def _template_fact(scene: Scene, slot: _Slot) -> Fact | None:
    """A fact of a template that fits the note; the patient's own diseases come first."""
    once = [t for t in singles() if t.domain == slot.domain and t.key not in scene.used]
    repeated = [t for t in series() if t.domain == slot.domain and t.key not in scene.used]
    rng = scene.rng
    specific = [t for t in repeated if t.need in diseases() and slot.task_type != "Rn"]
    pools: list[list[Single] | list[Series]] = (
        [repeated, once] if slot.task_type == "S" or chance(rng, 0.45) else [once, repeated]
    )
    if specific and chance(rng, 0.5):
        pools.insert(0, specific)
    for pool in pools:
        for t in shuffled(rng, pool):
            fact = make_fact(t, scene, slot.task_type)
            if fact is not None:
                return fact
    return None


def _choose(
    w: Writer, events: list[RecordItem], slot: _Slot, used: set[str], in_notes: bool
) -> Fact:
    rng = w.rng

    def near(order: int) -> bool:
        return decile_of(order, len(events)) == slot.decile

    timed = [f for f in _timed(w, events, near, slot) if f.kind not in used]
    if in_notes:
        timed = [f for f in timed if all(s.item is None for s in f.statements)]
    if timed and chance(rng, 0.85):
        return pick(rng, timed)
    hosts = [(i, i.note) for i in events if i.note is not None and not i.note.closed]
    # Long notes are where statements are overlooked, so they are the likelier hosts.
    targets = [
        (-note.length * float(rng.uniform(0.4, 1)), item)
        for item, note in hosts
        if near(item.order)
    ]
    for _, target in sorted(targets, key=lambda row: row[0]):
        scene = Scene(w.p, rng, [item for item, _ in hosts], target, used)
        fact = _template_fact(scene, slot)
        if fact is not None:
            return fact
    if timed:
        return pick(rng, timed)
    raise WorkFailed(f"synthetic record {w.p.id}: no {slot.domain} fact fits decile {slot.decile}")


def _timed(w: Writer, events: list[RecordItem], near: InDecile, slot: _Slot) -> list[Fact]:
    """Facts on drug steps or lab values of the decile."""
    if slot.domain == "medication":
        notes = [(i.order, i.note) for i in events if i.note is not None]
        orders = {id(note): order for order, note in notes}
        pieces = (p for _, note in notes for block in note.blocks for p in block.pieces)
        texts = {p.id: p.text for p in pieces if p.id}
        return drug_facts(w, orders, texts, near, slot.task_type)
    if slot.domain == "laboratory":
        return lab_facts(w.rng, events, near, slot.task_type)
    return []


def _insert(rng: np.random.Generator, note: Note, section: str, piece: NotePiece) -> None:
    for kind in _SECTIONS[section]:
        block = next((b for b in note.blocks if b.kind == kind), None)
        if block is not None:
            low = 0 if block.style == "list" or len(block.pieces) < 2 else 1
            block.pieces.insert(int(rng.integers(low, len(block.pieces) + 1)), piece)
            return
    note.blocks.insert(0, Block("hpi", "Note", [piece]))


def _plant(rng: np.random.Generator, fact: Fact, j: int, events: list[RecordItem]) -> None:
    """Write a fact's statements and noise into notes."""
    for n, statement in enumerate(fact.statements):
        if statement.note is None or statement.id.startswith("step-"):
            continue
        old = "old" if statement.id.startswith("old") else ""
        statement.id = f"q{j}-{old}{n}"
        _insert(rng, statement.note, statement.section, NotePiece(statement.text, statement.id))
    stated = {id(s.note) for s in fact.statements}
    hosts = [i.note for i in events if i.note and not i.note.closed and id(i.note) not in stated]
    for section, text in fact.noise:
        if hosts and not any(text == s.text for s in fact.statements):
            _insert(rng, pick(rng, hosts), section, NotePiece(text))
    for statement in fact.statements:
        if statement.item is not None and fact.task_type != "S":
            _hide_shorthand(statement.item, events)


def _hide_shorthand(reading: RecordItem, events: list[RecordItem]) -> None:
    """Remove a reading that a question asks for from the notes' lists of results."""
    key = analyte_keys()[reading.code]
    shorthand = f"{analytes()[key].short} {spoken(key, float(reading.text))}"
    lead = f"{day(reading.when)}: "
    for block in (b for item in events if item.note for b in item.note.blocks):
        pieces: list[NotePiece] = []
        for piece in block.pieces:
            if piece.text.startswith(lead):
                values = piece.text.removeprefix(lead).split(", ")
                values = [v for v in values if v != shorthand]
                piece = NotePiece(lead + ", ".join(values), piece.id) if values else None
            if piece is not None:
                pieces.append(piece)
        block.pieces = pieces


@dataclass(frozen=True, slots=True)
class AskedFact:
    """A question with its evidence as (order, start, end, text) and its position in [0, 1]."""

    fact: Fact
    slot: _Slot
    evidence: tuple[tuple[int, int, int, str], ...]
    position: float


def _evidence(fact: Fact, events: list[RecordItem]) -> tuple[tuple[int, int, int, str], ...]:
    orders = {id(i.note): i.order for i in events if i.note is not None}
    rows: list[tuple[int, int, int, str]] = []
    for s in fact.statements:
        if s.id.startswith("q") and "old" in s.id:
            continue
        if s.item is not None:
            rows.append((s.item.order, 0, len(s.text), s.text))
            continue
        assert s.note is not None
        start, end = s.note.places[s.id]
        rows.append((orders[id(s.note)], start, end, one_line(s.note.text[start:end])))
    return tuple(rows)


def ask(
    w: Writer,
    p: Patient,
    encounters: list[Encounter],
    index: int,
    seed: int,
    rng: np.random.Generator,
    dress: Dress = NOTES,
) -> tuple[list[Encounter], list[RecordItem], list[AskedFact]]:
    """Write the notes, choose and insert the facts, and render everything.

    ``dress`` defines which texts become letters, which ``rng`` draws. Returns the encounters,
    the events in record order, and the questions with their evidence.
    """
    wanted = slots(index, seed)
    events = _ensure_hosts(p, encounters, wanted)
    write_notes(w, encounters, events)
    used: set[str] = set()
    facts: list[Fact] = []
    for j, slot in enumerate(wanted):
        fact = _choose(w, events, slot, used, dress.only)
        used.add(fact.kind)
        _plant(w.rng, fact, j, events)
        facts.append(fact)
    if dress.only:
        encounters = only_letters(rng, p, encounters, facts)
        events = number(encounters)
    elif dress.letters:
        among_notes(rng, p, encounters)
    if dress.long_questions:
        for j, fact in enumerate(facts):
            if is_long(index, j):
                lengthen_question(rng, p, fact)
    for item in events:
        if item.note is not None:
            render(item.note)
            item.text = item.note.text
    asked: list[AskedFact] = []
    for fact, slot in zip(facts, wanted, strict=True):
        rows = _evidence(fact, events)
        asked.append(AskedFact(fact, slot, rows, rows[0][0] / max(len(events) - 1, 1)))
    return encounters, events, asked
