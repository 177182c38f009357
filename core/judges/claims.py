"""Claims: what a text states, as values that can be compared (docs/methods.md, "Stage 2: judging").

A text is cut into clauses, each asserted or denied, and of now or of before. A clause holds
quantities, ratios (blood pressures), frequencies and states ("stopped", "positive").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from midchart.core.judges.values import Day, Quantity, quantity_places, take_dates
from midchart.core.parsing import read_toml

_FILE = Path(__file__).with_name("comparison.toml")
WORDS = read_toml(_FILE.read_bytes(), _FILE.name)
FORMS = {name: re.compile("".join(parts)) for name, parts in WORDS["forms"].items()}

# Text in one form.

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_POWER = re.compile(
    r"\s*(?:[x×*·]\s*|\b)10\s*(?:\^|\*\*?|e)?\s*([⁰¹²³⁴⁵⁶⁷⁸⁹]+|(?<=[\^*e])\d+)", re.IGNORECASE
)
_NAMES = {
    word: str(number) for number, words in enumerate(WORDS["numbers"]) for word in words.split()
} | {brand: drug for drug, *brands in map(str.split, WORDS["brands"]) for brand in brands}
"""Words of numbers, and brands of drugs, by which others stand in a plain text."""

_FEET = re.compile(r"\b(\d) ?(?:ft|feet|foot|') ?(\d{1,2})(?: ?(?:in|inch|inches)\b|\"|'')?")
_REWRITTEN = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[‐‑–—]", "-"),
        (r"(?<![\d.,])(\d+),(\d{1,2})(?![\d,]|\.\d)", r"\1.\2"),  # a decimal comma
        (r"(?<=\d),(?=\d{3}\b)", ""),
        (r"(?<=\d)\.\s+(?=\d{1,2}\b(?!\.))", "."),
        (r"(?<=\d)(?:st|nd|rd|th)\b", ""),
        (r"\b(\d+)(?: and a half\b| 1/2\b)", r"\1.5"),
        (r"\bhalf(?: an?)? (?=[a-z]+\b)|(?<![\d./])1/2(?![\d/])", "0.5 "),
        (r"\b(\d{2,3}) over (\d{2,3})\b", r"\1/\2"),
        (r"\bsystolic\D{0,25}(\d{2,3})\b\D{1,30}diastolic\D{0,25}(\d{2,3})\b", r"\1/\2"),
        (r"(\bfrom\b[^.;]{1,40}?) (?:up|down) to\b", r"\1 to"),
        (r"\bppd\b", "packs per day"),
        (r"\bq\s?(\d+)\s?h(?:ours?|rs?)?\b", r"every \1 hours"),
        (r"\b(?:t([12])dm|dm ?([12]))\b", r"type \1\2 diabetes"),
        (r"\bdo not (?:(r)esuscitate|(i)ntubate)\b", r"dn\1\2"),
        (r"\btwice\b", "2 times"),
        (r"\bthrice\b", "3 times"),
        (r"\bn't\b|(?<=\w)n't\b", " not"),
    )
)


def _repaired(text: str) -> str:
    """A text whose UTF-8 was read as Latin-1 or Windows-1252, as it was meant."""
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text


def plain(text: str) -> str:
    """A text in lower case with one form of numbers, apostrophes, hyphens and powers of ten, and
    with generic names of drugs."""
    text = text.replace("½", " 1/2")
    text = _POWER.sub(lambda m: f" 10^{m[1].translate(_SUPERSCRIPTS)}", _repaired(text))
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'").replace("can't", "cannot")
    text = re.sub(r"[^\W\d_]+", lambda m: _NAMES.get(m[0], m[0]), text)
    text = _FEET.sub(lambda m: f"{12 * int(m[1]) + int(m[2])} inches", text)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text


# Clauses.

_FROM_TO = re.compile(r"\bfrom\s+(?=\S*\d)")


class Clause(NamedTuple):
    """A clause: its text, the character from which on it is denied (its length: not at all), and
    whether it is about what was before."""

    text: str
    denied_from: int
    before: bool


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of a plain text, in order."""
    for part in FORMS["clause"].split(text):
        if part and part.strip(" .,"):
            denied = FORMS["denied"].search(part)
            start = denied.start() if denied else len(part)
            start = 0 if FORMS["ruled_out"].search(part) else start
            yield Clause(part, start, bool(FORMS["before"].search(part)))


# Frequencies, as times a day.

_EVERY = {"hour": 24.0, "day": 1.0, "week": 1 / 7, "month": 1 / 30, "year": 1 / 365}
_FREQUENCY = re.compile(
    r"\b(?P<times>once|\d+\s*(?:times|x))\s+(?:(?:a|per|each|every)\s+|/)?"
    r"(?P<per>hourly|daily|weekly|monthly|yearly|day|week|month|year)\b"
    r"|(?:\b(?:a|per|each)\s|/\s?)(?P<rate>day|week|month|year)\b(?! (?:before|after|later|ago))"
    r"|\bevery\s+(?P<other>other\s+)?(?:(?P<n>\d+)\s+)?(?P<unit>hour|day|week|month)s?\b"
    r"|\b(?P<alone>q\.?d|b\.?i\.?d|t\.?i\.?d|q\.?i\.?d|q\.?o\.?d|qhs|qam|qpm"
    r"|daily|nightly|weekly|monthly|at bedtime|each (?:morning|evening|night))\b"
)
_ALONE = {"weekly": 1 / 7, "monthly": 1 / 30, "bid": 2.0, "tid": 3.0, "qid": 4.0, "qod": 0.5}


def _per_day(match: re.Match[str]) -> float:
    if match["times"]:
        word = match["times"].split()[0].rstrip("x")
        times = 1.0 if word == "once" else float(word.removesuffix("times"))
        return times * _EVERY[match["per"].removesuffix("ly").replace("dai", "day")]
    if match["unit"]:
        return _EVERY[match["unit"]] / max(1, int(match["n"] or (2 if match["other"] else 1)))
    if match["rate"]:
        return _EVERY[match["rate"]]
    return _ALONE.get(match["alone"].replace(".", ""), 1.0)


# Claims.

_STATES = Path(__file__).with_name("states.toml")
STATES: dict[tuple[str, str], re.Pattern[str]] = {
    (group, state): re.compile(rf"\b(?:{pattern})\b")
    for group, states in read_toml(_STATES.read_bytes(), _STATES.name).items()
    for state, pattern in states.items()
}
"""Group and state → the words that say so."""
_RATIO = re.compile(r"(?<![\d/.-])(\d{2,3})\s?/\s?(\d{2,3})(?![\d/])")
_COMPARED = re.compile(
    r"(?:(?P<below><=?|≤|(?:less|fewer|lower|smaller) than|under|below|at most|up to)"
    r"|(?P<above>>=?|≥|(?:more|greater|higher) than|over|above|at least|exceed\w*|in excess of)"
    r"|~|about|approximately|approx\.?|around|roughly|nearly|almost|circa)\s*\Z"
)
_OR_MORE = re.compile(
    r"\s*(?:\+|(?:or|and) (?:(?P<below>less|fewer|lower|below)|more|greater|higher|above)\b)"
)
_ITEM = re.compile(r"[^\W\d_]{2,}")
ABOUT = 0.03
"""Largest relative difference of an amount from another that it is about."""


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """One value that a text states.

    ``kind`` is amount, ratio, frequency or state; ``value`` a number with its comparison, two
    numbers, times a day, or group and state. ``item``: the words before an amount, since the one
    before it.
    """

    kind: str
    value: Any
    asserted: bool
    before: bool
    item: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity and what it is compared by: "=", "<", ">", or "~" for about."""

    quantity: Quantity
    compared: str

    def says(self, other: Amount, item: str = "") -> bool:
        """Whether this is the same amount of ``item``, with the same comparison; about an amount
        is within 3 % of it."""
        if "~" in (signs := self.compared + other.compared) and not set(signs) & set("<>"):
            return self.quantity.says(other.quantity, item, ABOUT)
        return self.compared == other.compared and self.quantity.says(other.quantity, item)


@dataclass(frozen=True, slots=True)
class StatedText:
    """A text with its claims, its dates, and its plain form without the dates."""

    plain: str
    dates: tuple[Day, ...]
    claims: tuple[StatedClaim, ...]

    def values(
        self, kind: str, asserted: bool = True, before: bool | None = None
    ) -> list[StatedClaim]:
        """The claims of a kind that are asserted or denied, of before, of now, or of both."""
        return [
            claim
            for claim in self.claims
            if claim.kind == kind and claim.asserted == asserted and before in (None, claim.before)
        ]


@lru_cache(maxsize=4096)
def statement(text: str) -> StatedText:
    """A text with its claims."""
    dates, rest = take_dates(_repaired(text))
    lower = plain(rest)
    return StatedText(lower, tuple(dates), tuple(_claims(lower)))


def _claims(text: str) -> Iterator[StatedClaim]:
    for clause in clauses(text):
        rest = clause.text
        started = _FROM_TO.search(rest)

        def claim(
            kind: str, value: object, start: int, item: tuple[str, ...] = (),
            clause: Clause = clause, started: re.Match[str] | None = started,
        ) -> StatedClaim:  # fmt: skip
            earlier = started and start >= started.start() and " to " in clause.text[start:]
            before = clause.before or bool(earlier)
            return StatedClaim(kind, value, start < clause.denied_from, before, item)

        for match in _FREQUENCY.finditer(rest):
            yield claim("frequency", _per_day(match), match.start())
        rest = _FREQUENCY.sub(lambda match: " " * len(match[0]), rest)
        for match in _RATIO.finditer(rest):
            yield claim("ratio", (int(match[1]), int(match[2])), match.start())
        rest = _RATIO.sub(lambda match: " " * len(match[0]), rest)
        end = 0
        for quantity, start, stop in quantity_places(rest):
            between = rest[end:start]
            compared = _COMPARED.search(between) if not end or between.strip() != "over" else None
            after = _OR_MORE.match(rest, stop)
            sign = "=" if compared is None else "<" if compared["below"] else "~"
            if after or (compared and compared["above"]):
                sign = "<" if after and after["below"] else ">"
            item = tuple(_ITEM.findall(FORMS["before"].sub(" ", between)))
            yield claim("amount", Amount(quantity, sign), start, item)
            end = stop
        for state, pattern in STATES.items():
            for match in pattern.finditer(rest):
                yield claim("state", state, match.start())
