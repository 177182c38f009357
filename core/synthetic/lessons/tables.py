"""The tables of names and wordings that lessons are written from, read once from their files."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_SLOT = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Test:
    """A laboratory test: its name in a table of results, ways to say it, its unit.

    ``between`` are the whole numbers between which a real test's results lie (None: made up, any
    result); ``fine`` whether they have two decimals.
    """

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


@dataclass(frozen=True, slots=True)
class Topic:
    """What can be told: sentences, questions for it, questions whether it is so, and its lists.

    ``near`` are lines on the same subject that answer nothing. ``again``: it is a finding that
    comes again, and the latest is asked for. ``of_drug``: it tells of a medicine.
    """

    kind: str = ""
    says: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    polar: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    x: tuple[str, ...] = ("",)
    z: tuple[str, ...] = ("",)
    again: bool = False
    of_drug: bool = False


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / name).read_text("utf-8"))


@lru_cache(maxsize=1)
def names() -> Names:
    """The names of ``names.toml``."""
    rows = _read("names.toml")
    tests = tuple(
        Test(
            row["name"],
            tuple(row["spoken"]),
            row["unit"],
            (row["range"][0], row["range"][1]),
            row.get("fine", False),
        )
        for row in rows.pop("test")
    )
    drugs = tuple((first, second) for first, second in rows.pop("drugs"))
    lay: dict[str, str] = rows.pop("lay")
    return Names(tests, drugs, lay, **{key: tuple(row) for key, row in rows.items()})


@lru_cache(maxsize=1)
def name_words() -> tuple[str, ...]:
    """Every word, in lower case, that a real medicine's or test's names are made of."""
    told = [name for pair in names().drugs for name in pair]
    told += [name for test in names().tests for name in (test.name, *test.spoken)]
    return tuple(sorted({word for name in told for word in re.findall(r"[a-z]{2,}", name.lower())}))


@lru_cache(maxsize=1)
def wordings() -> dict[str, tuple[str, ...]]:
    """How a value is said and asked for, by sort (``readings.toml``)."""
    return {sort: tuple(rows) for sort, rows in _read("readings.toml").items()}


@lru_cache(maxsize=1)
def fillers() -> dict[str, tuple[str, ...]]:
    """Lines that answer nothing, headings, panels, reasons (``filler.toml``)."""
    return {sort: tuple(rows) for sort, rows in _read("filler.toml").items()}


@lru_cache(maxsize=1)
def lexicon() -> tuple[str, ...]:
    """Every word of the tables, of three letters or more."""
    texts = [text for rows in fillers().values() for text in rows]
    texts += [text for one in topics() for text in (*one.says, *one.near, *one.x, *one.z)]
    texts += [name for pair in names().drugs for name in pair]
    found = {
        word for text in texts for word in re.findall(r"[a-z]{3,}", _SLOT.sub("", text).lower())
    }
    return tuple(sorted(found))


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """What can be told in a sentence (``topics.toml``)."""
    found: list[Topic] = []
    for row in _read("topics.toml")["topic"]:
        rows: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        found.append(Topic(**rows, of_drug=any("{drug}" in say for say in rows["says"])))
    return tuple(found)
