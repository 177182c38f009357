"""Facts told in a sentence, and the lines around them, both from tables of wordings."""

from __future__ import annotations

from datetime import date

import numpy as np

from core.synthetic.lessons.model import Drawn
from core.synthetic.lessons.readings import Days, take_drug, take_test, value
from core.synthetic.lessons.tables import Topic, fillers, names, topics
from core.synthetic.lessons.words import (
    Person,
    chance,
    made_word,
    pick,
    scraps,
    upper,
    written,
)

ANY_DAY = date(2015, 6, 15)
"""The day of a line that tells of none."""
_SPANS = ("five days", "nine weeks", "two winters", "eleven months", "half a year", "one summer")
_OFTEN = (
    *("on two days a week", "each Tuesday", "at weekends", "every third day"),
    *("once a fortnight", "on Friday nights", "twice a day", "every other day", "once a day"),
)
_KIN = ("aunt", "uncle", "cousin", "brother", "sister", "father", "mother", "neighbor")


def _words(
    rng: np.random.Generator, p: Person, topic: Topic, day: date, made_up: float
) -> dict[str, str]:
    """One drawing of everything a topic's wordings may name."""
    about_drug = any("{drug}" in say for say in topic.says)
    drug, brand = take_drug(rng, p, made_up if about_drug else 1.0)
    unit = pick(rng, ("mg", "mg", "mcg", "units"))
    low, high = sorted(int(v) for v in rng.choice(np.arange(3, 900), 2, replace=False))
    often, lay = pick(rng, _OFTEN), names().lay
    words = {
        **p.words,
        "drug": drug,
        "brand": brand,
        "lay": lay.get(drug, lay.get(brand, "tablet")),
        "v": f"{high} {unit} {often}",
        "w": f"{low} {unit} {often}",
        "v2": f"{int(rng.integers(0, 4))}.{int(rng.integers(10))}{int(rng.integers(1, 10))}",
        "y": str(int(rng.integers(1962, day.year))),
        "yy": str(day.year),
        "d": written(rng, day),
        "n": str(int(rng.integers(2, 99))),
        "rel": f"{p.words['his']} {pick(rng, names().relatives)}",
        "first": pick(rng, names().first),
        "town": pick(rng, names().places),
        "clinic": pick(rng, names().clinics),
        "often": often,
        "long": pick(rng, _SPANS),
        "why": pick(rng, fillers()["why"]),
        "word": made_word(rng),
    }
    for slot, options in (("x", topic.x), ("z", topic.z)):
        drawn = pick(rng, options).format_map(words)
        # A part of a list's entry that nobody has read before must be copied too.
        strange = bool(drawn) and chance(rng, made_up / 3)
        words[slot] = f"{drawn} {made_word(rng)}" if strange else drawn
    return words


def story(rng: np.random.Generator, topic: Topic, p: Person, days: Days, made_up: float) -> Drawn:
    """A topic's fact; where it comes ``again``, the latest of some, else one told of the patient
    and perhaps the like of a relative."""
    words = _words(rng, p, topic, days[0], made_up)
    says = upper(pick(rng, topic.says).format_map(words))
    others: list[str] = []
    for day in days[1:]:
        like = pick(rng, topic.says).format_map(_words(rng, p, topic, day, made_up))
        if topic.again:
            others.append(upper(like))
        elif not others and chance(rng, 0.4):
            others.append(f"{p.words['His']} {pick(rng, _KIN)}: {like[:1].lower()}{like[1:]}")
    asks = tuple(upper(ask.format_map(words)) for ask in (*topic.asks, *topic.polar))
    differing = tuple(other for other in others if other != says)
    near = tuple(upper(pick(rng, topic.near).format_map(words)) for _ in topic.near[:1])
    return Drawn(topic.kind, says, asks, differing, topic.again, not topic.again, near)


def filler(rng: np.random.Generator, p: Person) -> str:
    """A line that answers nothing: prose, a heading, a panel of results, a reading."""
    sort = float(rng.random())
    panel = _panel(rng, p) if 0.09 <= sort < 0.16 else []
    if sort < 0.09 or len(panel) == 1:
        return pick(rng, fillers()["heads"])
    if panel:
        month, day, year = rng.integers(1, 13), rng.integers(1, 29), rng.integers(2005, 2023)
        start = pick(rng, ("", "- ", "Values ")) + f"{month:02d}/{day:02d}/{year}"
        return f"{start}: " + ", ".join(f"{name} {_number(rng)}" for name in panel)
    if sort < 0.26:
        test = take_test(rng, p, 0.5)
        return f"{test.name}: {value(rng, test)} {test.unit}".strip()
    if sort < 0.5:
        topic = pick(rng, topics())
        return upper(pick(rng, topic.near).format_map(_words(rng, p, topic, ANY_DAY, 0.5)))
    if sort < 0.62:
        return f"{upper(scraps(rng, 3, 16))}."
    if sort < 0.66:
        many = " ".join(made_word(rng) for _ in range(int(rng.integers(2, 9))))
        return f"{upper(many)}."
    return upper(pick(rng, fillers()["lines"]).format_map(_words(rng, p, Topic(), ANY_DAY, 0.5)))


def _panel(rng: np.random.Generator, p: Person) -> list[str]:
    """Short names of tests that the record has not had yet."""
    wanted = int(rng.integers(2, 7))
    drawn = (p.take(rng, "panel", fillers()["panels"]) for _ in range(wanted))
    return [name for name in drawn if name is not None] or ["Na"]


def _number(rng: np.random.Generator) -> str:
    form = int(rng.integers(3))
    if form == 0:
        return str(int(rng.integers(2, 400)))
    tenths = f"{int(rng.integers(0, 40))}.{int(rng.integers(1, 10))}"
    return tenths + (str(int(rng.integers(1, 10))) if form == 2 else "")
