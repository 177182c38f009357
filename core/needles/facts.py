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

import numpy as np

from core.needles.library import FACTS, Fact, Thing

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
