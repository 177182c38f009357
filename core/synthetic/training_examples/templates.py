"""Lines of a training example: facts with a value, facts stated in a sentence, and filler lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Literal

import numpy as np

from core.synthetic.common import capitalised, chance, pick, shuffled
from core.synthetic.training_examples.model import FactDraft
from core.synthetic.training_examples.tables import (
    Sort,
    Test,
    Topic,
    fillers,
    names,
    topics,
    wordings,
)
from core.synthetic.training_examples.text_noise import (
    Person,
    date_text,
    fragments,
    gibberish,
    invented_drug,
    invented_test,
    invented_word,
    keyword_query,
    keywords,
    perturb_statement,
)

Days = tuple[date, ...]
"""The day of the evidence's line, then those of its distractors' lines."""
ResultSort = Literal["coded", "noted", "dated"]
Draw = Callable[[np.random.Generator, Person, Days, float], FactDraft]
ASKS = 5
"""Questions drawn for a fact; equal ones count once."""
LONG_AGO = 1500
"""Most days before its line that a statement refers to."""
LISTED, CHANGED = 0.7, 0.35
"""Shares of facts on a drug with the drug in a medication list, and with another change of it."""
ANY_DAY = date(2015, 6, 15)
"""The day of a line that states none."""
_RESULT_SORTS: tuple[ResultSort, ...] = ("coded", "coded", "coded", "noted", "dated")
_SIDES: tuple[Literal["highest", "lowest"], ...] = ("highest", "lowest")

# Facts with a value. `invented` is the share of names that do not exist.


def _say(form: str, p: Person, thing: str, **slots: str) -> str:
    text = form.format(thing=thing, Thing=capitalised(thing), **slots, **p.words)
    return capitalised(text.replace(" .", ".").replace(" ,", ","))


def _ask(
    rng: np.random.Generator, sort: Sort, p: Person, things: tuple[str, ...], **slots: str
) -> tuple[str, ...]:
    forms = wordings()[sort]
    return tuple(_say(pick(rng, forms), p, pick(rng, things), **slots) for _ in range(ASKS))


def _stated_days(rng: np.random.Generator, days: Days) -> list[date]:
    """Different days that statements on these lines state; of equal ones, the first."""
    stated = (day - timedelta(days=int(rng.integers(0, LONG_AGO + 1))) for day in days)
    return list(dict.fromkeys(stated))


def take_test(rng: np.random.Generator, p: Person, invented: float) -> Test:
    """A test that the record does not have yet."""
    real = None if chance(rng, invented) else p.take(rng, "test", names().tests)
    if real is not None:
        return real
    name, table = invented_test(rng), names()
    coded = f"{capitalised(name)} {pick(rng, table.properties)} {pick(rng, table.specimens)}"
    return Test(coded if chance(rng, 0.8) else capitalised(name), (name,), pick(rng, table.units))


def take_drug(rng: np.random.Generator, p: Person, invented: float) -> tuple[str, str]:
    """The two names of a drug that the record does not have yet, in either order."""
    pair = None if chance(rng, invented) else p.take(rng, "drug", names().drugs)
    if pair is None:
        name = invented_drug(rng)
        return name, name
    return pair if chance(rng, 0.5) else (pair[1], pair[0])


def _take_thing(rng: np.random.Generator, p: Person, sort: str, invented: float) -> str:
    """An examination or a sign that the record does not have yet."""
    options = names().exams if sort == "exam" else names().exposures
    real = None if chance(rng, invented) else p.take(rng, sort, options)
    words = names().exam_words if sort == "exam" else names().sign_words
    return real or f"{invented_word(rng)} {pick(rng, words)}"


def _with_brand(name: str, other: str) -> str:
    return f"{name} ({other.upper()})" if name != other else name


def _listed(rng: np.random.Generator, name: str, other: str) -> str:
    """A line of a medication list, with the drug's other name where it has one."""
    frequency, amount = pick(rng, names().frequencies), int(rng.integers(1, 400))
    return f"{pick(rng, ('- ', '- ', ''))}{_with_brand(name, other)} {amount} mg {frequency}"


def _value(rng: np.random.Generator, test: Test) -> str:
    """A result. Those of real tests have forms that no evaluated cohort has: there the last digit
    of a decimal is 0, and a whole number there has a decimal here."""
    if test.between:
        integer, last = int(rng.integers(*test.between, endpoint=True)), int(rng.integers(1, 10))
        return f"{integer}.{int(rng.integers(10))}{last}" if test.fine else f"{integer}.{last}"
    form = int(rng.integers(4))
    if form < 2:
        return str(int(rng.integers(2, 1000)))
    if form == 2:
        return f"{int(rng.integers(0, 100))}.{int(rng.integers(10))}"
    return f"{int(rng.integers(0, 60))}.{int(rng.integers(100)):02d}"


def _distinct(make: Callable[[], str], n: int) -> list[str]:
    texts: dict[str, None] = {}
    while len(texts) < n:
        texts[make()] = None
    return list(texts)


def _clinic(rng: np.random.Generator) -> str:
    return pick(rng, names().clinics)


def _result(
    rng: np.random.Generator, p: Person, test: Test, text: str, day: date, sort: ResultSort
) -> str:
    if sort == "coded":
        return f"{test.name}: {text} {test.unit}".strip()
    slots = {"v": text, "u": test.unit, "w": _clinic(rng), "d": date_text(rng, day)}
    return _say(pick(rng, wordings()[sort]), p, pick(rng, test.spoken), **slots)


def _latest(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The newest of some results; the day is that of its line."""
    test = take_test(rng, p, invented)
    sort = pick(rng, _RESULT_SORTS)
    values = _distinct(lambda: _value(rng, test), len(days))
    says = [_result(rng, p, test, v, d, sort) for v, d in zip(values, days, strict=True)]
    asks = _ask(rng, "latest", p, test.spoken)
    return FactDraft("latest", says[0], asks, tuple(says[1:]), last=True)


def _lab(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The result of a day that question and statement name."""
    test, form = take_test(rng, p, invented), pick(rng, wordings()["dated"])
    stated = _stated_days(rng, days)
    values = _distinct(lambda: _value(rng, test), len(stated))
    thing, unit = pick(rng, test.spoken), test.unit
    says = [
        _say(form, p, thing, v=v, u=unit, w=_clinic(rng), d=d.isoformat())
        for v, d in zip(values, stated, strict=True)
    ]
    asks = _ask(rng, "on_day", p, test.spoken, u=unit, d=stated[0].isoformat())
    return FactDraft("lab", says[0], asks, tuple(says[1:]), apart=True)


def _extreme(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The highest or the lowest of some results."""
    test, side = take_test(rng, p, invented), pick(rng, _SIDES)
    values = _distinct(lambda: _value(rng, test), len(days))
    values.sort(key=float, reverse=side == "highest")
    says = [_result(rng, p, test, v, d, "coded") for v, d in zip(values, days, strict=True)]
    return FactDraft("extreme", says[0], _ask(rng, side, p, test.spoken), tuple(says[1:]))


def _amount(rng: np.random.Generator, unit: str) -> str:
    if chance(rng, 0.2):
        return f"{int(rng.integers(0, 13))}.{int(rng.integers(1, 10))}"
    return str(int(rng.integers(2, 1000 if unit in ("mg", "mcg") else 90)))


def _dose(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """A drug's dose, the latest where it changed."""
    name, other = take_drug(rng, p, invented)
    unit, form = pick(rng, names().dose_units), pick(rng, wordings()["dose"])
    shown = _with_brand(name, other) if name != other and chance(rng, 0.5) else name
    amounts = _distinct(lambda: _amount(rng, unit), len(days))
    often = [pick(rng, names().frequencies) for _ in days]
    says = [
        _say(form, p, shown, v=f"{a} {unit}", f=f, w=_clinic(rng))
        for a, f in zip(amounts, often, strict=True)
    ]
    asks = _ask(rng, "dose_asks", p, (name, other))
    return FactDraft("dose", says[0], asks, tuple(says[1:]), last=True)


def _dose_on_day(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """A drug's dose on a day that the question names."""
    name, _ = take_drug(rng, p, invented)
    unit, often = pick(rng, names().dose_units), pick(rng, names().frequencies)
    form, stated = pick(rng, wordings()["dose_dated"]), _stated_days(rng, days)
    amounts = _distinct(lambda: _amount(rng, unit), len(stated))
    says = [
        _say(form, p, name, v=f"{a} {unit}", f=often, w=_clinic(rng), d=d.isoformat())
        for a, d in zip(amounts, stated, strict=True)
    ]
    asks = _ask(rng, "dose_day_asks", p, (name,), u=unit, d=stated[0].isoformat())
    return FactDraft("dose_on_day", says[0], asks, tuple(says[1:]), apart=True)


def _day(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The day on which something was last done, as the statement gives it."""
    thing, form = _take_thing(rng, p, "exam", invented), pick(rng, wordings()["day"])
    stated = [days[0] - timedelta(days=int(rng.integers(0, 201)))]
    while len(stated) < len(days):
        stated.append(stated[-1] - timedelta(days=int(rng.integers(1, 900))))
    says = [_say(form, p, thing, d=d.isoformat(), w=_clinic(rng)) for d in stated]
    return FactDraft("day", says[0], _ask(rng, "day_asks", p, (thing,)), tuple(says[1:]))


def _present(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """Whether something is reported or denied."""
    thing, answer = _take_thing(rng, p, "sign", invented), pick(rng, ("yes", "no"))
    asks = _ask(rng, "yes_asks", p, (thing,))
    return FactDraft("present", _say(pick(rng, wordings()[answer]), p, thing), asks)


def _present_on_day(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """Whether something was affirmed on a day that the question names."""
    thing, form = _take_thing(rng, p, "sign", invented), pick(rng, wordings()["yes_dated"])
    answer, stated = pick(rng, ("yes", "no")), _stated_days(rng, days)
    other = "no" if answer == "yes" else "yes"
    says = [
        _say(form, p, thing, d=d.isoformat(), v=other if i else answer)
        for i, d in enumerate(stated)
    ]
    asks = _ask(rng, "yes_day_asks", p, (thing,), d=stated[0].isoformat())
    return FactDraft("present_on_day", says[0], asks, tuple(says[1:]), apart=True)


def _message(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """Fragments without meaning under an invented name, which can only be copied."""
    form, name = pick(rng, wordings()["message"]), invented_word(rng)
    says = capitalised(form.format(thing=name, v=fragments(rng, 3, 14)))
    asks = tuple(pick(rng, wordings()["message_asks"]).format(thing=name) for _ in range(ASKS))
    return FactDraft("message", says, asks)


def _echo(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """Gibberish asked for by some of its words, so that finding it requires comparison; distractors
    have one of these words."""
    says = gibberish(rng, 4, 12)
    words = [word for word in keywords(says) if chance(rng, 0.8)][:5] or keywords(says)
    asks = tuple(_keyword_question(rng, words) for _ in range(ASKS))
    others = tuple(
        f"{gibberish(rng, 2, 6)[:-1]} {pick(rng, words)} {gibberish(rng, 1, 5).lower()}"
        for _ in days[1:]
    )
    return FactDraft("echo", says, asks, others, apart=True)


def _keyword_question(rng: np.random.Generator, words: Sequence[str]) -> str:
    return capitalised(pick(rng, wordings()["echo_asks"]).format(cue=keyword_query(rng, words)))


READINGS: dict[str, Draw] = {
    "latest": _latest,
    "lab": _lab,
    "extreme": _extreme,
    "dose": _dose,
    "dose_on_day": _dose_on_day,
    "day": _day,
    "present": _present,
    "present_on_day": _present_on_day,
    "message": _message,
    "echo": _echo,
}
"""Kinds of facts with a value, by name."""
DRAWN: tuple[str, ...] = (
    *("latest", "latest", "latest", "latest", "extreme", "extreme", "extreme", "lab", "lab"),
    *("dose", "dose", "dose", "dose_on_day", "day", "present", "present_on_day"),
    *("message", "message", "echo", "echo"),
)
"""The same, each as often as it is drawn: a test and a drug have many names to be learned."""

# Facts stated in a sentence.


def _slots(
    rng: np.random.Generator,
    p: Person,
    topic: Topic,
    day: date,
    invented: float,
    pair: tuple[str, str] | None = None,
) -> dict[str, str]:
    """Values of all slots of a topic's wordings; ``pair``: the drug's two names."""
    drug, brand = pair or take_drug(rng, p, invented if topic.of_drug else 1.0)
    unit = pick(rng, ("mg", "mg", "mcg", "units"))
    low, high = sorted(int(v) for v in rng.choice(np.arange(3, 900), 2, replace=False))
    table = names()
    often = pick(rng, table.often)
    words = {
        **p.words,
        "drug": drug,
        "brand": brand,
        "lay": table.lay.get(drug, table.lay.get(brand, "tablet")),
        "v": f"{high} {unit} {often}",
        "w": f"{low} {unit} {often}",
        "v2": f"{int(rng.integers(0, 4))}.{int(rng.integers(10))}{int(rng.integers(1, 10))}",
        "y": str(int(rng.integers(1962, day.year))),
        "yy": str(day.year),
        "my": f"{day:%B %Y}",
        "d": date_text(rng, day),
        "n": str(int(rng.integers(2, 99))),
        "rel": f"{p.words['his']} {pick(rng, table.relatives)}",
        "first": pick(rng, table.first),
        "town": pick(rng, table.places),
        "clinic": _clinic(rng),
        "often": often,
        "long": pick(rng, table.spans),
        "why": pick(rng, fillers()["why"]),
        "word": invented_word(rng),
    }
    for slot, options in (("x", topic.x), ("z", topic.z)):
        text = pick(rng, options).format_map(words)
        # An unknown word in a list's entry must be copied too.
        unknown = bool(text) and chance(rng, invented / 3)
        words[slot] = f"{text} {invented_word(rng)}" if unknown else text
    return words


def stated_fact(
    rng: np.random.Generator, topic: Topic, p: Person, days: Days, invented: float
) -> FactDraft:
    """A topic's fact: the latest of several where it comes ``again``, else one of the patient and
    perhaps a similar one of a relative."""
    words = _slots(rng, p, topic, days[0], invented)
    says = perturb_statement(rng, capitalised(pick(rng, topic.says).format_map(words)))
    others: list[str] = []
    for day in days[1:]:
        other = pick(rng, topic.says).format_map(_slots(rng, p, topic, day, invented))
        if topic.again:
            others.append(capitalised(other))
        elif not others and chance(rng, 0.4):
            relative = f"{p.words['His']} {pick(rng, names().kin)}"
            others.append(f"{relative}: {other[:1].lower()}{other[1:]}")
    asks = tuple(capitalised(ask.format_map(words)) for ask in (*topic.asks, *topic.polar))
    same_drug = _same_drug(rng, p, topic, (words["drug"], words["brand"]), days[0], invented)
    if not others and not same_drug:
        # By its keywords it could be confused with a relative's fact, or one of another day.
        own_words = keywords(says) or [says]
        asks += tuple(_keyword_question(rng, own_words) for _ in range(len(asks) // 8))
    distractors = tuple(other for other in others if other != says)
    near = tuple(capitalised(pick(rng, topic.near).format_map(words)) for _ in topic.near[:1])
    return FactDraft(
        topic.key, says, asks, distractors, topic.again, not topic.again, near, same_drug
    )


def _same_drug(
    rng: np.random.Generator,
    p: Person,
    topic: Topic,
    pair: tuple[str, str],
    day: date,
    invented: float,
) -> tuple[str, ...]:
    """Other lines on a fact's drug: its line in a medication list, another change of it."""
    if not topic.of_drug:
        return ()
    lines: list[str] = []
    if chance(rng, LISTED):
        lines.append(_listed(rng, *(pair if chance(rng, 0.7) else pair[:1] * 2)))
    if chance(rng, CHANGED):
        other = pick(rng, [t for t in topics() if t.of_drug and t.key != topic.key])
        text = pick(rng, other.says).format_map(_slots(rng, p, other, day, invented, pair))
        lines.append(perturb_statement(rng, capitalised(text)))
    return tuple(lines)


# Filler lines, which answer nothing.


def filler(rng: np.random.Generator, p: Person) -> str:
    """A line of prose, a heading, an examination, results, a drug, a problem, a line on the subject
    of a fact, or gibberish."""
    return capitalised(pick(rng, _FILLERS)(rng, p))


def _heading(rng: np.random.Generator, p: Person) -> str:
    return pick(rng, fillers()["heads"])


def _prose(rng: np.random.Generator, p: Person) -> str:
    form = pick(rng, fillers()["lines"])
    return perturb_statement(rng, form.format_map(_slots(rng, p, Topic(), ANY_DAY, 0.5)))


def _body_part(rng: np.random.Generator, p: Person) -> str:
    """A part of the body and its findings."""
    name, _, findings = pick(rng, fillers()["parts"]).partition(" | ")
    options = findings.split(", ")
    count = int(rng.integers(1, min(len(options), 5) + 1))
    return f"{name}: {', '.join(shuffled(rng, options, count))}{pick(rng, ('', '.', '.'))}"


def _strip(rng: np.random.Generator, p: Person) -> str:
    """A day's results in a row."""
    wanted = int(rng.integers(2, 7))
    drawn = [p.take(rng, "panel", fillers()["panels"]) for _ in range(wanted)]
    panel = [name for name in drawn if name is not None]
    if len(panel) < 2:
        return _heading(rng, p)
    start = pick(rng, ("", "- ", "Values ")) + _random_date(rng)
    return f"{start}: " + "; ".join(f"{name} {_number(rng)}" for name in panel)


def _trend(rng: np.random.Generator, p: Person) -> str:
    """A test's results on some days."""
    name = p.take(rng, "panel", fillers()["panels"])
    if name is None:
        return _heading(rng, p)
    results = (f"{_number(rng)} on {_random_date(rng)}" for _ in range(int(rng.integers(2, 5))))
    return f"- {name} by day: " + ", ".join(results)


def _coded(rng: np.random.Generator, p: Person) -> str:
    test = take_test(rng, p, 0.5)
    return f"{test.name}: {_value(rng, test)} {test.unit}".strip()


def _near(rng: np.random.Generator, p: Person) -> str:
    topic = pick(rng, topics())
    return pick(rng, topic.near).format_map(_slots(rng, p, topic, ANY_DAY, 0.5))


def _problem(rng: np.random.Generator, p: Person) -> str:
    """A diagnosis of a problem list."""
    name = pick(rng, fillers()["problems"])
    year = str(int(rng.integers(1985, 2020)))
    return pick(rng, names().problem_forms).format(name, y=year)


def _medicine(rng: np.random.Generator, p: Person) -> str:
    return _listed(rng, *take_drug(rng, p, 0.4))


def _nonsense(rng: np.random.Generator, p: Person) -> str:
    sort = int(rng.integers(3))
    if sort == 0:
        return f"{fragments(rng, 3, 16)}."
    if sort == 1:
        return " ".join(invented_word(rng) for _ in range(int(rng.integers(2, 9)))) + "."
    return gibberish(rng, 2, 9)


_FILLERS = (
    *(_heading, _heading, _prose, _prose, _prose, _prose, _prose, _prose),
    *(_body_part, _body_part, _body_part, _strip, _trend, _coded, _coded, _near, _near, _near),
    *(_problem, _problem, _medicine, _medicine, _nonsense, _nonsense),
)


def _random_date(rng: np.random.Generator) -> str:
    month, day, year = rng.integers(1, 13), rng.integers(1, 29), rng.integers(2005, 2023)
    return f"{month:02d}/{day:02d}/{year}"


def _number(rng: np.random.Generator) -> str:
    form = int(rng.integers(3))
    if form == 0:
        return str(int(rng.integers(2, 400)))
    tenths = f"{int(rng.integers(0, 40))}.{int(rng.integers(1, 10))}"
    return tenths + (str(int(rng.integers(1, 10))) if form == 2 else "")
