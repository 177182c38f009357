"""What a life, an encounter, a note and a fact are: working objects of one patient's making.

What is known of drugs, conditions and analytes is in :mod:`core.synthetic.medicine`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from core.synthetic.medicine import EpisodeKind, Stop

Domain = Literal["medication", "diagnosis", "laboratory", "social"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)
TASK_TYPES = ("R", "Rn", "S")


@dataclass(slots=True)
class Step:
    """One turn of a drug course. ``action`` is start, change or stop; ``why`` its reason, and of a
    stop that the tables give, ``cause`` the entry it is from."""

    when: datetime
    action: str
    drug: str
    dose: int
    before: int
    why: str
    successor: str = ""
    cause: Stop | None = None


@dataclass(slots=True)
class Course:
    """All steps of one drug in one patient, in time order."""

    drug: str
    disease: str
    steps: list[Step]

    def dose_at(self, when: datetime) -> int | None:
        """Dose step in force at ``when``; None before the start and after the stop."""
        now: int | None = None
        for step in self.steps:
            if step.when <= when:
                now = None if step.action == "stop" else step.dose
        return now

    @property
    def stopped(self) -> datetime | None:
        """When the course ended, or None."""
        last = self.steps[-1]
        return last.when if last.action == "stop" else None


@dataclass(slots=True)
class Episode:
    """An acute illness of one patient: when it began and when it was over."""

    kind: EpisodeKind
    start: datetime
    end: datetime
    size: float


@dataclass(slots=True)
class Patient:
    """Everything that is true of one patient."""

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
    died: datetime | None = None

    def age(self, when: datetime) -> int:
        """Whole years lived at ``when``."""
        before = (when.month, when.day) < (self.birth.month, self.birth.day)
        return when.year - self.birth.year - before

    def has(self, key: str, when: datetime) -> bool:
        """Whether the long-term condition ``key`` has begun by ``when``."""
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
class Piece:
    """A run of text inside a note; one with an ``id`` has its place recorded when rendered."""

    text: str
    id: str = ""


@dataclass(slots=True)
class Block:
    """A section of a note: ``kind`` says what belongs in it, ``style`` is prose, list or lines."""

    kind: str
    title: str
    pieces: list[Piece]
    style: str = "prose"


@dataclass(slots=True)
class Note:
    """A note before it is text."""

    kind: str
    when: datetime
    blocks: list[Block] = field(default_factory=list[Block])
    style: int = 0
    closed: bool = False
    """Reports and the like take no planted statement."""
    columns: int = 0
    """Where its lines are wrapped; 0 for one that is not a letter."""
    text: str = ""
    places: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


@dataclass(slots=True)
class Item:
    """One event of the record, as it will be written."""

    when: datetime
    type: str
    code: str
    name: str
    text: str = ""
    unit: str = ""
    note: Note | None = None
    order: int = -1
    provider: int = 0


@dataclass(slots=True)
class Encounter:
    """A contact with care: its purpose and its events."""

    setting: str
    specialty: str
    start: datetime
    end: datetime
    focus: list[str]
    episode: Episode | None = None
    items: list[Item] = field(default_factory=list[Item])
    number: int = 0
    weight: float = 1.0


@dataclass(slots=True)
class Statement:
    """A sentence of a fact and the note it is written into; ``section`` is where it belongs.

    ``item`` set instead of ``note``: the evidence is that structured event.
    """

    text: str
    note: Note | None
    section: str = "hpi"
    id: str = ""
    item: Item | None = None


@dataclass(slots=True)
class Fact:
    """Something to ask, with its answer and where the record says it.

    The first statement is the decisive one: it gives the gold its position. ``keys`` are strings
    of which each must be in the evidence. ``wrong`` are plausible wrong answers, ``noise``
    sentences to be strewn over other notes as (section, text).
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
