"""Facts with a value: laboratory results, doses, days and answers of yes or no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Literal

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.training_examples.model import Drawn
from core.synthetic.training_examples.tables import Sort, Test, names, wordings
from core.synthetic.training_examples.text_noise import gibberish, keyword_query, keywords
from core.synthetic.training_examples.words import (
    Person,
    made_drug,
    made_test,
    made_word,
    near_day,
    scraps,
    upper,
    written,
)

Days = tuple[date, ...]
"""The day of the evidence's line, then those of its distractors' lines."""
ResultSort = Literal["coded", "noted", "dated"]
Draw = Callable[[np.random.Generator, Person, Days, float], Drawn]
ASKS = 5
"""Questions drawn for a fact; equal ones count once."""
LONG_AGO = 1500
"""Most days before its line that a statement tells of."""

_SPECIMENS = ("in Serum or Plasma", "in Serum or Plasma", "in Blood", "in Urine", "in Body fluid")
_PROPERTIES = ("[Mass/volume]", "[Moles/volume]", "[Units/volume]", "[#/volume]", "[Ratio]")
_RESULT_SORTS: tuple[ResultSort, ...] = ("coded", "coded", "coded", "noted", "dated")
_SIDES: tuple[Literal["highest", "lowest"], ...] = ("highest", "lowest")
_DOSES = ("mg", "mg", "mg", "mg", "mcg", "units", "mL", "g")


def _say(form: str, p: Person, thing: str, **more: str) -> str:
    text = form.format(thing=thing, Thing=upper(thing), **more, **p.words)
    return upper(text.replace(" .", ".").replace(" ,", ","))


def _ask(
    rng: np.random.Generator,
    sort: Sort,
    p: Person,
    things: tuple[str, ...],
    **more: str,
) -> tuple[str, ...]:
    forms = wordings()[sort]
    return tuple(_say(pick(rng, forms), p, pick(rng, things), **more) for _ in range(ASKS))


def _told(rng: np.random.Generator, days: Days) -> list[date]:
    """Different days that statements on these lines tell of; of equal ones, the first."""
    found: list[date] = []
    for day in days:
        told = near_day(rng, day, 0, LONG_AGO)
        if told not in found:
            found.append(told)
    return found


def take_test(rng: np.random.Generator, p: Person, made_up: float) -> Test:
    """A test that the record does not have yet."""
    real = None if chance(rng, made_up) else p.take(rng, "test", names().tests)
    if real is not None:
        return real
    name = made_test(rng)
    coded = f"{upper(name)} {pick(rng, _PROPERTIES)} {pick(rng, _SPECIMENS)}"
    return Test(coded if chance(rng, 0.8) else upper(name), (name,), pick(rng, names().units))


def take_drug(rng: np.random.Generator, p: Person, made_up: float) -> tuple[str, str]:
    """The two names of a drug that the record does not have yet, in either order."""
    pair = None if chance(rng, made_up) else p.take(rng, "drug", names().drugs)
    if pair is None:
        name = made_drug(rng)
        return name, name
    return pair if chance(rng, 0.5) else (pair[1], pair[0])


def listed(rng: np.random.Generator, name: str, other: str) -> str:
    """A line of a list of medicines: one under its name, at times with its other name."""
    often, amount = pick(rng, names().frequencies), int(rng.integers(1, 400))
    shown = f"{name} ({other.upper()})" if name != other else name
    return f"{pick(rng, ('- ', '- ', ''))}{shown} {amount} mg {often}"


def _thing(rng: np.random.Generator, p: Person, sort: str, made_up: float) -> str:
    """An examination or a sign that the record does not have yet."""
    options = names().exams if sort == "exam" else names().exposures
    real = None if chance(rng, made_up) else p.take(rng, sort, options)
    words = names().exam_words if sort == "exam" else names().sign_words
    return real or f"{made_word(rng)} {pick(rng, words)}"


def value(rng: np.random.Generator, test: Test) -> str:
    """A result. Real tests get ones that no examined cohort has: there the last digit of a
    decimal is 0, and what is whole there has a decimal here."""
    if test.between:
        whole, last = int(rng.integers(*test.between, endpoint=True)), int(rng.integers(1, 10))
        return f"{whole}.{int(rng.integers(10))}{last}" if test.fine else f"{whole}.{last}"
    form = int(rng.integers(4))
    if form < 2:
        return str(int(rng.integers(2, 1000)))
    if form == 2:
        return f"{int(rng.integers(0, 100))}.{int(rng.integers(10))}"
    return f"{int(rng.integers(0, 60))}.{int(rng.integers(100)):02d}"


def _differing(make: Callable[[], str], n: int) -> list[str]:
    found: list[str] = []
    while len(found) < n:
        new = make()
        if new not in found:
            found.append(new)
    return found


def _result(
    rng: np.random.Generator, p: Person, test: Test, said: str, day: date, sort: ResultSort
) -> str:
    if sort == "coded":
        return f"{test.name}: {said} {test.unit}".strip()
    more = {"v": said, "u": test.unit, "w": pick(rng, names().clinics), "d": written(rng, day)}
    return _say(pick(rng, wordings()[sort]), p, pick(rng, test.spoken), **more)


def latest(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """The newest of some results; the day is that of its line."""
    test = take_test(rng, p, made_up)
    sort = pick(rng, _RESULT_SORTS)
    values = _differing(lambda: value(rng, test), len(days))
    says = [_result(rng, p, test, v, d, sort) for v, d in zip(values, days, strict=True)]
    asks = _ask(rng, "latest", p, test.spoken)
    return Drawn("latest", says[0], asks, tuple(says[1:]), last=True)


def lab(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """The result of a day that the question names and the statement tells."""
    test, form = take_test(rng, p, made_up), pick(rng, wordings()["dated"])
    told = _told(rng, days)
    values = _differing(lambda: value(rng, test), len(told))
    thing, unit = pick(rng, test.spoken), test.unit
    says = [
        _say(form, p, thing, v=v, u=unit, w=pick(rng, names().clinics), d=d.isoformat())
        for v, d in zip(values, told, strict=True)
    ]
    asks = _ask(rng, "on_day", p, test.spoken, u=unit, d=told[0].isoformat())
    return Drawn("lab", says[0], asks, tuple(says[1:]), apart=True)


def extreme(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """The highest or the lowest of some results, with its line's day."""
    test, side = take_test(rng, p, made_up), pick(rng, _SIDES)
    values = _differing(lambda: value(rng, test), len(days))
    values.sort(key=float, reverse=side == "highest")
    says = [_result(rng, p, test, v, d, "coded") for v, d in zip(values, days, strict=True)]
    return Drawn("extreme", says[0], _ask(rng, side, p, test.spoken), tuple(says[1:]))


def _amount(rng: np.random.Generator, unit: str) -> str:
    if chance(rng, 0.2):
        return f"{int(rng.integers(0, 13))}.{int(rng.integers(1, 10))}"
    return str(int(rng.integers(2, 1000 if unit in ("mg", "mcg") else 90)))


def dose(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """A drug's dose, the latest where it changed."""
    name, other = take_drug(rng, p, made_up)
    unit, form = pick(rng, _DOSES), pick(rng, wordings()["dose"])
    shown = f"{name} ({other.upper()})" if name != other and chance(rng, 0.5) else name
    amounts = _differing(lambda: _amount(rng, unit), len(days))
    often = [pick(rng, names().frequencies) for _ in days]
    says = [
        _say(form, p, shown, v=f"{a} {unit}", f=f, w=pick(rng, names().clinics))
        for a, f in zip(amounts, often, strict=True)
    ]
    asks = _ask(rng, "dose_asks", p, (name, other))
    return Drawn("dose", says[0], asks, tuple(says[1:]), last=True)


def dose_on_day(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """A drug's dose on a day that the question names."""
    name, _ = take_drug(rng, p, made_up)
    unit, often = pick(rng, _DOSES), pick(rng, names().frequencies)
    form, told = pick(rng, wordings()["dose_dated"]), _told(rng, days)
    amounts = _differing(lambda: _amount(rng, unit), len(told))
    says = [
        _say(form, p, name, v=f"{a} {unit}", f=often, w=pick(rng, names().clinics), d=d.isoformat())
        for a, d in zip(amounts, told, strict=True)
    ]
    more = {"u": unit, "d": told[0].isoformat()}
    asks = _ask(rng, "dose_day_asks", p, (name,), **more)
    return Drawn("dose_on_day", says[0], asks, tuple(says[1:]), apart=True)


def day(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """The day on which something was last done, as the statement tells it."""
    thing, form = _thing(rng, p, "exam", made_up), pick(rng, wordings()["day"])
    told = [near_day(rng, days[0], 0, 200)]
    while len(told) < len(days):
        told.append(told[-1] - timedelta(days=int(rng.integers(1, 900))))
    says = [_say(form, p, thing, d=d.isoformat(), w=pick(rng, names().clinics)) for d in told]
    asks = _ask(rng, "day_asks", p, (thing,))
    return Drawn("day", says[0], asks, tuple(says[1:]))


def present(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """Whether something is reported or denied."""
    thing, said = _thing(rng, p, "sign", made_up), pick(rng, ("yes", "no"))
    asks = _ask(rng, "yes_asks", p, (thing,))
    return Drawn("present", _say(pick(rng, wordings()[said]), p, thing), asks)


def present_on_day(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """Whether something was affirmed on a day that the question names."""
    thing, form = _thing(rng, p, "sign", made_up), pick(rng, wordings()["yes_dated"])
    said, told = pick(rng, ("yes", "no")), _told(rng, days)
    other = "no" if said == "yes" else "yes"
    says = [
        _say(form, p, thing, d=d.isoformat(), v=said if i == 0 else other)
        for i, d in enumerate(told)
    ]
    asks = _ask(rng, "yes_day_asks", p, (thing,), d=told[0].isoformat())
    return Drawn("present_on_day", says[0], asks, tuple(says[1:]), apart=True)


def message(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """What is known by a name alone and means nothing: it can only be copied."""
    form, name = pick(rng, wordings()["message"]), made_word(rng)
    says = upper(form.format(thing=name, v=scraps(rng, 3, 14)))
    asks = tuple(pick(rng, wordings()["message_asks"]).format(thing=name) for _ in range(ASKS))
    return Drawn("message", says, asks)


def echo(rng: np.random.Generator, p: Person, days: Days, made_up: float) -> Drawn:
    """A line that means nothing, asked for by some of its words: whoever finds it has compared.
    Beside it stand lines with one of these words."""
    says = gibberish(rng, 4, 12)
    told = [word for word in keywords(says) if chance(rng, 0.8)][:5] or keywords(says)
    asks = tuple(_framed(rng, told) for _ in range(ASKS))
    others = tuple(
        f"{gibberish(rng, 2, 6)[:-1]} {pick(rng, told)} {gibberish(rng, 1, 5).lower()}"
        for _ in days[1:]
    )
    return Drawn("echo", says, asks, others, apart=True)


def _framed(rng: np.random.Generator, told: Sequence[str]) -> str:
    return upper(pick(rng, wordings()["echo_asks"]).format(cue=keyword_query(rng, told)))


def echoed(rng: np.random.Generator, line: str) -> str:
    """A question by some words of a line itself."""
    return _framed(rng, keywords(line) or [line])


READINGS: dict[str, Draw] = {
    "latest": latest,
    "lab": lab,
    "extreme": extreme,
    "dose": dose,
    "dose_on_day": dose_on_day,
    "day": day,
    "present": present,
    "present_on_day": present_on_day,
    "message": message,
    "echo": echo,
}
"""Kinds of facts with a value, by name."""
DRAWN: tuple[str, ...] = (
    *("latest", "latest", "latest", "latest", "extreme", "extreme", "extreme", "lab", "lab"),
    *("dose", "dose", "dose", "dose_on_day", "day", "present", "present_on_day"),
    *("message", "message", "echo", "echo"),
)
"""The same, each as often as it is drawn: a test and a medicine have many names to be learned."""
