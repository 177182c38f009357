"""Lines of a lesson: facts told in a sentence, and what stands around them and answers nothing."""

from __future__ import annotations

from datetime import date

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.training_examples.model import Drawn
from core.synthetic.training_examples.readings import (
    Days,
    echoed,
    listed,
    take_drug,
    take_test,
    value,
)
from core.synthetic.training_examples.tables import Topic, fillers, names, topics
from core.synthetic.training_examples.text_noise import gibberish, perturb_statement
from core.synthetic.training_examples.words import Person, made_word, scraps, upper, written

ANY_DAY = date(2015, 6, 15)
"""The day of a line that tells of none."""
_SPANS = ("five days", "nine weeks", "two winters", "eleven months", "half a year", "one summer")
_OFTEN = (
    *("on two days a week", "each Tuesday", "at weekends", "every third day"),
    *("once a fortnight", "on Friday nights", "twice a day", "every other day", "once a day"),
)
LISTED, CHANGED = 0.7, 0.35
"""Shares of a medicine's stories beside which it is listed, and changed in another way."""
_KIN = ("aunt", "uncle", "cousin", "brother", "sister", "father", "mother", "neighbor")


def worded(
    rng: np.random.Generator,
    p: Person,
    topic: Topic,
    day: date,
    made_up: float,
    pair: tuple[str, str] | None = None,
) -> dict[str, str]:
    """One drawing of everything a topic's wordings may name; ``pair``: the medicine's two names."""
    drug, brand = pair or take_drug(rng, p, made_up if topic.of_drug else 1.0)
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
        "my": f"{day:%B %Y}",
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
    words = worded(rng, p, topic, days[0], made_up)
    says = perturb_statement(rng, upper(pick(rng, topic.says).format_map(words)))
    others: list[str] = []
    for day in days[1:]:
        like = pick(rng, topic.says).format_map(worded(rng, p, topic, day, made_up))
        if topic.again:
            others.append(upper(like))
        elif not others and chance(rng, 0.4):
            others.append(f"{p.words['His']} {pick(rng, _KIN)}: {like[:1].lower()}{like[1:]}")
    asks = tuple(upper(ask.format_map(words)) for ask in (*topic.asks, *topic.polar))
    beside = _beside(rng, p, topic, (words["drug"], words["brand"]), days[0], made_up)
    if not others and not beside:
        # By its own words it could be taken for what is told of another, or on another day.
        asks += tuple(echoed(rng, says) for _ in range(len(asks) // 8))
    differing = tuple(other for other in others if other != says)
    near = tuple(upper(pick(rng, topic.near).format_map(words)) for _ in topic.near[:1])
    return Drawn(topic.key, says, asks, differing, topic.again, not topic.again, near, beside)


def _beside(
    rng: np.random.Generator,
    p: Person,
    topic: Topic,
    pair: tuple[str, str],
    day: date,
    made_up: float,
) -> tuple[str, ...]:
    """What else records tell of a story's medicine: its line in a list, another change of it."""
    if not topic.of_drug:
        return ()
    found: list[str] = []
    if chance(rng, LISTED):
        found.append(listed(rng, *(pair if chance(rng, 0.7) else pair[:1] * 2)))
    if chance(rng, CHANGED):
        other = pick(rng, [t for t in topics() if t.of_drug and t.key != topic.key])
        like = pick(rng, other.says).format_map(worded(rng, p, other, day, made_up, pair))
        found.append(perturb_statement(rng, upper(like)))
    return tuple(found)


def filler(rng: np.random.Generator, p: Person) -> str:
    """A line that answers nothing: prose, a heading, an examination, a panel of results, a
    medicine, a problem, something on a subject that is told elsewhere, or what means nothing."""
    return upper(pick(rng, _FILLERS)(rng, p))


def _heading(rng: np.random.Generator, p: Person) -> str:
    return pick(rng, fillers()["heads"])


def _prose(rng: np.random.Generator, p: Person) -> str:
    form = pick(rng, fillers()["lines"])
    return perturb_statement(rng, form.format_map(worded(rng, p, Topic(), ANY_DAY, 0.5)))


def _part(rng: np.random.Generator, p: Person) -> str:
    """A part of the body and what was found there, or not."""
    name, _, found = pick(rng, fillers()["parts"]).partition(" | ")
    options = found.split(", ")
    many = int(rng.integers(1, min(len(options), 5) + 1))
    said = [options[int(i)] for i in rng.permutation(len(options))[:many]]
    return f"{name}: {', '.join(said)}{pick(rng, ('', '.', '.'))}"


def _strip(rng: np.random.Generator, p: Person) -> str:
    """A day's results in a row."""
    panel = _panel(rng, p)
    if len(panel) == 1:
        return _heading(rng, p)
    start = pick(rng, ("", "- ", "Values ")) + _day(rng)
    return f"{start}: " + "; ".join(f"{name} {_number(rng)}" for name in panel)


def _trend(rng: np.random.Generator, p: Person) -> str:
    """A test's results on some days."""
    name = p.take(rng, "panel", fillers()["panels"])
    if name is None:
        return _heading(rng, p)
    many = int(rng.integers(2, 5))
    return f"- {name} by day: " + ", ".join(f"{_number(rng)} on {_day(rng)}" for _ in range(many))


def _coded(rng: np.random.Generator, p: Person) -> str:
    test = take_test(rng, p, 0.5)
    return f"{test.name}: {value(rng, test)} {test.unit}".strip()


def _near(rng: np.random.Generator, p: Person) -> str:
    topic = pick(rng, topics())
    return pick(rng, topic.near).format_map(worded(rng, p, topic, ANY_DAY, 0.5))


def _problem(rng: np.random.Generator, p: Person) -> str:
    """A diagnosis in a list of them."""
    name = pick(rng, fillers()["problems"])
    year = str(int(rng.integers(1985, 2020)))
    form = pick(rng, ("{}", "{}", "- {}", "- {}, {y}", "{}: since {y}.", "- {}, {y}, resolved"))
    return form.format(name, y=year)


def _medicine(rng: np.random.Generator, p: Person) -> str:
    """A medicine in a list of them."""
    return listed(rng, *take_drug(rng, p, 0.4))


def _nonsense(rng: np.random.Generator, p: Person) -> str:
    sort = int(rng.integers(3))
    if sort == 0:
        return f"{scraps(rng, 3, 16)}."
    if sort == 1:
        return " ".join(made_word(rng) for _ in range(int(rng.integers(2, 9)))) + "."
    return gibberish(rng, 2, 9)


_FILLERS = (
    *(_heading, _heading, _prose, _prose, _prose, _prose, _prose, _prose, _part, _part, _part),
    *(_strip, _trend, _coded, _coded, _near, _near, _near, _problem, _problem, _medicine),
    *(_medicine, _nonsense, _nonsense),
)


def _day(rng: np.random.Generator) -> str:
    month, day, year = rng.integers(1, 13), rng.integers(1, 29), rng.integers(2005, 2023)
    return f"{month:02d}/{day:02d}/{year}"


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
