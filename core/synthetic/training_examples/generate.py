"""Makes a lesson: draws facts, gives them their places and days, and asks about them.

A lesson comes from a generator alone, so a seed and a lesson's number say all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache

import numpy as np

from core.errors import InputError
from core.synthetic.common import chance, pick
from core.synthetic.training_examples.model import (
    Drawn,
    ExamplePlan,
    ExampleQuestion,
    TrainingExample,
)
from core.synthetic.training_examples.readings import DRAWN, READINGS, Days
from core.synthetic.training_examples.tables import topics
from core.synthetic.training_examples.templates import filler, story
from core.synthetic.training_examples.text_noise import vary_question
from core.synthetic.training_examples.words import Person
from core.text.prompt import NOT_DOCUMENTED, said

READING_SHARE = 0.35
"""Share of facts with a value (a reading); the others are told in a sentence."""
MEDICINES = 3
"""How many times as often as another story one of a medicine is drawn: it has many names."""
EARLY_FIRST = 0.7
"""Share of records with a latest note in which the lines before it take facts first: in what the
application gives, the evidence stands there."""


@cache
def kinds() -> tuple[str, ...]:
    """Every kind of fact a lesson can ask for."""
    return (*READINGS, *(topic.key for topic in topics()))


def lesson(seed: int, number: int, plan: ExamplePlan | None = None) -> TrainingExample:
    """TrainingExample ``number`` of a seed, the same on every machine.

    Raises InputError for a plan that cannot be met.
    """
    return make_example(np.random.default_rng([seed, number]), plan or ExamplePlan())


def make_example(rng: np.random.Generator, plan: ExamplePlan) -> TrainingExample:
    """A lesson drawn by ``rng``; raises InputError for a plan that cannot be met."""
    low, high = plan.lines
    unknown = sorted(set(plan.kinds).difference(kinds()))
    if low < 4 or high < low or plan.asked < 1 or plan.distractors < 0 or unknown:
        raise InputError(
            "training examples: lines from 4, fewest first; asked ≥ 1; distractors ≥ 0"
            + (f"; no such kind: {', '.join(unknown)}" if unknown else "")
        )
    n = int(rng.integers(low, high + 1))
    p = Person(rng)
    # Nothing is drawn for what is not wanted: lessons without it stay the same.
    note = _latest(rng, n) if plan.latest and chance(rng, plan.latest) else 0
    days = _days_of_latest(rng, n, note) if note else _days(rng, n)
    places = _places(rng, n, plan)
    if note and chance(rng, EARLY_FIRST):
        places.sort(key=lambda line: line >= note)
    texts: dict[int, str] = {}
    facts: list[list[ExampleQuestion]] = []
    told: set[str] = set()
    wanted = max(2, round(n * plan.facts / (1 + plan.distractors / 2)))
    for line in places[:wanted]:
        if line in texts:
            continue
        others = _others(rng, line, texts, n, int(rng.integers(0, plan.distractors + 1)))
        drawn = _draw(rng, p, plan, tuple(days[i] for i in (line, *others)), told)
        if drawn is None:
            break
        if drawn.last:
            others = [
                i for i in others if days[i] < days[line] or (days[i] == days[line] and i < line)
            ]
        others = others[: len(drawn.others)]
        rivals = bool(others) and drawn.apart
        withheld = (rivals or bool(drawn.near or drawn.beside)) and chance(rng, plan.withheld)
        if not withheld:
            texts[line] = drawn.says
        if rivals or not withheld:
            texts |= dict(zip(others, drawn.others, strict=False))
        # Lines on the same subject that answer nothing.
        near = (drawn.near,) if withheld or chance(rng, plan.near) else ()
        for some in (*near, drawn.beside):
            free = _others(rng, line, texts, n, len(some))
            texts |= dict(zip(free, some, strict=False))
        where = None if withheld else line
        facts.append(
            [
                ExampleQuestion(drawn.kind, question, NOT_DOCUMENTED, where, tuple(sorted(others)))
                for question in dict.fromkeys(drawn.asks)
            ]
        )
    asked = _asked(rng, p, plan, facts, told, days)
    for i in range(n):
        if i not in texts:
            texts[i] = filler(rng, p)
    shown = tuple(f"[{days[i].isoformat()}] {texts[i]}" for i in range(n))
    answered = (
        replace(
            one,
            question=vary_question(rng, one.question),
            answer=NOT_DOCUMENTED if one.line is None else said(shown[one.line]),
        )
        for one in asked
    )
    return TrainingExample(shown, tuple(answered))


def _days(rng: np.random.Generator, n: int) -> list[date]:
    """A day for each line, in time order; neighbours often share one, as lines of a note do. Half
    of the records end in one long note."""
    day, stay = _first_day(rng), float(rng.uniform(0.1, 0.9))
    note = int(n * rng.uniform(0.02, 0.8)) if chance(rng, 0.5) else n
    stays = [0.98 if i > note else stay for i in range(1, n)]
    return _days_from(rng, day, stays, 500 if n < 60 else 200)


def _first_day(rng: np.random.Generator) -> date:
    return date(2004, 1, 1) + timedelta(days=int(rng.integers(0, 4200)))


def _days_from(
    rng: np.random.Generator, day: date, stays: Sequence[float], apart: int
) -> list[date]:
    """``day``, and a day for each line after it: by the chance of ``stays`` that of the line
    before, else less than ``apart`` days later."""
    found = [day]
    for stay in stays:
        later = 0 if chance(rng, stay) else int(rng.integers(1, apart))
        found.append(found[-1] + timedelta(days=later))
    return found


def _latest(rng: np.random.Generator, n: int) -> int:
    """The line with which a latest note begins: few stand before it."""
    return max(1, int(n * rng.uniform(0.01, 0.3)))


def _days_of_latest(rng: np.random.Generator, n: int, note: int) -> list[date]:
    """A day for each line, in time order: mostly one each up to ``note``, and then all but one."""
    day, stay = _first_day(rng), float(rng.uniform(0.0, 0.5))
    return _days_from(rng, day, [0.99 if i > note else stay for i in range(1, n)], 500)


def _places(rng: np.random.Generator, n: int, plan: ExamplePlan) -> list[int]:
    """All lines in the order in which facts take them."""
    if plan.place == "uniform":
        return [int(i) for i in rng.permutation(n)]
    # A line's weight falls by e every twelfth of the record from its nearer end.
    from_edge = np.minimum(np.arange(n), n - 1 - np.arange(n)) / n
    weight = np.exp(-12 * from_edge)
    return [int(i) for i in rng.choice(n, n, replace=False, p=weight / weight.sum())]


def _others(
    rng: np.random.Generator, line: int, texts: dict[int, str], n: int, count: int
) -> list[int]:
    free = [i for i in range(n) if i != line and i not in texts]
    return [free[int(i)] for i in rng.permutation(len(free))[:count]]


def _draw(
    rng: np.random.Generator, p: Person, plan: ExamplePlan, days: Days, told: set[str]
) -> Drawn | None:
    """A fact of a kind that may come: a reading or a medicine's story under another name again, any
    other story once a record."""
    tales = [t for t in topics() if t.key not in told and (not plan.kinds or t.key in plan.kinds)]
    tales += [t for t in tales if t.of_drug for _ in range(MEDICINES - 1)]
    readings = [k for k in DRAWN if not plan.kinds or k in plan.kinds]
    if readings and (not tales or chance(rng, READING_SHARE)):
        return READINGS[pick(rng, readings)](rng, p, days, plan.made_up)
    if not tales:
        return None
    topic = pick(rng, tales)
    if not topic.of_drug:
        told.add(topic.key)
    return story(rng, topic, p, days, plan.made_up)


def _asked(
    rng: np.random.Generator,
    p: Person,
    plan: ExamplePlan,
    facts: Sequence[Sequence[ExampleQuestion]],
    told: set[str],
    days: Sequence[date],
) -> list[ExampleQuestion]:
    """The lesson's questions in an order of chance: of each fact as many, but for one, however many
    ways there are to ask for it; and some about what the record does not say."""
    without = int(rng.binomial(plan.asked, plan.absent))
    order = [int(i) for i in rng.permutation(len(facts))]
    ways = [[fact[int(i)] for i in rng.permutation(len(fact))] for fact in facts]

    def ask(number: int) -> ExampleQuestion:
        turn, fact = divmod(number, len(order))
        of = ways[order[fact]]
        return of[turn % len(of)]

    chosen = [ask(i) for i in range(plan.asked - without)]
    while len(chosen) < plan.asked:
        drawn = _draw(rng, p, plan, (days[int(rng.integers(len(days)))],), told)
        if drawn is None:  # every kind is told already: an answered question more
            chosen.append(ask(len(chosen)))
            continue
        chosen.append(ExampleQuestion(drawn.kind, pick(rng, drawn.asks), NOT_DOCUMENTED, None))
    return [chosen[int(i)] for i in rng.permutation(len(chosen))]
