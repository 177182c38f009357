"""The codes and patients of the synthetic laboratory cohort.

Conditions, drugs, a patient's own level and a slow drift determine the labs; a label asks, a minute
before a panel, how abnormal a lab of it will be. So earlier readings are the best predictors, codes
carry some information, and trends carry more than the last reading alone. The tables are
``data/laboratory_*.tsv``; effects are in the lab's own unit and are added to a patient's level; a
drug's effect builds up over the panels at which it is given. The levels are set so that prevalences
are near the real ones (PROTOCOL, Experiment 2: anemia 69.0 %, hyponatremia 28.5, thrombocytopenia
33.2, hyperkalemia 2.38; hypoglycemia, without a published figure, about 1.3).

Only sums and products of uniform draws are used, one operation at a time, so the same seed gives
the same numbers on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.synthetic.reference import Key, table_row, tsv_table

SPLITS = ("train", "tuning", "held_out")
UNLIKELY = 0.12
"""Factor of a drug's start rate in patients without a condition that it is given for."""
TEXTS = (
    ("LOINC/5804-0", "Protein in urine", ("Negative", "Trace", "1+", "2+")),
    ("LOINC/72166-2", "Tobacco smoking status", ("Never smoker", "Former smoker", "Smoker")),
)
"""Observations whose value is a word."""
WORDS = tuple(word for *_, words in TEXTS for word in words)
FILLER = 1600
"""Number of codes that are independent of the five labs."""
OF_CONDITION = 12
"""Number of codes of procedures that go with each condition."""


@table_row
class Lab:
    """A labelled lab: ``level`` in a healthy patient, spread ``between`` patients, ``drift`` from
    panel to panel, ``noise`` of a reading, and thresholds of mild, moderate and severe, on the
    side ``abnormal``."""

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


labs = tsv_table(Lab, "laboratory_labs.tsv")
"""The five labelled labs, in the order of every effect."""


@table_row
class Condition:
    """A condition: the ``share`` of patients that have it, and its effect on each task's lab."""

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


conditions = tsv_table(Condition, "laboratory_conditions.tsv")
"""All conditions of the cohort."""


def _condition_keys() -> list[str]:
    return [condition.key for condition in conditions()]


def _listed(text: str) -> list[str]:
    return text.split(", ")


@table_row
class Drug(Condition):
    """A drug: ``share`` are started on it and ``stop`` end it at a panel; ``given_for`` are the
    conditions that make it likely, separated by commas."""

    stop: float = field(kw_only=True)
    given_for: Annotated[str, Key("condition", _condition_keys, _listed)] = ""

    def is_wanted(self, ill: frozenset[str]) -> bool:
        """Whether it is given for one of the conditions ``ill``, or for none in particular."""
        return not self.given_for or not ill.isdisjoint(_listed(self.given_for))


drugs = tsv_table(Drug, "laboratory_drugs.tsv")
"""All drugs of the cohort."""


def _cause_keys() -> list[str]:
    return [*_condition_keys(), *(drug.key for drug in drugs())]


@table_row
class OtherLab:
    """A lab without labels: ``level``, ``spread`` and ``shift`` in tenths of its unit; it is
    shifted by one condition or drug."""

    name: str
    code: str
    unit: str
    level: float
    spread: float
    shifted_by: Annotated[str, Key("condition or drug", _cause_keys)] | None = None
    shift: float = 0.0


other_labs = tsv_table(OtherLab, "laboratory_others.tsv")
"""All labs without labels."""


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
    """All codes; an event has an index into this list."""
    return [code for group in _groups().values() for code in group]


@cache
def offset_of(group: Group) -> int:
    """Index of a group's first code in :func:`vocabulary`."""
    before = takewhile(lambda name: name != group, _groups())
    return sum(len(_groups()[name]) for name in before)


# Patients.

DAY = 24 * 60
PANELS = 27
"""Panels of a patient of average length, as in EHRSHOT (about 26 labels per patient and task)."""
NONE = -1


@dataclass(frozen=True, slots=True)
class LabPatient:
    """A patient's events in time order and labels.

    ``time``: int64 [n] minutes since 1970; ``code``: int32 [n], index into the vocabulary;
    ``tenths``: int32 [n], value times ten, -1 none; ``word``: int32 [n], index into
    ``WORDS``, -1 none; ``visit``: int32 [n], number of the visit, -1 none; ``lasts``: int32
    [n], minutes until its end, -1 none. ``asked``: int64 [m], prediction times in minutes;
    ``grade``: int8 [m, 5], 0 normal to 3 severe.
    """

    time: NDArray[np.int64]
    code: NDArray[np.int32]
    tenths: NDArray[np.int32]
    word: NDArray[np.int32]
    visit: NDArray[np.int32]
    lasts: NDArray[np.int32]
    asked: NDArray[np.int64]
    grade: NDArray[np.int8]


def normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """Approximately normal, mean 0, variance 1: the sum of four uniform draws."""
    u = rng.random((4, *shape))
    return (((u[0] + u[1]) + (u[2] + u[3])) - 2.0) * 1.7320508075688772


def _states(rng: np.random.Generator, ill: NDArray[np.bool_], panels: int) -> NDArray[np.bool_]:
    """Whether the patient is on each drug at each panel, bool [panels, drugs]."""
    draws = rng.random((panels, len(drugs())))
    keys = frozenset(c.key for c, has in zip(conditions(), ill, strict=True) if has)
    on = np.zeros(draws.shape, bool)
    for j, drug in enumerate(drugs()):
        start = drug.share * (1.0 if drug.is_wanted(keys) else UNLIKELY)
        now = False
        for i, draw in enumerate(draws[:, j].tolist()):
            now = draw >= drug.stop if now else draw < start
            on[i, j] = now
    return on


def _levels(
    rng: np.random.Generator, ill: NDArray[np.bool_], on: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The labs at each panel without the noise of a reading, float [panels, labs]."""
    panels = len(on)
    targets = np.zeros((panels, len(labs())))
    for j, drug in enumerate(drugs()):  # one addition at a time, in this order
        targets += on[:, j, None] * np.array(drug.effects)
    worse = 0.5 + rng.random(len(conditions()))
    steps = normal(rng, panels, len(labs()))
    luck = normal(rng, len(labs()))
    slope = normal(rng, len(labs()))
    levels = np.empty((panels, len(labs())))
    for k, lab in enumerate(labs()):
        level = lab.level + lab.between * float(luck[k])
        for c, condition in enumerate(conditions()):
            if ill[c]:
                level += condition.effects[k] * float(worse[c])
        built = drift = 0.0
        for i in range(panels):
            built = 0.45 * built + 0.55 * float(targets[i, k])
            drift = 0.85 * drift + lab.drift * (float(steps[i, k]) + 0.12 * float(slope[k]))
            levels[i, k] = level + built + drift
    return levels


def grades(tenths: NDArray[np.int32]) -> NDArray[np.int8]:
    """0 normal to 3 severe, int8 [panels, 5], from readings in tenths."""
    graded = np.zeros(tenths.shape, np.int8)
    for k, lab in enumerate(labs()):
        for edge in (lab.mild, lab.moderate, lab.severe):
            bound = round(edge * 10)
            low = lab.abnormal == "low"
            graded[:, k] += tenths[:, k] < bound if low else tenths[:, k] > bound
    return graded


def make_patient(rng: np.random.Generator, events: int) -> LabPatient:
    """A patient of about ``events`` events (half to one and a half times as many)."""
    share = 0.5 + float(rng.random())
    wanted = int(events * share)
    panels = max(4, min(int(PANELS * share), wanted // 12))
    ill = rng.random(len(conditions())) < np.array([c.share for c in conditions()])
    on = _states(rng, ill, panels)
    reading = _levels(rng, ill, on)
    noise = normal(rng, panels, len(labs()))
    tenths = np.empty(reading.shape, np.int32)
    for k, lab in enumerate(labs()):
        value = np.maximum(reading[:, k] + lab.noise * noise[:, k], lab.severe * 0.4)
        tenths[:, k] = np.floor(value * 10.0 + 0.5)
    gaps = np.where(
        rng.random(panels) < 0.6,
        rng.integers(14 * 60, 30 * 60, panels),
        rng.integers(10 * DAY, 150 * DAY, panels),
    )
    birth = int(rng.integers(-40 * 365, 15 * 365)) * DAY
    begin = birth + int(rng.integers(30 * 365, 55 * 365)) * DAY
    at = begin + np.cumsum(gaps)
    static = _events([birth, birth], [int(rng.integers(0, 2)), 2])
    parts = [static, _panels(rng, at, gaps, tenths, ill, on)]
    parts.append(_filler(rng, at, ill, wanted - sum(len(p["time"]) for p in parts)))
    joined = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    order = np.argsort(joined["time"], kind="stable")
    time = joined.pop("time")[order].astype(np.int64)
    columns = {name: column[order].astype(np.int32) for name, column in joined.items()}
    # The first panel is not asked for: no reading precedes it.
    return LabPatient(time, **columns, asked=at[1:] - 1, grade=grades(tenths)[1:])


def _events(time: Any, code: Any, **more: Any) -> dict[str, NDArray[Any]]:
    time = np.atleast_1d(np.asarray(time, np.int64))
    columns = {"time": time, "code": code}
    columns |= {name: more.get(name, NONE) for name in ("tenths", "word", "visit", "lasts")}
    return {name: np.broadcast_to(values, time.shape) for name, values in columns.items()}


def _panels(
    rng: np.random.Generator,
    at: NDArray[np.int64],
    gaps: NDArray[np.int64],
    tenths: NDArray[np.int32],
    ill: NDArray[np.bool_],
    on: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Visits, the panels themselves, drugs before them, conditions and other labs around them."""
    panels = len(at)
    number = np.arange(panels)
    inpatient = gaps < 3 * DAY
    lasts = np.where(inpatient, 20 * 60, 60)
    parts = [_events(at - 120, np.where(inpatient, 3, 4), visit=number, lasts=lasts)]
    for k in range(len(labs())):
        parts.append(_events(at, offset_of("lab") + k, tenths=tenths[:, k], visit=number))
    minutes = rng.integers(5, 600, on.shape)
    for j in range(len(drugs())):
        taken = np.flatnonzero(on[:, j])
        parts.append(_events(at[taken] - minutes[taken, j], offset_of("drug") + j, visit=taken))
    coded = rng.random((panels, len(conditions()))) < 0.18
    first = rng.integers(0, max(1, panels // 3), len(conditions()))
    for c in np.flatnonzero(ill).tolist():
        visits = np.flatnonzero(coded[:, c] | (number == first[c]))
        visits = visits[visits >= first[c]]
        parts.append(_events(at[visits] - 90, offset_of("condition") + c, visit=visits))
    draws = normal(rng, panels, len(other_labs()))
    seen = rng.random((panels, len(other_labs()))) < 0.5
    # Whether each condition and each drug is in force, by panel.
    causes = {c.key: np.full(panels, has) for c, has in zip(conditions(), ill, strict=True)}
    causes |= {drug.key: on[:, j] for j, drug in enumerate(drugs())}
    for i, lab in enumerate(other_labs()):
        visits = np.flatnonzero(seen[:, i])
        value = lab.level + lab.spread * draws[visits, i]
        if lab.shifted_by is not None:
            value = value + lab.shift * causes[lab.shifted_by][visits]
        value = np.maximum(np.floor(value), 1)
        parts.append(_events(at[visits] + 1, offset_of("other") + i, tenths=value, visit=visits))
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _filler(
    rng: np.random.Generator, at: NDArray[np.int64], ill: NDArray[np.bool_], n: int
) -> dict[str, NDArray[Any]]:
    """Other entries around the panels; some go with the patient's conditions, some have a value."""
    n = max(n, 0)
    which = rng.integers(0, len(at), n)
    time = at[which] + rng.integers(-720, 360, n)
    u = rng.random(n)
    code = offset_of("filler") + np.floor(u * u * u * FILLER).astype(np.int64)
    tenths = np.where((code - offset_of("filler")) % 4 == 2, rng.integers(1, 2000, n), NONE)
    word = np.full(n, NONE)
    present = np.flatnonzero(ill)
    if len(present):
        care = rng.random(n) < 0.12
        of = present[rng.integers(0, len(present), n)] * OF_CONDITION
        cared = offset_of("care") + of + rng.integers(0, OF_CONDITION, n)
        code, tenths = np.where(care, cared, code), np.where(care, NONE, tenths)
    has_word = rng.random(n) < 0.01
    kind = rng.integers(0, len(TEXTS), n)
    sizes = np.array([len(words) for *_, words in TEXTS])
    first = np.cumsum(sizes) - sizes
    chosen = first[kind] + np.floor(rng.random(n) * sizes[kind]).astype(np.int64)
    code = np.where(has_word, offset_of("text") + kind, code)
    word, tenths = np.where(has_word, chosen, word), np.where(has_word, NONE, tenths)
    return _events(time, code, tenths=tenths, word=word, visit=which)
