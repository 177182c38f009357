"""Needles made for a record: what is said, asked and right, with distractors, from a seed alone.

The generator of a record's needles is seeded by the run's seed and the record's id, so the same
needles come out in every process and whatever other records are in the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from typing import Literal

import numpy as np

# What a needle can say: rare drugs, tests, procedures and exposures, and the ways to word them.


@dataclass(frozen=True, slots=True)
class Thing:
    """What a needle is about.

    ``keys``: the words that must not occur in the record, lower-cased. A measured thing has a
    ``unit`` and values from ``low`` to ``high`` in steps of ``step``.
    """

    name: str
    keys: tuple[str, ...]
    unit: str = ""
    low: float = 0.0
    high: float = 0.0
    step: float = 1.0

    def values(self) -> list[str]:
        """Every value that can be drawn, as text."""
        decimals = 1 if self.step < 1 else 0
        count = round((self.high - self.low) / self.step) + 1
        return [f"{self.low + i * self.step:.{decimals}f}" for i in range(count)]


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of needle: its wordings, with the fields name, value, unit and day.

    ``found_by``: whether the question names the "day", or asks for the "latest" one.
    ``value``: what is drawn (a "number" or a "day"), or the fixed word of the needle, with
    ``other`` that of its distractors.
    """

    kind: str
    found_by: Literal["day", "latest"]
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    things: tuple[Thing, ...]
    other: str = ""


def _drug(name: str, low: int, high: int, step: int) -> Thing:
    return Thing(name, (name,), "mg", low, high, step)


def _test(name: str, key: str, unit: str, low: float, high: float, step: float) -> Thing:
    return Thing(name, (key,), unit, low, high, step)


def _named(name: str, *keys: str) -> Thing:
    return Thing(name, keys)


DOSE = Fact(
    "dose",
    "day",
    "number",
    (
        "Outside pharmacy record: {name} {value} mg daily dispensed on {day}.",
        "Per outside clinic, {name} was started on {day} at {value} mg daily.",
        "Medication history from a former prescriber lists {name} {value} mg daily as of {day}.",
    ),
    (
        "What daily dose of {name}, in mg, is documented for {day}?",
        "How many mg of {name} daily did the patient take on {day}?",
    ),
    (
        _drug("trientine", 260, 1990, 10), _drug("nitisinone", 11, 97, 1),
        _drug("tiopronin", 310, 1490, 10), _drug("miglustat", 110, 590, 5),
        _drug("riluzole", 31, 149, 1), _drug("tetrabenazine", 13, 98, 1),
        _drug("pyrimethamine", 26, 99, 1), _drug("deferasirox", 260, 1740, 10),
        _drug("sapropterin", 210, 990, 10), _drug("mexiletine", 160, 890, 10),
        _drug("primidone", 55, 745, 5), _drug("dapsone", 26, 198, 1),
    ),
)  # fmt: skip
LAB = Fact(
    "lab",
    "day",
    "number",
    (
        "Faxed outside laboratory result: {name} {value} {unit}, sample of {day}.",
        "Referral letter quotes {name} of {value} {unit} measured on {day}.",
        "Scanned outside report, {name} on {day} was {value} {unit}.",
    ),
    (
        "What was the {name}, in {unit}, measured on {day}?",
        "What value did the {name} of {day} have, in {unit}?",
    ),
    (
        _test("serum selenium", "selenium", "ng/mL", 61, 189, 1),
        _test("serum copper", "copper", "mcg/mL", 0.6, 19.9, 0.1),
        _test("ceruloplasmin", "ceruloplasmin", "mg/dL", 12.1, 49.8, 0.1),
        _test("aldolase", "aldolase", "U/L", 1.6, 19.7, 0.1),
        _test("haptoglobin", "haptoglobin", "mg/dL", 31, 289, 1),
        _test("erythropoietin", "erythropoietin", "U/L", 2.6, 49.7, 0.1),
        _test("chromogranin A", "chromogranin", "ng/mL", 21, 389, 1),
        _test("plasma retinol", "retinol", "mcg/mL", 0.6, 29.9, 0.1),
        _test("plasma renin activity", "renin", "ng/mL", 0.6, 19.8, 0.1),
        _test("serum gastrin", "gastrin", "pg/mL", 21, 389, 1),
        _test("blood lead", "lead", "ng/mL", 11, 189, 1),
        _test("osteocalcin", "osteocalcin", "ng/mL", 9.1, 59.8, 0.1),
    ),
)
DATE = Fact(
    "date",
    "latest",
    "day",
    (
        "Outside records document {name} on {day}.",
        "Per the former practice, {name} was done on {day}.",
        "Copy of an outside report on file: {name}, {day}.",
    ),
    (
        "On which date was the most recent {name} documented by outside records?",
        "When was the latest {name} done elsewhere?",
    ),
    (
        _named("tympanometry", "tympanometry"), _named("sialography", "sialogra"),
        _named("rabies vaccination", "rabies"), _named("dacryocystography", "dacryocysto"),
        _named("nerve conduction study", "nerve conduction"),
        _named("capsule endoscopy", "capsule endoscopy"),
        _named("patch testing", "patch test"), _named("polysomnography", "polysomnogra"),
        _named("yellow fever vaccination", "yellow fever"),
        _named("slit lamp examination", "slit lamp", "slit-lamp"),
        _named("lymphoscintigraphy", "lymphoscint"), _named("urodynamic testing", "urodynamic"),
    ),
)  # fmt: skip
NEGATION = Fact(
    "negation",
    "day",
    "no",
    (
        "Screening questionnaire of {day}, {name}: {value}.",
        "Asked on {day} about {name}: {value}.",
        "Intake form dated {day}, item {name}: {value}.",
    ),
    (
        "Did the patient report {name} when asked on {day}?",
        "Was {name} reported on the form of {day}?",
    ),
    (
        _named("asbestos exposure", "asbestos"), _named("scuba diving", "scuba"),
        _named("beekeeping", "beekeep"), _named("drinking raw milk", "raw milk"),
        _named("travel to a malaria area", "malaria"), _named("contact with parrots", "parrot"),
        _named("work with welding fumes", "welding"), _named("a tick bite", "tick bite"),
        _named("spelunking", "spelunk"), _named("living on a farm", "farm"),
        _named("a jellyfish sting", "jellyfish"), _named("work in a foundry", "foundry"),
    ),
    other="yes",
)  # fmt: skip

FACTS: tuple[Fact, ...] = (DOSE, LAB, DATE, NEGATION)
"""All kinds; the needles of a record take turns through them."""


SOONEST, LONGEST = 30, 1500
"""Days before the record begins between which a needle's day lies."""
OTHERS = 3000
"""Most days before the record begins, for a distractor's day."""
TRIES = 200
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Needle:
    """A fact, its question and its reference answer.

    ``id`` is the needle's number among its record's; ``distractors`` are statements about the
    same thing with another day and another value; the first few of them are used.
    """

    id: str
    kind: str
    thing: str
    day: date
    statement: str
    question: str
    answer: str
    distractors: tuple[str, ...]


def seeded(seed: int, *names: str) -> np.random.Generator:
    """A generator of its own for a name, the same in every process."""
    spelled = "".join(f"{len(name)}:{name}" for name in names)
    own = blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=8)
    return np.random.default_rng([seed, int.from_bytes(own.digest(), "big")])


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
    """``count`` needles for a record whose whole ``text`` is given, each with ``distractors``.

    ``begins`` is the record's first day; ``turn`` is the kind that comes first; a statement in
    ``taken`` is not made again. Fewer come out where the record mentions too many things. No key
    word of a needle, and no number it gives, stands in ``text``.
    """
    rng = seeded(seed, "needles", record_id)
    low = text.lower()
    numbers = frozenset(_NUMBER.findall(text))
    free = {fact.kind: _free(fact, low, rng) for fact in FACTS}
    used, found = set(taken), list[Needle]()
    for step in range(len(FACTS) * max(map(len, free.values()))):
        if len(found) == count:
            break
        fact = FACTS[(turn + step) % len(FACTS)]
        if not free[fact.kind]:
            continue
        thing = free[fact.kind].pop()
        needle = _make(str(len(found)), fact, thing, begins, distractors, numbers, used, rng)
        if needle is not None:
            used.update((needle.statement, *needle.distractors))
            found.append(needle)
    return tuple(found)


def _free(fact: Fact, text: str, rng: np.random.Generator) -> list[Thing]:
    """The things of a kind that a record does not mention, in an order of its own."""
    order = rng.permutation(len(fact.things)).tolist()
    things = [fact.things[i] for i in order]
    return [thing for thing in things if not any(key in text for key in thing.keys)]


def _make(
    id: str,
    fact: Fact,
    thing: Thing,
    begins: date,
    distractors: int,
    numbers: Collection[str],
    used: Collection[str],
    rng: np.random.Generator,
) -> Needle | None:
    """A needle about a thing; None where its record leaves it too few values."""
    wording = fact.statements[int(rng.integers(len(fact.statements)))]
    asking = fact.questions[int(rng.integers(len(fact.questions)))]
    values = [v for v in thing.values() if v not in numbers] if fact.value == "number" else []
    if fact.value == "number" and len(values) <= distractors:
        return None

    def say(day: date, value: str) -> str:
        return wording.format(name=thing.name, value=value, unit=thing.unit, day=day)

    for _ in range(TRIES):
        days = _days(begins, distractors, fact.found_by == "latest", rng)
        if fact.value == "number":
            drawn = rng.choice(len(values), distractors + 1, replace=False).tolist()
            said = [values[i] for i in drawn]
        else:
            said = [fact.value] + [fact.other] * distractors
        statements = [say(day, value) for day, value in zip(days, said, strict=True)]
        if not any(statement in used for statement in statements):
            answer = days[0].isoformat() if fact.value == "day" else said[0].capitalize()
            question = asking.format(name=thing.name, unit=thing.unit, day=days[0])
            return Needle(
                id, fact.kind, thing.name, days[0], statements[0], question, answer,
                tuple(statements[1:]),
            )  # fmt: skip
    return None


def _days(begins: date, others: int, latest: bool, rng: np.random.Generator) -> list[date]:
    """The needle's day and those of its distractors, earlier all where it is the ``latest``.

    A distractor's day shares at most one of year, month and day with the needle's, so that no
    judge can take one for the other by their parts.
    """
    own = int(rng.integers(SOONEST, LONGEST))
    day = begins - timedelta(days=own)
    found = [day]
    while len(found) <= others:
        back = int(rng.integers(own + 1 if latest else SOONEST, OTHERS))
        other = begins - timedelta(days=back)
        alike = (other.year == day.year) + (other.month == day.month) + (other.day == day.day)
        if alike <= 1 and other not in found:
            found.append(other)
    return found
