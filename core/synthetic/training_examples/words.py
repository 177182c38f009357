"""Names, numbers and days that lessons are made of, drawn so that a reader must copy them.

Most names are made up from syllables: no list could hold them, so none can be learned by heart.
None of them is a name of the cohorts that readers are examined on (see ``leakage_check``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeVar

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.training_examples.tables import lexicon, names

T = TypeVar("T")


def upper(text: str) -> str:
    """``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MARKS = (" ", " ", " ", " ", " ", " ", ", ", "; ", ": ", "/", "-", " (", ") ", " % ")


def stem(rng: np.random.Generator, syllables: int) -> str:
    """Some made-up syllables."""
    parts = names()
    groups = (parts.onsets, parts.vowels, parts.codas)
    return "".join(pick(rng, group) for _ in range(syllables) for group in groups)


def made_drug(rng: np.random.Generator) -> str:
    """A drug that does not exist."""
    return stem(rng, int(rng.integers(1, 3))) + pick(rng, names().drug_ends)


def made_test(rng: np.random.Generator) -> str:
    """A substance in blood that does not exist."""
    front = pick(rng, ("", "", "serum ", "plasma ", "urine ", "free "))
    return front + stem(rng, int(rng.integers(1, 3))) + pick(rng, names().test_ends)


def made_word(rng: np.random.Generator) -> str:
    """A word of one to three made-up syllables and a letter no list ends in."""
    return stem(rng, int(rng.integers(1, 4))) + pick(rng, ("k", "v", "zu", "ju", "q", "ong"))


def made_surname(rng: np.random.Generator) -> str:
    """A family name of nobody in the examined cohorts."""
    return stem(rng, 1).capitalize() + pick(rng, names().surname_ends)


def scraps(rng: np.random.Generator, least: int, most: int) -> str:
    """Some words, parts of words, numbers and letters in no order that means anything.

    Whoever quotes these has copied them: a tokenizer cuts them into pieces of every sort.
    """
    return "".join(_scrap(rng) for _ in range(int(rng.integers(least, most + 1)))).rstrip(" ,;:/-(")


def _scrap(rng: np.random.Generator) -> str:
    sort, known = float(rng.random()), lexicon()
    if sort < 0.45:
        front, back = pick(rng, known), pick(rng, known)
        word = front[: int(rng.integers(2, 7))] + back[-int(rng.integers(2, 7)) :]
    elif sort < 0.65:
        word = pick(rng, known)
    elif sort < 0.82:
        form = int(rng.integers(4))
        word = str(int(rng.integers(1, (10, 100, 1000, 2030)[form])))
        word += f".{int(rng.integers(0, 100))}" if chance(rng, 0.3) else ""
    elif sort < 0.92:
        word = "".join(pick(rng, _LETTERS) for _ in range(int(rng.integers(1, 5)))).upper()
    else:
        word = made_word(rng)
    return word + pick(rng, _MARKS)


def near_day(rng: np.random.Generator, day: date, least: int, most: int) -> date:
    """A day between ``least`` and ``most`` days before ``day``."""
    return day - timedelta(days=int(rng.integers(least, most + 1)))


def written(rng: np.random.Generator, day: date) -> str:
    """A day as records write it."""
    form = int(rng.integers(3))
    return day.isoformat() if form == 0 else f"{day:%m/%d/%Y}"


class Person:
    """Whom a record is about: words for the patient, as templates use them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._left: dict[str, list[int]] = {}
        sex = pick(rng, ("f", "m"))
        she = sex == "f"
        self.sex = sex
        self.surname = made_surname(rng)
        title = pick(rng, ("Mrs.", "Ms.")) if she else "Mr."
        self.words = {
            "he": "she" if she else "he",
            "He": "She" if she else "He",
            "his": "her" if she else "his",
            "His": "Her" if she else "His",
            "him": "her" if she else "him",
            "Name": f"{title} {self.surname}",
            "man": "woman" if she else "man",
        }

    def take(self, rng: np.random.Generator, name: str, options: Sequence[T]) -> T | None:
        """One of ``options`` that this record has not had under ``name``; None when all are out.

        What stands around the facts takes from the same options, so no fact is said twice.
        """
        if name not in self._left:
            self._left[name] = [int(i) for i in rng.permutation(len(options))]
        return options[self._left[name].pop()] if self._left[name] else None
