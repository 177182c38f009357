"""Makes one life: persona, long-term conditions, drug courses, acute illnesses, family, habits.

Everything later (labs, notes, questions) reads these facts; none of it is parsed back from text.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np

from core.synthetic.diseases import DISEASES
from core.synthetic.drugs import DRUGS
from core.synthetic.episodes import EPISODES, RISKS
from core.synthetic.model import Course, Disease, Episode, Patient, Plan, Step
from core.synthetic.social import draw_family, draw_social

T = TypeVar("T")

PERSONAS: tuple[
    tuple[str, str, tuple[int, int], tuple[str, ...], tuple[tuple[str, float], ...]], ...
] = (
    (
        "hf",
        "",
        (54, 74),
        ("hfref", "htn", "hld"),
        (("t2dm", 0.4), ("ckd", 0.4), ("af", 0.35), ("gerd", 0.3), ("depression", 0.2)),
    ),
    (
        "diabetes",
        "",
        (44, 66),
        ("t2dm", "htn", "hld"),
        (("ckd", 0.75), ("neuropathy", 0.4), ("depression", 0.25), ("gerd", 0.2)),
    ),
    (
        "af",
        "",
        (60, 76),
        ("af", "htn"),
        (("hld", 0.5), ("hypothyroid", 0.3), ("copd", 0.2), ("gerd", 0.3)),
    ),
    (
        "lung",
        "",
        (55, 72),
        ("copd", "htn"),
        (("hld", 0.4), ("depression", 0.3), ("osteoporosis", 0.2), ("gerd", 0.4), ("cad", 0.2)),
    ),
    (
        "oncology",
        "FEMALE",
        (42, 66),
        ("breast",),
        (("hypothyroid", 0.3), ("depression", 0.4), ("osteoporosis", 0.4), ("htn", 0.4)),
    ),
    (
        "joints",
        "",
        (34, 60),
        ("ra",),
        (
            ("osteoporosis", 0.3),
            ("depression", 0.3),
            ("gerd", 0.4),
            ("htn", 0.3),
            ("hypothyroid", 0.2),
        ),
    ),
    ("liver", "", (44, 62), ("cirrhosis",), (("t2dm", 0.3), ("depression", 0.4), ("gerd", 0.3))),
    (
        "nerve",
        "",
        (22, 48),
        ("epilepsy",),
        (("depression", 0.5), ("gerd", 0.3), ("hypothyroid", 0.2)),
    ),
    ("coronary", "", (48, 68), ("cad", "htn"), (("t2dm", 0.4), ("depression", 0.3), ("gerd", 0.3))),
    ("mood", "", (26, 56), ("depression", "hypothyroid"), (("gerd", 0.4), ("htn", 0.3))),
    (
        "pregnancy",
        "FEMALE",
        (26, 34),
        ("gdm",),
        (("depression", 0.5), ("hypothyroid", 0.5), ("gerd", 0.4)),
    ),
    (
        "bone",
        "FEMALE",
        (60, 74),
        ("osteoporosis", "htn"),
        (("hypothyroid", 0.4), ("hld", 0.4), ("gerd", 0.4), ("depression", 0.3)),
    ),
)
"""(name, sex if fixed, age range at the first encounter, conditions always, conditions by "
"chance)"""

_SURNAMES = (
    "Alder", "Bancroft", "Castellan", "Dunmore", "Eastlake", "Fairweather", "Garrity", "Holloway",
    "Ibarra", "Jellico", "Kowal", "Larkspur", "Marchetti", "Nakagawa", "Okafor", "Pellegrin",
    "Quintero", "Rasmussen", "Sandoval", "Thackeray", "Underhill", "Vasquez", "Wexford", "Yamato",
    "Zeller", "Abernathy", "Boudreau", "Cho", "Delacroix", "Esposito", "Fontaine", "Gupta",
)  # fmt: skip


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def chance(rng: np.random.Generator, share: float) -> bool:
    """True with probability ``share``."""
    return float(rng.random()) < share


_CLASS = {"acei": "ras", "arb": "ras", "warfarin": "anticoagulant", "doac": "anticoagulant"}
_MARKETED = {
    "apixaban": 2013, "rivaroxaban": 2012, "ticagrelor": 2012, "empagliflozin": 2015,
    "dulaglutide": 2015, "sitagliptin": 2007, "denosumab": 2011, "sacubitril-valsartan": 2016,
    "rifaximin": 2010,
}  # fmt: skip
"""First whole year in which a drug could be prescribed in the United States."""


def class_of(drug: str) -> str:
    """The class of which a patient takes one member at a time."""
    group = DRUGS[drug].group
    return _CLASS.get(group, group)


def marketed(drug: str, when: datetime) -> bool:
    """Whether the drug was on the market."""
    return when.year >= _MARKETED.get(drug, 0)


def _day(when: datetime) -> datetime:
    return when.replace(hour=9, minute=0)


def _course(
    rng: np.random.Generator, p: Patient, disease: Disease, plan: Plan, begin: datetime
) -> list[Course]:
    """One drug's course, and its successor's where the stop names one."""
    drug = DRUGS[plan.drug]
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
    made = [Course(drug.key, disease.key, steps)]
    if plan.stops and chance(rng, plan.stop_share):
        when = _day(when + timedelta(days=int(rng.integers(45, 160 + int(years * 120)))))
        if when < p.last:
            why, successor = pick(rng, plan.stops)
            if successor and not marketed(successor, when):
                return made
            steps.append(Step(when, "stop", drug.key, dose, dose, why, successor))
            if successor:
                steps2 = [Step(when, "start", successor, 0, -1, f"replacement for {drug.key}")]
                made.append(Course(successor, disease.key, steps2))
    return made


def _treat(rng: np.random.Generator, p: Patient) -> None:
    taken: set[str] = set()
    groups: set[str] = set()
    for key in p.diseases:
        disease = DISEASES[key]
        for plan in disease.plans:
            group = class_of(plan.drug)
            # One pill of a class at a time: nobody is on two statins or two blood thinners.
            clash = plan.drug in taken or (group in groups and group not in ("asm", "insulin"))
            if not chance(rng, plan.share) or clash:
                continue
            onset = max(p.diseases[key], p.first - timedelta(days=200))
            begin = onset + timedelta(days=int(plan.delay * float(rng.uniform(0.7, 1.5))))
            if begin >= p.last - timedelta(days=20) or not marketed(plan.drug, begin):
                continue
            for course in _course(rng, p, disease, plan, begin):
                new = class_of(course.drug)
                if course.drug in taken or (new != group and new in groups):
                    # The successor is on board already: the stop simply names none.
                    for step in p.courses[-1].steps:
                        step.successor = ""
                    continue
                taken.add(course.drug)
                groups.add(new)
                p.courses.append(course)


def _ail(rng: np.random.Generator, p: Patient) -> None:
    span = (p.last - p.first).days
    for key in (*p.diseases, ""):
        for name, share in RISKS.get(key, ()):
            rounds = 1 + int(span > 3500) + int(span > 5500)
            for _ in range(rounds):
                begin = p.diseases.get(key, p.first)
                low = max((begin - p.first).days + 40, 20)
                if not chance(rng, share) or low >= span - 30:
                    continue
                start = p.first + timedelta(days=int(rng.integers(low, span - 20)))
                p.episodes.append(_episode(rng, name, start))
    if "cad" in p.diseases and p.diseases["cad"] >= p.first:
        p.episodes.append(_episode(rng, "mi", p.diseases["cad"]))
    if "gdm" in p.diseases:
        due = p.diseases["gdm"] + timedelta(days=int(rng.integers(95, 115)))
        p.episodes.append(_episode(rng, "delivery", due))
    p.episodes.sort(key=lambda e: e.start)
    # Two admissions never overlap: the later one is dropped.
    kept: list[Episode] = []
    for episode in p.episodes:
        if not kept or episode.start > kept[-1].end + timedelta(days=25):
            kept.append(episode)
        elif episode.kind.key in ("mi", "delivery"):
            kept[-1] = episode
    p.episodes = kept


def _episode(rng: np.random.Generator, name: str, start: datetime) -> Episode:
    kind = EPISODES[name]
    days = int(rng.integers(kind.days[0], kind.days[1] + 1))
    start = start.replace(hour=int(rng.integers(1, 22)), minute=int(rng.integers(0, 60)))
    stay = timedelta(days=days) if kind.setting == "IP" else timedelta(hours=5 + days)
    return Episode(kind, start, start + stay, float(rng.uniform(0.7, 1.15)))


def make_patient(rng: np.random.Generator, index: int, years: float, seed: int) -> Patient:
    """A whole life.

    Args:
        rng: the patient's own generator; index: its number in the cohort, which also picks the
            persona; years: how long its record runs; seed: the cohort's, for the id.
    """
    _, fixed, ages, always, maybe = PERSONAS[(index * 5 + seed) % len(PERSONAS)]
    sex = fixed or ("FEMALE" if chance(rng, 0.5) else "MALE")
    first = datetime(
        int(rng.integers(2006, 2014)), int(rng.integers(1, 13)), int(rng.integers(1, 28))
    )
    first += timedelta(days=7 - first.weekday() if first.weekday() > 4 else 0)
    age = int(rng.integers(ages[0], ages[1] + 1))
    birth = datetime(first.year - age, int(rng.integers(1, 13)), int(rng.integers(1, 29)))
    span = years * float(rng.uniform(0.75, 1.2))
    last = min(first + timedelta(days=int(span * 365.25)), datetime(2022, 11, 30))
    race = pick(rng, ("White", "White", "Black or African American", "Asian", "Other"))
    hispanic = chance(rng, 0.18)
    p = Patient(
        id=str(124000000 + (seed * 7919 + index * 104729) % 800000 * 7 + index % 7),
        sex=sex, surname=pick(rng, _SURNAMES), birth=birth, race=race,
        ethnicity="Hispanic or Latino" if hispanic else "Not Hispanic or Latino",
        payer="Medicare" if age >= 65 else pick(rng, ("Commercial PPO", "HMO", "Medicaid")),
        first=first, last=last, diseases={},
    )  # fmt: skip
    length = (last - first).days
    for key in always:
        onset = int(rng.integers(-1200, max(int(length * 0.2), 60)))
        if key == "gdm":
            onset = int(rng.integers(int(length * 0.2), int(length * 0.6)))
        p.diseases[key] = first + timedelta(days=onset)
    for key, share in maybe:
        if chance(rng, share):
            low = 0 if key in ("ckd", "neuropathy") else -1500
            p.diseases[key] = first + timedelta(days=int(rng.integers(low, int(length * 0.6))))
    _treat(rng, p)
    _ail(rng, p)
    draw_social(rng, p)
    draw_family(rng, p)
    return p
