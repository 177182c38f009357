"""Emergency and hospital notes: arrival, admission, the days on the ward, and the discharge."""

from __future__ import annotations

from datetime import timedelta

from core.synthetic.medicine import diseases
from core.synthetic.model import Block, Encounter, Note, Piece
from core.synthetic.notes import sign
from core.synthetic.notes_parts import (
    Writer,
    day,
    exam_lines,
    family_lines,
    medication_list,
    note_texts,
    problems,
    result_lines,
    social_lines,
    some,
)
from core.synthetic.patient import chance, pick
from core.synthetic.trajectory import active


def _story(w: Writer, e: Encounter, note: Note) -> list[Piece]:
    assert e.episode is not None
    return w.say(e.episode.kind.story, note.when) + some(w, note_texts().denials, 2, 4)


def emergency(w: Writer, e: Encounter, note: Note) -> None:
    """ED Provider Note."""
    if e.episode is None:
        return
    kind, when = e.episode.kind, note.when
    spo2, temp = w.latest("spo2", when), w.latest("temp", when)
    triage = [Piece(f"Arrived {day(e.start)} {e.start:%H:%M}. Chief complaint: {kind.complaint}.")]
    if spo2 and temp:
        triage.append(Piece(f"Triage T {temp[1]} F, SpO2 {spo2[1]}% on room air."))
    note.blocks += [
        Block("cc", "ED Course / Triage", triage),
        Block("hpi", "HPI", _story(w, e, note)),
        Block("pmh", "PMH", problems(w, when), "list"),
        Block("meds", "Home Medications", medication_list(w, when), "list"),
        Block("social", "Social", social_lines(w, when)),
        Block("exam", "Physical Exam", [Piece(kind.exam), *exam_lines(w, when, [], acute=True)]),
        Block("results", "Results", result_lines(w, when, 1), "list"),
    ]
    where = (
        "Admitted to medicine." if e.setting == "IP" else "Discharged home with return precautions."
    )
    mdm = [
        Piece(f"Impression: {kind.name.lower()}."),
        Piece(
            pick(
                w.rng,
                (
                    "Differential considered broadly; alternatives judged less likely.",
                    "Discussed with the patient, who agrees with the plan.",
                ),
            )
        ),
        Piece(f"Given {', '.join(kind.treatment[:2])}."),
        Piece(where),
    ]
    if e.setting == "ED":
        mdm += [Piece(kind.course[0]), *[Piece(x) for x in kind.discharge]]
    note.blocks += [Block("plan", "MDM and Disposition", mdm), sign(w)]


def admission(w: Writer, e: Encounter, note: Note) -> None:
    """H&P of a hospital stay."""
    if e.episode is None:
        return
    kind, when = e.episode.kind, note.when
    what, reaction = w.p.allergy
    allergy = f"{what} - {reaction}" if what else "NKDA"
    plan = [Piece(f"# {kind.name}: admit, treat as below and reassess daily.")]
    plan += [
        Piece(f"# {diseases()[k].short}: continue home regimen unless held above.")
        for k in active(w.p, when)[:4]
    ]
    note.blocks += [
        Block("cc", "Chief Complaint", [Piece(kind.complaint.capitalize() + ".")]),
        Block("hpi", "History of Present Illness", _story(w, e, note)),
        Block("pmh", "Past Medical History", problems(w, when), "list"),
        Block("meds", "Prior to Admission Medications", medication_list(w, when), "list"),
        Block("allergy", "Allergies", [Piece(allergy)]),
        Block("fh", "Family History", family_lines(w)),
        Block("social", "Social History", social_lines(w, when)),
        Block("exam", "Physical Exam", [Piece(kind.exam), *exam_lines(w, when, [], acute=True)]),
        Block("results", "Labs and Studies", result_lines(w, when, 2), "list"),
        Block("imaging", "Imaging", [Piece(f"{kind.imaging.study}: {kind.imaging.report}")]),
        Block("plan", "Assessment and Plan", plan + some(w, note_texts().orders, 3, 5)),
        sign(w),
    ]


def ward(w: Writer, e: Encounter, note: Note) -> None:
    """Daily Progress Note or Consult Note of a stay; the ward's history is copied forward."""
    if e.episode is None:
        return
    kind, when = e.episode.kind, note.when
    number = (when.date() - e.start.date()).days + 1
    consult = note.kind == "Consult Note"
    lead = f"Hospital day {number}, {kind.name.lower()}."
    if consult:
        lead = f"Asked by medicine to comment on {kind.name.lower()}."
    hpi = [Piece(lead), *some(w, note_texts().overnight, 2, 4)]
    if chance(w.rng, 0.5):
        # Copied from the admission note, as ward notes do.
        hpi += [Piece("Per admission H&P:"), *w.say(kind.story, when)[:1]]
    note.blocks += [
        Block("hpi", "Reason for Consult" if consult else "Subjective / Interval Events", hpi),
        Block("exam", "Objective", exam_lines(w, when, [], acute=True)),
        Block("results", "Labs", result_lines(w, when, 2), "list"),
    ]
    if consult or chance(w.rng, 0.4):
        note.blocks.append(Block("meds", "Home Medications", medication_list(w, e.start), "list"))
    step = kind.course[min(number - 1, len(kind.course) - 1)]
    note.blocks += [
        Block(
            "plan",
            "Assessment / Plan",
            [
                Piece(pick(w.rng, ("Improving.", "Course as expected.", "Slow but steady."))),
                Piece(step),
                *some(w, note_texts().orders, 2, 4),
            ],
        ),
        sign(w),
    ]


def discharge(w: Writer, e: Encounter, note: Note) -> None:
    """Discharge Summary."""
    if e.episode is None:
        return
    kind, when, p = e.episode.kind, note.when, w.p
    labs = result_lines(w, when, 4)
    note.blocks += [
        Block(
            "head",
            "",
            [
                Piece(f"Admitted {day(e.start)}. Discharged {day(e.end)}."),
                Piece(f"Principal diagnosis: {kind.name}."),
            ],
        ),
        Block("hpi", "Presentation", w.say(kind.story, when)),
        Block("pmh", "Active and Past Problems", problems(w, e.start), "list"),
        Block(
            "course",
            "Hospital Course",
            [Piece(x) for x in kind.course]
            + [
                Piece(
                    f"{p.words['His']} other conditions were stable and home treatment was "
                    "resumed as listed."
                )
            ],
        ),
        Block("imaging", "Studies", [Piece(f"{kind.imaging.study}: {kind.imaging.report}")]),
        Block("results", "Pertinent Results", labs, "list"),
        Block("meds", "Discharge Medications", medication_list(w, when), "list"),
        Block("social", "Social", social_lines(w, when)),
        Block(
            "plan",
            "Instructions and Follow-up",
            [Piece(x) for x in kind.discharge]
            + [
                Piece(
                    f"Appointment window: {day(when + timedelta(days=7))} to "
                    f"{day(when + timedelta(days=21))}."
                )
            ],
        ),
        sign(w),
    ]
