"""Encounters of a patient, and their structured events: visits, codes, drugs, labs, vitals, notes.

Drug steps are moved to the visit at which someone would have taken them, so that record and facts
agree. A record's size is controlled here: what is required (visits, notes, drug steps) comes first,
then rounds of measurements fill each encounter's share of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np

from midchart.extras.lab.synthetic.common import chance, pick, shuffled
from midchart.extras.lab.synthetic.medicine import (
    analytes,
    diseases,
    drugs,
    local,
    panel_analytes,
    panels,
    written,
)
from midchart.extras.lab.synthetic.patient import (
    Course,
    DrugStep,
    Encounter,
    Note,
    Patient,
    RecordItem,
    class_of,
    marketed,
)
from midchart.extras.lab.synthetic.trajectory import (
    active,
    creatinine,
    delivered,
    measure,
    true_egfr,
)

_NOTE_CODES = {
    "Progress Note": "LOINC/11506-3", "H&P": "LOINC/34117-2", "Discharge Summary": "LOINC/18842-5",
    "ED Provider Note": "LOINC/34111-5", "Consult Note": "LOINC/11488-4",
    "Imaging Report": "LOINC/18748-4", "Pathology Report": "LOINC/11526-1",
    "Telephone Encounter": "LOINC/34748-4", "Nursing Note": "LOINC/34746-8",
}  # fmt: skip
_VISITS = {
    "OP": "Outpatient Visit", "ED": "Emergency Room Visit", "IP": "Inpatient Visit",
    "TEL": "Telephone", "SERIES": "Outpatient Series", "LAB": "Laboratory Visit",
}  # fmt: skip
_VISIT_CODES = {"OP": "Visit/OP", "ED": "Visit/ER", "IP": "Visit/IP"}


def _visits(rng: np.random.Generator, p: Patient, count: int) -> list[Encounter]:
    span = (p.last - p.first).total_seconds()
    visits: list[Encounter] = []
    for i in range(count):
        share = (i + float(rng.uniform(0.15, 0.85))) / count
        day = p.first + timedelta(seconds=span * share) if i else p.first
        start = day.replace(hour=int(rng.integers(8, 16)), minute=int(rng.integers(0, 12)) * 5)
        # Clinics are shut at weekends.
        start -= timedelta(days=max(start.weekday() - 4, 0)) if i else timedelta(0)
        keys = active(p, start)
        focus = [pick(rng, keys)] if keys else []
        others = [key for key in keys if key not in focus]
        if others and chance(rng, 0.7):
            focus += shuffled(rng, others, 2)
        specialty = "Internal Medicine"
        if focus and chance(rng, 0.55):
            specialty = diseases()[focus[0]].specialty
        phone = i > 1 and chance(rng, 0.2)
        setting, minutes, weight = ("TEL", 15, 0.1) if phone else ("OP", 75, 1.0)
        end = start + timedelta(minutes=minutes)
        visits.append(Encounter(setting, specialty, start, end, focus, weight=weight))
    return visits


def _move_steps(p: Patient, visits: list[Encounter]) -> None:
    """Put every drug step that falls into the record on the next visit."""
    days = [e.start for e in visits]
    for course in p.courses:
        steps = [s for s in course.steps if s.when < p.first]
        last = p.first if steps else None
        for step in (s for s in course.steps if s.when >= p.first):
            day = next((d for d in days if d >= step.when and (last is None or d > last)), None)
            if day is None:
                break
            step.when = day + timedelta(minutes=50)
            last = day
            steps.append(step)
        course.steps = steps
    p.courses = [c for c in p.courses if c.steps]
    # A successor starts on the day its predecessor is stopped.
    courses = {course.drug: course for course in reversed(p.courses)}
    for step in (step for course in p.courses for step in course.steps if step.successor):
        successor = courses.get(step.successor)
        if successor is None:
            step.successor = ""
        elif step.action == "stop":
            successor.steps[0].when = step.when
            successor.steps = successor.steps[:1]
    # A successor whose predecessor's stop fell off the record never began.
    successors = {s.successor for c in p.courses for s in c.steps if s.successor}
    p.courses = [c for c in p.courses if not c.steps[0].replaces or c.drug in successors]


def _start_at_discharge(p: Patient, visits: list[Encounter]) -> None:
    """Drugs that an admission starts for good, or for three months, after which a visit ends it."""
    for episode in p.episodes:
        if episode.kind.key == "he":
            drug, days, why = "lactulose", 0, ""
        elif episode.kind.key == "dvt":
            drug = "apixaban" if marketed("apixaban", episode.start) else "warfarin"
            days, why = 88, "three months completed after a clot with a clear trigger"
        else:
            continue
        if any(class_of(c.drug) == class_of(drug) for c in p.courses):
            continue
        start, dose = episode.end - timedelta(minutes=20), len(drugs()[drug].steps) // 2
        steps = [DrugStep(start, "start", drug, dose, -1, episode.kind.name)]
        after = [v.start for v in visits if days and (v.start - episode.end).days > days]
        if after:
            stop = after[0] + timedelta(minutes=50)
            steps.append(DrugStep(stop, "stop", drug, dose, dose, why))
        p.courses.append(Course(drug, "", steps))


def _true_reasons(p: Patient) -> None:
    """A reason that names kidney function must be what the laboratory finds that day."""
    for course in p.courses:
        stop = course.steps[-1]
        cause = stop.cause
        if cause and cause.egfr_below and true_egfr(p, stop.when) > cause.egfr_below:
            stop.why = cause.otherwise


def _pregnancy_end(p: Patient) -> None:
    """Insulin of pregnancy ends with it, whatever visits its steps were moved to."""
    end = delivered(p)
    for course in p.courses:
        if course.drug != "insulin NPH" or end is None:
            continue
        when = end - timedelta(hours=3)
        course.steps = [s for s in course.steps if s.when < when and s.action != "stop"]
        if course.steps:
            dose = course.steps[-1].dose
            why = "delivery, with normal sugars the next morning"
            course.steps.append(DrugStep(when, "stop", course.drug, dose, dose, why))
    p.courses = [c for c in p.courses if c.steps]


def _series(rng: np.random.Generator, p: Patient) -> list[Encounter]:
    """A run of short contacts under one encounter that lasts weeks and overlaps others."""
    if not chance(rng, 0.6):
        return []
    span = (p.last - p.first).days
    start = p.first + timedelta(
        days=int(rng.integers(span // 5, max(span * 4 // 5, span // 5 + 1))), hours=10
    )
    anticoagulated = any(c.drug == "warfarin" and c.dose_at(start) is not None for c in p.courses)
    specialty = "Anticoagulation" if anticoagulated else "Physical Therapy"
    end = start + timedelta(days=int(rng.integers(25, 80)))
    return [Encounter("SERIES", specialty, start, end, active(p, start)[:1], weight=0.3)]


def make_encounters(rng: np.random.Generator, p: Patient, events: int) -> list[Encounter]:
    """All contacts of the record in order of their start.

    Args:
        rng: the patient's generator; p: the patient, whose drug steps are moved onto visits and
            whose acute illnesses are thinned to what the size allows; events: the wanted size.
    """
    # Longer records are also denser.
    total = max(8, round(14 * (events / 300) ** 0.65))
    most = max(2, total // 5)
    fixed = [e for e in p.episodes if e.kind.key in ("mi", "delivery")]
    others = [e for e in p.episodes if e.kind.key not in ("mi", "delivery")]
    others = shuffled(rng, others, max(most - len(fixed), 1))
    p.episodes = sorted(fixed + others, key=lambda e: e.start)
    stays: list[Encounter] = []
    for episode in p.episodes:
        if not p.first < episode.start < p.last:
            continue
        setting, start, end = episode.kind.setting, episode.start, episode.end
        specialty, weight = "Emergency Medicine", 1.5
        if setting == "IP":
            specialty, weight = "Hospital Medicine", 1.5 + 0.55 * max((end - start).days, 1)
        focus = active(p, start)[:3]
        stays.append(Encounter(setting, specialty, start, end, focus, episode, weight=weight))
    p.episodes = [e.episode for e in stays if e.episode is not None]
    visits = _visits(rng, p, total - len(stays))
    # No clinic visit happens while the patient is in a hospital bed.
    visits = [
        v
        for v in visits
        if not any(s.start - timedelta(days=1) < v.start < s.end + timedelta(days=1) for s in stays)
    ]
    _move_steps(p, visits)
    _start_at_discharge(p, visits)
    _true_reasons(p)
    _pregnancy_end(p)
    return sorted([*visits, *stays, *_series(rng, p)], key=lambda e: e.start)


def _item(
    when: datetime, type_: str, code: str, name: str, text: str = "", unit: str = ""
) -> RecordItem:
    return RecordItem(when.replace(second=0, microsecond=0), type_, code, name, text, unit)


def note_slot(e: Encounter, when: datetime, kind: str, closed: bool = False) -> RecordItem:
    """An empty note of ``kind`` in the encounter."""
    code = _NOTE_CODES.get(kind, local("NOTE", kind))
    item = _item(when, "note", code, kind)
    item.note = Note(kind, item.when, closed=closed)
    e.items.append(item)
    return item


def extra_call(when: datetime, focus: list[str]) -> Encounter:
    """A call with a note, for a stretch of the record without notes."""
    call = Encounter("TEL", "Internal Medicine", when, when + timedelta(minutes=15), focus)
    call.items.append(RecordItem(when, "visit", "LOCAL/VISIT-telephone", "Telephone", "start|end"))
    note_slot(call, when, "Telephone Encounter")
    return call


def _minutes(e: Encounter, minutes: float) -> datetime:
    return e.start + timedelta(minutes=minutes)


def _notes(rng: np.random.Generator, p: Patient, e: Encounter, seen: set[str]) -> None:
    # By setting: visit, telephone, emergency, hospital, series.
    match e.setting:
        case "OP":
            kind = "Progress Note"
            if e.specialty not in seen:
                kind = "Consult Note" if e.specialty != "Internal Medicine" else "H&P"
                seen.add(e.specialty)
            note_slot(e, _minutes(e, 58), kind)
            if chance(rng, 0.22):
                note_slot(e, _minutes(e, 12), "Nursing Note")
            elif chance(rng, 0.15):
                note_slot(e, _minutes(e, 70), "Social Work Note")
            elif chance(rng, 0.15):
                note_slot(e, _minutes(e, 66), "Pharmacy Note")
            if chance(rng, 0.2):
                note_slot(e, _minutes(e, 64), "Imaging Report", closed=True)
            elif e.specialty == "Medical Oncology" and chance(rng, 0.4):
                note_slot(e, _minutes(e, 62), "Pathology Report", closed=True)
        case "TEL":
            note_slot(e, _minutes(e, 10), "Telephone Encounter")
        case "ED":
            note_slot(e, _minutes(e, 35), "Nursing Note")
            note_slot(e, _minutes(e, 95), "Imaging Report", closed=True)
            note_slot(e, _minutes(e, 150), "ED Provider Note")
        case "IP":
            note_slot(e, _minutes(e, 70), "ED Provider Note")
            note_slot(e, _minutes(e, 95), "Imaging Report", closed=True)
            note_slot(e, _minutes(e, 260), "H&P")
            days = max((e.end - e.start).days, 1)
            for day in range(1, days):
                at = (e.start + timedelta(days=day)).replace(hour=8 + day % 3, minute=40)
                if day == 1 or chance(rng, 0.6):
                    note_slot(e, at, "Progress Note")
                if day == 1 and chance(rng, 0.5):
                    note_slot(e, at + timedelta(hours=4), "Consult Note")
                elif chance(rng, 0.25):
                    note_slot(e, at + timedelta(hours=11), "Nursing Note")
            if chance(rng, 0.5):
                kind = "Case Management Note" if chance(rng, 0.6) else "Pharmacy Note"
                note_slot(e, e.end - timedelta(hours=6), kind)
            note_slot(e, e.end - timedelta(minutes=30), "Discharge Summary")
        case "SERIES":
            note_slot(e, _minutes(e, 40), "Nursing Note")
        case _:
            pass


def _fixed(rng: np.random.Generator, p: Patient, e: Encounter, seen: set[str]) -> None:
    def add(minutes: float, type_: str, code: str, name: str, text: str = "") -> None:
        e.items.append(_item(_minutes(e, minutes), type_, code, name, text))

    visit = _VISITS[e.setting]
    code = _VISIT_CODES.get(e.setting, local("VISIT", visit))
    long = e.setting in ("IP", "ED", "SERIES")
    add(0, "visit", code, visit, "start" if long else "start|end")
    if long:
        e.items.append(_item(e.end, "visit", code, visit, "end"))
    if e.setting in ("OP", "IP", "ED"):
        add(0, "visit_detail", local("CARE_SITE", e.specialty), e.specialty.upper())
    if e.episode is not None:
        kind = e.episode.kind
        add(30, "condition", kind.code, kind.name)
        add(85, "image", local("IMG", kind.imaging.study), kind.imaging.study)
        for i, key in enumerate(kind.treatment):
            _, product, drug_code = drugs()[key].steps[0]
            add(120 + 13 * i, "drug_exposure", drug_code, product, "start")
            if e.setting == "IP":
                end = e.end - timedelta(minutes=45 - i)
                e.items.append(_item(end, "drug_exposure", drug_code, product, "end"))
        if kind.key == "mi":
            add(1100, "procedure", "SNOMED/415070008", "Percutaneous coronary intervention")
        if kind.key == "delivery":
            add(20, "condition", "SNOMED/11687002", "Gestational diabetes mellitus")
        add(22, "procedure", "SNOMED/268400002", "12 lead ECG")
    elif e.setting == "OP":
        for key in e.focus:
            add(55, "condition", diseases()[key].code, diseases()[key].name)
        if e.start.month in (9, 10, 11) and chance(rng, 0.6):
            vaccine = local("PROC", "influenza vaccine")
            add(60, "procedure", vaccine, "Administration of influenza vaccine")
        if chance(rng, 0.35):
            never = p.social["smoking"] == "never"
            smoking = "SNOMED/266919005" if never else "SNOMED/8517006"
            add(9, "observation", smoking, "Never smoker" if never else "Former smoker")
        if "t2dm" in e.focus and chance(rng, 0.2):
            add(61, "device_exposure", "SNOMED/337414009", "Blood glucose meter")
    _notes(rng, p, e, seen)


def _drug_steps(p: Patient, encounters: list[Encounter]) -> None:
    """Product by product: a new dose is the end of one product and the start of another."""
    for course in p.courses:
        drug = drugs()[course.drug]
        for step in course.steps:
            if step.when < p.first:
                continue
            host = min(encounters, key=lambda e: abs((e.start - step.when).total_seconds()))
            at = step.when + timedelta(minutes=2)
            if step.action != "start":
                _, product, code = drug.steps[step.before]
                host.items.append(_item(at, "drug_exposure", code, product, "end"))
            if step.action != "stop":
                _, product, code = drug.steps[step.dose]
                host.items.append(_item(at, "drug_exposure", code, product, "start"))


def _rounds(
    rng: np.random.Generator, p: Patient, e: Encounter
) -> Iterator[tuple[datetime, tuple[str, ...]]]:
    """Rounds of measurement in order of importance; stays have many."""
    # Analytes of the conditions that the encounter is about.
    wanted = [name for key in e.focus for name in diseases()[key].labs]
    labs = list(dict.fromkeys(key for name in wanted for key in panel_analytes(name)))
    if e.setting == "SERIES":
        days = (e.end - e.start).days
        keys = ("inr",) if e.specialty == "Anticoagulation" else ("hr", "sbp")
        for i in range(8):
            yield e.start + timedelta(days=days * i / 8, minutes=12), keys
        return
    if e.setting == "TEL":
        return
    if e.setting in ("OP", "LAB"):
        if e.setting == "OP":
            yield _minutes(e, 8), ("sbp", "dbp", "hr")
        yield _minutes(e, 31), tuple(labs[:5])
        if e.setting == "OP":
            yield _minutes(e, 8), ("temp", "rr", "spo2", "wt")
        yield _minutes(e, 31), tuple(labs[5:])
        for panel in ("bmp", "cbc", "lft", "lipid"):
            yield _minutes(e, 33), tuple(key for key in panels()[panel] if key not in labs)
        return
    # In hospital: admission, then vital signs every six hours and laboratory every morning.
    kind = e.episode.kind if e.episode is not None else None
    first = kind.labs if kind is not None else ("bmp", "cbc")
    yield _minutes(e, 6), panels()["vitals"]
    for name in first:
        yield _minutes(e, 41), panel_analytes(name)
    hours, day = 6.0, 1
    length = (e.end - e.start).total_seconds() / 3600
    step = 6.0 if length > 24 else 1.0
    while hours < length - 1:
        yield e.start + timedelta(hours=hours), panels()["flow"]
        if hours >= 24 * day - 4:
            at = (e.start + timedelta(days=day)).replace(hour=5, minute=15)
            for name in first[:3]:
                if e.start < at < e.end:
                    yield at, panel_analytes(name)
            day += 1
        hours += step
    # Nursing checks in between, up to one in ten minutes.
    for _ in range(int(6 * length) if length > 2 else 0):
        at = e.start + timedelta(hours=float(rng.uniform(1, length - 0.5)))
        yield at, panels()["flow"]


def _fill(rng: np.random.Generator, p: Patient, e: Encounter, wanted: int) -> int:
    """Add rounds until ``wanted`` measurements are there; returns how many were added."""
    added = 0
    taken: set[tuple[datetime, str]] = set()
    for when, keys in _rounds(rng, p, e):
        if added >= wanted:
            break
        when = when.replace(second=0, microsecond=0)
        drawn: dict[str, float] = {}
        for key in keys:
            if (when, key) in taken or added >= wanted + 4:
                continue
            taken.add((when, key))
            if key == "egfr" and "cr" in drawn:
                # Calculated from the creatinine just measured.
                value = (drawn["cr"] / creatinine(p, 1.0, when)) ** -1.154
            else:
                value = measure(p, key, when, rng)
            drawn[key] = value
            a = analytes()[key]
            e.items.append(_item(when, "measurement", a.code, a.name, written(key, value), a.unit))
            added += 1
    return added


def build_events(
    rng: np.random.Generator, p: Patient, encounters: list[Encounter], wanted: int
) -> list[Encounter]:
    """Fill the encounters with about ``wanted`` events; returns them with lab visits added."""
    seen: set[str] = set()
    for e in encounters:
        _fixed(rng, p, e, seen)
    _drug_steps(p, encounters)
    left = wanted - sum(len(e.items) for e in encounters)
    weights = np.array([e.weight for e in encounters])
    order = sorted(range(len(encounters)), key=lambda i: encounters[i].setting in ("IP", "ED"))
    for rank, i in enumerate(order):
        # Stays come last: they take up what the clinic visits could not.
        e = encounters[i]
        share = left * weights[i] / float(weights[order[rank:]].sum())
        if e.setting in ("IP", "ED"):
            share = min(share, wanted * 0.16)
        left -= _fill(rng, p, e, int(max(share, 3 if e.weight > 0.5 else 0)))
    span = (p.last - p.first).total_seconds()
    count = max(left // 24, 0)
    for i in range(count):
        start = p.first + timedelta(seconds=span * (i + float(rng.uniform(0.1, 0.9))) / count)
        start = start.replace(hour=int(rng.integers(7, 11)), minute=int(rng.integers(0, 60)))
        if any(e.start <= start <= e.end for e in encounters if e.setting == "IP"):
            continue
        end = start + timedelta(minutes=40)
        visit = Encounter("LAB", "Laboratory", start, end, active(p, start))
        _fixed(rng, p, visit, seen)
        left -= _fill(rng, p, visit, 23)
        encounters.append(visit)
    encounters.sort(key=lambda e: e.start)
    return encounters


def number(encounters: list[Encounter]) -> list[RecordItem]:
    """Sort, then give every event its order in the record: stable by time, in document order."""
    events: list[RecordItem] = []
    for i, e in enumerate(encounters):
        e.number = i
        e.items.sort(key=lambda item: item.when)
        events.extend(e.items)
    events.sort(key=lambda item: item.when)
    for i, item in enumerate(events):
        item.order = i
    return events
