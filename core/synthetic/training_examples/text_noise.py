"""How people write and ask in haste: words left out, bent or in another order, and lines told by
nothing but their words. What is learned from these is to compare, not to know wordings."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.training_examples.tables import lexicon
from core.synthetic.training_examples.words import made_word, upper

_FRAMES = (
    "According to the chart, {}",
    "From these notes: {}",
    "For the review: {}",
    "{} Please be brief.",
    "{} Cite the chart.",
    "Short answer please. {}",
    "We need to know: {}",
    "{} (chart review)",
)


_DIGIT = re.compile(r"\d")
_LONG = re.compile(r"[A-Za-z][A-Za-z-]{3,}")
_JOINS = (
    " ",
    " ",
    " and ",
    ", ",
    " with ",
    " of ",
    " by the ",
    " in the ",
    " for ",
    " or ",
    " to a ",
)
_SMALL = (
    *("the", "of", "and", "with", "to", "in", "for", "by", "at", "on", "no", "is", "was", "her"),
    *("his", "from", "since", "has", "not", "after", "before", "she", "he", "as", "per", "had"),
)


def vary_question(rng: np.random.Generator, question: str) -> str:
    """A question as somebody in haste may put it: at times with words left out, or a few around it,
    or only a part of it, so that no question is known by its exact wording."""
    said = question.split(" ")
    # A name tells nothing.
    longest = max(range(len(said)), key=lambda i: len(said[i]) * said[i].islower())
    sort = float(rng.random())
    if len(said) > 4 and sort < 0.35:
        for _ in range(1 if sort < 0.25 else 2):
            lost = int(rng.integers(len(said)))
            # The longest word most often tells what is asked for; a number always does.
            if lost != longest and said[lost].isalpha():
                said[lost] = ""
    elif len(said) > 6 and sort < 0.45 and not _DIGIT.search(question):
        begin = int(rng.integers(0, min(longest, len(said) - 4) + 1))
        said = said[begin : max(longest + 1, begin + 4)]
    question = upper(" ".join(word for word in said if word))
    return pick(rng, _FRAMES).format(question) if chance(rng, 0.15) else question


def perturb_statement(rng: np.random.Generator, line: str) -> str:
    """A statement as somebody in haste may write it, at times with a short word left out or
    another word in its place."""
    if not chance(rng, 0.25):
        return line
    said = line.split(" ")
    at = int(rng.integers(len(said)))
    if said[at].isalpha() and len(said[at]) < 6:
        said[at] = pick(rng, lexicon()) if chance(rng, 0.3) else ""
    return upper(" ".join(word for word in said if word))


def keywords(line: str) -> list[str]:
    """The words of a line by which it may be asked for: the long ones, each once."""
    return list(dict.fromkeys(word.lower() for word in _LONG.findall(line)))


_ENDS = ("", "", "", "", "s", "ed", "ing")


def keyword_query(rng: np.random.Generator, told: Sequence[str], most: int = 4) -> str:
    """Some of the words ``told`` in an order of chance, as a question may name them: joined
    vary_question, at times with another ending."""
    many = min(len(told), int(rng.integers(2, most + 1)))
    said = [told[int(i)] for i in rng.permutation(len(told))[:many]]
    bent = (_bend(rng, word) for word in said)
    text = ""
    for word in bent:
        text += (pick(rng, _JOINS) if text else "") + word
    return text


def _bend(rng: np.random.Generator, word: str) -> str:
    if not chance(rng, 0.3):
        return word
    for end in ("ing", "ed", "es", "s"):
        if word.endswith(end) and len(word) > len(end) + 3:
            return word[: -len(end)] + pick(rng, _ENDS)
    return word + pick(rng, _ENDS)


def gibberish(rng: np.random.Generator, least: int, most: int) -> str:
    """Known words in an order of chance with small ones between: a sentence of no meaning."""
    said: list[str] = []
    for _ in range(int(rng.integers(least, most + 1))):
        sort = float(rng.random())
        if sort < 0.3:
            said.append(pick(rng, _SMALL))
        elif sort < 0.38:
            said.append(str(int(rng.integers(1, (10, 100, 1000, 2030)[int(rng.integers(4))]))))
        elif sort < 0.44:
            said.append(made_word(rng))
        word = pick(rng, lexicon())
        said.append(word + ("," if chance(rng, 0.1) else ""))
    return upper(" ".join(said).rstrip(",")) + pick(rng, (".", ".", ".", "", ":"))
