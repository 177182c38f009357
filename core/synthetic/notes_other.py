"""Nursing, telephone, social work, case management, pharmacy notes and reports; and the choice
of writer for every note of a record."""

from __future__ import annotations

from collections.abc import Callable

from core.synthetic.medicine import dose, drugs
from core.synthetic.model import Block, Encounter, Item, Note, Patient, Piece
from core.synthetic.notes import clinic, own_steps, sign
from core.synthetic.notes_long import lengthen
from core.synthetic.notes_parts import (
    Writer,
    medication_list,
    note_texts,
    problems,
    result_lines,
    social_lines,
    some,
)
from core.synthetic.notes_stay import admission, discharge, emergency, ward
from core.synthetic.patient import chance, pick


def _nursing(w: Writer, e: Encounter, note: Note) -> None:
    note.blocks += [
        Block("hpi", "Nursing Assessment", some(w, note_texts().nursing, 3, 6)),
        Block("exam", "Vitals", _vitals(w, note)),
        sign(w),
    ]


def _vitals(w: Writer, note: Note) -> list[Piece]:
    found = [
        (name, w.latest(key, note.when))
        for name, key in (("BP sys", "sbp"), ("HR", "hr"), ("SpO2", "spo2"), ("Wt kg", "wt"))
    ]
    text = ", ".join(
        f"{name} {row[1]}"
        for name, row in found
        if row is not None and (note.when - row[0]).days < 2
    )
    return [Piece(text + ".")] if text else [Piece("Not taken.")]


def _telephone(w: Writer, e: Encounter, note: Note) -> None:
    pieces = some(w, note_texts().calls, 1, 2)
    pieces += [piece for _, piece in own_steps(w, e, note)]
    pieces.append(
        Piece(
            pick(
                w.rng,
                (
                    "Verbalised understanding.",
                    "Routed to PCP for review.",
                    "Will call back if not better in 48 hours.",
                ),
            )
        )
    )
    note.blocks += [Block("hpi", "Telephone Encounter", pieces), sign(w)]


def _social_work(w: Writer, e: Encounter, note: Note) -> None:
    title = "Discharge Planning" if note.kind.startswith("Case") else "Social Work Assessment"
    note.blocks += [
        Block("hpi", title, some(w, note_texts().social_work, 3, 6)),
        Block("social", "Social History", social_lines(w, note.when)),
        sign(w),
    ]


def _pharmacy(w: Writer, e: Encounter, note: Note) -> None:
    lines = some(w, note_texts().pharmacy, 2, 5)
    for course in w.p.courses:
        now = course.dose_at(note.when)
        if now is not None and chance(w.rng, 0.3):
            drug = drugs()[course.drug]
            lines.append(Piece(f"{drug.brand}: directions confirmed as {dose(course.drug, now)}."))
    note.blocks += [
        Block("hpi", "Medication Review", lines),
        Block("meds", "Reconciled List", medication_list(w, note.when), "list"),
        sign(w),
    ]


def _imaging(w: Writer, e: Encounter, note: Note) -> None:
    if e.episode is not None:
        kind = e.episode.kind
        study, why = kind.imaging.study, kind.complaint.capitalize() + "."
        found = kind.imaging.report
        impression = found.split(". ")[0].rstrip(".") + "."
    else:
        report = pick(w.rng, note_texts().imaging)
        study, why = report.study, report.indication
        found, impression = report.findings, report.impression
    note.blocks += [
        Block("head", "Exam", [Piece(study)]),
        Block("cc", "Indication", [Piece(why)]),
        Block(
            "technique",
            "Comparison",
            [
                Piece(
                    "None available." if chance(w.rng, 0.5) else "Prior outside study, report only."
                )
            ],
        ),
        Block("results", "Findings", [Piece(found)]),
        Block("plan", "Impression", [Piece(impression)]),
        sign(w),
    ]


def _pathology(w: Writer, e: Encounter, note: Note) -> None:
    report = pick(w.rng, note_texts().pathology)
    note.blocks += [
        Block("head", "Specimen", [Piece(report.specimen + ".")]),
        Block("results", "Microscopic", [Piece(report.text)]),
        Block("plan", "Diagnosis", [Piece(report.diagnosis)]),
        sign(w),
    ]


def _series(w: Writer, e: Encounter, note: Note) -> None:
    lines = some(w, note_texts().nursing, 2, 4)
    lines.append(Piece(f"Enrolled in the {e.specialty.lower()} series, visits as scheduled."))
    note.blocks += [
        Block("hpi", "Intake", lines),
        Block("pmh", "Problems", problems(w, note.when), "list"),
        Block("results", "Data", result_lines(w, note.when, 120), "list"),
        sign(w),
    ]


_OTHERS: dict[str, Callable[[Writer, Encounter, Note], None]] = {
    "Nursing Note": _nursing, "Telephone Encounter": _telephone, "Social Work Note": _social_work,
    "Case Management Note": _social_work, "Pharmacy Note": _pharmacy, "Imaging Report": _imaging,
    "Pathology Report": _pathology, "ED Provider Note": emergency, "Discharge Summary": discharge,
}  # fmt: skip


_LONG = {
    "H&P": 1.0,
    "Consult Note": 0.9,
    "Discharge Summary": 0.8,
    "Progress Note": 0.55,
    "ED Provider Note": 0.7,
}
"""How often a kind of note is a long one, at full wordiness."""


def _writer_of(e: Encounter, note: Note) -> Callable[[Writer, Encounter, Note], None]:
    if e.setting == "SERIES":
        return _series
    if note.kind in _OTHERS:
        return _OTHERS[note.kind]
    if e.setting == "IP":
        return admission if note.kind == "H&P" else ward
    return clinic


def write_notes(w: Writer, p: Patient, encounters: list[Encounter], flat: list[Item]) -> None:
    """Compose every note of the record, in time order, so that each can copy from the last."""
    w.watch(flat)
    hosts = [
        (item.when, i, e, item.note)
        for e in encounters
        for i, item in enumerate(e.items)
        if item.note is not None
    ]
    hosts.sort(key=lambda row: (row[0], row[2].number, row[1]))
    for _, _, e, note in hosts:
        note.style = int(w.rng.integers(4))
        _writer_of(e, note)(w, e, note)
        if note.kind in _LONG and chance(w.rng, w.wordy * _LONG[note.kind]):
            note.blocks = lengthen(w, note.when, note.blocks, e.setting == "OP")
        note.blocks = [b for b in note.blocks if b.pieces]
