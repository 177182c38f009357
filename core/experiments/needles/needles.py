"""Needles for a record: statement, question, answer and distractors, drawn from a seed.

The generator is seeded by the run's seed and the record's id, so the same needles are drawn in
every process and whatever other records are in the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from midchart.core.provenance import seeded
from midchart.core.reference_tables import table_row, yaml_table

T = TypeVar("T")


@table_row
class Thing:
    """Subject of a needle. ``keys``: lower-case words that must not occur in the record (its name
    where empty). A measured one has a ``unit`` and values from ``low`` to ``high`` by ``step``."""

    name: str
    keys: tuple[str, ...] = ()
    unit: str = ""
    low: float = 0.0
    high: float = 0.0
    step: float = 1.0

    def occurs_in(self, text: str) -> bool:
        """Whether a lower-case text mentions it."""
        return any(key in text for key in self.keys or (self.name,))

    def values(self) -> list[str]:
        """Every value that can be drawn, as text."""
        decimals = 1 if self.step < 1 else 0
        count = round((self.high - self.low) / self.step) + 1
        return [f"{self.low + i * self.step:.{decimals}f}" for i in range(count)]


@table_row
class NeedleKind:
    """A kind of needle. ``domain``: the clinical one of its facts, of the paper's four or
    "procedure". ``found_by``: whether the question names the "day" or asks for the "latest"
    one. ``value``: what is drawn ("number" or "day"), or the needle's fixed word, ``other`` being
    that of its distractors. ``separate``: drawn from a generator of its kind, so that the needles
    of the other kinds are those drawn without it."""

    kind: str
    domain: Literal["medication", "diagnosis", "laboratory", "social", "procedure"]
    found_by: Literal["day", "latest"]
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    things: tuple[Thing, ...]
    other: str = ""
    separate: bool = False


needle_kinds = yaml_table(tuple[NeedleKind, ...], Path(__file__).with_name("needles.yaml"))
"""All kinds; the needles of a record cycle through them."""


SOONEST, LONGEST = 30, 1500
"""Range of a needle's day, in days before the record begins."""
OTHERS = 3000
"""Most days before the record begins, for a distractor's day."""
TRIES = 200
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Needle:
    """A fact, its question and its reference answer. ``id`` is its number within the record;
    ``distractors`` state another day and value of the same thing; a run uses the first few."""

    id: str
    kind: str
    thing: str
    day: date
    statement: str
    question: str
    answer: str
    distractors: tuple[str, ...]


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def make_needles(
    record_id: str,
    text: str,
    begins: date,
    count: int,
    distractors: int,
    seed: int,
    turn: int = 0,
    taken: Collection[str] = (),
) -> tuple[Needle, ...]:
    """``count`` needles with ``distractors`` each for a record whose full ``text`` is given.

    ``begins`` is the record's first day, ``turn`` the kind that comes first; a statement in
    ``taken`` is not drawn again. Fewer are returned where the record mentions too many things: no
    key word of a needle, and no number it states, occurs in ``text``.
    """
    shared = seeded(seed, "needles", record_id)
    low = text.lower()
    numbers = frozenset(_NUMBER.findall(text))
    unmentioned: list[list[Thing]] = []
    generators: list[np.random.Generator] = []
    for kind in needle_kinds():
        rng = seeded(seed, "needles", record_id, kind.kind) if kind.separate else shared
        generators.append(rng)
        order = rng.permutation(len(kind.things)).tolist()
        unmentioned.append([t for t in (kind.things[i] for i in order) if not t.occurs_in(low)])
    used, needles = set(taken), list[Needle]()
    for step in range(len(unmentioned) * max(map(len, unmentioned))):
        if len(needles) == count:
            break
        number = (turn + step) % len(unmentioned)
        if not unmentioned[number]:
            continue
        kind, thing = needle_kinds()[number], unmentioned[number].pop()
        needle = _make(
            str(len(needles)), kind, thing, begins, distractors, numbers, used, generators[number]
        )
        if needle is not None:
            used.update((needle.statement, *needle.distractors))
            needles.append(needle)
    return tuple(needles)


def _make(
    id: str,
    kind: NeedleKind,
    thing: Thing,
    begins: date,
    distractors: int,
    numbers: Collection[str],
    used: Collection[str],
    rng: np.random.Generator,
) -> Needle | None:
    """A needle about a thing; None where its record leaves it too few values."""
    statement, question = pick(rng, kind.statements), pick(rng, kind.questions)
    numeric = kind.value == "number"
    values = [v for v in thing.values() if v not in numbers] if numeric else []
    if numeric and len(values) <= distractors:
        return None
    for _ in range(TRIES):
        days = _days(begins, distractors, kind.found_by == "latest", rng)
        if numeric:
            indices = rng.choice(len(values), distractors + 1, replace=False).tolist()
            drawn = [values[i] for i in indices]
        else:
            drawn = [kind.value] + [kind.other] * distractors
        statements = [
            statement.format(name=thing.name, value=value, unit=thing.unit, day=day)
            for day, value in zip(days, drawn, strict=True)
        ]
        if not any(text in used for text in statements):
            answer = days[0].isoformat() if kind.value == "day" else drawn[0].capitalize()
            question = question.format(name=thing.name, unit=thing.unit, day=days[0])
            first, *others = statements
            return Needle(id, kind.kind, thing.name, days[0], first, question, answer, (*others,))
    return None


def _days(begins: date, others: int, latest: bool, rng: np.random.Generator) -> list[date]:
    """The needle's day and those of its distractors, all of them earlier where ``latest``. A
    distractor's day shares at most one of year, month and day with the needle's, so that no judge
    can confuse them by their parts."""
    before = int(rng.integers(SOONEST, LONGEST))
    day = begins - timedelta(days=before)
    days = [day]
    while len(days) <= others:
        back = int(rng.integers(before + 1 if latest else SOONEST, OTHERS))
        other = begins - timedelta(days=back)
        alike = (other.year == day.year) + (other.month == day.month) + (other.day == day.day)
        if alike <= 1 and other not in days:
            days.append(other)
    return days
