"""What notes are made of: lists, histories, findings, results, the sentence of a drug step, and the
long passages that carry little and take much room, which makes a single sentence hard to find.

A drug step is said in one sentence of one note, marked so that a question can point to it. Lists
and histories are carried from note to note, sometimes without being brought up to date.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.medicine import (
    READING_SLOTS,
    analyte_keys,
    analytes,
    diseases,
    dose,
    drugs,
    slots_of,
    spoken,
)
from core.synthetic.model import Block, Course, Encounter, Item, Note, Patient, Piece, Step
from core.synthetic.reference import DATA, STRICT, Key, read_yaml
from core.synthetic.trajectory import active


@dataclass(frozen=True, slots=True)
class Report:
    """An imaging report on nothing in particular."""

    __pydantic_config__ = STRICT
    study: str
    indication: str
    findings: str
    impression: str


@dataclass(frozen=True, slots=True)
class Specimen:
    """A pathology report on nothing in particular."""

    __pydantic_config__ = STRICT
    specimen: str
    text: str
    diagnosis: str


@dataclass(frozen=True, slots=True)
class NoteTexts:
    """Sentences that notes take by chance, whatever the patient.

    ``long_review`` and ``long_exam`` are of long notes, ``acute_exam`` of stays; ``course`` and
    ``family`` are said of a long-term condition; ``denials``, ``overnight`` and ``orders`` are of
    hospital notes.
    """

    __pydantic_config__ = STRICT
    signatures: tuple[str, ...]
    review_of_systems: tuple[str, ...]
    long_review: tuple[str, ...]
    exam: tuple[str, ...]
    long_exam: tuple[str, ...]
    acute_exam: tuple[str, ...]
    counsel: tuple[str, ...]
    maintenance: tuple[str, ...]
    course: tuple[Annotated[str, Key("slot", lambda: ("year", "specialty"), slots_of)], ...]
    family: tuple[str, ...]
    denials: tuple[str, ...]
    overnight: tuple[str, ...]
    orders: tuple[str, ...]
    nursing: tuple[str, ...]
    calls: tuple[str, ...]
    social_work: tuple[str, ...]
    pharmacy: tuple[str, ...]
    imaging: tuple[Report, ...]
    pathology: tuple[Specimen, ...]


@cache
def note_texts() -> NoteTexts:
    """The table of such sentences."""
    return read_yaml(NoteTexts, DATA / "notes.yaml")


@dataclass
class Writer:
    """What the author of a note can see: the patient, earlier readings, earlier notes."""

    p: Patient
    rng: np.random.Generator
    wordy: float = 1.0
    readings: dict[str, list[tuple[datetime, str]]] = field(
        default_factory=dict[str, list[tuple[datetime, str]]]
    )
    last_hpi: list[str] = field(default_factory=list[str])
    last_when: datetime | None = None
    list_when: datetime | None = None
    steps: dict[str, tuple[Course, Step, Note]] = field(
        default_factory=dict[str, tuple[Course, Step, Note]]
    )

    def watch(self, items: list[Item]) -> None:
        """Index the readings of the record by analyte, in time order."""
        for item in items:
            key = analyte_keys().get(item.code)
            if item.type == "measurement" and key is not None:
                self.readings.setdefault(key, []).append((item.when, item.text))

    def latest(self, key: str, when: datetime) -> tuple[datetime, str] | None:
        """Last reading at or before ``when``, as a clinician types it."""
        rows = self.readings.get(key, [])
        i = bisect_right([row[0] for row in rows], when) - 1
        return (rows[i][0], spoken(key, float(rows[i][1]))) if i >= 0 else None

    def fill(self, text: str, when: datetime) -> str | None:
        """The template with its words and values; None where a value was never measured."""
        words: dict[str, str] = dict(self.p.words)
        words["age"] = str(self.p.age(when))
        married = self.p.social["marital"] == "married"
        words["spouse_or_family"] = words["spouse"] if married else "family"
        for key in READING_SLOTS:
            found = self.latest(key, when)
            if found is None or (when - found[0]).days > 500:
                if "{" + key + "}" in text:
                    return None
                continue
            words[key] = found[1]
        sbp, dbp = self.latest("sbp", when), self.latest("dbp", when)
        if "{bp}" in text:
            if sbp is None or dbp is None or (when - sbp[0]).days > 400:
                return None
            words["bp"] = f"{sbp[1]}/{dbp[1]}"
        return text.format_map(words)

    def say(self, options: tuple[str, ...], when: datetime) -> list[Piece]:
        """One of the templates that can be filled, as a piece; nothing if none can."""
        filled = [t for t in (self.fill(o, when) for o in options) if t]
        return [Piece(pick(self.rng, filled))] if filled else []


def day(when: datetime) -> str:
    """A date as American charts write it."""
    return when.strftime("%m/%d/%Y")


def signature(rng: np.random.Generator) -> str:
    """The name under a note."""
    return pick(rng, note_texts().signatures)


def called(rng: np.random.Generator, key: str) -> str:
    """Brand or generic name, as the author pleases."""
    drug = drugs()[key]
    return drug.brand if chance(rng, 0.35) and drug.brand[0].isupper() else key


def step_text(w: Writer, step: Step) -> str:
    """The sentence that says why a drug was begun, changed or ended."""
    rng = w.rng
    name = called(rng, step.drug)
    lead = name[0].upper() + name[1:]
    why = step.why.format_map({**w.p.words})
    new = dose(step.drug, step.dose)
    if step.action == "start":
        return pick(
            rng,
            (
                f"Starting {name} {new} today; rationale: {why}.",
                f"{lead} {new} begun, {why}.",
                f"New prescription for {name} {new} - {why}.",
            ),
        )
    if step.action == "change":
        old = dose(step.drug, step.before)
        return pick(
            rng,
            (
                f"{lead} taken from {old} up to {new}: {why}.",
                f"Given {why}, {name} goes to {new} (was {old}).",
                f"Will increase {name} to {new} from {old}; {why}.",
            ),
        )
    heir = ""
    if step.successor:
        heir = f" and {step.successor} {dose(step.successor, 0)} substituted"
    return pick(
        rng,
        (
            f"{lead} stopped today on account of {why}{heir}.",
            f"We discontinued {name} owing to {why}{heir}.",
            f"{lead} has been taken off the list{heir}. Reason: {why}.",
        ),
    )


def medication_list(w: Writer, when: datetime) -> list[Piece]:
    """Drugs in force at ``when``, as list lines."""
    lines: list[Piece] = []
    for course in w.p.courses:
        step = course.dose_at(when)
        if step is not None:
            drug = drugs()[course.drug]
            brand = f" ({drug.brand.upper()})" if drug.brand.lower() != course.drug else ""
            lines.append(Piece(f"{course.drug}{brand} {dose(course.drug, step)}"))
    return lines or [Piece("No regular prescription medicines")]


def problems(w: Writer, when: datetime) -> list[Piece]:
    """The problem list, resolved illnesses with their year."""
    lines = [
        Piece(diseases()[k].name + ("" if chance(w.rng, 0.6) else f" ({diseases()[k].short})"))
        for k in active(w.p, when)
    ]
    lines += [
        Piece(f"{e.kind.name}, {e.start.year}, resolved") for e in w.p.episodes if e.end < when
    ]
    return lines or [Piece("No chronic illness on file")]


def social_lines(w: Writer, when: datetime) -> list[Piece]:
    """The coarse social history that every author copies."""
    s, rng = w.p.social, w.rng
    smoke = (
        ("Former smoker, details in prior notes.", "Ex-smoker.")
        if s["smoking"] == "former"
        else ("Never smoker.", "No tobacco.")
    )
    lines = [Piece(pick(rng, smoke)), Piece(f"Alcohol: {s['alcohol']}.")]
    if chance(rng, 0.4):
        lines.append(Piece("Feels safe at home."))
    if chance(rng, 0.5):
        lines.append(Piece(f"{s['marital'].capitalize()}."))
    return lines


def family_lines(w: Writer) -> list[Piece]:
    """Relatives' illnesses, some of them the patient's own."""
    rows = [w.p.family[int(i)] for i in w.rng.permutation(len(w.p.family))[:3]]
    denied = pick(
        w.rng,
        (
            "No known inherited clotting or bleeding disorder.",
            "No family history of sudden death.",
            "Otherwise noncontributory.",
        ),
    )
    return [Piece(row[0].upper() + row[1:] + ".") for row in rows] + [Piece(denied)]


def some(w: Writer, options: tuple[str, ...], low: int, high: int) -> list[Piece]:
    """A few of the options in their given order."""
    count = int(w.rng.integers(low, high + 1))
    kept = sorted(int(i) for i in w.rng.permutation(len(options))[:count])
    return [Piece(options[i]) for i in kept]


def fitting(pieces: list[Piece], keys: list[str]) -> list[Piece]:
    """Template findings, less those that the conditions ``keys`` make untrue."""
    words = [word for key in keys for word in diseases()[key].untrue]
    return [p for p in pieces if not any(word in p.text for word in words)]


def exam_lines(w: Writer, when: datetime, focus: list[str], acute: bool = False) -> list[Piece]:
    """Vitals line, disease findings, then the rest of the template (a short one when acute)."""
    lines: list[Piece] = []
    sbp, dbp, hr = (w.latest(k, when) for k in ("sbp", "dbp", "hr"))
    if sbp and dbp and hr and (when - sbp[0]).days < 2:
        lines.append(Piece(f"Vitals: BP {sbp[1]}/{dbp[1]}, pulse {hr[1]}."))
    for key in focus:
        lines += w.say(diseases()[key].exam, when)
    if acute:
        return lines + some(w, note_texts().acute_exam, 2, 5)
    return lines + fitting(some(w, note_texts().exam, 3, 7), active(w.p, when))


def result_lines(w: Writer, when: datetime, days: int = 400) -> list[Piece]:
    """Recent values in shorthand, each with the date of its draw."""
    groups: dict[str, list[str]] = {}
    for key in (
        "na",
        "k",
        "bun",
        "cr",
        "egfr",
        "wbc",
        "hgb",
        "plt",
        "a1c",
        "inr",
        "tsh",
        "ldl",
        "alt",
        "bili",
        "alb",
        "crp",
        "bnp",
        "uacr",
    ):
        found = w.latest(key, when)
        if found is not None and (when - found[0]).days <= days:
            groups.setdefault(day(found[0]), []).append(f"{analytes()[key].short} {found[1]}")
    return [Piece(f"{date}: " + ", ".join(values)) for date, values in groups.items()]


def own_steps(w: Writer, e: Encounter, note: Note) -> list[tuple[str, Piece]]:
    """Sentences of the drug steps taken at this visit: (disease key, marked piece)."""
    made: list[tuple[str, Piece]] = []
    for course in w.p.courses:
        for i, step in enumerate(course.steps):
            # A call is over before its order is keyed in, hence the two hours.
            if not e.start <= step.when <= e.start + timedelta(hours=2):
                continue
            if step.why.startswith("replacement for"):
                continue
            id_ = f"step-{course.drug}-{i}"
            if id_ not in w.steps:
                w.steps[id_] = (course, step, note)
                made.append((course.disease, Piece(step_text(w, step), id_)))
    return made


def sign(w: Writer) -> Block:
    """The last line of a note."""
    return Block("sign", "", [Piece(f"Electronically signed by {signature(w.rng)}.")])


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
