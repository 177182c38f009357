"""The tables of names and wordings that lessons are written from, read once from their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from core.synthetic.medicine import SLOT, slots_of
from core.synthetic.reference import STRICT, Key, read_yaml

_HERE = Path(__file__).parent
_PERSON = ("He", "he", "His", "his", "him", "Name", "man")
_READING = (*_PERSON, "thing", "Thing", "v", "u", "d", "f", "w", "cue")
_TOPIC = (
    *_PERSON, "drug", "brand", "lay", "v", "w", "v2", "y", "yy", "my", "d", "n", "rel", "first",
    "town", "clinic", "often", "long", "why", "word", "x", "z",
)  # fmt: skip
"""What wordings of a value, and of a topic, may name in braces."""


@dataclass(frozen=True, slots=True)
class Test:
    """A laboratory test: its name in a table of results, ways to say it, its unit.

    ``between`` are the whole numbers between which a real test's results lie (None: made up, any
    result); ``fine`` whether they have two decimals.
    """

    __pydantic_config__ = STRICT
    name: str
    spoken: tuple[str, ...]
    unit: str
    between: tuple[int, int] | None = None
    fine: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """Real names: tests, drugs (the two names of each), what lay people call them, how often
    something is taken, examinations, signs and exposures, people and places; and the parts that
    made-up names are put together from."""

    __pydantic_config__ = STRICT
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


Wording = Annotated[str, Key("slot", lambda: _READING, slots_of)]
"""How a value is said or asked for."""
Telling = Annotated[str, Key("slot", lambda: _TOPIC, slots_of)]
"""How something is told, or asked for."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What can be told: sentences, questions for it, questions whether it is so, and its lists.

    ``near`` are lines on the same subject that answer nothing. ``again``: it is a finding that
    comes again, and the latest is asked for.
    """

    __pydantic_config__ = STRICT
    key: str = ""
    says: tuple[Telling, ...] = ()
    asks: tuple[Telling, ...] = ()
    polar: tuple[Telling, ...] = ()
    near: tuple[Telling, ...] = ()
    x: tuple[Telling, ...] = ("",)
    z: tuple[Telling, ...] = ("",)
    again: bool = False

    @property
    def of_drug(self) -> bool:
        """Whether it tells of a medicine."""
        return self.key in _of_drug()


@cache
def topics() -> tuple[Topic, ...]:
    """What can be told in a sentence (``topics.yaml``)."""
    return read_yaml(tuple[Topic, ...], _HERE / "topics.yaml")


@cache
def _of_drug() -> frozenset[str]:
    return frozenset(one.key for one in topics() if any("{drug}" in say for say in one.says))


@cache
def names() -> Names:
    """The names of ``names.yaml``."""
    return read_yaml(Names, _HERE / "names.yaml")


@cache
def name_words() -> tuple[str, ...]:
    """Every word, in lower case, that a real medicine's or test's names are made of."""
    told = [name for pair in names().drugs for name in pair]
    told += [name for test in names().tests for name in (test.name, *test.spoken)]
    return tuple(sorted({word for name in told for word in re.findall(r"[a-z]{2,}", name.lower())}))


Sort = Literal[
    "noted", "dated", "latest", "on_day", "highest", "lowest", "dose", "dose_asks", "dose_dated",
    "dose_day_asks", "day", "day_asks", "yes", "no", "yes_asks", "yes_dated", "yes_day_asks",
    "message", "message_asks", "echo_asks",
]  # fmt: skip
Filler = Literal["heads", "panels", "why", "lines", "problems", "parts"]


@cache
def wordings() -> dict[Sort, tuple[str, ...]]:
    """How a value is said and asked for, by sort (``readings.yaml``)."""
    return read_yaml(dict[Sort, tuple[Wording, ...]], _HERE / "readings.yaml")


@cache
def fillers() -> dict[Filler, tuple[str, ...]]:
    """Lines that answer nothing, headings, panels, reasons (``filler.yaml``)."""
    return read_yaml(dict[Filler, tuple[Telling, ...]], _HERE / "filler.yaml")


@cache
def lexicon() -> tuple[str, ...]:
    """Every word of the tables, of three letters or more."""
    texts = [text for rows in fillers().values() for text in rows]
    texts += [text for one in topics() for text in (*one.says, *one.near, *one.x, *one.z)]
    texts += [name for pair in names().drugs for name in pair]
    found = {
        word for text in texts for word in re.findall(r"[a-z]{3,}", SLOT.sub("", text).lower())
    }
    return tuple(sorted(found))
