"""Notes: what each kind of note contains, and their rendering as text.

A drug step is stated in one sentence of one note, marked so that a question can refer to it. Lists
and histories are copied from note to note, sometimes out of date, and long passages of little
content surround the sentences that a question asks for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from midchart.core.reference_tables import table_row
from midchart.extras.lab.synthetic.common import (
    capitalised,
    chance,
    pick,
    shuffled,
    worded,
    wordings,
)
from midchart.extras.lab.synthetic.medicine import (
    READING_SLOTS,
    analyte_keys,
    analytes,
    diseases,
    dose,
    drugs,
    spoken,
)
from midchart.extras.lab.synthetic.patient import (
    Block,
    Course,
    DrugStep,
    Encounter,
    Note,
    NotePiece,
    Patient,
    RecordItem,
)
from midchart.extras.lab.synthetic.reference import yaml_table
from midchart.extras.lab.synthetic.trajectory import active

SPOKEN = {
    "Cardiovascular Disease": "cardiology",
    "Pulmonary Disease": "pulmonary",
    "Medical Oncology": "oncology",
    "Obstetrics and Gynecology": "OB/GYN",
}
"""What authors call a specialty that billing names otherwise."""
RESULTS = (
    "na", "k", "bun", "cr", "egfr", "wbc", "hgb", "plt", "a1c", "inr", "tsh", "ldl", "alt", "bili",
    "alb", "crp", "bnp", "uacr",
)  # fmt: skip
"""Analytes in a note's list of results, in order."""
LONG_NOTES = {
    "H&P": 1.0,
    "Consult Note": 0.9,
    "Discharge Summary": 0.8,
    "Progress Note": 0.55,
    "ED Provider Note": 0.7,
}
"""Share of long notes by kind, at full wordiness."""
ABBREVIATIONS = (
    (" with ", " w/ "), ("history of", "h/o"), ("shortness of breath", "SOB"),
    ("follow-up", "f/u"), (" without ", " w/o "), ("twice daily", "BID"), ("blood pressure", "BP"),
    ("The patient", "Pt"), ("the patient", "pt"), (" and ", " & "),
)  # fmt: skip


@table_row
class Report:
    """An imaging or pathology report that concerns no condition of the patient."""

    study: str
    findings: str
    impression: str
    indication: str = ""


_reports = yaml_table(dict[Literal["imaging", "pathology"], tuple[Report, ...]], "reports.yaml")


@dataclass
class Writer:
    """What the author of a note can see: the patient, earlier readings, earlier notes.

    ``wordy`` scales the share of long notes; ``readings`` are (time, value) by analyte; ``steps``
    holds the drug steps stated so far by the id of their sentence.
    """

    p: Patient
    rng: np.random.Generator
    wordy: float = 1.0
    readings: dict[str, list[tuple[datetime, str]]] = field(
        default_factory=dict[str, list[tuple[datetime, str]]]
    )
    last_hpi: list[str] = field(default_factory=list[str])
    last_when: datetime | None = None
    list_when: datetime | None = None
    steps: dict[str, tuple[Course, DrugStep, Note]] = field(
        default_factory=dict[str, tuple[Course, DrugStep, Note]]
    )

    def index_readings(self, items: list[RecordItem]) -> None:
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
            reading = self.latest(key, when)
            if reading is None or (when - reading[0]).days > 500:
                if "{" + key + "}" in text:
                    return None
                continue
            words[key] = reading[1]
        sbp, dbp = self.latest("sbp", when), self.latest("dbp", when)
        if "{bp}" in text:
            if sbp is None or dbp is None or (when - sbp[0]).days > 400:
                return None
            words["bp"] = f"{sbp[1]}/{dbp[1]}"
        return text.format_map(words)

    def say(self, options: tuple[str, ...], when: datetime) -> list[str]:
        """One of the templates that can be filled; nothing if none can."""
        filled = [t for t in (self.fill(o, when) for o in options) if t]
        return [pick(self.rng, filled)] if filled else []

    def worded(self, name: str, /, **words: object) -> str:
        """One of the wordings called ``name``, with the patient's words."""
        return worded(self.rng, name, **{**self.p.words, **words})

    def sample(self, options: tuple[str, ...], low: int, high: int) -> list[str]:
        """``low`` to ``high`` of the options in their given order."""
        count = int(self.rng.integers(low, high + 1))
        chosen = sorted(int(i) for i in self.rng.permutation(len(options))[:count])
        return [options[i] for i in chosen]

    def some(self, name: str, low: int, high: int) -> list[str]:
        """``low`` to ``high`` of the sentences called ``name``, in order."""
        return self.sample(wordings()[name], low, high)


def section(
    kind: str, title: str, content: Iterable[str | NotePiece], style: str = "prose"
) -> Block:
    """A section of a note from sentences or marked pieces."""
    return Block(
        kind, title, [c if isinstance(c, NotePiece) else NotePiece(c) for c in content], style
    )


def day(when: datetime) -> str:
    """A date as American charts write it."""
    return when.strftime("%m/%d/%Y")


def signature(rng: np.random.Generator) -> str:
    """The name under a note."""
    return pick(rng, wordings()["signatures"])


# Content of sections.


def _step_text(w: Writer, step: DrugStep) -> str:
    """The sentence that states why a drug was started, changed or stopped."""
    drug = drugs()[step.drug]
    by_brand = chance(w.rng, 0.35) and drug.brand[0].isupper()
    name = drug.brand if by_brand else step.drug
    successor = ""
    if step.successor:
        successor = f" and {step.successor} {dose(step.successor, 0)} substituted"
    return w.worded(
        f"drug_{step.action}",
        name=name,
        lead=capitalised(name),
        why=step.why.format_map(w.p.words),
        new=dose(step.drug, step.dose),
        old=dose(step.drug, step.before),
        successor=successor,
    )


def _drug_steps(w: Writer, e: Encounter, note: Note) -> list[tuple[str, NotePiece]]:
    """Sentences of the drug steps taken at this visit: (disease key, marked piece)."""
    pieces: list[tuple[str, NotePiece]] = []
    for course in w.p.courses:
        for i, step in enumerate(course.steps):
            # A call is over before its order is keyed in, hence the two hours.
            if not e.start <= step.when <= e.start + timedelta(hours=2):
                continue
            id_ = f"step-{course.drug}-{i}"
            if not step.replaces and id_ not in w.steps:
                w.steps[id_] = (course, step, note)
                pieces.append((course.disease, NotePiece(_step_text(w, step), id_)))
    return pieces


def _medications(w: Writer, when: datetime) -> list[str]:
    """Drugs in force at ``when``."""
    lines: list[str] = []
    for course in w.p.courses:
        step = course.dose_at(when)
        if step is not None:
            drug = drugs()[course.drug]
            brand = f" ({drug.brand.upper()})" if drug.brand.lower() != course.drug else ""
            lines.append(f"{course.drug}{brand} {dose(course.drug, step)}")
    return lines or ["No regular prescription medicines"]


def _problems(w: Writer, when: datetime) -> list[str]:
    """The problem list, resolved illnesses with their year."""
    lines = [
        diseases()[k].name + ("" if chance(w.rng, 0.6) else f" ({diseases()[k].short})")
        for k in active(w.p, when)
    ]
    lines += [f"{e.kind.name}, {e.start.year}, resolved" for e in w.p.episodes if e.end < when]
    return lines or ["No chronic illness on file"]


def _social(w: Writer) -> list[str]:
    """The coarse social history that every author copies."""
    social = w.p.social
    lines = [w.worded(f"smoking_{social['smoking']}"), f"Alcohol: {social['alcohol']}."]
    if chance(w.rng, 0.4):
        lines.append("Feels safe at home.")
    if chance(w.rng, 0.5):
        lines.append(f"{social['marital'].capitalize()}.")
    return lines


def _family(w: Writer) -> list[str]:
    """Relatives' illnesses, some of them the patient's own."""
    rows = shuffled(w.rng, w.p.family, 3)
    return [*(f"{capitalised(row)}." for row in rows), w.worded("family_denied")]


def _true_of(w: Writer, when: datetime, sentences: list[str]) -> list[str]:
    """Normal findings, without those that a condition of the patient makes untrue."""
    words = [word for key in active(w.p, when) for word in diseases()[key].untrue]
    return [s for s in sentences if not any(word in s for word in words)]


def _exam(w: Writer, when: datetime, focus: list[str]) -> list[str]:
    """Vitals line, disease findings, then normal findings."""
    lines = _vitals_line(w, when)
    for key in focus:
        lines += w.say(diseases()[key].exam, when)
    return lines + _true_of(w, when, w.some("exam", 3, 7))


def _acute_exam(w: Writer, when: datetime) -> list[str]:
    return _vitals_line(w, when) + w.some("acute_exam", 2, 5)


def _vitals_line(w: Writer, when: datetime) -> list[str]:
    sbp, dbp, hr = (w.latest(k, when) for k in ("sbp", "dbp", "hr"))
    if sbp and dbp and hr and (when - sbp[0]).days < 2:
        return [f"Vitals: BP {sbp[1]}/{dbp[1]}, pulse {hr[1]}."]
    return []


def _results(w: Writer, when: datetime, days: int = 400) -> list[str]:
    """Values of the last ``days`` in shorthand, by date of the draw."""
    by_date: dict[str, list[str]] = {}
    for key in RESULTS:
        reading = w.latest(key, when)
        if reading is not None and (when - reading[0]).days <= days:
            value = f"{analytes()[key].short} {reading[1]}"
            by_date.setdefault(day(reading[0]), []).append(value)
    return [f"{date}: " + ", ".join(values) for date, values in by_date.items()]


def _since_last_visit(w: Writer, when: datetime) -> list[str]:
    recent = [e for e in w.p.episodes if 0 <= (when - e.end).days < 200]
    return [
        wordings()["since_last_visit"][0].format(
            he=w.p.words["he"],
            place="hospitalised" if e.kind.setting == "IP" else "seen in the ED",
            complaint=e.kind.complaint,
            date=day(e.start),
        )
        for e in recent
    ]


def _is_worse(w: Writer, key: str, when: datetime) -> bool:
    """Whether the condition is doing badly by its reading, or else by chance."""
    limit = diseases()[key].worse_if
    if limit is not None:
        reading = w.latest(limit.analyte, when)
        return reading is not None and float(reading[1]) > limit.above
    return chance(w.rng, 0.22)


# Kinds of notes.


def _clinic(w: Writer, e: Encounter, note: Note) -> list[Block]:
    """Progress Note, Consult Note or H&P of an outpatient visit."""
    # History: why the patient comes, what was copied, what is new.
    when, rng, p = note.when, w.rng, w.p
    long = note.kind in ("H&P", "Consult Note") or chance(rng, 0.45)
    known = ", ".join([diseases()[k].short for k in active(p, when)][:4]) or "no chronic illness"
    visit = {"H&P": "visit_new", "Consult Note": "visit_consult"}.get(note.kind, "visit_return")
    reason = w.worded(visit, specialty=SPOKEN.get(e.specialty, e.specialty.lower()))
    hpi = [w.worded("clinic_lead", age=p.age(when), known=known, reason=reason)]
    if w.last_when is not None and len(w.last_hpi) > 1 and chance(rng, 0.38):
        hpi += [f"From the {day(w.last_when)} note:", *w.last_hpi[:4]]
        if chance(rng, 0.7):
            hpi.append("Update today:")
    hpi += _since_last_visit(w, when)
    fresh: list[str] = []
    for key in e.focus:
        disease = diseases()[key]
        worse = _is_worse(w, key, when)
        fresh += w.say(disease.worse if worse else disease.stable, when)
        if long and not worse and len(disease.stable) > 1:
            fresh += [text for text in w.say(disease.stable, when) if text not in fresh]
    hpi += fresh
    steps = _drug_steps(w, e, note)
    if long:
        company = "a relative" if chance(rng, 0.5) else "no one"
        hpi.append(w.worded("clinic_history", company=company))
    # Background sections, some of them carried forward.
    blocks = [
        section("cc", "Chief Complaint", [capitalised(reason) + "."]),
        section("hpi", w.worded("title_history"), hpi),
    ]
    if long:
        blocks.append(section("pmh", "Past Medical History", _problems(w, when), "list"))
    stale = w.list_when is not None and chance(rng, 0.3)
    if not stale or w.list_when is None:
        w.list_when = when
    title = "Current Medications" + (" (carried forward)" if stale and chance(rng, 0.5) else "")
    blocks.append(section("meds", title, _medications(w, w.list_when), "list"))
    substance, reaction = p.allergy
    allergy = f"{substance.capitalize()} ({reaction})." if substance else "No known drug allergies."
    blocks.append(section("allergy", "Allergies", [allergy]))
    if long:
        blocks.append(section("fh", "Family History", _family(w)))
    blocks.append(section("social", "Social History", _social(w)))
    # Findings of this visit.
    ros = w.some("review_of_systems", *((5, 10) if long else (2, 3)))
    for key in e.focus:
        ros += w.say(diseases()[key].ros, when)
    blocks.append(section("ros", "Review of Systems", ros))
    blocks.append(section("exam", w.worded("title_exam"), _exam(w, when, e.focus)))
    if results := _results(w, when):
        blocks.append(section("results", w.worded("title_results"), results, "list"))
    # Assessment and plan, by condition.
    plan: list[str | NotePiece] = []
    for key in e.focus:
        disease = diseases()[key]
        plan += w.say(disease.assess, when)
        plan += [piece for owner, piece in steps if owner == key]
        plan += w.sample(disease.todo, 1, min(2, len(disease.todo)))
    plan += [piece for owner, piece in steps if owner not in e.focus]
    plan.append(w.worded("clinic_return"))
    blocks.append(section("plan", w.worded("title_plan"), plan))
    w.last_hpi, w.last_when = fresh, when
    return blocks


def _emergency(w: Writer, e: Encounter, note: Note) -> list[Block]:
    assert e.episode is not None
    kind, when = e.episode.kind, note.when
    spo2, temp = w.latest("spo2", when), w.latest("temp", when)
    triage = [f"Arrived {day(e.start)} {e.start:%H:%M}. Chief complaint: {kind.complaint}."]
    if spo2 and temp:
        triage.append(f"Triage T {temp[1]} F, SpO2 {spo2[1]}% on room air.")
    admitted = e.setting == "IP"
    blocks = [
        section("cc", "ED Course / Triage", triage),
        section("hpi", "HPI", [*w.say(kind.story, when), *w.some("denials", 2, 4)]),
        section("pmh", "PMH", _problems(w, when), "list"),
        section("meds", "Home Medications", _medications(w, when), "list"),
        section("social", "Social", _social(w)),
        section("exam", "Physical Exam", [kind.exam, *_acute_exam(w, when)]),
        section("results", "Results", _results(w, when, 1), "list"),
    ]
    mdm = [
        f"Impression: {kind.name.lower()}.",
        w.worded("emergency_impression"),
        f"Given {', '.join(kind.treatment[:2])}.",
        "Admitted to medicine." if admitted else "Discharged home with return precautions.",
    ]
    if not admitted:
        mdm += [kind.course[0], *kind.discharge]
    return [*blocks, section("plan", "MDM and Disposition", mdm)]


def _admission(w: Writer, e: Encounter, note: Note) -> list[Block]:
    assert e.episode is not None
    kind, when = e.episode.kind, note.when
    substance, reaction = w.p.allergy
    shorts = [diseases()[k].short for k in active(w.p, when)[:4]]
    plan = [
        f"# {kind.name}: admit, treat as below and reassess daily.",
        *(f"# {short}: continue home regimen unless held above." for short in shorts),
    ]
    story = [*w.say(kind.story, when), *w.some("denials", 2, 4)]
    return [
        section("cc", "Chief Complaint", [kind.complaint.capitalize() + "."]),
        section("hpi", "History of Present Illness", story),
        section("pmh", "Past Medical History", _problems(w, when), "list"),
        section("meds", "Prior to Admission Medications", _medications(w, when), "list"),
        section("allergy", "Allergies", [f"{substance} - {reaction}" if substance else "NKDA"]),
        section("fh", "Family History", _family(w)),
        section("social", "Social History", _social(w)),
        section("exam", "Physical Exam", [kind.exam, *_acute_exam(w, when)]),
        section("results", "Labs and Studies", _results(w, when, 2), "list"),
        section("imaging", "Imaging", [f"{kind.imaging.study}: {kind.imaging.report}"]),
        section("plan", "Assessment and Plan", plan + w.some("orders", 3, 5)),
    ]


def _ward(w: Writer, e: Encounter, note: Note) -> list[Block]:
    """Daily Progress Note or Consult Note of a stay; some copy the admission's history."""
    assert e.episode is not None
    kind, when = e.episode.kind, note.when
    number = (when.date() - e.start.date()).days + 1
    consult = note.kind == "Consult Note"
    lead = f"Hospital day {number}, {kind.name.lower()}."
    if consult:
        lead = f"Asked by medicine to comment on {kind.name.lower()}."
    hpi = [lead, *w.some("overnight", 2, 4)]
    if chance(w.rng, 0.5):
        hpi += ["Per admission H&P:", *w.say(kind.story, when)]
    title = "Reason for Consult" if consult else "Subjective / Interval Events"
    blocks = [
        section("hpi", title, hpi),
        section("exam", "Objective", _acute_exam(w, when)),
        section("results", "Labs", _results(w, when, 2), "list"),
    ]
    if consult or chance(w.rng, 0.4):
        blocks.append(section("meds", "Home Medications", _medications(w, e.start), "list"))
    step = kind.course[min(number - 1, len(kind.course) - 1)]
    plan = [w.worded("ward_progress"), step, *w.some("orders", 2, 4)]
    return [*blocks, section("plan", "Assessment / Plan", plan)]


def _discharge(w: Writer, e: Encounter, note: Note) -> list[Block]:
    assert e.episode is not None
    kind, when = e.episode.kind, note.when
    stay = f"Admitted {day(e.start)}. Discharged {day(e.end)}."
    window = [day(when + timedelta(days=days)) for days in (7, 21)]
    return [
        section("head", "", [stay, f"Principal diagnosis: {kind.name}."]),
        section("hpi", "Presentation", w.say(kind.story, when)),
        section("pmh", "Active and Past Problems", _problems(w, e.start), "list"),
        section(
            "course",
            "Hospital Course",
            [*kind.course, wordings()["course_others"][0].format_map(w.p.words)],
        ),
        section("imaging", "Studies", [f"{kind.imaging.study}: {kind.imaging.report}"]),
        section("results", "Pertinent Results", _results(w, when, 4), "list"),
        section("meds", "Discharge Medications", _medications(w, when), "list"),
        section("social", "Social", _social(w)),
        section(
            "plan",
            "Instructions and Follow-up",
            [*kind.discharge, f"Appointment window: {window[0]} to {window[1]}."],
        ),
    ]


def _nursing(w: Writer, e: Encounter, note: Note) -> list[Block]:
    readings = [
        (name, w.latest(key, note.when))
        for name, key in (("BP sys", "sbp"), ("HR", "hr"), ("SpO2", "spo2"), ("Wt kg", "wt"))
    ]
    recent = [f"{name} {r[1]}" for name, r in readings if r and (note.when - r[0]).days < 2]
    return [
        section("hpi", "Nursing Assessment", w.some("nursing", 3, 6)),
        section("exam", "Vitals", [", ".join(recent) + "." if recent else "Not taken."]),
    ]


def _telephone(w: Writer, e: Encounter, note: Note) -> list[Block]:
    calls = w.some("calls", 1, 2)
    steps = [piece for _, piece in _drug_steps(w, e, note)]
    return [section("hpi", "Telephone Encounter", [*calls, *steps, w.worded("call_end")])]


def _social_work(w: Writer, e: Encounter, note: Note) -> list[Block]:
    title = "Discharge Planning" if note.kind.startswith("Case") else "Social Work Assessment"
    return [
        section("hpi", title, w.some("social_work", 3, 6)),
        section("social", "Social History", _social(w)),
    ]


def _pharmacy(w: Writer, e: Encounter, note: Note) -> list[Block]:
    lines = w.some("pharmacy", 2, 5)
    for course in w.p.courses:
        step = course.dose_at(note.when)
        if step is not None and chance(w.rng, 0.3):
            brand = drugs()[course.drug].brand
            lines.append(f"{brand}: directions confirmed as {dose(course.drug, step)}.")
    return [
        section("hpi", "Medication Review", lines),
        section("meds", "Reconciled List", _medications(w, note.when), "list"),
    ]


def _imaging(w: Writer, e: Encounter, note: Note) -> list[Block]:
    if e.episode is not None:
        kind = e.episode.kind
        findings = kind.imaging.report
        impression = findings.split(". ")[0].rstrip(".") + "."
        indication = kind.complaint.capitalize() + "."
        report = Report(kind.imaging.study, findings, impression, indication)
    else:
        report = pick(w.rng, _reports()["imaging"])
    outside = not chance(w.rng, 0.5)
    comparison = "Prior outside study, report only." if outside else "None available."
    return [
        section("head", "Exam", [report.study]),
        section("cc", "Indication", [report.indication]),
        section("technique", "Comparison", [comparison]),
        section("results", "Findings", [report.findings]),
        section("plan", "Impression", [report.impression]),
    ]


def _pathology(w: Writer, e: Encounter, note: Note) -> list[Block]:
    report = pick(w.rng, _reports()["pathology"])
    return [
        section("head", "Specimen", [report.study + "."]),
        section("results", "Microscopic", [report.findings]),
        section("plan", "Diagnosis", [report.impression]),
    ]


def _series(w: Writer, e: Encounter, note: Note) -> list[Block]:
    enrolled = f"Enrolled in the {e.specialty.lower()} series, visits as scheduled."
    return [
        section("hpi", "Intake", [*w.some("nursing", 2, 4), enrolled]),
        section("pmh", "Problems", _problems(w, note.when), "list"),
        section("results", "Data", _results(w, note.when, 120), "list"),
    ]


Kind = Callable[[Writer, Encounter, Note], list[Block]]
_KINDS: dict[str, Kind] = {
    "Nursing Note": _nursing, "Telephone Encounter": _telephone, "Social Work Note": _social_work,
    "Case Management Note": _social_work, "Pharmacy Note": _pharmacy, "Imaging Report": _imaging,
    "Pathology Report": _pathology, "ED Provider Note": _emergency, "Discharge Summary": _discharge,
}  # fmt: skip


def _kind_of(e: Encounter, note: Note) -> Kind:
    if e.setting == "SERIES":
        return _series
    inpatient = _admission if note.kind == "H&P" else _ward
    return _KINDS.get(note.kind) or (inpatient if e.setting == "IP" else _clinic)


def write_notes(w: Writer, encounters: list[Encounter], events: list[RecordItem]) -> None:
    """Write every note of the record, in time order, so that each can copy from the last."""
    w.index_readings(events)
    notes = [
        (item.when, e.number, i, e, item.note)
        for e in encounters
        for i, item in enumerate(e.items)
        if item.note is not None
    ]
    for *_, e, note in sorted(notes, key=lambda row: row[:3]):
        note.style = int(w.rng.integers(4))
        blocks = _kind_of(e, note)(w, e, note)
        signed = f"Electronically signed by {signature(w.rng)}."
        note.blocks = [*blocks, section("sign", "", [signed])]
        if note.kind in LONG_NOTES and chance(w.rng, w.wordy * LONG_NOTES[note.kind]):
            note.blocks = _lengthen(w, note.when, note.blocks, e.setting == "OP")
        note.blocks = [b for b in note.blocks if b.pieces]


# Long passages of little content.


def _background(w: Writer, when: datetime) -> list[str]:
    """A paragraph on each long-term problem: since when, and what it is treated with, by the
    current medication list or the one last updated."""
    sentences: list[str] = []
    for key in active(w.p, when)[:5]:
        disease, year = diseases()[key], w.p.diseases[key].year
        course = worded(w.rng, "course", year=year, specialty=disease.specialty)
        sentences.append(f"{capitalised(disease.short)}: {course}")
        at = w.list_when if w.list_when is not None and chance(w.rng, 0.5) else when
        taken = [c.drug for c in w.p.courses if c.disease == key and c.dose_at(at) is not None]
        if taken:
            names = [drugs()[d].brand if chance(w.rng, 0.4) else d for d in taken]
            sentences.append("Treated with " + ", ".join(names) + ".")
        if chance(w.rng, 0.4):
            sentences.append(w.worded("family"))
    return sentences


def _flowsheet(w: Writer, when: datetime) -> list[str]:
    """Old values copied into the note: the source of outdated numbers."""
    lines: list[str] = []
    for key, label in (("wt", "Weight"), ("sbp", "Systolic"), ("cr", "Cr"), ("hgb", "Hgb")):
        rows = [row for row in w.readings.get(key, []) if row[0] < when]
        chosen = rows[-40::10] if len(rows) > 12 else rows[-4:]
        if len(chosen) > 1:
            values = ", ".join(f"{spoken(key, float(value))} ({day(at)})" for at, value in chosen)
            lines.append(f"{label}: {values}")
    return lines


def _lengthen(w: Writer, when: datetime, blocks: list[Block], clinic: bool) -> list[Block]:
    """The note's blocks with long passages added where authors put them.

    ``clinic``: a planned visit, with prevention, counselling and a full normal examination.
    """
    longer: list[Block] = []
    for block in blocks:
        longer.append(block)
        if block.kind == "ros":
            denied = [p for p in block.pieces if p.text.startswith("Denies")]
            block.pieces = [*map(NotePiece, w.some("long_review", 6, 11)), *denied]
        elif block.kind == "exam" and clinic:
            normal = _true_of(w, when, w.some("long_exam", 5, 10))
            specific = [p for p in block.pieces if p.text not in wordings()["exam"]]
            block.pieces = [*specific, *map(NotePiece, normal)]
        elif block.kind in ("pmh", "hpi") and not any(b.kind == "background" for b in longer):
            oncologic = "Oncologic/" if w.p.has("breast", when) else ""
            title = w.worded("title_background", summary=f"{oncologic}Medical Summary")
            longer.append(section("background", title, _background(w, when)))
        elif block.kind == "results":
            longer.append(section("flow", "Flowsheet Trends", _flowsheet(w, when), "list"))
        elif block.kind == "plan" and clinic:
            if chance(w.rng, 0.6):
                advice = w.some("maintenance", 4, 9)
                longer.append(section("maintenance", "Health Maintenance", advice, "list"))
            longer.append(section("counsel", w.worded("title_counsel"), w.some("counsel", 4, 9)))
    return longer


# Rendering.


def _header(title: str, style: int) -> str:
    headers = (title.upper() + "\n", title + ": ", f"** {title} **\n", title + ":\n")
    return headers[style % 4]


def _abbreviate(text: str) -> str:
    for long, short in ABBREVIATIONS:
        text = text.replace(long, short)
    return text


def render(note: Note) -> None:
    """Fill ``note.text`` and ``note.places`` (marked piece -> start and end in the text).

    Style 1 is the hurried author, who abbreviates; a marked piece is never changed.
    """
    text = ""
    for n, block in enumerate(note.blocks):
        if not block.pieces:
            continue
        if n:
            text += "\n\n" if note.style % 4 != 1 else "\n"
        listed = block.style == "list"
        if block.title:
            head = _header(block.title, note.style)
            text += head.rstrip() + "\n" if listed else head
        for i, piece in enumerate(block.pieces):
            if listed:
                text += ("\n" if i else "") + ("- " if note.style % 2 == 0 else "  ")
            elif i:
                text += "\n" if block.style == "lines" else " "
            if piece.id:
                note.places[piece.id] = (len(text), len(text) + len(piece.text))
            text += piece.text if piece.id or note.style % 4 != 1 else _abbreviate(piece.text)
    note.text = wrap(text, note.columns) if note.columns else text


def wrap(text: str, columns: int) -> str:
    """The text with blanks turned into line ends so that no line with a blank is longer than
    ``columns``; every other character keeps its place."""
    lines: list[str] = []
    for line in text.split("\n"):
        characters, begin = list(line), 0
        first = len(line) - len(line.lstrip(" "))
        while len(line) - begin > columns:
            cut = line.rfind(" ", max(begin, first) + 1, begin + columns + 1)
            if cut < 0:
                cut = line.find(" ", begin + columns)
            if cut < 0:
                break
            characters[cut] = "\n"
            begin = cut + 1
        lines.append("".join(characters))
    return "\n".join(lines)
