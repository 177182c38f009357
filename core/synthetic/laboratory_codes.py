"""What the laboratory cohort is made of: its codes, conditions, drugs and the five labelled labs.

The tables are ``core/synthetic/data/laboratory_*.tsv``. Effects are in the lab's own unit and are
added to a patient's level; a drug's effect builds up over the panels at which it is given. The
levels are set so that prevalences come near the true ones (PROTOCOL, Experiment 2: anemia 69.0 %,
hyponatremia 28.5, thrombocytopenia 33.2, hyperkalemia 2.38); no figure is stated there for
hypoglycemia, and about 1.3 % is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Annotated, Literal

from core.synthetic.reference import DATA, STRICT, Key, read_tsv

UNLIKELY = 0.12
"""How much of a drug's start rate stays where no condition calls for it."""
TEXTS = (
    ("LOINC/5804-0", "Protein in urine", ("Negative", "Trace", "1+", "2+")),
    ("LOINC/72166-2", "Tobacco smoking status", ("Never smoker", "Former smoker", "Smoker")),
)
"""Measurements and observations whose value is a word."""
WORDS = tuple(word for *_, words in TEXTS for word in words)
FILLER = 1600
"""Codes of procedures, observations and measurements that say nothing of the five labs."""
OF_CONDITION = 12
"""Codes of procedures and observations that go with each condition."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A labelled lab: its ``level`` in a healthy patient, spread ``between`` patients, ``drift``
    from panel to panel, ``noise`` of one reading, and the edges of mild, moderate and severe;
    ``abnormal`` says on which side of them."""

    __pydantic_config__ = STRICT
    task: str
    code: str
    name: str
    unit: str
    level: float
    between: float
    drift: float
    noise: float
    mild: float
    moderate: float
    severe: float
    abnormal: Literal["low", "high"]


@cache
def labs() -> tuple[Lab, ...]:
    """The five labelled labs, in the order of every effect."""
    return read_tsv(Lab, DATA / "laboratory_labs.tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition: the ``share`` of patients that have it, and its effect on each task's lab."""

    __pydantic_config__ = STRICT
    key: str
    code: str
    share: float
    anemia: float = 0.0
    hyponatremia: float = 0.0
    thrombocytopenia: float = 0.0
    hyperkalemia: float = 0.0
    hypoglycemia: float = 0.0

    @property
    def effects(self) -> tuple[float, ...]:
        """The effects in the order of :func:`labs`."""
        return tuple(getattr(self, lab.task) for lab in labs())


@cache
def conditions() -> tuple[Condition, ...]:
    """All conditions of the cohort."""
    return read_tsv(Condition, DATA / "laboratory_conditions.tsv")


def _condition_keys() -> list[str]:
    return [condition.key for condition in conditions()]


def _listed(text: str) -> list[str]:
    return text.split(", ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drug(Condition):
    """A drug: ``share`` are started on it and ``stop`` end it at a panel; ``given_for`` are the
    conditions that make it likely, separated by commas."""

    stop: float
    given_for: Annotated[str, Key("condition", _condition_keys, _listed)] = ""

    def is_wanted(self, ill: frozenset[str]) -> bool:
        """Whether one of the conditions ``ill`` calls for it, or it needs none."""
        return not self.given_for or not ill.isdisjoint(_listed(self.given_for))


@cache
def drugs() -> tuple[Drug, ...]:
    """All drugs of the cohort."""
    return read_tsv(Drug, DATA / "laboratory_drugs.tsv")


def _cause_keys() -> list[str]:
    return [*_condition_keys(), *(drug.key for drug in drugs())]


@dataclass(frozen=True, slots=True)
class OtherLab:
    """A lab without labels: ``level``, ``spread`` and ``shift`` in tenths of its unit; it is
    shifted by one condition or drug."""

    __pydantic_config__ = STRICT
    name: str
    code: str
    unit: str
    level: float
    spread: float
    shifted_by: Annotated[str, Key("condition or drug", _cause_keys)] | None = None
    shift: float = 0.0


@cache
def other_labs() -> tuple[OtherLab, ...]:
    """All labs without labels."""
    return read_tsv(OtherLab, DATA / "laboratory_others.tsv")


@dataclass(frozen=True, slots=True)
class Code:
    """A code of the cohort: its OMOP table, name and unit."""

    code: str
    name: str
    kind: str
    unit: str = ""


Group = Literal["fixed", "lab", "condition", "drug", "other", "text", "care", "filler"]


@cache
def _groups() -> dict[Group, list[Code]]:
    kinds = ("procedure_occurrence", "observation", "measurement", "device_exposure")
    return {
        "fixed": [
            Code("Gender/F", "Female", "person"),
            Code("Gender/M", "Male", "person"),
            Code("SNOMED/3950001", "Birth", "person"),
            Code("Visit/IP", "Inpatient visit", "visit_occurrence"),
            Code("Visit/OP", "Outpatient visit", "visit_occurrence"),
        ],
        "lab": [Code(lab.code, lab.name, "measurement", lab.unit) for lab in labs()],
        "condition": [Code(c.code, c.key, "condition_occurrence") for c in conditions()],
        "drug": [Code(drug.code, drug.key, "drug_exposure") for drug in drugs()],
        "other": [Code(lab.code, lab.name, "measurement", lab.unit) for lab in other_labs()],
        "text": [Code(code, name, "observation") for code, name, _ in TEXTS],
        "care": [
            Code(f"LOCAL/C{i}{j:02d}", f"Care {j + 1} of {c.key.lower()}", "procedure_occurrence")
            for i, c in enumerate(conditions())
            for j in range(OF_CONDITION)
        ],
        "filler": [Code(f"LOCAL/{i:04d}", f"Entry {i}", kinds[i % 4]) for i in range(FILLER)],
    }


def vocabulary() -> list[Code]:
    """All codes; an event holds an index into this list."""
    return [code for group in _groups().values() for code in group]


@cache
def first(group: Group) -> int:
    """Where a group begins in :func:`vocabulary`."""
    before = takewhile(lambda name: name != group, _groups())
    return sum(len(_groups()[name]) for name in before)
