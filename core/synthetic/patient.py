"""Draws a patient: persona, long-term conditions, drug courses, acute illnesses, family, habits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from core.synthetic.common import chance, pick, shuffled
from core.synthetic.medicine import (
    Disease,
    DiseaseKey,
    Plan,
    diseases,
    drug_groups,
    drugs,
    episodes,
    risks,
)
from core.synthetic.model import Course, Episode, Patient, Step
from core.synthetic.reference import table_row, yaml_table


@table_row
class Persona:
    """A kind of patient: ``ages`` at the first encounter, ``conditions`` always, and ``chances`` of
    others; ``sex`` where it is fixed."""

    key: str
    ages: tuple[int, int]
    conditions: tuple[DiseaseKey, ...]
    chances: dict[DiseaseKey, float]
    sex: Literal["FEMALE", "MALE", ""] = ""


@table_row
class People:
    """Who patients and their families are. ``illnesses`` are what relatives have; ``allergies``
    (substance, reaction), both empty for none."""

    surnames: tuple[str, ...]
    relatives: tuple[str, ...]
    illnesses: tuple[str, ...]
    allergies: tuple[tuple[str, str], ...]
    personas: tuple[Persona, ...]


people = yaml_table(People, "people.yaml")
"""The table of names, families and personas."""


def class_of(drug: str) -> str:
    """The effect class of which a patient takes one drug at a time."""
    group = drug_groups()[drugs()[drug].group]
    return group.one_of or group.key


def marketed(drug: str, when: datetime) -> bool:
    """Whether the drug was on the market."""
    return when.year >= drugs()[drug].marketed


def _day(when: datetime) -> datetime:
    return when.replace(hour=9, minute=0)


def _course(
    rng: np.random.Generator, p: Patient, disease: Disease, plan: Plan, begin: datetime
) -> list[Course]:
    """One drug's course, and its successor's where the stop names one."""
    drug = drugs()[plan.drug]
    top = len(drug.steps) - 1
    dose = int(rng.integers(0, min(2, top) + 1)) if top else 0
    when = _day(begin)
    steps = [Step(when, "start", drug.key, dose, -1, plan.start)]
    years = max((p.last - when).days / 365.25, 0.0)
    ups = list(plan.ups)
    while ups and dose < top and chance(rng, 0.75):
        when = _day(when + timedelta(days=int(rng.integers(60, 200 + int(years * 70)))))
        if when >= p.last:
            break
        why = ups.pop(int(rng.integers(len(ups))))
        steps.append(Step(when, "change", drug.key, dose + 1, dose, why))
        dose += 1
    courses = [Course(drug.key, disease.key, steps)]
    if plan.stops and chance(rng, plan.stop_share):
        when = _day(when + timedelta(days=int(rng.integers(45, 160 + int(years * 120)))))
        if when < p.last:
            stop = pick(rng, plan.stops)
            successor = stop.successor
            if successor and not marketed(successor, when):
                return courses
            steps.append(Step(when, "stop", drug.key, dose, dose, stop.why, successor, stop))
            if successor:
                start = Step(when, "start", successor, 0, -1, f"replacement for {drug.key}")
                courses.append(Course(successor, disease.key, [start]))
    return courses


def _treat(rng: np.random.Generator, p: Patient) -> None:
    taken: set[str] = set()
    groups: set[str] = set()
    for key in p.diseases:
        disease = diseases()[key]
        for plan in disease.plans:
            group = class_of(plan.drug)
            # One pill of a class at a time: nobody is on two statins or two blood thinners.
            several = drug_groups()[drugs()[plan.drug].group].several
            clash = plan.drug in taken or (group in groups and not several)
            if not chance(rng, plan.share) or clash:
                continue
            onset = max(p.diseases[key], p.first - timedelta(days=200))
            begin = onset + timedelta(days=int(plan.delay * float(rng.uniform(0.7, 1.5))))
            if begin >= p.last - timedelta(days=20) or not marketed(plan.drug, begin):
                continue
            for course in _course(rng, p, disease, plan, begin):
                new = class_of(course.drug)
                if course.drug in taken or (new != group and new in groups):
                    # The successor is taken already: the stop names none.
                    for step in p.courses[-1].steps:
                        step.successor = ""
                    continue
                taken.add(course.drug)
                groups.add(new)
                p.courses.append(course)


def _draw_episodes(rng: np.random.Generator, p: Patient) -> None:
    span = (p.last - p.first).days
    for key in (*p.diseases, ""):
        for risk in risks().get(key, ()):
            rounds = 1 + int(span > 3500) + int(span > 5500)
            for _ in range(rounds):
                begin = p.diseases.get(key, p.first)
                low = max((begin - p.first).days + 40, 20)
                if not chance(rng, risk.share) or low >= span - 30:
                    continue
                start = p.first + timedelta(days=int(rng.integers(low, span - 20)))
                p.episodes.append(_episode(rng, risk.episode, start))
    if "cad" in p.diseases and p.diseases["cad"] >= p.first:
        p.episodes.append(_episode(rng, "mi", p.diseases["cad"]))
    if "gdm" in p.diseases:
        due = p.diseases["gdm"] + timedelta(days=int(rng.integers(95, 115)))
        p.episodes.append(_episode(rng, "delivery", due))
    p.episodes.sort(key=lambda e: e.start)
    # Two admissions never overlap: the later one is dropped.
    apart: list[Episode] = []
    for episode in p.episodes:
        if not apart or episode.start > apart[-1].end + timedelta(days=25):
            apart.append(episode)
        elif episode.kind.key in ("mi", "delivery"):
            apart[-1] = episode
    p.episodes = apart


def _episode(rng: np.random.Generator, name: str, start: datetime) -> Episode:
    kind = episodes()[name]
    days = int(rng.integers(kind.days[0], kind.days[1] + 1))
    start = start.replace(hour=int(rng.integers(1, 22)), minute=int(rng.integers(0, 60)))
    stay = timedelta(days=days) if kind.setting == "IP" else timedelta(hours=5 + days)
    return Episode(kind, start, start + stay, float(rng.uniform(0.7, 1.15)))


def _draw_social(rng: np.random.Generator, p: Patient) -> None:
    """Fill ``p.social`` and ``p.allergy``, which notes repeat; details are facts to ask about."""
    smoker = 1.0 if "copd" in p.diseases else float(rng.random())
    p.social["smoking"] = "former" if smoker > 0.55 else "never"
    p.social["alcohol"] = (
        "none now" if "cirrhosis" in p.diseases
        else pick(rng, ("none", "rare", "one or two drinks on weekends"))
    )  # fmt: skip
    age = p.age(p.first)
    p.social["work"] = "retired" if age >= 66 else pick(rng, ("works full time", "works part time"))
    p.social["marital"] = pick(rng, ("married", "married", "widowed", "divorced"))
    p.allergy = pick(rng, people().allergies)


def _draw_family(rng: np.random.Generator, p: Patient) -> None:
    """Relatives' illnesses, first those that the patient has too."""
    table = people()
    ills = [ill for key in p.diseases if (ill := diseases()[key].relative)][:2]
    while len(ills) < 4:
        other = pick(rng, table.illnesses)
        if other not in ills:
            ills.append(other)
    relatives = shuffled(rng, table.relatives)
    p.family += [f"{who} with {ill}" for ill, who in zip(ills, relatives, strict=False)]


def make_patient(rng: np.random.Generator, index: int, years: float, seed: int) -> Patient:
    """A patient.

    Args:
        rng: the patient's generator; index: its number in the cohort, which also selects the
            persona; years: length of the record; seed: the cohort's, for the id.
    """
    personas = people().personas
    persona = personas[(index * 5 + seed) % len(personas)]
    sex = persona.sex or ("FEMALE" if chance(rng, 0.5) else "MALE")
    first = datetime(
        int(rng.integers(2006, 2014)), int(rng.integers(1, 13)), int(rng.integers(1, 28))
    )
    first += timedelta(days=7 - first.weekday() if first.weekday() > 4 else 0)
    age = int(rng.integers(*persona.ages, endpoint=True))
    birth = datetime(first.year - age, int(rng.integers(1, 13)), int(rng.integers(1, 29)))
    span = years * float(rng.uniform(0.75, 1.2))
    last = min(first + timedelta(days=int(span * 365.25)), datetime(2022, 11, 30))
    race = pick(rng, ("White", "White", "Black or African American", "Asian", "Other"))
    hispanic = chance(rng, 0.18)
    p = Patient(
        id=str(124000000 + (seed * 7919 + index * 104729) % 800000 * 7 + index % 7),
        sex=sex, surname=pick(rng, people().surnames), birth=birth, race=race,
        ethnicity="Hispanic or Latino" if hispanic else "Not Hispanic or Latino",
        payer="Medicare" if age >= 65 else pick(rng, ("Commercial PPO", "HMO", "Medicaid")),
        first=first, last=last, diseases={},
    )  # fmt: skip
    length = (last - first).days
    for key in persona.conditions:
        onset = int(rng.integers(-1200, max(int(length * 0.2), 60)))
        if key == "gdm":
            onset = int(rng.integers(int(length * 0.2), int(length * 0.6)))
        p.diseases[key] = first + timedelta(days=onset)
    for key, share in persona.chances.items():
        if chance(rng, share):
            low = 0 if key in ("ckd", "neuropathy") else -1500
            p.diseases[key] = first + timedelta(days=int(rng.integers(low, int(length * 0.6))))
    _treat(rng, p)
    _draw_episodes(rng, p)
    _draw_social(rng, p)
    _draw_family(rng, p)
    return p
