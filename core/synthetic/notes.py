"""Writes every note of a record (clinic notes, hospital notes, calls, reports and the others), and
turns its sections into text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from core.synthetic.common import chance, pick
from core.synthetic.letters import wrap
from core.synthetic.medicine import diseases, dose, drugs
from core.synthetic.model import Block, Encounter, Item, Note, Patient, Piece
from core.synthetic.notes_parts import (
    Writer,
    day,
    exam_lines,
    family_lines,
    lengthen,
    medication_list,
    note_texts,
    own_steps,
    problems,
    result_lines,
    sign,
    social_lines,
    some,
)
from core.synthetic.trajectory import active

SPOKEN = {
    "Cardiovascular Disease": "cardiology",
    "Pulmonary Disease": "pulmonary",
    "Medical Oncology": "oncology",
    "Obstetrics and Gynecology": "OB/GYN",
}
"""How authors call a specialty that billing names otherwise."""


def interval(w: Writer, when: datetime) -> list[Piece]:
    """What happened since: recent acute illness, in the words of the next visit."""
    lines: list[Piece] = []
    for episode in w.p.episodes:
        since = (when - episode.end).days
        if 0 <= since < 200:
            place = "hospitalised" if episode.kind.setting == "IP" else "seen in the ED"
            lines.append(
                Piece(
                    f"Since the last visit {w.p.words['he']} was {place} for "
                    f"{episode.kind.complaint} ({day(episode.start)}) and has recovered."
                )
            )
    return lines


def worse_now(w: Writer, key: str, when: datetime) -> bool:
    """Whether the condition is doing badly by the facts, or by a little chance."""
    limit = diseases()[key].worse_if
    if limit is not None:
        reading = w.latest(limit.analyte, when)
        return reading is not None and float(reading[1]) > limit.above
    return chance(w.rng, 0.22)


def clinic(w: Writer, e: Encounter, note: Note) -> None:
    """Write a Progress Note, Consult Note or H&P of an outpatient visit."""
    when, rng, p = note.when, w.rng, w.p
    long = note.kind in ("H&P", "Consult Note") or chance(rng, 0.45)
    shorts = [diseases()[k].short for k in active(p, when)]
    known = ", ".join(shorts[:4]) or "no chronic illness"
    called = SPOKEN.get(e.specialty, e.specialty.lower())
    about = {
        "H&P": ("establishing care", "a new-patient visit"),
        "Consult Note": (f"{called} consultation at the request of the PCP",),
    }.get(note.kind, ("scheduled follow-up", "a return visit", "routine review"))
    reason = pick(rng, about)
    hpi = [
        Piece(
            pick(
                rng,
                (
                    f"{p.words['Name']} is a {p.age(when)} y.o. {p.words['man']} with {known}, "
                    f"here for "
                    f"{reason}.",
                    f"{p.age(when)} year old {p.words['man']} (PMH {known}) seen today for "
                    f"{reason}.",
                ),
            )
        )
    ]
    carried = w.last_when is not None and len(w.last_hpi) > 1 and chance(rng, 0.38)
    if carried and w.last_when is not None:
        hpi.append(Piece(f"From the {day(w.last_when)} note:"))
        hpi += [Piece(text) for text in w.last_hpi[:4]]
        if chance(rng, 0.7):
            hpi.append(Piece("Update today:"))
    hpi += interval(w, when)
    fresh: list[Piece] = []
    for key in e.focus:
        disease = diseases()[key]
        bad = worse_now(w, key, when)
        fresh += w.say(disease.worse if bad else disease.stable, when)
        if long and not bad and len(disease.stable) > 1:
            extra = w.say(disease.stable, when)
            fresh += [x for x in extra if x.text not in {f.text for f in fresh}]
    hpi += fresh
    steps = own_steps(w, e, note)
    if long:
        hpi.append(
            Piece(
                pick(
                    rng,
                    (
                        f"{p.words['He']} brought a written list of medicines, which was compared "
                        f"with ours.",
                        "Outside records were not available at the time of this visit.",
                        f"Accompanied by {'a relative' if chance(rng, 0.5) else 'no one'}; "
                        f"history is reliable.",
                    ),
                )
            )
        )
    note.blocks.append(
        Block("cc", "Chief Complaint", [Piece(reason[0].upper() + reason[1:] + ".")])
    )
    note.blocks.append(
        Block("hpi", pick(rng, ("History of Present Illness", "HPI", "Subjective")), hpi)
    )
    if long:
        note.blocks.append(Block("pmh", "Past Medical History", problems(w, when), "list"))
    stale = w.list_when is not None and chance(rng, 0.3)
    at = w.list_when if stale and w.list_when is not None else when
    w.list_when = at
    title = "Current Medications" + (" (carried forward)" if stale and chance(rng, 0.5) else "")
    note.blocks.append(Block("meds", title, medication_list(w, at), "list"))
    what, reaction = p.allergy
    allergy = f"{what.capitalize()} ({reaction})." if what else "No known drug allergies."
    note.blocks.append(Block("allergy", "Allergies", [Piece(allergy)]))
    if long:
        note.blocks.append(Block("fh", "Family History", family_lines(w)))
    note.blocks.append(Block("social", "Social History", social_lines(w, when)))
    ros = some(w, note_texts().review_of_systems, *((5, 10) if long else (2, 3)))
    for key in e.focus:
        ros += w.say(diseases()[key].ros, when)
    note.blocks.append(Block("ros", "Review of Systems", ros))
    note.blocks.append(
        Block(
            "exam",
            pick(rng, ("Physical Examination", "Exam", "Objective")),
            exam_lines(w, when, e.focus),
        )
    )
    results = result_lines(w, when)
    if results:
        note.blocks.append(
            Block("results", pick(rng, ("Results", "Data Reviewed", "Labs")), results, "list")
        )
    plan: list[Piece] = []
    used: set[str] = set()
    for key in e.focus:
        disease = diseases()[key]
        plan += w.say(disease.assess, when)
        plan += [piece for owner, piece in steps if owner == key]
        used.add(key)
        plan += some(w, disease.todo, 1, min(2, len(disease.todo)))
    plan += [piece for owner, piece in steps if owner not in used]
    plan.append(
        Piece(
            pick(
                rng,
                (
                    "Return in 3 months, sooner if worse.",
                    "Follow up in 6 months.",
                    "RTC 4 months with labs the week before.",
                    "Questions answered; understands when to call.",
                ),
            )
        )
    )
    note.blocks.append(
        Block("plan", pick(rng, ("Assessment and Plan", "Impression and Plan", "A/P")), plan)
    )
    note.blocks.append(sign(w))
    w.last_hpi, w.last_when = [piece.text for piece in fresh], when


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
