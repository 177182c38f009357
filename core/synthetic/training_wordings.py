"""Wordings of training examples: tables of names, text noise, facts and filler lines.

Most names are invented from syllables, so they must be copied and cannot be memorised; none is a
name of the evaluated cohorts (:func:`midchart.core.synthetic.training_examples.require`). Text is
augmented: words are dropped, inflected or reordered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from string import ascii_lowercase
from typing import Annotated, Literal, TypeVar

import numpy as np

from midchart.core.synthetic.common import capitalised, chance, pick, shuffled
from midchart.core.synthetic.reference import SLOT, slot_names, table_row, yaml_table

_PERSON = ("He", "he", "His", "his", "him", "Name", "man")
_ValueWording = Annotated[
    str, slot_names(*_PERSON, "thing", "Thing", "v", "u", "d", "f", "w", "cue")
]
"""A statement of a value, or a question for it."""
_TopicWording = Annotated[
    str,
    slot_names(
        *_PERSON, "drug", "brand", "lay", "v", "w", "v2", "y", "yy", "my", "d", "n", "rel", "first",
        "town", "clinic", "often", "long", "why", "word", "x", "z",
    ),
]  # fmt: skip
"""A statement on a topic, or a question for it."""


@table_row
class Test:
    """A laboratory test: its name in a table of results, spoken names and unit.

    ``between``: whole numbers that bound a real test's results (None: any result, for an
    invented test); ``fine``: whether they have two decimals.
    """

    name: str
    spoken: tuple[str, ...]
    unit: str
    between: tuple[int, int] | None = None
    fine: bool = False


@table_row
class Names:
    """Names of tests, drugs (two each), people, places and exposures; parts of invented names; and
    the small words, frames and forms of text augmentation and filler lines."""

    tests: tuple[Test, ...]
    drugs: tuple[tuple[str, str], ...]
    lay: dict[str, str]
    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    drug_ends: tuple[str, ...]
    test_ends: tuple[str, ...]
    surname_ends: tuple[str, ...]
    first: tuple[str, ...]
    relatives: tuple[str, ...]
    places: tuple[str, ...]
    clinics: tuple[str, ...]
    units: tuple[str, ...]
    frequencies: tuple[str, ...]
    exams: tuple[str, ...]
    exposures: tuple[str, ...]
    exam_words: tuple[str, ...]
    sign_words: tuple[str, ...]
    question_frames: tuple[str, ...]
    joins: tuple[str, ...]
    small_words: tuple[str, ...]
    word_endings: tuple[str, ...]
    rare_endings: tuple[str, ...]
    separators: tuple[str, ...]
    spans: tuple[str, ...]
    often: tuple[str, ...]
    kin: tuple[str, ...]
    specimens: tuple[str, ...]
    properties: tuple[str, ...]
    dose_units: tuple[str, ...]
    problem_forms: tuple[str, ...]


@table_row
class Topic:
    """A topic: sentences, questions for it, ``polar`` (yes or no) questions, and lists x and z.

    ``near`` are lines on the same subject that answer nothing. ``again``: a repeated finding, of
    which the latest is asked for.
    """

    key: str = ""
    says: tuple[_TopicWording, ...] = ()
    asks: tuple[_TopicWording, ...] = ()
    polar: tuple[_TopicWording, ...] = ()
    near: tuple[_TopicWording, ...] = ()
    x: tuple[_TopicWording, ...] = ("",)
    z: tuple[_TopicWording, ...] = ("",)
    again: bool = False

    @property
    def of_drug(self) -> bool:
        """Whether it is about a drug."""
        return self.key in _of_drug()


topics = yaml_table(tuple[Topic, ...], "training_topics.yaml")
"""Topics of facts stated in a sentence (``topics.yaml``)."""


@cache
def _of_drug() -> frozenset[str]:
    return frozenset(one.key for one in topics() if any("{drug}" in say for say in one.says))


names = yaml_table(Names, "training_names.yaml")
"""The names of ``names.yaml``."""


@cache
def name_words() -> tuple[str, ...]:
    """Every lower-case word in the names of real drugs and tests, sorted."""
    texts = [name for pair in names().drugs for name in pair]
    texts += [name for test in names().tests for name in (test.name, *test.spoken)]
    return tuple(sorted({word for t in texts for word in re.findall(r"[a-z]{2,}", t.lower())}))


_Sort = Literal[
    "noted", "dated", "latest", "on_day", "highest", "lowest", "dose", "dose_asks", "dose_dated",
    "dose_day_asks", "day", "day_asks", "yes", "no", "yes_asks", "yes_dated", "yes_day_asks",
    "message", "message_asks", "echo_asks",
]  # fmt: skip
_Filler = Literal["heads", "panels", "why", "lines", "problems", "parts"]


wordings = yaml_table(dict[_Sort, tuple[_ValueWording, ...]], "training_readings.yaml")
"""Statements of and questions for values, by sort (``readings.yaml``)."""


_fillers = yaml_table(dict[_Filler, tuple[_TopicWording, ...]], "training_filler.yaml")
"""Lines that answer nothing, headings, panels, reasons (``filler.yaml``)."""


@cache
def _lexicon() -> tuple[str, ...]:
    """Every word of three or more letters in the fillers, topics and drug names, sorted."""
    texts = [text for rows in _fillers().values() for text in rows]
    texts += [text for one in topics() for text in (*one.says, *one.near, *one.x, *one.z)]
    texts += [name for pair in names().drugs for name in pair]
    words = {word for t in texts for word in re.findall(r"[a-z]{3,}", SLOT.sub("", t).lower())}
    return tuple(sorted(words))


T = TypeVar("T")
_DIGIT = re.compile(r"\d")
_LONG = re.compile(r"[A-Za-z][A-Za-z-]{3,}")


def _stem(rng: np.random.Generator, syllables: int) -> str:
    table = names()
    groups = (table.onsets, table.vowels, table.codas)
    return "".join(pick(rng, group) for _ in range(syllables) for group in groups)


def _invented_drug(rng: np.random.Generator) -> str:
    """A drug that does not exist."""
    return _stem(rng, int(rng.integers(1, 3))) + pick(rng, names().drug_ends)


def _invented_test(rng: np.random.Generator) -> str:
    """A substance in blood that does not exist."""
    front = pick(rng, ("", "", "serum ", "plasma ", "urine ", "free "))
    return front + _stem(rng, int(rng.integers(1, 3))) + pick(rng, names().test_ends)


def _invented_word(rng: np.random.Generator) -> str:
    """A word of one to three invented syllables with an ending that no list has."""
    return _stem(rng, int(rng.integers(1, 4))) + pick(rng, names().rare_endings)


def _random_number(rng: np.random.Generator) -> str:
    return str(int(rng.integers(1, pick(rng, (10, 100, 1000, 2030)))))


def _fragments(rng: np.random.Generator, least: int, most: int) -> str:
    """Words, parts of words, numbers and letters in random order, which can only be copied."""
    count = int(rng.integers(least, most + 1))
    return "".join(_fragment(rng) for _ in range(count)).rstrip(" ,;:/-(")


def _fragment(rng: np.random.Generator) -> str:
    draw, known = float(rng.random()), _lexicon()
    if draw < 0.45:
        front, back = pick(rng, known), pick(rng, known)
        word = front[: int(rng.integers(2, 7))] + back[-int(rng.integers(2, 7)) :]
    elif draw < 0.65:
        word = pick(rng, known)
    elif draw < 0.82:
        word = _random_number(rng)
        word += f".{int(rng.integers(0, 100))}" if chance(rng, 0.3) else ""
    elif draw < 0.92:
        letters = (pick(rng, ascii_lowercase) for _ in range(int(rng.integers(1, 5))))
        word = "".join(letters).upper()
    else:
        word = _invented_word(rng)
    return word + pick(rng, names().separators)


def _date_text(rng: np.random.Generator, day: date) -> str:
    """A day as records write it."""
    return day.isoformat() if int(rng.integers(3)) == 0 else f"{day:%m/%d/%Y}"


class Person:
    """The patient of a record: words for templates, and the options used so far."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._left: dict[str, list[int]] = {}
        female = pick(rng, ("f", "m")) == "f"
        surname = _stem(rng, 1).capitalize() + pick(rng, names().surname_ends)
        title = pick(rng, ("Mrs.", "Ms.")) if female else "Mr."
        male = ("he", "He", "his", "His", "him", "man")
        pronouns = ("she", "She", "her", "Her", "her", "woman") if female else male
        self.words: dict[str, str] = dict(zip(male, pronouns, strict=True))
        self.words["Name"] = f"{title} {surname}"

    def take(self, rng: np.random.Generator, name: str, options: Sequence[T]) -> T | None:
        """An option not yet used under ``name`` in this record; None when all are used.

        Facts and filler lines share the options, so no fact is stated twice.
        """
        if name not in self._left:
            self._left[name] = [int(i) for i in rng.permutation(len(options))]
        return options[self._left[name].pop()] if self._left[name] else None


def vary_question(rng: np.random.Generator, question: str) -> str:
    """A question with words dropped, framed or cut at times, so that its wording is no clue."""
    words = question.split(" ")
    # Capitalised words (names) do not count.
    longest = max(range(len(words)), key=lambda i: len(words[i]) * words[i].islower())
    draw = float(rng.random())
    if len(words) > 4 and draw < 0.35:
        for _ in range(1 if draw < 0.25 else 2):
            i = int(rng.integers(len(words)))
            # The longest word usually names what is asked for; a number always does.
            if i != longest and words[i].isalpha():
                words[i] = ""
    elif len(words) > 6 and draw < 0.45 and not _DIGIT.search(question):
        begin = int(rng.integers(0, min(longest, len(words) - 4) + 1))
        words = words[begin : max(longest + 1, begin + 4)]
    question = capitalised(" ".join(word for word in words if word))
    return pick(rng, names().question_frames).format(question) if chance(rng, 0.15) else question


def _perturb_statement(rng: np.random.Generator, line: str) -> str:
    """A statement in which at times a short word is missing or replaced."""
    if not chance(rng, 0.25):
        return line
    words = line.split(" ")
    i = int(rng.integers(len(words)))
    if words[i].isalpha() and len(words[i]) < 6:
        words[i] = pick(rng, _lexicon()) if chance(rng, 0.3) else ""
    return capitalised(" ".join(word for word in words if word))


def _keywords(line: str) -> list[str]:
    """The distinct long words of a line."""
    return list(dict.fromkeys(word.lower() for word in _LONG.findall(line)))


def _keyword_query(rng: np.random.Generator, words: Sequence[str]) -> str:
    """Two to four of ``words`` in random order, joined by small words, at times inflected."""
    count = min(len(words), int(rng.integers(2, 5)))
    text = ""
    for word in shuffled(rng, words, count):
        inflected = _inflect(rng, word)
        text += (pick(rng, names().joins) if text else "") + inflected
    return text


def _inflect(rng: np.random.Generator, word: str) -> str:
    if not chance(rng, 0.3):
        return word
    for end in ("ing", "ed", "es", "s"):
        if word.endswith(end) and len(word) > len(end) + 3:
            word = word[: -len(end)]
            break
    return word + pick(rng, names().word_endings)


def _gibberish(rng: np.random.Generator, least: int, most: int) -> str:
    """Known words in random order with small ones between: a sentence without meaning."""
    words: list[str] = []
    for _ in range(int(rng.integers(least, most + 1))):
        draw = float(rng.random())
        if draw < 0.3:
            words.append(pick(rng, names().small_words))
        elif draw < 0.38:
            words.append(_random_number(rng))
        elif draw < 0.44:
            words.append(_invented_word(rng))
        word = pick(rng, _lexicon())
        words.append(word + ("," if chance(rng, 0.1) else ""))
    return capitalised(" ".join(words).rstrip(",")) + pick(rng, (".", ".", ".", "", ":"))


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact without a place: the text of its evidence and of its distractors, and questions.

    Distractors precede the evidence where ``last``; where ``apart`` they never answer the question,
    even without the evidence. Neither do ``near`` lines on the same subject, nor ``same_drug``
    lines, which are in every record that could hold the fact.
    """

    kind: str
    says: str
    asks: tuple[str, ...]
    distractors: tuple[str, ...] = ()
    last: bool = False
    apart: bool = False
    near: tuple[str, ...] = ()
    same_drug: tuple[str, ...] = ()


Days = tuple[date, ...]
"""The day of the evidence's line, then those of its distractors' lines."""
_ResultSort = Literal["coded", "noted", "dated"]
_Draw = Callable[[np.random.Generator, Person, Days, float], FactDraft]
_ASKS = 5
"""Questions drawn for a fact; equal ones count once."""
_LONG_AGO = 1500
"""Most days before its line that a statement refers to."""
_LISTED, _CHANGED = 0.7, 0.35
"""Shares of facts on a drug with the drug in a medication list, and with another change of it."""
_ANY_DAY = date(2015, 6, 15)
"""The day of a line that states none."""
_RESULT_SORTS: tuple[_ResultSort, ...] = ("coded", "coded", "coded", "noted", "dated")
_SIDES: tuple[Literal["highest", "lowest"], ...] = ("highest", "lowest")

# Facts with a value. `invented` is the share of names that do not exist.


def _say(form: str, p: Person, thing: str, **slots: str) -> str:
    text = form.format(thing=thing, Thing=capitalised(thing), **slots, **p.words)
    return capitalised(text.replace(" .", ".").replace(" ,", ","))


def _ask(
    rng: np.random.Generator, sort: _Sort, p: Person, things: tuple[str, ...], **slots: str
) -> tuple[str, ...]:
    forms = wordings()[sort]
    return tuple(_say(pick(rng, forms), p, pick(rng, things), **slots) for _ in range(_ASKS))


def _stated_days(rng: np.random.Generator, days: Days) -> list[date]:
    """Different days that statements on these lines state; of equal ones, the first."""
    stated = (day - timedelta(days=int(rng.integers(0, _LONG_AGO + 1))) for day in days)
    return list(dict.fromkeys(stated))


def _take_test(rng: np.random.Generator, p: Person, invented: float) -> Test:
    """A test that the record does not have yet."""
    real = None if chance(rng, invented) else p.take(rng, "test", names().tests)
    if real is not None:
        return real
    name, table = _invented_test(rng), names()
    coded = f"{capitalised(name)} {pick(rng, table.properties)} {pick(rng, table.specimens)}"
    return Test(coded if chance(rng, 0.8) else capitalised(name), (name,), pick(rng, table.units))


def _take_drug(rng: np.random.Generator, p: Person, invented: float) -> tuple[str, str]:
    """The two names of a drug that the record does not have yet, in either order."""
    pair = None if chance(rng, invented) else p.take(rng, "drug", names().drugs)
    if pair is None:
        name = _invented_drug(rng)
        return name, name
    return pair if chance(rng, 0.5) else (pair[1], pair[0])


def _take_thing(rng: np.random.Generator, p: Person, sort: str, invented: float) -> str:
    """An examination or a sign that the record does not have yet."""
    options = names().exams if sort == "exam" else names().exposures
    real = None if chance(rng, invented) else p.take(rng, sort, options)
    words = names().exam_words if sort == "exam" else names().sign_words
    return real or f"{_invented_word(rng)} {pick(rng, words)}"


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
    rng: np.random.Generator, p: Person, test: Test, text: str, day: date, sort: _ResultSort
) -> str:
    if sort == "coded":
        return f"{test.name}: {text} {test.unit}".strip()
    slots = {"v": text, "u": test.unit, "w": _clinic(rng), "d": _date_text(rng, day)}
    return _say(pick(rng, wordings()[sort]), p, pick(rng, test.spoken), **slots)


def _latest(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The newest of some results; the day is that of its line."""
    test = _take_test(rng, p, invented)
    sort = pick(rng, _RESULT_SORTS)
    values = _distinct(lambda: _value(rng, test), len(days))
    says = [_result(rng, p, test, v, d, sort) for v, d in zip(values, days, strict=True)]
    asks = _ask(rng, "latest", p, test.spoken)
    return FactDraft("latest", says[0], asks, tuple(says[1:]), last=True)


def _lab(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """The result of a day that question and statement name."""
    test, form = _take_test(rng, p, invented), pick(rng, wordings()["dated"])
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
    test, side = _take_test(rng, p, invented), pick(rng, _SIDES)
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
    name, other = _take_drug(rng, p, invented)
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
    name, _ = _take_drug(rng, p, invented)
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
    form, name = pick(rng, wordings()["message"]), _invented_word(rng)
    says = capitalised(form.format(thing=name, v=_fragments(rng, 3, 14)))
    asks = tuple(pick(rng, wordings()["message_asks"]).format(thing=name) for _ in range(_ASKS))
    return FactDraft("message", says, asks)


def _echo(rng: np.random.Generator, p: Person, days: Days, invented: float) -> FactDraft:
    """Gibberish asked for by some of its words, so that finding it requires comparison; distractors
    have one of these words."""
    says = _gibberish(rng, 4, 12)
    words = [word for word in _keywords(says) if chance(rng, 0.8)][:5] or _keywords(says)
    asks = tuple(_keyword_question(rng, words) for _ in range(_ASKS))
    others = tuple(
        f"{_gibberish(rng, 2, 6)[:-1]} {pick(rng, words)} {_gibberish(rng, 1, 5).lower()}"
        for _ in days[1:]
    )
    return FactDraft("echo", says, asks, others, apart=True)


def _keyword_question(rng: np.random.Generator, words: Sequence[str]) -> str:
    return capitalised(pick(rng, wordings()["echo_asks"]).format(cue=_keyword_query(rng, words)))


READINGS: dict[str, _Draw] = {
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
    drug, brand = pair or _take_drug(rng, p, invented if topic.of_drug else 1.0)
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
        "d": _date_text(rng, day),
        "n": str(int(rng.integers(2, 99))),
        "rel": f"{p.words['his']} {pick(rng, table.relatives)}",
        "first": pick(rng, table.first),
        "town": pick(rng, table.places),
        "clinic": _clinic(rng),
        "often": often,
        "long": pick(rng, table.spans),
        "why": pick(rng, _fillers()["why"]),
        "word": _invented_word(rng),
    }
    for slot, options in (("x", topic.x), ("z", topic.z)):
        text = pick(rng, options).format_map(words)
        # An unknown word in a list's entry must be copied too.
        unknown = bool(text) and chance(rng, invented / 3)
        words[slot] = f"{text} {_invented_word(rng)}" if unknown else text
    return words


def stated_fact(
    rng: np.random.Generator, topic: Topic, p: Person, days: Days, invented: float
) -> FactDraft:
    """A topic's fact: the latest of several where it comes ``again``, else one of the patient and
    perhaps a similar one of a relative."""
    words = _slots(rng, p, topic, days[0], invented)
    says = _perturb_statement(rng, capitalised(pick(rng, topic.says).format_map(words)))
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
        own_words = _keywords(says) or [says]
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
    if chance(rng, _LISTED):
        lines.append(_listed(rng, *(pair if chance(rng, 0.7) else pair[:1] * 2)))
    if chance(rng, _CHANGED):
        other = pick(rng, [t for t in topics() if t.of_drug and t.key != topic.key])
        text = pick(rng, other.says).format_map(_slots(rng, p, other, day, invented, pair))
        lines.append(_perturb_statement(rng, capitalised(text)))
    return tuple(lines)


# Filler lines, which answer nothing.


def filler(rng: np.random.Generator, p: Person) -> str:
    """A line of prose, a heading, an examination, results, a drug, a problem, a line on the subject
    of a fact, or gibberish."""
    return capitalised(pick(rng, _FILLERS)(rng, p))


def _heading(rng: np.random.Generator, p: Person) -> str:
    return pick(rng, _fillers()["heads"])


def _prose(rng: np.random.Generator, p: Person) -> str:
    form = pick(rng, _fillers()["lines"])
    return _perturb_statement(rng, form.format_map(_slots(rng, p, Topic(), _ANY_DAY, 0.5)))


def _body_part(rng: np.random.Generator, p: Person) -> str:
    """A part of the body and its findings."""
    name, _, findings = pick(rng, _fillers()["parts"]).partition(" | ")
    options = findings.split(", ")
    count = int(rng.integers(1, min(len(options), 5) + 1))
    return f"{name}: {', '.join(shuffled(rng, options, count))}{pick(rng, ('', '.', '.'))}"


def _strip(rng: np.random.Generator, p: Person) -> str:
    """A day's results in a row."""
    wanted = int(rng.integers(2, 7))
    drawn = [p.take(rng, "panel", _fillers()["panels"]) for _ in range(wanted)]
    panel = [name for name in drawn if name is not None]
    if len(panel) < 2:
        return _heading(rng, p)
    start = pick(rng, ("", "- ", "Values ")) + _random_date(rng)
    return f"{start}: " + "; ".join(f"{name} {_number(rng)}" for name in panel)


def _trend(rng: np.random.Generator, p: Person) -> str:
    """A test's results on some days."""
    name = p.take(rng, "panel", _fillers()["panels"])
    if name is None:
        return _heading(rng, p)
    results = (f"{_number(rng)} on {_random_date(rng)}" for _ in range(int(rng.integers(2, 5))))
    return f"- {name} by day: " + ", ".join(results)


def _coded(rng: np.random.Generator, p: Person) -> str:
    test = _take_test(rng, p, 0.5)
    return f"{test.name}: {_value(rng, test)} {test.unit}".strip()


def _near(rng: np.random.Generator, p: Person) -> str:
    topic = pick(rng, topics())
    return pick(rng, topic.near).format_map(_slots(rng, p, topic, _ANY_DAY, 0.5))


def _problem(rng: np.random.Generator, p: Person) -> str:
    """A diagnosis of a problem list."""
    name = pick(rng, _fillers()["problems"])
    year = str(int(rng.integers(1985, 2020)))
    return pick(rng, names().problem_forms).format(name, y=year)


def _medicine(rng: np.random.Generator, p: Person) -> str:
    return _listed(rng, *_take_drug(rng, p, 0.4))


def _nonsense(rng: np.random.Generator, p: Person) -> str:
    sort = int(rng.integers(3))
    if sort == 0:
        return f"{_fragments(rng, 3, 16)}."
    if sort == 1:
        return " ".join(_invented_word(rng) for _ in range(int(rng.integers(2, 9)))) + "."
    return _gibberish(rng, 2, 9)


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
