"""Tables of names and wordings from which training examples are written, read once."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from core.synthetic.reference import SLOT, slot_names, table_row, yaml_table

_HERE = Path(__file__).parent
_PERSON = ("He", "he", "His", "his", "him", "Name", "man")
ValueWording = Annotated[
    str, slot_names(*_PERSON, "thing", "Thing", "v", "u", "d", "f", "w", "cue")
]
"""A statement of a value, or a question for it."""
TopicWording = Annotated[
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
    says: tuple[TopicWording, ...] = ()
    asks: tuple[TopicWording, ...] = ()
    polar: tuple[TopicWording, ...] = ()
    near: tuple[TopicWording, ...] = ()
    x: tuple[TopicWording, ...] = ("",)
    z: tuple[TopicWording, ...] = ("",)
    again: bool = False

    @property
    def of_drug(self) -> bool:
        """Whether it is about a drug."""
        return self.key in _of_drug()


topics = yaml_table(tuple[Topic, ...], "topics.yaml", _HERE)
"""Topics of facts stated in a sentence (``topics.yaml``)."""


@cache
def _of_drug() -> frozenset[str]:
    return frozenset(one.key for one in topics() if any("{drug}" in say for say in one.says))


names = yaml_table(Names, "names.yaml", _HERE)
"""The names of ``names.yaml``."""


@cache
def name_words() -> tuple[str, ...]:
    """Every lower-case word in the names of real drugs and tests, sorted."""
    texts = [name for pair in names().drugs for name in pair]
    texts += [name for test in names().tests for name in (test.name, *test.spoken)]
    return tuple(sorted({word for t in texts for word in re.findall(r"[a-z]{2,}", t.lower())}))


Sort = Literal[
    "noted", "dated", "latest", "on_day", "highest", "lowest", "dose", "dose_asks", "dose_dated",
    "dose_day_asks", "day", "day_asks", "yes", "no", "yes_asks", "yes_dated", "yes_day_asks",
    "message", "message_asks", "echo_asks",
]  # fmt: skip
Filler = Literal["heads", "panels", "why", "lines", "problems", "parts"]


wordings = yaml_table(dict[Sort, tuple[ValueWording, ...]], "readings.yaml", _HERE)
"""Statements of and questions for values, by sort (``readings.yaml``)."""


fillers = yaml_table(dict[Filler, tuple[TopicWording, ...]], "filler.yaml", _HERE)
"""Lines that answer nothing, headings, panels, reasons (``filler.yaml``)."""


@cache
def lexicon() -> tuple[str, ...]:
    """Every word of three or more letters in the fillers, topics and drug names, sorted."""
    texts = [text for rows in fillers().values() for text in rows]
    texts += [text for one in topics() for text in (*one.says, *one.near, *one.x, *one.z)]
    texts += [name for pair in names().drugs for name in pair]
    words = {word for t in texts for word in re.findall(r"[a-z]{3,}", SLOT.sub("", t).lower())}
    return tuple(sorted(words))
