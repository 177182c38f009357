"""What an answer states of what a reference states, by kind of claim (docs/methods.md,
"The judge").

A comparison ends with a conflict (another amount, date, frequency, state), with agreement (all that
is asked is a value, and the answer states it), or with neither; then words decide
(:mod:`midchart.core.judges.statements`). What the question states is no part of what an answer must
state, nor are additions of the reference: brackets, when and how something was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from midchart.core.judges.claims import (
    FORMS,
    STATES,
    WORDS,
    Amount,
    StatedClaim,
    StatedText,
    clauses,
    plain,
    statement,
)
from midchart.core.judges.exact import answer_polarity, reference_polarity
from midchart.core.judges.values import quantity_places, take_dates
from midchart.core.text.analysis import EQUAL, analyzer, folded

_ENGLISH = analyzer("english")
_FUNCTION = frozenset(WORDS["function_words"].split())
"""Words that state nothing of an answer."""
_ABOUT = 0.8
"""Share of a yes-or-no question's parts that an answer without yes or no repeats."""
_AS_OFTEN = 0.1
"""Relative difference of two frequencies that are the same: every 8 weeks, every 2 months."""
_LONGEST_ITEM = 3
"""Words of an item of a list."""
_INITIALS = re.compile(r"\b((?:[a-z]\.\s*)+)([a-z]{3,})")
_RANGE = re.compile(r"\d\s*(?:-|to|and|bis|à)\s*\d")
_YEAR = re.compile(r"(?:18|19|20)\d\d")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_][^\W_]*")


@dataclass(frozen=True, slots=True)
class Comparison:
    """``verdict``: whether the answer states what the reference does, None where words decide;
    ``reason``: the kind that decided, in words."""

    verdict: bool | None
    reason: str


_UNDECIDED = Comparison(None, "")
AGREES = "states the value"
_FOUND = {"positive", "not negative"}


def _no(reason: str) -> Comparison:
    return Comparison(False, reason)


@cache
def stem(word: str) -> str:
    """A word's English stem."""
    terms = _ENGLISH.terms(word)
    return terms[0] if terms else word


_OF_VALUES = frozenset(map(stem, WORDS["value_words"].split()))
"""Words around a value that an answer of the value alone leaves out."""


@lru_cache(maxsize=4096)
def content(text: str) -> tuple[str, ...]:
    """The words and numbers that state something, in order, stemmed."""
    words = (word for word in _WORD.findall(folded(plain(text))) if word not in _FUNCTION)
    return tuple(stem(word) for word in words)


def adjacent(text: str) -> list[tuple[str, str]]:
    """The pairs of neighbouring words that state something, stemmed."""
    words = _WORD.findall(folded(plain(text)))
    return [(stem(a), stem(b)) for a, b in pairwise(words) if not {a, b} & _FUNCTION]


def core(reference: str, question: str) -> str:
    """A reference without its additions, where that leaves more than the question states.

    Of a yes or no that a question asks for, all else is an addition. Where the reference begins
    with a value, the circumstances after it are; where it names something else first, the values.
    """
    polarity = reference_polarity(reference)
    if polarity and FORMS["yes_or_no"].match(plain(question)):
        return polarity
    words = frozenset(content(question)) | _equivalents(question)
    rest = FORMS["addition"].sub(" ", reference).strip(" ,;")
    rest = rest if set(content(rest)) - words else reference
    if not _left(statement(rest).plain, words):
        return rest
    _, undated = take_dates(rest)
    _, start, end = next(iter(quantity_places(undated)), (None, len(rest), 0))
    if set(content(rest[:start])) <= words:
        circumstance = FORMS["circumstance"].search(rest, end)
        return rest[: circumstance.start()] if circumstance else rest
    return without_amounts(rest)


def without_amounts(text: str) -> str:
    """A text without its numbers with units, and what they are compared by."""
    for quantity, start, end in reversed(quantity_places(text)):
        if quantity.unit:
            text = f"{text[:start].rstrip(' <>=≤≥')} {text[end:]}"
    return text.strip(" ,;:")


def expanded(text: str, other: str) -> str:
    """A text whose names with initials are as in another: E. coli, Escherichia coli."""
    names = folded(plain(other))

    def full(match: re.Match[str]) -> str:
        pattern = r"\s+".join(f"{initial}[a-z]{{2,}}" for initial in re.findall("[a-z]", match[1]))
        name = re.search(rf"\b{pattern}\s+{match[2]}", names)
        return name[0] if name else match[0]

    return _INITIALS.sub(full, folded(plain(text)))


@dataclass(frozen=True, slots=True)
class _Case:
    """A question, its reference in full and without additions, and an answer."""

    question: StatedText
    full: StatedText
    reference: StatedText
    answer: StatedText
    words: frozenset[str]
    """Of the question."""
    left: frozenset[str]
    """Words of the reference besides its values and the question's words."""

    @property
    def asked(self) -> str:
        return self.question.plain

    @property
    def item(self) -> str:
        return folded(f"{self.asked} {self.full.plain}")

    @property
    def past(self) -> bool:
        """Whether the question is about what was before."""
        return bool(FORMS["past_asked"].search(self.asked))

    def current(self, kind: str) -> list[StatedClaim]:
        """What the answer asserts, of now unless the question is about the past."""
        return self.answer.values(kind, before=None if self.past else False)


def compare(question: str, reference: str, answer: str) -> Comparison:
    """What an answer states of the reference; neither of the two declines to answer."""
    reference, answer = expanded(reference, answer), expanded(answer, reference)
    short = core(reference, question)
    words = frozenset(content(question)) | _equivalents(question)
    left = _left(statement(short).plain, words)
    case = _Case(
        statement(question), statement(reference), statement(short), statement(answer), words, left
    )
    checks = (
        _polarity(case, reference, answer),
        *(
            check(case)
            for check in (_amounts, _ratios, _frequencies, _dates, _states, _denials, _items)
        ),
    )
    for verdict in (False, True):
        for one in checks:
            if one.verdict is verdict:
                return one
    return _UNDECIDED


@lru_cache(maxsize=4096)
def _equivalents(question: str) -> frozenset[str]:
    """Single terms that mean what a part of the question does."""
    others = (one for part in _ENGLISH.question(question) for one in part.others)
    return frozenset(o.terms[0] for o in others if o.weight == EQUAL and len(o.terms) == 1)


def _left(text: str, words: frozenset[str]) -> frozenset[str]:
    """The words of a plain reference besides its quantities and ``words``."""
    for _, start, end in reversed(quantity_places(text)):
        text = f"{text[:start]} {text[end:]}"
    return frozenset(w for w in content(text) if w not in words | _OF_VALUES and w[0].isalpha())


def _amounts(case: _Case) -> Comparison:
    """Numbers with units: held, missing, replaced by others, or held among a list of others."""
    known = [claim.value for claim in case.question.values("amount")]

    def new(statement: StatedText) -> list[Amount]:
        amounts: list[Amount] = [claim.value for claim in statement.values("amount")]
        return [one for one in amounts if not _among(one, known, case.item)]

    expected = new(case.reference)
    claims = _about(case, case.current("amount"))
    stated: list[Amount] = [claim.value for claim in claims]
    if not expected:
        added = [one for one in new(case.full) if one.quantity.unit]
        units = [one.quantity for one in added]
        contrary = [one for one in stated if any(map(one.quantity.comparable, units))]
        agrees = any(_among(one, contrary, case.item) for one in added)
        return _no("another value") if contrary and not agrees else _UNDECIDED
    ends = [one.quantity.bare for one in expected] if _RANGE.search(case.reference.plain) else []
    in_range = FORMS["about"].search(f"{case.asked} {case.answer.plain}") and any(
        len(ends) == 2 and ends[0] <= one.quantity.bare <= ends[1] for one in stated
    )
    years = {day.year for day in case.answer.dates}
    missing = [
        one
        for one in ([] if in_range else expected)
        if not _among(one, stated, case.item) and not (_is_year(one) and one.quantity.bare in years)
    ]
    required = bool(FORMS["value_asked"].search(case.asked)) or not case.left
    known += [claim.value for claim in case.full.values("amount")]
    others = [one for one in stated if not _among(one, known, case.item)]
    if missing:
        pairs = ((other.quantity, one.quantity) for other in others for one in missing)
        if required or any(other.comparable(one, case.item) for other, one in pairs):
            return _no("another value" if others else "the value is missing")
        return _UNDECIDED
    units = {one.quantity.unit for one in expected} | {""}
    rivals = [one for one in others if one.quantity.unit in units]
    if not any(map(_is_year, expected)):
        rivals = [one for one in rivals if not _is_year(one)]
    if len(rivals) >= max(2, 2 * len(expected)):
        return _no("a list of values")
    if rivals and re.search(r"\bor\b|\boder\b|\bou\b", case.answer.plain):
        return _no("alternatives")
    return Comparison(True, AGREES) if required else _UNDECIDED


def _is_year(amount: Amount) -> bool:
    return not amount.quantity.unit and bool(_YEAR.fullmatch(str(amount.quantity.bare)))


def _among(one: object, amounts: Iterable[object], item: str) -> bool:
    return any(other.says(one, item) for other in amounts)  # type: ignore[attr-defined]


def _about(case: _Case, claims: Sequence[StatedClaim]) -> list[StatedClaim]:
    """The amounts of what the question asks about, where the answer names it: "sodium 140,
    potassium 5.6" states one potassium."""

    def words(claim: StatedClaim) -> set[str]:
        stems = {stem(word) for word in claim.item}
        return stems - _FUNCTION - _OF_VALUES

    about = [claim for claim in claims if words(claim) & case.words]
    return [claim for claim in claims if claim in about or not words(claim)] if about else [*claims]


def _ratios(case: _Case) -> Comparison:
    stated = [claim.value for claim in case.question.values("ratio")]
    expected = [c.value for c in case.reference.values("ratio") if c.value not in stated]
    if not expected:
        return _UNDECIDED
    held = {claim.value for claim in case.current("ratio")}
    return Comparison(True, AGREES) if set(expected) <= held else _no("another ratio")


def _frequencies(case: _Case) -> Comparison:
    expected, stated = (
        [float(claim.value) for claim in claims]
        for claims in (case.reference.values("frequency"), case.current("frequency"))
    )
    how_often = bool(FORMS["how_often"].search(case.asked))
    if not expected or (not stated and not how_often):
        return _UNDECIDED
    if not any(abs(one - other) <= _AS_OFTEN * one for one in expected for other in stated):
        return _no("another frequency")
    alone = not case.reference.values("amount") and not case.left
    return Comparison(True, AGREES) if how_often or alone else _UNDECIDED


def _dates(case: _Case) -> Comparison:
    """Dates: of the reference where they are asked for or all it states, else only conflicts."""
    when = bool(FORMS["when"].search(case.asked))
    expected = case.reference.dates or (case.full.dates if when else ())
    expected = [day for day in expected if day not in case.question.dates]
    stated = case.answer.dates
    alone = not case.left and not case.reference.values("amount")
    if not stated or not (expected or case.full.dates):
        return _UNDECIDED
    if expected and (when or alone):
        held = [any(one.says(day) for one in stated) for day in expected]
        return Comparison(True, AGREES) if all(held) else _no("another date")
    known = {(day.year, day.month) for day in (*case.full.dates, *case.question.dates)}
    same = any((day.year, day.month) in known for day in stated)
    return _UNDECIDED if same or case.past else _no("another date")


def _states(case: _Case) -> Comparison:
    """States of one group, of which the answer names another, or denies the reference's."""
    expected, stated = _by_group(case, case.reference), _by_group(case, case.answer)
    agrees = False
    for group, states in expected.items():
        answered = stated.get(group, set[str]())
        if not answered:
            continue
        if not (states & answered or _opposite(group, states, answered)):
            return _no(f"another state ({group})")
        agrees = True
    if _of_another_state(case):
        return _no("stated of another")
    complete = expected.keys() <= stated.keys()
    complete = complete and not _left(_without_states(case.reference.plain), case.words)
    return Comparison(True, "states the state") if agrees and complete else _UNDECIDED


def _without_states(text: str) -> str:
    for pattern in STATES.values():
        text = pattern.sub(" ", text)
    return text


def _of_another_state(case: _Case) -> bool:
    """Whether the answer names what the reference does only with another state than the asked one:
    "lisinopril was continued and metformin stopped" for what was stopped."""
    asked: dict[str, str] = dict(claim.value for claim in case.question.values("state"))
    if not (asked and case.left):
        return False
    same = other = False
    for part in re.split(r"[.;,]\s|\b(?:and|but|while)\b", case.answer.plain):
        if case.left & set(content(part)):
            states: dict[str, str] = dict(claim.value for claim in statement(part).values("state"))
            clashes = any(states.get(group, state) != state for group, state in asked.items())
            same, other = same or not clashes, other or clashes
    return other and not same


def _by_group(case: _Case, text: StatedText) -> dict[str, set[str]]:
    """The states of a text by group, denied ones with "not "; of several, those of now."""
    groups: dict[str, set[str]] = {}
    claims = [*text.values("state"), *text.values("state", asserted=False)]
    for claim in claims:
        group, state = claim.value
        rivals = [other for other in claims if other.value[0] == group]  # type: ignore[index]
        if claim.before and not case.past and any(not other.before for other in rivals):
            continue
        groups.setdefault(group, set()).add(state if claim.asserted else f"not {state}")
    return groups


def _opposite(group: str, states: set[str], answered: set[str]) -> bool:
    """Whether, of two states, the denial of the other says the same."""
    names = {state for kind, state in STATES if kind == group}
    denied = {f"not {state}" for state in names - states}
    return len(names) == 2 and bool(denied & answered) and not names & answered


def _polarity(case: _Case, reference: str, answer: str) -> Comparison:
    """Yes and no, of both or of one of them against what the other asserts or denies."""
    expected, answered = reference_polarity(reference), answer_polarity(answer)
    if ellipsis := FORMS["ellipsis"].search(case.answer.plain):
        answered = answered or ("no" if ellipsis[1] else "yes")
    asserted, denied = _poles(case.answer.plain)
    if expected and answered:
        return Comparison(expected == answered, f"{expected} expected, {answered} said")
    topic = case.words
    result = _by_group(case, case.answer).get("result", set[str]())
    if expected and result and topic & (asserted | denied):
        return Comparison(bool(result & _FOUND) == (expected == "yes"), f"{expected} expected")
    asked = dict(claim.value for claim in case.question.values("state"))
    states = dict(claim.value for claim in case.answer.values("state"))
    if expected and asked.keys() & states.keys():
        same = all(states.get(group, state) == state for group, state in asked.items())
        return Comparison(same == (expected == "yes"), f"{expected} expected of a state")
    if expected and _covered(case, asserted | denied):
        return Comparison(bool(denied & topic) == (expected == "no"), f"{expected} expected")
    if answered and not expected:
        held, ruled_out = _poles(case.reference.plain)
        if ruled_out and not held - topic:
            return Comparison(answered == "no", f"{answered} said of a denial")
    return _UNDECIDED


def _covered(case: _Case, words: set[str]) -> bool:
    """Whether words are about what a yes-or-no question asks: nearly all of it."""
    parts = _ENGLISH.question(FORMS["bare"].sub(" ", case.asked.partition("?")[0]))
    repeated = [
        words >= set(part.terms)
        or any(one.weight == EQUAL and words >= set(one.terms) for one in part.others)
        for part in parts
        if set(part.terms) - _FUNCTION
    ]
    return bool(repeated) and sum(repeated) >= _ABOUT * len(repeated)


def _poles(text: str) -> tuple[set[str], set[str]]:
    """The words of a plain text that are asserted, and those that are denied."""
    asserted, denied = set[str](), set[str]()
    for clause in clauses(text):
        asserted |= set(content(clause.text[: clause.denied_from]))
        denied |= set(content(clause.text[clause.denied_from :]))
    return asserted, denied - {"not", "no", "never", "without", "denies", "deni"}


def _denies(text: str) -> bool:
    return any(clause.denied_from < len(clause.text) for clause in clauses(text))


def _denials(case: _Case) -> Comparison:
    """Words that one of both denies and the other asserts."""
    if _denies(case.asked):
        return _UNDECIDED
    held, ruled_out = _poles(case.reference.plain)
    asserted, denied = _poles(case.answer.plain)
    if ruled_out & asserted and not ruled_out & denied:
        return _no("asserts what the reference denies")
    new = held - case.words
    if new & denied and not new & asserted:
        return _no("denies what the reference asserts")
    return _UNDECIDED


def _items(case: _Case) -> Comparison:
    """Items of a list, of which the answer has some and lacks others."""
    stated = case.words | _OF_VALUES | {"yes", "no"}
    reference = _without_states(case.reference.plain)
    parts = (frozenset(content(part)) - stated for part in FORMS["items"].split(reference))
    items = [part for part in parts if any(map(str.isalpha, part))]
    held = frozenset(content(with_equivalents(case.reference.plain, case.answer.plain)))
    missing = [item for item in items if not item & held]
    listed = all(len(item) <= _LONGEST_ITEM for item in items)
    enumerated = FORMS["enumerated"].search(f"{case.asked} {reference}")
    if listed and enumerated and 0 < len(missing) < len(items):
        return _no("an item is missing")
    answered = [set(content(part)) - stated for part in FORMS["items"].split(case.answer.plain)]
    others = [part for part in answered if part and not part & frozenset().union(*items)]
    short = all(len(part) <= _LONGEST_ITEM for part in others)
    dumped = short and not missing and not FORMS["several_asked"].match(case.asked)
    if listed and items and dumped and len(others) >= max(3, 2 * len(items)):
        return _no("a list of items")
    return _UNDECIDED


def with_equivalents(reference: str, answer: str) -> str:
    """An answer, followed by the reference's terms of which it has an equivalent: "dyspnea" for
    "shortness of breath"."""
    held = set(_ENGLISH.terms(answer))
    same = [
        term
        for part in _ENGLISH.question(reference)
        if not held >= set(part.terms)
        and any(one.weight == EQUAL and held >= set(one.terms) for one in part.others)
        for term in part.terms
    ]
    return f"{answer} {' '.join(same)}" if same else answer


def of_patient(case: str, answer: str) -> str:
    """An answer without its clauses about relatives, unless question or reference is about any."""
    relative = FORMS["relative"]
    if relative.search(plain(case)) or not relative.search(answer.lower()):
        return answer
    parts = filter(None, FORMS["clause"].split(answer))
    return " ; ".join(part for part in parts if not relative.search(part.lower()))


def current_words(question: str, reference: str, answer: str) -> str:
    """The plain clauses of an answer that assert something of now, all where none does or where
    question or reference deny something, whose words an answer repeats."""
    text = plain(answer)
    if _denies(plain(question)) or _denies(plain(reference)):
        return text
    past = bool(FORMS["past_asked"].search(plain(question)))
    parts = [*clauses(text)]
    asserted = [part for part in parts if part.text[: part.denied_from].strip(" .,")]
    now = [part for part in asserted if past or not part.before]
    if not now or not any(part.denied_from < len(part.text) or part.before for part in parts):
        return text
    return " ".join(part.text[: part.denied_from] for part in now)
