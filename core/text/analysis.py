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
_COMPOUND = re.compile(
    r"\b(?:([A-Za-z]*[a-z]{3})([A-Z][A-Za-z]*)"
    r"|\w{3,}(ectomy|otomy|ostomy|plasty|rrhaphy|ektomie|otomie))\b"
)
"""A word of several: by its capitals (SystolicBP), or an operation by its ending."""
_SEMANTIC_TAG = re.compile(
    r"\((?:disorder|finding|procedure|situation|substance|regime/therapy|observable entity)\)"
)
"""What SNOMED CT adds to the name of a concept: its hierarchy."""


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


def language_of(texts: Iterable[str], default: str = DEFAULT, least: int = _LEAST) -> str:
    """The language, as Snowball names it, whose stop words are most frequent in texts; the default
    where no other's clearly are, and are not ``least``."""
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
    enough = max(_LEAST_RATIO * frequency.get(default, 0), _LEAST_SHARE * counts.total(), least)
    return best if frequency[best] >= enough else default


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
    """Terms that together may stand for a part of a question: of ``kind`` "equal", "narrower" or
    "score" (findings of which a score is made), with a weight."""

    terms: tuple[str, ...]
    kind: str

    @property
    def weight(self) -> float:
        return EQUAL if self.kind == "equal" else NARROWER


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
        """The search terms of a text, in its order, stop words left out; those of a compound word
        follow it."""
        text = _COMPOUND.sub(
            lambda match: " ".join(filter(None, (match[0], *match.groups()))),
            _SEMANTIC_TAG.sub(" ", text),
        )
        return list(self.phrase(text))

    def phrase(self, text: str) -> tuple[str, ...]:
        """The terms of a text alone, without those of its compound words."""
        return tuple(term for term, word in self._terms(text) if word not in self._ignored)

    def asked_in(self, question: str) -> Analyzer:
        """The analysis of the language of a question."""
        return analyzer(language_of([question], self.language, least=1))

    def question(self, text: str) -> list[QuestionPart]:
        """The parts of a question, in this language or another, each with its equivalents."""
        asked, written = self.asked_in(text), set(re.findall(r"\w+", text))
        both = zip(self._terms(text), asked._terms(text), strict=True)
        ignored = self._ignored | asked._ignored
        words = [(term, key) for (term, word), (key, _) in both if word not in ignored]
        entries = _equivalents(self.language, asked.language)
        longest = max(map(len, entries))
        parts: list[QuestionPart] = []
        while words:
            length, entry = 1, ()
            for count in range(min(longest, len(words)), 0, -1):
                key = tuple(key for _, key in words[:count])
                # An abbreviation of two letters is one where it is written so ("PE", not "us").
                named = count > 1 or len(key[0]) > 2 or key[0].upper() in written
                if named and key in entries:
                    length, entry = count, entries[key]
                    break
            terms = tuple(term for term, _ in words[:length])
            others = tuple(other for other in entry if other.terms != terms)
            parts.append(QuestionPart(terms, others))
            words = words[length:]
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


@cache
def _equivalents(language: str, asked: str) -> dict[tuple[str, ...], tuple[Alternative, ...]]:
    """What may stand in texts of a ``language`` for a sequence of terms of a question ``asked`` in
    one, of all rows of the table that hold it."""
    entries: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for row in _table("equivalents.tsv"):
        phrases, narrower = row["terms"].split(";"), row["narrower"].split(";")
        kinds = dict.fromkeys(map(analyzer(language).phrase, narrower), row["kind"] or "narrower")
        kinds |= dict.fromkeys(map(analyzer(language).phrase, phrases), "equal")
        for key in map(analyzer(asked).phrase, phrases):
            of_key = entries.setdefault(key, {})
            entries[key] = of_key | kinds | {t: k for t, k in of_key.items() if k == "equal"}
    return {
        phrase: tuple(Alternative(terms, kind) for terms, kind in kinds.items() if terms)
        for phrase, kinds in entries.items()
    }


@cache
def analyzer(language: str) -> Analyzer:
    """The one analyzer of a language."""
    return Analyzer(language)
