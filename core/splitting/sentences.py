"""Where sentences end within joined lines: not in a number, an abbreviation or brackets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

LONGEST_BRACKET = 400
"""Characters between a pair of brackets within which no sentence ends."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Abbreviations that end no sentence, whatever follows.
_NEVER_LAST = _set(
    "dr mr mrs ms mx prof st vs e.g i.e eg ie cf ca approx viz resp incl excl esp pt pts rev gen "
    "capt lt sgt col mme messrs hon dept dx hx tx rx sx fx temp wt ht neg pos abd ext bilat adm "
    "hosp cont diff prev subq subcut inj tab tabs cap caps spp sp var subsp ssp staph strep "
    "n.b al nos eqs figs refs vols chaps"
)
# Abbreviations that end a sentence only where a word follows that begins one.
_SELDOM_LAST = _set(
    "etc jr sr inc ltd co corp a.m p.m u.s u.k m.d ph.d r.n d.o no nr fig eq ref vol chap sec p pp "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri bid tid qid prn po iv im "
    "sc qd qhs hs ac pc stat ad os od ou gtt supp susp oz lb lbs hr hrs min yr yrs mo mos wk "
    "wks"
)
_NUMBERED = _set("no nr fig eq ref vol chap sec p pp figs nos eqs refs")
"""Abbreviations that name a number; without one after them they are words ("no.")."""
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]\Z")
_STARTERS = _set(
    "a an the he she it they we i his her its their our this that these those there here in on at "
    "by for from with after before during since when while as if no not patient patients pt mr mrs "
    "ms dr continue continued denies reports please will given upon under all both each one two "
    "however therefore additionally furthermore moreover then currently today plan follow "
    "allergies"
)

_MARK = re.compile(r"[.!?…]+[\"'”’)\]*_]*|[。！？]+[”’」』）]*|\s[•●▪◦‣]\s")
_CITATION = re.compile(r"\[[\d,\s–-]{1,30}\]|\d{1,3}(?:[,–-]\d{1,3}){0,8}(?=\s)")
_BRACKET = re.compile(r"[()\[\]]")
_VISIBLE = re.compile(r"\S")
_WORD = re.compile(r"[^\W\d_]{1,30}")
_ENUMERATOR = re.compile(r"\(?(\d{1,2})[.)]\s")


def abbreviated(tail: str) -> bool:
    """Whether a text ends in an abbreviation's full stop."""
    word = tail[:-1].rsplit(None, 1)[-1:] if tail.endswith(".") else []
    return bool(word) and _is_abbreviation(word[0].lstrip("([\"'").lower())


def _is_abbreviation(low: str) -> bool:
    return low in _NEVER_LAST or low in _SELDOM_LAST or _DOTTED.match(low) is not None


def _brackets(text: str, start: int, end: int) -> tuple[list[int], list[int]]:
    """Outermost pairs of brackets that are short enough, as their first and last characters."""
    opened: dict[str, list[int]] = {")": [], "]": []}
    pairs: list[tuple[int, int]] = []
    for match in _BRACKET.finditer(text, start, end):
        mark = match.group()
        if mark in "([":
            opened[")" if mark == "(" else "]"].append(match.start())
        elif opened[mark]:
            first = opened[mark].pop()
            if match.start() - first <= LONGEST_BRACKET:
                pairs.append((first, match.start()))
    pairs.sort()
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in pairs:
        if lasts and first <= lasts[-1]:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentences of joined lines; a piece without a letter ("2.") goes with the following one."""
    firsts, lasts = _brackets(text, start, end)
    begin, looked, number = start, start, _enumerator(text, start)
    for match in _MARK.finditer(text, start, end):
        mark, stop = match.group(), match.end()
        if mark[0].isspace():  # a bullet within a line
            stop = match.start()
        elif mark[0] not in "。！？":
            if text[stop - 1] == "." and stop < end and not text[stop].isspace():
                stop = _glued(text, match.start(), stop, end)
                if not stop:
                    continue
            if not _ends(text, begin, match.start(), stop, end):
                continue
        if stop >= end or stop <= begin:
            continue
        pair = bisect_right(firsts, stop - 1) - 1
        if pair >= 0 and lasts[pair] >= stop:
            continue
        if number is not None:
            own = _own_number(text, begin, match.start(), number)
            if own:  # "Aspirin 2. Statin" after "1.": the number opens the next item
                number, stop = number + 1, own
        left = stop
        while text[left - 1].isspace():
            left -= 1
        if not _WORD.search(text, max(begin, looked), left):
            looked = left
            continue
        yield begin, left
        following = _VISIBLE.search(text, stop, end)
        if following is None:
            return
        begin = following.start()
        opened = _enumerator(text, begin)
        number = opened if opened is not None else number
    if begin < end:
        yield begin, end


def _enumerator(text: str, at: int) -> int | None:
    match = _ENUMERATOR.match(text, at)
    return int(match.group(1)) if match else None


def _own_number(text: str, begin: int, dot: int, number: int) -> int:
    """Where the number that follows ``number`` begins, if it comes right before ``dot``, else 0."""
    digits = str(number + 1)
    at = dot - len(digits)
    return at if at > begin and text[at:dot] == digits and text[at - 1].isspace() else 0


def _glued(text: str, dot: int, stop: int, end: int) -> int:
    """Where a sentence ends whose full stop no blank follows: "fell.Then" or "fell.[3] Then".
    0 where it does not end."""
    before, after = text[max(0, dot - 3) : dot], text[stop : min(stop + 2, end)]
    if before.isalpha() and before.islower() and after[:1].isupper() and after[1:].islower():
        address = text[max(0, dot - 30) : dot].rsplit(None, 1)[-1]
        return 0 if any(mark in address for mark in "/@.") else stop
    if text[dot - 1].isalpha() or text[dot - 1] in ")%":
        citation = _CITATION.match(text, stop, end)
        if citation and (text[dot - 1].islower() or text[stop] == "["):
            return citation.end()
    return 0


def _ends(text: str, begin: int, dot: int, stop: int, end: int) -> bool:
    """Whether the mark from ``dot`` to ``stop`` ends a sentence."""
    following = _VISIBLE.search(text, stop, end)
    if following is None:
        return False
    after = following.group()
    if after in ",;:)]}%/=":
        return False
    mark = text[dot:stop]
    if mark[0] in "!?":
        return not after.islower() and dot > begin and not text[dot - 1].isspace()
    if mark[0] == "…" or mark[:2] == "..":
        return after.isupper()
    word = text[max(begin, dot - 30) : dot].rsplit(None, 1)[-1:]
    own = word[0].lstrip("([\"'“‘*_-") if word else ""
    low = own.lower()
    if low in _NUMBERED and after.isdigit():
        return False
    if low in _NEVER_LAST:
        return False
    match = _WORD.match(text, following.start())
    starts = after.isupper() and match is not None and match.group().lower() in _STARTERS
    single = len(own) == 1 and own.isupper()
    if single or low in _SELDOM_LAST or _DOTTED.match(low):
        answer = low == "no" and (own == "no" or text[begin:dot] == own)
        return starts or after in "•●▪◦‣-–" or (answer and not after.islower())
    if after.islower():
        return own.isalpha() and own.islower() and len(own) > 3
    return not (own.isdigit() and after.isdigit())
