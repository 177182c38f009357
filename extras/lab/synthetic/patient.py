"""A patient: the objects from which a record is written, and how a patient is drawn.

Drawn are persona, long-term conditions, drug courses, acute illnesses, family and habits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, get_args

import numpy as np

from midchart.core.reference_tables import table_row
from midchart.extras.lab.synthetic.common import chance, pick, shuffled
from midchart.extras.lab.synthetic.medicine import (
    Disease,
    EpisodeKind,
    Stop,
    TreatmentPlan,
    diseases,
    drug_groups,
    drugs,
    episodes,
    risks,
)
from midchart.extras.lab.synthetic.reference import yaml_table

Domain = Literal["medication", "diagnosis", "laboratory", "social"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)
TASK_TYPES = ("R", "Rn", "S")


@dataclass(slots=True)
class DrugStep:
    """A step of a drug course. ``action`` is start, change or stop; ``why`` its reason; ``cause``
    the table entry of a stop, if it is from one."""

    when: datetime
    action: str
    drug: str
    dose: int
    before: int
    why: str
    successor: str = ""
    cause: Stop | None = None

    @property
    def replaces(self) -> bool:
        """Whether it starts the successor of another drug."""
        return self.why.startswith("replacement for")


@dataclass(slots=True)
class Course:
    """All steps of one drug of a patient, in time order."""

    drug: str
    disease: str
    steps: list[DrugStep]

    def dose_at(self, when: datetime) -> int | None:
        """Dose step in force at ``when``; None before the start and after the stop."""
        dose: int | None = None
        for step in self.steps:
            if step.when <= when:
                dose = None if step.action == "stop" else step.dose
        return dose


@dataclass(slots=True)
class Episode:
    """An acute illness of one patient: when it began and when it was over."""

    kind: EpisodeKind
    start: datetime
    end: datetime
    size: float


@dataclass(slots=True)
class Patient:
    """All facts about a patient."""

    id: str
    sex: str
    surname: str
    birth: datetime
    race: str
    ethnicity: str
    payer: str
    first: datetime
    last: datetime
    diseases: dict[str, datetime]
    courses: list[Course] = field(default_factory=list[Course])
    episodes: list[Episode] = field(default_factory=list[Episode])
    base: dict[str, float] = field(default_factory=dict[str, float])
    social: dict[str, str] = field(default_factory=dict[str, str])
    family: list[str] = field(default_factory=list[str])
    allergy: tuple[str, str] = ("", "")

    def age(self, when: datetime) -> int:
        """Whole years lived at ``when``."""
        before = (when.month, when.day) < (self.birth.month, self.birth.day)
        return when.year - self.birth.year - before

    def has(self, key: str, when: datetime) -> bool:
        """Whether the long-term condition ``key`` has started by ``when``."""
        return key in self.diseases and self.diseases[key] <= when

    @property
    def words(self) -> dict[str, str]:
        """Pronouns and names for templates."""
        female = self.sex == "FEMALE"
        return {
            "He": "She" if female else "He",
            "he": "she" if female else "he",
            "his": "her" if female else "his",
            "His": "Her" if female else "His",
            "him": "her" if female else "him",
            "Name": ("Ms. " if female else "Mr. ") + self.surname,
            "himself": "herself" if female else "himself",
            "man": "woman" if female else "man",
            "spouse": ("husband" if female else "wife")
            if self.social.get("marital") == "married"
            else "sister",
        }


@dataclass(slots=True)
class NotePiece:
    """A run of text in a note; the place of one with an ``id`` is recorded when rendered."""

    text: str
    id: str = ""


@dataclass(slots=True)
class Block:
    """A section of a note. ``kind``: what belongs in it; ``style``: prose, list or lines."""

    kind: str
    title: str
    pieces: list[NotePiece]
    style: str = "prose"


@dataclass(slots=True)
class Note:
    """A note before it is text."""

    kind: str
    when: datetime
    blocks: list[Block] = field(default_factory=list[Block])
    style: int = 0
    closed: bool = False
    """Takes no planted statement (reports)."""
    columns: int = 0
    """Columns at which a letter is wrapped; 0 for other notes."""
    text: str = ""
    places: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    @property
    def length(self) -> int:
        """Characters of its pieces."""
        return sum(len(piece.text) for block in self.blocks for piece in block.pieces)


@dataclass(slots=True)
class RecordItem:
    """One event of the record, as it will be written."""

    when: datetime
    type: str
    code: str
    name: str
    text: str = ""
    unit: str = ""
    note: Note | None = None
    order: int = -1


@dataclass(slots=True)
class Encounter:
    """A contact with care and its events."""

    setting: str
    specialty: str
    start: datetime
    end: datetime
    focus: list[str]
    episode: Episode | None = None
    items: list[RecordItem] = field(default_factory=list[RecordItem])
    number: int = 0
    weight: float = 1.0


@dataclass(slots=True)
class Statement:
    """A sentence of a fact, the note it is written into and the section where it belongs; or
    the structured event ``item`` that is the evidence."""

    text: str
    note: Note | None
    section: str = "hpi"
    id: str = ""
    item: RecordItem | None = None


@dataclass(slots=True)
class Fact:
    """A question with its answer and evidence.

    The first statement is decisive: it defines the position of the gold evidence. ``keys`` are
    strings that must all be in the evidence, ``wrong`` plausible wrong answers, ``noise``
    sentences (section, text) for other notes.
    """

    kind: str
    domain: str
    task_type: str
    question: str
    answer: str
    statements: list[Statement]
    keys: tuple[str, ...]
    wrong: list[str]
    noise: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    specialty: str = "Internal Medicine"


@table_row
class Persona:
    """A kind of patient: ``ages`` at the first encounter, ``conditions`` always, and ``chances`` of
    others; ``sex`` where it is fixed."""

    key: str
    ages: tuple[int, int]
    conditions: tuple[str, ...]
    chances: dict[str, float]
    sex: Literal["FEMALE", "MALE", ""] = ""


@table_row
class PeopleTable:
    """Who patients and their families are. ``illnesses`` are what relatives have; ``allergies``
    (substance, reaction), both empty for none."""

    surnames: tuple[str, ...]
    relatives: tuple[str, ...]
    illnesses: tuple[str, ...]
    allergies: tuple[tuple[str, str], ...]
    personas: tuple[Persona, ...]


people = yaml_table(PeopleTable, "people.yaml")
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
    rng: np.random.Generator, p: Patient, disease: Disease, plan: TreatmentPlan, begin: datetime
) -> list[Course]:
    """One drug's course, and its successor's where the stop names one."""
    drug = drugs()[plan.drug]
    top = len(drug.steps) - 1
    dose = int(rng.integers(0, min(2, top) + 1)) if top else 0
    when = _day(begin)
    steps = [DrugStep(when, "start", drug.key, dose, -1, plan.start)]
    years = max((p.last - when).days / 365.25, 0.0)
    ups = list(plan.ups)
    while ups and dose < top and chance(rng, 0.75):
        when = _day(when + timedelta(days=int(rng.integers(60, 200 + int(years * 70)))))
        if when >= p.last:
            break
        why = ups.pop(int(rng.integers(len(ups))))
        steps.append(DrugStep(when, "change", drug.key, dose + 1, dose, why))
        dose += 1
    courses = [Course(drug.key, disease.key, steps)]
    if plan.stops and chance(rng, plan.stop_share):
        when = _day(when + timedelta(days=int(rng.integers(45, 160 + int(years * 120)))))
        if when < p.last:
            stop = pick(rng, plan.stops)
            successor = stop.successor
            if successor and not marketed(successor, when):
                return courses
            steps.append(DrugStep(when, "stop", drug.key, dose, dose, stop.why, successor, stop))
            if successor:
                start = DrugStep(when, "start", successor, 0, -1, f"replacement for {drug.key}")
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
