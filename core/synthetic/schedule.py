"""When this patient meets care, and why: visits, calls, admissions, series that overlap them.

Drug steps are moved to the visit at which someone would have taken them, so that the record and
the facts tell one story.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.medicine import diseases, drugs
from core.synthetic.model import Course, Encounter, Patient, Step
from core.synthetic.patient import class_of, marketed
from core.synthetic.trajectory import active, delivered, true_egfr


def encounter_count(events: int) -> int:
    """How many contacts a record of ``events`` events has; longer records are also denser."""
    return max(8, round(14 * (events / 300) ** 0.65))


def _visits(rng: np.random.Generator, p: Patient, count: int) -> list[Encounter]:
    span = (p.last - p.first).total_seconds()
    made: list[Encounter] = []
    for i in range(count):
        share = (i + float(rng.uniform(0.15, 0.85))) / count
        day = p.first + timedelta(seconds=span * share)
        if i == 0:
            day = p.first
        start = day.replace(hour=int(rng.integers(8, 16)), minute=int(rng.integers(0, 12)) * 5)
        # Clinics are shut at weekends.
        start -= timedelta(days=max(start.weekday() - 4, 0)) if i else timedelta(0)
        keys = active(p, start)
        if not keys:
            keys = ["gerd"] if "gerd" in keys else []
        focus = [pick(rng, keys)] if keys else []
        others = [key for key in keys if key not in focus]
        if others and chance(rng, 0.7):
            focus += [others[int(i)] for i in rng.permutation(len(others))[:2]]
        specialty = "Internal Medicine"
        if focus and chance(rng, 0.55):
            specialty = diseases()[focus[0]].specialty
        phone = i > 1 and chance(rng, 0.2)
        made.append(
            Encounter(
                "TEL" if phone else "OP",
                specialty,
                start,
                start + timedelta(minutes=15 if phone else 75),
                focus,
                weight=0.1 if phone else 1.0,
            )
        )
    return made


def _move_steps(p: Patient, visits: list[Encounter]) -> None:
    """Put every drug step that falls into the record on the next visit."""
    days = [e.start for e in visits]
    for course in p.courses:
        kept = [s for s in course.steps if s.when < p.first]
        last = p.first if kept else None
        for step in (s for s in course.steps if s.when >= p.first):
            place = next((d for d in days if d >= step.when and (last is None or d > last)), None)
            if place is None:
                break
            step.when = place + timedelta(minutes=50)
            last = place
            kept.append(step)
        course.steps = kept
    p.courses = [c for c in p.courses if c.steps]
    # A successor starts on the day its forerunner is stopped.
    for course in p.courses:
        for step in course.steps:
            if step.action != "stop" or not step.successor:
                continue
            heir = next((c for c in p.courses if c.drug == step.successor), None)
            if heir is None:
                step.successor = ""
                continue
            heir.steps[0].when = step.when
            heir.steps = heir.steps[:1]
    for course in p.courses:
        for step in course.steps:
            heirs = [c for c in p.courses if c.drug == step.successor]
            if step.successor and not heirs:
                step.successor = ""
    stopped = {s.successor for c in p.courses for s in c.steps if s.successor}
    # An heir whose forerunner's stop fell off the record never began.
    p.courses = [
        c
        for c in p.courses
        if not c.steps[0].why.startswith("replacement for") or c.drug in stopped
    ]


def _sent_home_with(p: Patient, visits: list[Encounter]) -> None:
    """What an admission starts for good, or for three months: the next visit ends it in writing."""
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
        course = Course(
            drug,
            "",
            [
                Step(
                    episode.end - timedelta(minutes=20),
                    "start",
                    drug,
                    len(drugs()[drug].steps) // 2,
                    -1,
                    episode.kind.name,
                )
            ],
        )
        after = [v.start for v in visits if days and (v.start - episode.end).days > days]
        if after:
            dose = course.steps[0].dose
            course.steps.append(
                Step(after[0] + timedelta(minutes=50), "stop", drug, dose, dose, why)
            )
        p.courses.append(course)


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
            course.steps.append(Step(when, "stop", course.drug, dose, dose, why))
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
    return [
        Encounter(
            "SERIES",
            "Anticoagulation" if anticoagulated else "Physical Therapy",
            start,
            start + timedelta(days=int(rng.integers(25, 80))),
            active(p, start)[:1],
            weight=0.3,
        )
    ]


def make_encounters(rng: np.random.Generator, p: Patient, events: int) -> list[Encounter]:
    """All contacts of the record in order of their start.

    Args:
        rng: the patient's generator; p: the patient, whose drug steps are moved onto visits and
            whose acute illnesses are thinned to what the size allows; events: the wanted size.
    """
    total = encounter_count(events)
    most = max(2, total // 5)
    fixed = [e for e in p.episodes if e.kind.key in ("mi", "delivery")]
    others = [e for e in p.episodes if e.kind.key not in ("mi", "delivery")]
    order = [int(i) for i in rng.permutation(len(others))][: max(most - len(fixed), 1)]
    p.episodes = sorted(fixed + [others[i] for i in order], key=lambda e: e.start)
    stays: list[Encounter] = []
    for episode in p.episodes:
        if not p.first < episode.start < p.last:
            continue
        days = max((episode.end - episode.start).days, 1)
        stays.append(
            Encounter(
                episode.kind.setting,
                "Hospital Medicine" if episode.kind.setting == "IP" else "Emergency Medicine",
                episode.start,
                episode.end,
                active(p, episode.start)[:3],
                episode,
                weight=1.5 + 0.55 * days if episode.kind.setting == "IP" else 1.5,
            )
        )
    p.episodes = [e.episode for e in stays if e.episode is not None]
    visits = _visits(rng, p, total - len(stays))
    # No clinic visit happens while the patient is in a hospital bed.
    visits = [
        v
        for v in visits
        if not any(s.start - timedelta(days=1) < v.start < s.end + timedelta(days=1) for s in stays)
    ]
    _move_steps(p, visits)
    _sent_home_with(p, visits)
    _true_reasons(p)
    _pregnancy_end(p)
    made = sorted([*visits, *stays, *_series(rng, p)], key=lambda e: e.start)
    return made


def extra_call(when: datetime, focus: list[str]) -> Encounter:
    """A call put where a stretch of the record would otherwise hold no note at all."""
    return Encounter("TEL", "Internal Medicine", when, when + timedelta(minutes=15), focus)
