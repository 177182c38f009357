"""Texts as search terms: folded, without stop words, stemmed, and the equivalents of a question.

Characters are folded (NFKC, case, accents, ligatures). A number with its unit is one term beside
the number. Words are stemmed by the Snowball stemmer of a record's language, which is the one whose
stop words are most frequent in it; scripts that write no blanks are cut into pairs of characters.
A question's words are joined by what a chart may write in their place: abbreviations, clinical and
lay words, members of a class (``equivalents.tsv``).
"""

from __future__ import annotations

import csv
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources

DEFAULT = "english"
_SAMPLE = 20_000
"""Characters by which a record's language is determined."""
_LEAST_RATIO, _LEAST_SHARE, _LEAST = 1.2, 0.15, 3
"""How much more frequent another language's stop words are than the default's, which share of
all words they are, and how many."""
_LIGATURES = str.maketrans(
    {"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)
_ACCENT = re.compile("[\u0300-\u036f]")
_WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff"
)
_UNIT = (
    r"(?:mg|mcg|µg|ug|ng|pg|kg|g|ml|dl|l|mmol|mol|meq|miu|iu|units?|mmhg|cm|mm|bpm|fl|lbs?|inches"
    r"|hours?|hrs?|days?|weeks?|months?|years?)\b(?:\s?/\s?[a-z]{1,4}\b)?|%"
)
_PARTS = re.compile(
    rf"(?P<number>\d+(?:[.,]\d+)*)(?:\s?(?P<unit>{_UNIT}))?"
    rf"|(?P<run>[{_WITHOUT_BLANKS}ー]+)"
    rf"|(?P<word>[^\W\d_{_WITHOUT_BLANKS}][^\W_{_WITHOUT_BLANKS}]*)"
)


def folded(text: str) -> str:
    """A text without differences of case, width, accents and ligatures."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold().translate(_LIGATURES)
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))


def _number(text: str) -> str:
    """A number without trailing zeros, its decimal comma a point."""
    units, mark, decimals = text.replace(",", ".").rpartition(".")
    if not mark or "." in units:
        return text
    if len(decimals) == 3 and "," in text:  # thousands
        return units + decimals
    return f"{units}.{decimals.rstrip('0')}".rstrip(".")


def _table(name: str) -> Iterator[dict[str, str]]:
    text = resources.files("midchart.core.text").joinpath(name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """Stop words, folded, by language."""
    return {
        row["language"]: frozenset(folded(row["words"]).split()) for row in _table("stop_words.tsv")
    }


def language_of(texts: Iterable[str]) -> str:
    """The language, as Snowball names it, whose stop words are most frequent in texts; English
    where no other's clearly are."""
    counts: Counter[str] = Counter()
    length = 0
    for text in texts:
        counts.update(re.findall(r"[^\W\d_]+", folded(text)))
        length += len(text)
        if length > _SAMPLE:
            break
    frequency = {
        language: sum(counts[word] for word in words) for language, words in _stop_words().items()
    }
    best = max(frequency, key=frequency.__getitem__)
    least = max(_LEAST_RATIO * frequency[DEFAULT], _LEAST_SHARE * counts.total(), _LEAST)
    return best if frequency[best] >= least else DEFAULT


@cache
def _stemmer(language: str) -> object:
    from snowballstemmer import stemmer

    return stemmer(language)


_STEMMING = threading.Lock()
"""A stemmer keeps the word that it works on: one thread at a time uses it."""


@lru_cache(maxsize=1 << 16)
def _stem(word: str, language: str) -> str:
    with _STEMMING:
        return _stemmer(language).stemWord(word)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Terms that together may stand for a part of a question, and their weight."""

    terms: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A part of a question: its own terms, each of which counts, and what may stand for them, of
    which all terms must be there."""

    terms: tuple[str, ...]
    others: tuple[Alternative, ...] = ()


EQUAL, NARROWER = 0.8, 0.5
"""Weight of what means the same as the question's words, and of what is a kind of it."""


@dataclass(frozen=True)
class Analyzer:
    """The analysis of the texts and questions of a record in a ``language``."""

    language: str

    def terms(self, text: str) -> list[str]:
        """The search terms of a text, in its order, stop words left out."""
        return [term for term, word in self._terms(text) if word not in self._ignored]

    def question(self, text: str) -> list[QuestionPart]:
        """The parts of a question, each with its equivalents."""
        parts: list[QuestionPart] = []
        terms, written = self.terms(text), set(re.findall(r"\w+", text))
        while terms:
            length, entry = 1, ()
            for longest in range(min(self._longest, len(terms)), 0, -1):
                key = tuple(terms[:longest])
                # An abbreviation of two letters is one where it is written so ("PE", not "us").
                named = longest > 1 or len(key[0]) > 2 or key[0].upper() in written
                if named and key in self._entries:
                    length, entry = longest, self._entries[key]
                    break
            parts.append(QuestionPart(tuple(terms[:length]), entry))
            terms = terms[length:]
        return parts

    def _terms(self, text: str) -> list[tuple[str, str]]:
        """Each term with the folded word that it is of."""
        terms: list[tuple[str, str]] = []
        for match in _PARTS.finditer(folded(text)):
            word = match.group()
            if match["word"]:
                terms.append((_stem(word, self.language), word))
            elif match["run"]:
                pairs = [word[i : i + 2] for i in range(len(word) - 1)] or [word]
                terms += [(pair, pair) for pair in pairs]
            else:
                number = _number(match["number"])
                terms.append((number, number))
                if match["unit"]:
                    joined = number + "".join(match["unit"].split()).rstrip("s")
                    terms.append((joined, joined))
        return terms

    @cached_property
    def _ignored(self) -> frozenset[str]:
        return _stop_words().get(self.language, frozenset())

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._entries))

    @cached_property
    def _entries(self) -> dict[tuple[str, ...], tuple[Alternative, ...]]:
        """What may stand for a sequence of terms, of all rows of the table that hold it."""
        entries: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
        for row in _table("equivalents.tsv"):
            equal, narrower = (self._phrases(row[name]) for name in ("terms", "narrower"))
            for phrase in equal:
                weights = entries.setdefault(phrase, {})
                for other, weight in (
                    *((one, EQUAL) for one in equal),
                    *((one, NARROWER) for one in narrower),
                ):
                    if other != phrase:
                        weights[other] = max(weight, weights.get(other, 0.0))
        return {
            phrase: tuple(Alternative(terms, weight) for terms, weight in weights.items())
            for phrase, weights in entries.items()
        }

    def _phrases(self, cell: str) -> list[tuple[str, ...]]:
        each = (tuple(self.terms(one)) for one in cell.split(";"))
        return list(dict.fromkeys(filter(None, each)))


@cache
def analyzer(language: str) -> Analyzer:
    """The one analyzer of a language."""
    return Analyzer(language)
