"""Clinic notes: history, lists, examination, results, assessment and plan."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.synthetic.medicine import diseases
from core.synthetic.model import Block, Encounter, Note, Piece
from core.synthetic.notes_parts import (
    Writer,
    day,
    exam_lines,
    family_lines,
    medication_list,
    note_texts,
    problems,
    result_lines,
    signature,
    social_lines,
    some,
    step_text,
)
from core.synthetic.patient import chance, pick
from core.synthetic.trajectory import active

SPOKEN = {
    "Cardiovascular Disease": "cardiology",
    "Pulmonary Disease": "pulmonary",
    "Medical Oncology": "oncology",
    "Obstetrics and Gynecology": "OB/GYN",
}
"""How authors call a specialty that billing names otherwise."""


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
