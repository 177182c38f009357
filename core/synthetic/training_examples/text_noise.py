"""Invented names, numbers and days, and text augmentation: words dropped, inflected or reordered.

Most names are invented from syllables, so they must be copied and cannot be memorised; none is a
name of the evaluated cohorts (see ``leakage_check``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from string import ascii_lowercase
from typing import TypeVar

import numpy as np

from core.synthetic.common import capitalised, chance, pick, shuffled
from core.synthetic.training_examples.tables import lexicon, names

T = TypeVar("T")
_DIGIT = re.compile(r"\d")
_LONG = re.compile(r"[A-Za-z][A-Za-z-]{3,}")


def _stem(rng: np.random.Generator, syllables: int) -> str:
    table = names()
    groups = (table.onsets, table.vowels, table.codas)
    return "".join(pick(rng, group) for _ in range(syllables) for group in groups)


def invented_drug(rng: np.random.Generator) -> str:
    """A drug that does not exist."""
    return _stem(rng, int(rng.integers(1, 3))) + pick(rng, names().drug_ends)


def invented_test(rng: np.random.Generator) -> str:
    """A substance in blood that does not exist."""
    front = pick(rng, ("", "", "serum ", "plasma ", "urine ", "free "))
    return front + _stem(rng, int(rng.integers(1, 3))) + pick(rng, names().test_ends)


def invented_word(rng: np.random.Generator) -> str:
    """A word of one to three invented syllables with an ending that no list has."""
    return _stem(rng, int(rng.integers(1, 4))) + pick(rng, names().rare_endings)


def _number(rng: np.random.Generator) -> str:
    return str(int(rng.integers(1, pick(rng, (10, 100, 1000, 2030)))))


def fragments(rng: np.random.Generator, least: int, most: int) -> str:
    """Words, parts of words, numbers and letters in random order, which can only be copied."""
    count = int(rng.integers(least, most + 1))
    return "".join(_fragment(rng) for _ in range(count)).rstrip(" ,;:/-(")


def _fragment(rng: np.random.Generator) -> str:
    draw, known = float(rng.random()), lexicon()
    if draw < 0.45:
        front, back = pick(rng, known), pick(rng, known)
        word = front[: int(rng.integers(2, 7))] + back[-int(rng.integers(2, 7)) :]
    elif draw < 0.65:
        word = pick(rng, known)
    elif draw < 0.82:
        word = _number(rng)
        word += f".{int(rng.integers(0, 100))}" if chance(rng, 0.3) else ""
    elif draw < 0.92:
        letters = (pick(rng, ascii_lowercase) for _ in range(int(rng.integers(1, 5))))
        word = "".join(letters).upper()
    else:
        word = invented_word(rng)
    return word + pick(rng, names().separators)


def date_text(rng: np.random.Generator, day: date) -> str:
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


def perturb_statement(rng: np.random.Generator, line: str) -> str:
    """A statement in which at times a short word is missing or replaced."""
    if not chance(rng, 0.25):
        return line
    words = line.split(" ")
    i = int(rng.integers(len(words)))
    if words[i].isalpha() and len(words[i]) < 6:
        words[i] = pick(rng, lexicon()) if chance(rng, 0.3) else ""
    return capitalised(" ".join(word for word in words if word))


def keywords(line: str) -> list[str]:
    """The distinct long words of a line."""
    return list(dict.fromkeys(word.lower() for word in _LONG.findall(line)))


def keyword_query(rng: np.random.Generator, words: Sequence[str]) -> str:
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


def gibberish(rng: np.random.Generator, least: int, most: int) -> str:
    """Known words in random order with small ones between: a sentence without meaning."""
    words: list[str] = []
    for _ in range(int(rng.integers(least, most + 1))):
        draw = float(rng.random())
        if draw < 0.3:
            words.append(pick(rng, names().small_words))
        elif draw < 0.38:
            words.append(_number(rng))
        elif draw < 0.44:
            words.append(invented_word(rng))
        word = pick(rng, lexicon())
        words.append(word + ("," if chance(rng, 0.1) else ""))
    return capitalised(" ".join(words).rstrip(",")) + pick(rng, (".", ".", ".", "", ":"))
