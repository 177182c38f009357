"""Lines that stand around a lesson's facts and answer nothing, as notes are full of them."""

from __future__ import annotations

import numpy as np

from core.synthetic.common import pick
from core.synthetic.lessons.haste import hastily, soup
from core.synthetic.lessons.readings import listed, take_drug, take_test, value
from core.synthetic.lessons.stories import ANY_DAY, worded
from core.synthetic.lessons.tables import Topic, fillers, topics
from core.synthetic.lessons.words import Person, made_word, scraps, upper


def filler(rng: np.random.Generator, p: Person) -> str:
    """A line that answers nothing: prose, a heading, an examination, a panel of results, a
    medicine, a problem, something on a subject that is told elsewhere, or what means nothing."""
    return upper(pick(rng, _FILLERS)(rng, p))


def _heading(rng: np.random.Generator, p: Person) -> str:
    return pick(rng, fillers()["heads"])


def _prose(rng: np.random.Generator, p: Person) -> str:
    form = pick(rng, fillers()["lines"])
    return hastily(rng, form.format_map(worded(rng, p, Topic(), ANY_DAY, 0.5)))


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
    return soup(rng, 2, 9)


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
